"""S = C C^T from the blocks of C, without products of blocks that are zero (docs/methods.md, "Cost")."""

import tensorflow as tf


@tf.custom_gradient
def gram(C: tf.Tensor):
    """C C^T for a stack of matrices; its gradient (dS + dS^T) C takes one product, not two."""

    def gradient(dS):
        return tf.matmul(dS + tf.linalg.matrix_transpose(dS), C)

    return tf.matmul(C, C, transpose_b=True), gradient


@tf.custom_gradient
def lower_gram(C: tf.Tensor):
    """C C^T for a stack of lower triangular matrices, by halves of columns: 5/8 of ``gram``'s flops either way.

    The upper half of the right columns is zero; dC is for the lower triangle.

    :param C: [P, M, M]
    """
    M = tf.shape(C)[-1]
    half = M // 2
    left, right = C[:, :, :half], C[:, half:, half:]

    def gradient(dS):
        G = dS + tf.linalg.matrix_transpose(dS)
        of_right = tf.pad(G[:, half:, half:] @ right, [[0, 0], [half, 0], [0, 0]])
        return tf.concat([G @ left, of_right], axis=-1)

    of_right = tf.pad(tf.matmul(right, right, transpose_b=True), [[0, 0], [half, 0], [half, 0]])
    return tf.matmul(left, left, transpose_b=True) + of_right, gradient


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
