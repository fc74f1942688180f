"""Quadratic and bilinear forms over many columns: the dominant cost of every structured method (METHODS Sec. 2)."""

import tensorflow as tf


def quadratic(S: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """a_n^T S_p a_n for each block p and column n.

    Two GEMMs and not three: for symmetric S the forward product S A is reused as dA = 2 g (S A).

    :param S: symmetric blocks, [P, M, M]
    :param A: [M, R, B]
    :return: [P, R, B]
    """
    P, M = tf.shape(S)[0], tf.shape(A)[0]
    R, B = tf.shape(A)[1], tf.shape(A)[2]
    form = _quadratic(tf.reshape(S, [P * M, M]), tf.reshape(A, [M, R * B]))
    return tf.reshape(form, [P, R, B])


@tf.custom_gradient
def _quadratic(S: tf.Tensor, A: tf.Tensor):
    M, N = tf.shape(A)[0], tf.shape(A)[1]
    SA = tf.reshape(S @ A, [-1, M, N])

    def gradient(g):  # g: [P, N]
        dA = tf.reduce_sum((2.0 * g)[:, None, :] * SA, axis=0)
        gA = tf.reshape(g[:, None, :] * A, [-1, N])
        return tf.matmul(gA, A, transpose_b=True), dA

    return tf.reduce_sum(A * SA, axis=1), gradient


def bilinear(S: tf.Tensor, A: tf.Tensor, A_earlier: tf.Tensor) -> tf.Tensor:
    """a_n^T S_p a'_n for each block p and column n.

    Three GEMMs: S A' forward, and with the columns g A backward S^T (g A) and (g A) A'^T. The first layer does not
    see the samples, so there ``A_earlier`` has R = 1 and all three are over B columns, never R B.

    :param S: blocks, [P, M, M], P known when the graph is traced
    :param A: [M, R, B]
    :param A_earlier: [M, R, B] or [M, 1, B]
    :return: [P, R, B]
    """
    return _bilinear(S, A, A_earlier)


@tf.custom_gradient
def _bilinear(S: tf.Tensor, A: tf.Tensor, A_earlier: tf.Tensor):
    P, M = S.shape[0], tf.shape(A)[0]
    stacked = tf.reshape(S, [P * M, M])
    shape = tf.shape(A_earlier)
    columns = tf.reshape(A_earlier, [M, -1])
    # Block by block, so that no [P, M, R, B] product is ever written: half of the time went into such passes.
    SA = tf.unstack(tf.reshape(stacked @ columns, tf.concat([[P], shape], axis=0)))

    def gradient(g):  # g: [P, R, B]
        rows = tf.unstack(g)
        dA = tf.add_n([g_p * SA_p for g_p, SA_p in zip(rows, SA, strict=True)])
        gA = [_sum_paths(g_p * A, A_earlier) for g_p in rows]
        gA = tf.reshape(tf.stack(gA), [P * M, -1])
        dS = tf.reshape(tf.matmul(gA, columns, transpose_b=True), tf.shape(S))
        return dS, dA, tf.reshape(tf.matmul(stacked, gA, transpose_a=True), shape)

    return tf.stack([tf.reduce_sum(A * SA_p, axis=0) for SA_p in SA]), gradient


def _sum_paths(values: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sum over paths where the earlier layer has one for all of them."""
    return tf.reduce_sum(values, axis=1, keepdims=True) if like.shape[1] == 1 else values


@tf.custom_gradient
def gram(C: tf.Tensor):
    """C C^T for a stack of matrices; its gradient (dS + dS^T) C takes one product, not two."""

    def gradient(dS):
        return tf.matmul(dS + tf.linalg.matrix_transpose(dS), C)

    return tf.matmul(C, C, transpose_b=True), gradient


def block_gram(C: tf.Tensor, num_blocks: int) -> list[tf.Tensor]:
    """The lower blocks of S = C C^T for block lower triangular C, without a product of two zero blocks.

    Column s of S needs C[s:, :s+1] C[s, :s+1]^T alone: sum_s (n - s)(s + 1) block products instead of n^3; the gradient
    tril(G C), with G the symmetric gradient of S, needs sum_k (n - k)^2.

    :param C: [n M, n M] with n = ``num_blocks``
    :return: for each s the blocks S[s:, s] stacked, [n - s, M, M]
    """
    return list(_block_gram(C, num_blocks))


def _block_gram(C: tf.Tensor, n: int):
    @tf.custom_gradient
    def gram(C):
        M = tf.shape(C)[0] // n
        columns = [
            tf.matmul(C[s * M :, : (s + 1) * M], C[s * M : (s + 1) * M, : (s + 1) * M], transpose_b=True)
            for s in range(n)
        ]

        def gradient(*g):
            lower = tf.concat([_padded_column(g_s, s, M) for s, g_s in enumerate(g)], axis=1)
            G = lower + tf.transpose(lower)
            parts = [tf.matmul(G[k * M :, k * M :], C[k * M :, k * M : (k + 1) * M]) for k in range(n)]
            return tf.concat([tf.pad(part, [[k * M, 0], [0, 0]]) for k, part in enumerate(parts)], axis=1)

        return [tf.reshape(column, [n - s, M, M]) for s, column in enumerate(columns)], gradient

    return gram(C)


def _padded_column(g: tf.Tensor, above: int, M: tf.Tensor) -> tf.Tensor:
    return tf.pad(tf.reshape(g, [-1, M]), [[above * M, 0], [0, 0]])
