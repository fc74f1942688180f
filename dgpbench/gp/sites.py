"""Tied sites: q(v) proportional to N(v; 0, I) g(v)^N, for power expectation propagation (METHODS Sec. 7)."""

import math
from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.errors import Refused
from dgpbench.gp.gaussians import Blocks
from dgpbench.gp.structures import Structure, mean_field


class Sites(NamedTuple):
    """The values of the sites at one moment: q has precision I + G and natural mean eta, for each GP.

    All data rows share one site g, with precision G / N and natural mean eta / N. Taking r of the N sites away leaves
    the cavity, with precision I + (1 - r/N) G and natural mean (1 - r/N) eta: positive definite for every r <= N.

    :param structure: mean field; sites do not couple GPs
    :param factors: Rg with the total site precision G = Rg^T Rg, one [T_l, K, M] a layer
    :param natural_means: eta, one [T_l, M] a layer
    :param num_data: N
    """

    structure: Structure
    factors: list[tf.Tensor]
    natural_means: list[tf.Tensor]
    num_data: int

    def moments(self, removed: float = 0.0) -> Blocks:
        """q without ``removed`` of its N sites: its mean and the lower factor C of its covariance."""
        weight = self._weight(removed)
        C = [inverse_factor(_precision(weight, R)) for R in self.factors]
        means = [_matvec(F, _matvec(F, weight * eta, True)) for F, eta in zip(C, self.natural_means, strict=True)]
        return Blocks(self.structure, means, C, {})

    def log_normaliser(self, at: Blocks, removed: float = 0.0) -> tf.Tensor:
        """Phi summed over GPs, Phi = 1/2 mu^T Sig^{-1} mu + 1/2 log|Sig| + M/2 log 2 pi.

        :param at: ``moments(removed)``, which has been computed already
        """
        weight = self._weight(removed)
        squares = [tf.reduce_sum(eta * mu) for eta, mu in zip(self.natural_means, at.means, strict=True)]
        logs = [tf.reduce_sum(tf.math.log(tf.linalg.diag_part(C))) for C in at.diagonal]
        return 0.5 * weight * tf.add_n(squares) + tf.add_n(logs) + self.prior_log_normaliser(at)

    @staticmethod
    def prior_log_normaliser(at: Blocks) -> float:
        """Phi(N(0, I)) summed over GPs, M/2 log 2 pi each."""
        return 0.5 * math.log(2.0 * math.pi) * sum(int(np.prod(mu.shape)) for mu in at.means)

    def _weight(self, removed: float) -> float:
        return 1.0 - removed / self.num_data


class TiedSites(gpflow.Module):
    """Trainable tied sites, in coordinates that suit Adam.

    G = U^T diag(d) U with U unit upper triangular, and eta = (I + G) m with m the mean of q: log d, U and m move by
    numbers of order one where G and eta range over many orders of magnitude. G is positive semidefinite always.

    Reference: Bui et al. 2016, Sec. 3; Hernandez-Munoz 2018, Sec. 4.2.2.

    :param widths: T_l
    :param num_inducing: M
    :param scales: standard deviation of v under q at the start, below 1, one number a layer: d = 1/scale^2 - 1
    :param means: m at the start, one [T_l, M] a layer
    :param num_data: N
    """

    def __init__(self, widths, num_inducing: int, scales, means, num_data: int):
        super().__init__(name="tied_sites")
        M = num_inducing
        if max(scales) >= 1.0:
            raise Refused(f"sites only narrow the prior: hidden_scale and output_scale must be below 1, not {max(scales):g}")
        self.structure = mean_field(widths)
        self.num_data = num_data
        self.means = [gpflow.Parameter(m) for m in means]
        self.log_precisions = [
            gpflow.Parameter(np.full([T, M], np.log(scale**-2 - 1.0))) for T, scale in zip(widths, scales, strict=True)
        ]
        self.mixings = [gpflow.Parameter(np.zeros([T, M, M])) for T in widths]

    def values(self) -> Sites:
        """G's factor Rg = diag(d)^{1/2} U and eta = m + G m."""
        factors, natural_means = [], []
        for m, log_d, mixing in zip(self.means, self.log_precisions, self.mixings, strict=True):
            upper = tf.linalg.band_part(tf.convert_to_tensor(mixing), 0, -1)
            U = tf.linalg.set_diag(upper, tf.ones_like(log_d))
            R = tf.exp(0.5 * log_d)[:, :, None] * U
            factors.append(R)
            natural_means.append(m + _matvec(R, _matvec(R, tf.convert_to_tensor(m)), True))
        return Sites(self.structure, factors, natural_means, self.num_data)

    def blocks(self, choleskys: list[tf.Tensor]) -> Blocks:
        """q itself, for prediction."""
        del choleskys  # sites are on the whitened v
        return self.values().moments()


@tf.custom_gradient
def inverse_factor(P: tf.Tensor):
    """The lower triangular C with C C^T = P^{-1}, [..., M, M].

    With J the reversal of order, J P J = K K^T gives P = U U^T for U = J K J, and C = U^{-T} (METHODS Sec. 9). From
    dC = -C low(C^T dP C), where low halves the diagonal, the gradient needs three products and no further solve.
    """
    K = tf.linalg.cholesky(tf.reverse(P, axis=[-2, -1]))
    inverse = tf.linalg.triangular_solve(K, tf.eye(tf.shape(P)[-1], batch_shape=tf.shape(P)[:-2], dtype=P.dtype))
    C = tf.reverse(tf.linalg.matrix_transpose(inverse), axis=[-2, -1])

    def gradient(g):
        low = tf.linalg.band_part(tf.matmul(C, g, transpose_a=True), -1, 0)
        low = tf.linalg.set_diag(low, 0.5 * tf.linalg.diag_part(low))
        dP = tf.matmul(C, tf.matmul(low, C, transpose_b=True))
        return -0.5 * (dP + tf.linalg.matrix_transpose(dP))

    return C, gradient


def _precision(weight: float, R: tf.Tensor) -> tf.Tensor:
    """I + weight R^T R."""
    G = weight * tf.matmul(R, R, transpose_a=True)
    return tf.linalg.set_diag(G, tf.linalg.diag_part(G) + 1.0)


def _matvec(matrix: tf.Tensor, vector: tf.Tensor, transpose: bool = False) -> tf.Tensor:
    return tf.linalg.matvec(matrix, vector, transpose_a=transpose)
