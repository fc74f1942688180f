"""Quadratic and bilinear forms over many columns: the dominant cost of every structured method.

Reference: docs/methods.md, "Cost".

The columns A may be of lower precision than the blocks S: products and passes over columns are then done in theirs, and
the forms, one number a column, come back in that of S.
"""

import tensorflow as tf


def quadratic(S: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """a_n^T S_p a_n for each block p and column n.

    Two GEMMs and not three: for symmetric S the forward product S A is reused as dA = 2 g (S A). Of the
    symmetric dS = A diag(g) A^T three quarters are computed.

    :param S: symmetric blocks, [P, M, M]
    :param A: [M, R, B], M known when the graph is traced
    :return: [P, R, B]
    """
    P, M = S.shape[0], A.shape[0]
    N = tf.size(A) // M
    forms = _quadratic(tf.cast(tf.reshape(S, [P * M, M]), A.dtype), tf.reshape(A, [M, N]), P)
    return tf.cast(tf.reshape(forms, tf.concat([[P], tf.shape(A)[1:]], axis=0)), S.dtype)


def _quadratic(S: tf.Tensor, A: tf.Tensor, P: int) -> tf.Tensor:
    @tf.custom_gradient
    def forms(S, A):
        # Block by block, so that no [P, M, N] product is ever written.
        SA = tf.split(S @ A, P)

        def gradient(g):  # g: [P, N]
            rows = tf.unstack(g)
            dA = tf.add_n([(2.0 * g_p) * SA_p for g_p, SA_p in zip(rows, SA, strict=True)])
            dS = [_weighted_gram(g_p, A) for g_p in rows]
            return tf.concat(dS, axis=0), dA

        return _sums_of_columns([A * SA_p for SA_p in SA]), gradient

    return forms(S, A)


def _sums_of_columns(products: list[tf.Tensor]) -> tf.Tensor:
    """The sum over the rows of each [M, N], [P, N]: a product with ones, at half the time of a reduction."""
    ones = tf.ones([1, tf.shape(products[0])[0]], products[0].dtype)
    return tf.concat([ones @ product for product in products], axis=0)


def _weighted_gram(g: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """A diag(g) A^T, of whose four blocks one is another's transpose; [M, M] for A [M, N]."""
    half = A.shape[0] // 2
    above = tf.matmul(g * A[:half], A[:half], transpose_b=True)
    below = tf.matmul(g * A[half:], A, transpose_b=True)
    return tf.concat([tf.concat([above, tf.transpose(below[:, :half])], axis=1), below], axis=0)


def bilinear(S: tf.Tensor, A: tf.Tensor, A_earlier: tf.Tensor) -> tf.Tensor:
    """a_n^T S_p a'_n for each block p and column n.

    Three GEMMs: S A' forward, and with the columns g A backward S^T (g A) and (g A) A'^T. The first layer does not
    see the samples, so there ``A_earlier`` has R = 1 and all three are over B columns, never R B.

    :param S: blocks, [P, M, M], P known when the graph is traced
    :param A: [M, R, B]
    :param A_earlier: [M, R, B] or [M, 1, B]
    :return: [P, R, B]
    """
    blocks = tf.cast(S, A.dtype)
    of_rows = A_earlier.shape[1] == 1
    forms = _bilinear_of_rows(blocks, A, A_earlier[:, 0]) if of_rows else _bilinear(blocks, A, A_earlier)
    return tf.cast(forms, S.dtype)


@tf.custom_gradient
def _bilinear(S: tf.Tensor, A: tf.Tensor, A_earlier: tf.Tensor):
    P, M = S.shape[0], tf.shape(A)[0]
    stacked = tf.reshape(S, [P * M, M])
    shape = tf.shape(A_earlier)
    columns = tf.reshape(A_earlier, [M, -1])
    # Block by block, so that no [P, M, R, B] product is ever written: half of the time went into such passes.
    SA = tf.unstack(tf.reshape(stacked @ columns, tf.concat([[P], shape], axis=0)))

    def gradient(g):  # g: [P, R, B]
        dA = tf.add_n([g_p * SA_p for g_p, SA_p in zip(tf.unstack(g), SA, strict=True)])
        gA = tf.reshape(tf.expand_dims(g, 1) * A, [P * M, -1])
        dS = tf.reshape(tf.matmul(gA, columns, transpose_b=True), tf.shape(S))
        return dS, dA, tf.reshape(tf.matmul(stacked, gA, transpose_a=True), shape)

    forms = _sums_of_columns([tf.reshape(A * SA_p, [M, -1]) for SA_p in SA])
    return tf.reshape(forms, tf.concat([[P], tf.shape(A)[1:]], axis=0)), gradient


@tf.custom_gradient
def _bilinear_of_rows(S: tf.Tensor, A: tf.Tensor, rows: tf.Tensor):
    """The forms with a layer that sees rows and no paths: for each row a small product [P, M] by [M, R].

    :param rows: a' of each row, [M, B]
    """
    P, M = S.shape[0], tf.shape(A)[0]
    stacked = tf.reshape(S, [P * M, M])
    A_of_row = _to_rows(A)
    SA = tf.reshape(tf.matmul(rows, stacked, transpose_a=True, transpose_b=True), [-1, P, M])  # [B, P, M]

    def gradient(g):  # g: [P, R, B]
        g_of_row = tf.transpose(g, [2, 0, 1])
        gA = tf.reshape(tf.matmul(g_of_row, A_of_row), [-1, P * M])  # summed over the paths
        dA = _from_rows(tf.matmul(g_of_row, SA, transpose_a=True))
        dS = tf.reshape(tf.matmul(gA, rows, transpose_a=True, transpose_b=True), tf.shape(S))
        return dS, dA, tf.matmul(stacked, gA, transpose_a=True, transpose_b=True)

    return tf.transpose(tf.matmul(SA, A_of_row, transpose_b=True), [1, 2, 0]), gradient


def _to_rows(A: tf.Tensor) -> tf.Tensor:
    """[M, R, B] as [B, R, M], by way of [R, B, M]: two simple steps take less time than one transposition."""
    shape = tf.shape(A)
    columns = tf.transpose(tf.reshape(A, [shape[0], -1]))
    return tf.transpose(tf.reshape(columns, [shape[1], shape[2], shape[0]]), [1, 0, 2])


def _from_rows(A: tf.Tensor) -> tf.Tensor:
    """[B, R, M] as [M, R, B], likewise."""
    shape = tf.shape(A)
    columns = tf.reshape(tf.transpose(A, [1, 0, 2]), [-1, shape[2]])
    return tf.reshape(tf.transpose(columns), [shape[2], shape[1], shape[0]])
