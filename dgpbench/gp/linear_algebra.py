"""Products, factors and inverses with gradients that leave out what is zero or known by symmetry.

Reference: docs/methods.md, "Whitening" (``whiten``), "Cost" (quadratic and bilinear forms, Gram matrices) and "Natural
gradients" (``invert``).

Columns A [M, R, B] may be of lower precision than the blocks S [P, M, M]. Products and passes over columns are then
done in the columns' type, and the forms, one number a column, come back in that of S.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

FEW_BLOCKS = 10

# Whitening: A = Lk^{-1} k(Z, h) -------------------------------------------------------------------------------------


@tf.custom_gradient
def whiten(Lk: tf.Tensor, columns: tf.Tensor):
    """A = Lk^{-1} K, with the gradients dK = Lk^{-T} dA and dLk = -tril(dK A^T).

    :param Lk: lower Cholesky factor, [M, M]
    :param columns: K, [M, N]
    :return: A, [M, N]
    """
    A = tf.linalg.triangular_solve(Lk, columns)

    def gradient(dA):
        dK = tf.linalg.triangular_solve(Lk, dA, adjoint=True)
        return -_lower_product(dK, A), dK

    return A, gradient


def whiten_exponentials(
    Lk: tf.Tensor, left: tf.Tensor, right: tf.Tensor, kind: tf.DType
) -> tuple[tf.Tensor, tf.Tensor]:
    """A = Lk^{-1} K for K = exp(left right^T) in a lower precision, and a_n^T a_n of each column in that of K.

    Where inducing points are near, a_n^T a_n is next to k(h_n, h_n), and the variance that is left is their difference.
    With |Lk^{-1}| at 1e3, as at a jitter of 1e-6, float32 makes an error of 1e-5 in it, which is more than some noise
    variances. So A is computed in the type of K; products with it, and all gradients, are in the lower one.

    :param left: [M, I]
    :param right: [N, I]
    :param kind: the type of A
    :return: A [M, N] and the squares [N]
    """

    @tf.custom_gradient
    def whitened(Lk, left, right):
        K = tf.exp(tf.matmul(left, right, transpose_b=True))
        exact = tf.linalg.triangular_solve(Lk, K)
        A, low = tf.cast(exact, kind), [tf.cast(values, kind) for values in (Lk, left, right, K)]

        def gradient(dA, dsquares):
            Lk, left, right, K = low
            dA += 2.0 * tf.cast(dsquares, kind) * A
            dK = tf.linalg.triangular_solve(Lk, dA, adjoint=True)
            G = dK * K
            found = (-_lower_product(dK, A), tf.matmul(G, right), tf.matmul(G, left, transpose_a=True))
            return tuple(tf.cast(each, exact.dtype) for each in found)

        return (A, _sums_of_columns([tf.square(exact)])[0]), gradient

    return whitened(Lk, left, right)


@tf.custom_gradient
def sums_of_squares(A: tf.Tensor):
    """a_n^T a_n of each column n, [.., N] for A [.., M, N]; the gradient 2 g A is one pass over A."""

    def gradient(g):
        return (2.0 * g)[..., None, :] * A

    return tf.reduce_sum(tf.square(A), axis=-2), gradient


def _lower_product(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """tril(left right^T) for two [M, N]; the block above the diagonal is not computed."""
    M = tf.shape(left)[0]
    half = M // 2
    above = tf.matmul(left[:half], right[:half], transpose_b=True)
    below = tf.matmul(left[half:], right, transpose_b=True)
    return tf.linalg.band_part(tf.concat([tf.pad(above, [[0, 0], [0, M - half]]), below], axis=0), -1, 0)


# Forms a^T S a over many columns: the dominant cost of every structured method --------------------------------------


def quadratic(S: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """a_n^T S_p a_n for each block p and column n.

    Two GEMMs and not three: for symmetric S the forward product S A is reused as dA = 2 g (S A). Of the
    symmetric dS = A diag(g) A^T three quarters are computed.

    :param S: symmetric blocks, [P, M, M]
    :param A: [M, R, B], M known when the graph is traced
    :return: [P, R, B]
    """
    P, M = S.shape[0], A.shape[0]

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

    stacked, columns = tf.reshape(S, [P * M, M]), tf.reshape(A, [M, tf.size(A) // M])
    found = forms(tf.cast(stacked, A.dtype), columns)
    return tf.cast(tf.reshape(found, tf.concat([[P], tf.shape(A)[1:]], axis=0)), S.dtype)


def _sums_of_columns(products: list[tf.Tensor]) -> tf.Tensor:
    """The sum over the rows of each [M, N], [P, N]: a product with ones, at half the time of a reduction."""
    ones = tf.ones([1, tf.shape(products[0])[0]], products[0].dtype)
    return tf.concat([ones @ product for product in products], axis=0)


def _weighted_gram(g: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """A diag(g) A^T, [M, M] for A [M, N]; the block below the diagonal is the transpose of the one above it."""
    half = A.shape[0] // 2
    above = tf.matmul(g * A[:half], A[:half], transpose_b=True)
    below = tf.matmul(g * A[half:], A, transpose_b=True)
    return tf.concat([tf.concat([above, tf.transpose(below[:, :half])], axis=1), below], axis=0)


@tf.custom_gradient
def quadratic_of_paths(S: tf.Tensor, A: tf.Tensor):
    """a_n^T S_r a_n for each path r and column n, with the gradients dA = 2 g (S A) and dS = A diag(g) A^T.

    :param S: symmetric, [R, M, M]
    :param A: [R, M, B]
    :return: [R, B]
    """
    SA = tf.matmul(S, A)

    def gradient(g):
        weighted = g[:, None] * A
        return tf.matmul(weighted, A, transpose_b=True), 2.0 * g[:, None] * SA

    return tf.reduce_sum(A * SA, axis=1), gradient


@tf.custom_gradient
def summed_moments(C: tf.Tensor, mean: tf.Tensor):
    """sum_t (C_t C_t^T + m_t m_t^T), [M, M], and sum_t log|C_t C_t^T|, without a covariance for each t.

    :param C: lower triangular, [T, M, M]
    :param mean: m, [T, M]
    """
    T, M = mean.shape
    columns = tf.concat([tf.reshape(tf.transpose(C, [1, 0, 2]), [M, T * M]), tf.transpose(mean)], axis=1)
    diagonal = tf.linalg.diag_part(C)

    def gradient(g, g_log):
        slopes = tf.matmul(g + tf.transpose(g), columns)
        dC = tf.transpose(tf.reshape(slopes[:, : T * M], [M, T, M]), [1, 0, 2])
        dC = tf.linalg.set_diag(dC, tf.linalg.diag_part(dC) + 2.0 * g_log / diagonal)
        return dC, tf.transpose(slopes[:, T * M :])

    log_determinants = 2.0 * tf.reduce_sum(tf.math.log(tf.abs(diagonal)))
    return (tf.matmul(columns, columns, transpose_b=True), log_determinants), gradient


@tf.custom_gradient
def trace_of_solution(Lk: tf.Tensor, S: tf.Tensor):
    """tr(K^{-1} S) for each K = Lk Lk^T, from d tr = tr(K^{-1} dS) - 2 tr(Lk^{-1} S K^{-1} dLk).

    :param Lk: lower Cholesky factors, [R, M, M]
    :param S: symmetric, [M, M]
    :return: [R]
    """
    M = S.shape[-1]
    inverse = tf.linalg.triangular_solve(Lk, tf.eye(M, batch_shape=tf.shape(Lk)[:1], dtype=Lk.dtype))
    precision = tf.matmul(inverse, inverse, transpose_a=True)

    def gradient(g):
        solution = tf.reshape(tf.matmul(tf.reshape(precision, [-1, M]), S), tf.shape(Lk))
        dLk = tf.linalg.band_part(tf.matmul(solution, inverse, transpose_b=True), -1, 0)
        return -2.0 * g[:, None, None] * dLk, tf.reduce_sum(g[:, None, None] * precision, axis=0)

    return tf.reduce_sum(precision * S, axis=[1, 2]), gradient


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
    # With one path, the products for each row are of vectors; they pay from many blocks on (25 of fc, not 5 of star).
    of_rows = A_earlier.shape[1] == 1 and (A.shape[1] != 1 or S.shape[0] > FEW_BLOCKS)
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


# Gram matrices S = C C^T from the blocks of C -----------------------------------------------------------------------


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


@tf.custom_gradient
def half_square_minus_log(C: tf.Tensor):
    """1/2 |C|_F^2 - sum log |C_ii| for a stack of lower triangular matrices, with the gradient C - diag(1 / C_ii)."""
    diagonal = tf.linalg.diag_part(C)

    def gradient(g):
        return g * tf.linalg.set_diag(C, diagonal - 1.0 / diagonal)

    return 0.5 * tf.reduce_sum(tf.square(C)) - tf.reduce_sum(tf.math.log(tf.abs(diagonal))), gradient


def block_gram(C: tf.Tensor, num_blocks: int) -> list[tf.Tensor]:
    """The lower blocks of S = C C^T for block lower triangular C, without a product of two zero blocks.

    Column s of S needs C[s:, :s+1] C[s, :s+1]^T alone: sum_s (n - s)(s + 1) block products instead of n^3; the gradient
    tril(G C), with G the symmetric gradient of S, needs sum_k (n - k)^2.

    :param C: [n M, n M] with n = ``num_blocks``
    :return: for each s the blocks S[s:, s] stacked, [n - s, M, M]
    """
    n = num_blocks

    @tf.custom_gradient
    def gram(C):
        M = tf.shape(C)[0] // n
        columns = [
            tf.matmul(C[s * M :, : (s + 1) * M], C[s * M : (s + 1) * M, : (s + 1) * M], transpose_b=True)
            for s in range(n)
        ]

        def gradient(*g):
            padded = [tf.pad(tf.reshape(g_s, [-1, M]), [[s * M, 0], [0, 0]]) for s, g_s in enumerate(g)]
            lower = tf.concat(padded, axis=1)
            G = lower + tf.transpose(lower)
            parts = [tf.matmul(G[k * M :, k * M :], C[k * M :, k * M : (k + 1) * M]) for k in range(n)]
            return tf.concat([tf.pad(part, [[k * M, 0], [0, 0]]) for k, part in enumerate(parts)], axis=1)

        return [tf.reshape(column, [n - s, M, M]) for s, column in enumerate(columns)], gradient

    return list(gram(C))


# The inverse of a positive definite matrix, with gradients of few products and no solves ----------------------------


class Inverse(NamedTuple):
    """The inverse P^{-1} in several forms.

    :param factor: C, lower triangular with P^{-1} = C C^T, [T, M, M]
    :param covariance: S = P^{-1}, [T, M, M]
    :param log_determinant: log|P| summed over the stack
    :param precision: P
    """

    factor: tf.Tensor
    covariance: tf.Tensor
    log_determinant: tf.Tensor
    precision: tf.Tensor

    def solve(self, b: tf.Tensor) -> tf.Tensor:
        """P^{-1} b for b [T, M]."""
        return _solve(self.precision, tf.stop_gradient(self.covariance), b)


def invert(P: tf.Tensor) -> Inverse:
    """P^{-1} of a stack of positive definite matrices P [T, M, M]."""
    K = tf.linalg.cholesky(tf.stop_gradient(tf.reverse(P, axis=[-2, -1])))
    inverse = tf.linalg.triangular_solve(K, tf.eye(tf.shape(P)[-1], batch_shape=tf.shape(P)[:-2], dtype=P.dtype))
    C = tf.reverse(tf.linalg.matrix_transpose(inverse), axis=[-2, -1])
    S = tf.matmul(C, C, transpose_b=True)
    return Inverse(_factor(P, C), _covariance(P, S), _log_determinant(P, C, S), P)


@tf.custom_gradient
def _factor(P: tf.Tensor, C: tf.Tensor):
    """C, from dC = -C low(C^T dP C), where low takes the lower triangle with half its diagonal."""
    del P

    def gradient(g):
        M = C.shape[-1]
        low = tf.matmul(C, g, transpose_a=True) * (np.tri(M, k=-1) + 0.5 * np.eye(M))
        dP = tf.matmul(C, tf.matmul(low, C, transpose_b=True))
        return -0.5 * (dP + tf.linalg.matrix_transpose(dP)), None

    return tf.identity(C), gradient


@tf.custom_gradient
def _covariance(P: tf.Tensor, S: tf.Tensor):
    """S, from dS = -S dP S."""
    del P
    return tf.identity(S), lambda g: (-tf.matmul(S, tf.matmul(g, S)), None)


@tf.custom_gradient
def _solve(P: tf.Tensor, S: tf.Tensor, b: tf.Tensor):
    """x = S b, from dx = S (db - dP x): a rank-one gradient of P, where that of S would take two products."""
    del P
    x = tf.linalg.matvec(S, b)

    def gradient(g):
        db = tf.linalg.matvec(S, g)
        return -db[..., :, None] * x[..., None, :], None, db

    return x, gradient


@tf.custom_gradient
def _log_determinant(P: tf.Tensor, C: tf.Tensor, S: tf.Tensor):
    """log|P| = -2 sum log C_ii, from d log|P| = tr(S dP)."""
    del P
    return -2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(C))), lambda g: (g * S, None, None)
