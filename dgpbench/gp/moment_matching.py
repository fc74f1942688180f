"""Propagation of Gaussians: a Gaussian in, a Gaussian out (Bui et al. 2016; docs/methods.md, "Psi statistics")."""

import gpflow
import tensorflow as tf

from dgpbench.gp.block_gaussian import Blocks
from dgpbench.gp.layers import GPLayer
from dgpbench.gp.linear_algebra import gram, quadratic
from dgpbench.gp.prior import DeepGP
from dgpbench.gp.propagation import Paths
from dgpbench.gp.psi_statistics import cross_contracted, psi1, psi2_contracted

MATCHED_ROWS_AT_ONCE = 512  # each holds M (M + 1) / 2 numbers of psi2: bounds the memory of a prediction


def match_moments(prior: DeepGP, q: Blocks, choleskys: list[tf.Tensor], X: tf.Tensor) -> Paths:
    """The output's Gaussian when each layer's output is replaced by the Gaussian of equal mean and variances.

    h^1 given x is Gaussian; every later layer has the exact mean and variance of f(h) for h ~ N(mu, diag v), and
    covariances between the GPs of a layer are dropped. Each hidden layer adds its noise.

    :param q: without couplings between GPs
    :param X: rows, [B, D]
    :return: one path of each row, without hidden layers: none is drawn
    """
    mu, v = deterministic_moments(prior.layers[0], choleskys[0], q.means[0], q.covariance(0), X)
    for layer, Lk, m, C in zip(prior.layers[1:], choleskys[1:], q.means[1:], q.diagonal[1:], strict=True):
        mu, v = gaussian_moments(layer, Lk, m, C, mu, v)
    return Paths(tf.transpose(mu), tf.transpose(v), [])


def deterministic_moments(layer: GPLayer, Lk, m, S, X: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """E h and Var h of a layer at known inputs X [B, D]: m(x) + a^T m_t and a^T S_t a + residual, [B, T] each.

    :param m: means of v, [T, M]
    :param S: covariances of v, [T, M, M]
    """
    features = layer.features(X[None], Lk)
    mean = features.mean[:, 0] + m @ features.A[:, 0]
    variance = quadratic(S, features.A)[:, 0] + features.residual
    return tf.transpose(mean), tf.transpose(variance)


def gaussian_moments(layer: GPLayer, Lk, m, C, mu: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """E h and Var h of a layer with inputs N(mu, diag v), [B, T] each; the layer's noise is in Var h.

        E f   = w^T mu + psi1^T b,   b = Lk^{-T} m
        Var f = psi0 + w + tr(psi2 Q) - (psi1^T b)^2 + sum_d w_d^2 v_d + 2 b^T c w

    with Q = Lk^{-T} (S + m m^T - I) Lk^{-1}.

    :param C: factors of S_t = C_t C_t^T, [T, M, M]
    :param mu: [B, D]
    :param v: [B, D], positive
    """
    kernel, Z = layer.kernel, tf.convert_to_tensor(layer.Z)
    b, Q = _weights(Lk, m, C)
    psi = psi1(kernel, Z, mu, v)
    mean = tf.matmul(psi, b, transpose_b=True)
    noise = layer.white_noise + layer.output_noise
    variance = kernel.variance + noise + psi2_contracted(kernel, Z, mu, v, Q) - tf.square(mean)
    if isinstance(layer.mean_function, gpflow.functions.Linear):
        W = tf.convert_to_tensor(layer.mean_function.A)
        variance += v @ tf.square(W) + 2.0 * cross_contracted(kernel, Z, mu, v, psi, b, W)
        mean += layer.mean_function(mu)
    return mean, variance


def _weights(Lk: tf.Tensor, m: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """b_t = Lk^{-T} m_t [T, M] and Q_t = Lk^{-T} (C_t C_t^T + m_t m_t^T - I) Lk^{-1} [T, M, M] from one solve."""
    T, M = m.shape
    factors = tf.reshape(tf.transpose(C, [1, 0, 2]), [M, T * M])
    columns = tf.concat([factors, tf.transpose(m), tf.eye(M, dtype=m.dtype)], axis=-1)
    solved = tf.linalg.triangular_solve(Lk, columns, adjoint=True)
    factors, means, inverse = tf.split(solved, [T * M, T, M], axis=-1)
    Y, b = tf.transpose(tf.reshape(factors, [M, T, M]), [1, 0, 2]), tf.transpose(means)
    return b, gram(Y) + b[:, :, None] * b[:, None, :] - gram(inverse)
