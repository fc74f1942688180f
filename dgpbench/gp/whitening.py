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


def _lower_product(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """tril(left right^T) for two [M, N], of whose four blocks the one above the diagonal is never computed."""
    M = tf.shape(left)[0]
    half = M // 2
    above = tf.matmul(left[:half], right[:half], transpose_b=True)
    below = tf.matmul(left[half:], right, transpose_b=True)
    return tf.linalg.band_part(tf.concat([tf.pad(above, [[0, 0], [0, M - half]]), below], axis=0), -1, 0)
