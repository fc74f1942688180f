"""A = Lk^{-1} k(Z, h) for many columns h, with a gradient that leaves out what is known to be zero.

Reference: docs/methods.md, "Whitening".
"""

import tensorflow as tf


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

        return (A, tf.reduce_sum(tf.square(exact), axis=0)), gradient

    return whitened(Lk, left, right)


def _lower_product(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """tril(left right^T) for two [M, N], of whose four blocks the one above the diagonal is never computed."""
    M = tf.shape(left)[0]
    half = M // 2
    above = tf.matmul(left[:half], right[:half], transpose_b=True)
    below = tf.matmul(left[half:], right, transpose_b=True)
    return tf.linalg.band_part(tf.concat([tf.pad(above, [[0, 0], [0, M - half]]), below], axis=0), -1, 0)
