"""The inverse of a positive definite matrix in three forms, each with a gradient of few products and no solves.

With J the reversal of order, J P J = K K^T gives P = U U^T for U = J K J, and C = U^{-T} is the lower triangular factor
of P^{-1} = C C^T (docs/methods.md, "Natural gradients"). Each form is a function of P with its own gradient; all share
one factorisation, and in a graph what is not asked for is not computed.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Inverse(NamedTuple):
    """What is known about P^{-1}.

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
