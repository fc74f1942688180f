"""Tied sites: q(v) proportional to N(v; 0, I) g(v)^N, for power expectation propagation.

Reference: docs/methods.md, "Power EP".
"""

import math

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.gp.block_gaussian import Blocks
from dgpbench.gp.linear_algebra import Inverse, gram, invert
from dgpbench.gp.structures import Structure, mean_field


class Sites:
    """The values of the sites at one moment: q has precision I + G and natural mean eta = (I + G) m, for each GP.

    All data rows share one site g, with precision G / N and natural mean eta / N. Taking r of the N sites away leaves
    the cavity, with precision I + (1 - r/N) G and natural mean (1 - r/N) eta: positive definite for every r <= N.

    :param structure: mean field; sites do not couple GPs
    :param precisions: G of all sites together, positive semidefinite, one [T_l, M, M] a layer
    :param means: m, the mean of q, one [T_l, M] a layer
    :param num_data: N
    """

    def __init__(self, structure: Structure, precisions: list, means: list, num_data: int):
        self.structure = structure
        self.precisions = precisions
        self.means = means
        self.natural_means = [m + tf.linalg.matvec(G, m) for G, m in zip(precisions, means, strict=True)]
        self.num_data = num_data
        self._inverses: dict[float, list[Inverse]] = {}  # each removal is factored once

    def moments(self, removed: float = 0.0) -> Blocks:
        """q without ``removed`` of its N sites: its mean and its covariance, with the lower factor C."""
        inverses = self._without(removed)
        factors, covariances = [each.factor for each in inverses], [each.covariance for each in inverses]
        return Blocks(self.structure, self._means(removed), factors, {}, covariances)

    def log_normaliser(self, removed: float = 0.0) -> tf.Tensor:
        """Phi summed over GPs, Phi = 1/2 mu^T Sig^{-1} mu + 1/2 log|Sig| + M/2 log 2 pi, of q without some sites."""
        weight = self._weight(removed)
        pairs = zip(self.natural_means, self._means(removed), strict=True)
        squares = tf.add_n([tf.reduce_sum(eta * mu) for eta, mu in pairs])
        logs = tf.add_n([inverse.log_determinant for inverse in self._without(removed)])
        return 0.5 * (weight * squares - logs) + self.prior_log_normaliser()

    def prior_log_normaliser(self) -> float:
        """Phi(N(0, I)) summed over GPs, M/2 log 2 pi each."""
        return 0.5 * math.log(2.0 * math.pi) * sum(int(np.prod(eta.shape)) for eta in self.natural_means)

    def _without(self, removed: float) -> list[Inverse]:
        if removed not in self._inverses:
            weight = self._weight(removed)
            self._inverses[removed] = [invert(weight * G + np.eye(G.shape[-1])) for G in self.precisions]
        return self._inverses[removed]

    def _means(self, removed: float) -> list[tf.Tensor]:
        if removed == 0.0:
            return self.means
        pairs = zip(self._without(removed), self.natural_means, strict=True)
        return [inverse.solve(self._weight(removed) * eta) for inverse, eta in pairs]

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
        self.structure = mean_field(widths)
        self.num_data = num_data
        self.means = [gpflow.Parameter(m) for m in means]
        self.log_precisions = [
            gpflow.Parameter(np.full([T, M], np.log(scale**-2 - 1.0))) for T, scale in zip(widths, scales, strict=True)
        ]
        self.mixings = [gpflow.Parameter(np.zeros([T, M, M])) for T in widths]

    def values(self) -> Sites:
        """G = Rg^T Rg with Rg = diag(d)^{1/2} U, and m."""
        precisions = []
        for log_d, mixing in zip(self.log_precisions, self.mixings, strict=True):
            M = mixing.shape[-1]
            U = tf.convert_to_tensor(mixing) * np.triu(np.ones([M, M]), 1) + np.eye(M)
            precisions.append(gram(tf.linalg.matrix_transpose(tf.exp(0.5 * log_d)[:, :, None] * U)))
        return Sites(self.structure, precisions, [tf.convert_to_tensor(m) for m in self.means], self.num_data)

    def blocks(self, choleskys: list[tf.Tensor]) -> Blocks:
        """q itself, for prediction."""
        del choleskys  # sites are on the whitened v
        return self.values().moments()
