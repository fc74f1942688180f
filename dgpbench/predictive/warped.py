"""Predictions of a target that was transformed for training, in its original units."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from dgpbench.errors import NonFinitePredictions
from dgpbench.predictive.mixture import GaussianMixture, ShortRepr, chunks_of
from dgpbench.predictive.quantiles import Quantiles, Samples

LEGENDRE_NODES, FEWEST_NODES = 400, 6  # of the CRPS of a row, and of each of its intervals
REACH = 9.0  # standard deviations of a component beyond which it has no mass left
CUTS = (-9.0, -3.0, 0.0, 3.0, 9.0)  # standard deviations of a component between which its Phi is smooth
STEEP = 128.0  # smallest standard deviations that the nodes of two intervals can cover


class Warp(Protocol):
    """An increasing function g of the target, z = g(y), and its inverse."""

    def forward(self, y: np.ndarray) -> np.ndarray:
        """z = g(y)."""

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """y = g^-1(z)."""

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """log g'(y)."""

    def moments(self, mixture: GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
        """E[y] and Var[y] for a mixture of z, [N, P] each."""


@dataclass(frozen=True, eq=False, repr=False)
class WarpedMixture(ShortRepr):
    """y = g^-1(z) of a Gaussian mixture of z in each row: ``p(y) = g'(y) sum_s w_s N(g(y); m_s, v_s)``.

    Distribution function and quantiles are those of z, carried over; moments are those of the warp.
    Reference: Snelson et al. 2004.

    :param mixture: of z
    :param warp: g
    :raises NonFinitePredictions: where the moments of y are not finite
    """

    mixture: GaussianMixture
    warp: Warp

    def __post_init__(self) -> None:
        if bad := int((~(np.isfinite(self.mean) & np.isfinite(self.variance))).sum()):
            raise NonFinitePredictions(f"{bad} of {self.mean.size} predictions have moments of y that are not finite")

    @property
    def shape(self) -> tuple[int, int]:
        """(N, P)."""
        return self.mixture.shape

    @property
    def mean(self) -> np.ndarray:
        """E[y], [N, P]."""
        return self._moments[0]

    @property
    def variance(self) -> np.ndarray:
        """Var[y], [N, P]."""
        return self._moments[1]

    def log_density(self, Y: np.ndarray) -> np.ndarray:
        """log p(y), [..., N, P] as Y, nats."""
        return self.mixture.log_density(self.warp.forward(Y)) + self.warp.log_slope(Y)

    def cdf(self, Y: np.ndarray) -> np.ndarray:
        """P(y_n <= Y), [..., N, P] as Y; at an observed y, its PIT."""
        return self.mixture.cdf(self.warp.forward(Y))

    def quantile(self, p: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """The y at which the distribution function is p, [..., N, P] for p of shape [...], 0 < p < 1."""
        return self.warp.inverse(self.mixture.quantile(p))

    def sample(self, generator: np.random.Generator, num: int) -> np.ndarray:
        """Draws, [num, N, P]."""
        return self.warp.inverse(self.mixture.sample(generator, num))

    def crps(self, Y: np.ndarray) -> np.ndarray:
        """int (F(x) - 1[x >= y])^2 dx of each row, by Gauss-Legendre quadrature in z, [..., N, P] as Y, units of y.

        The interval ends at y, and in rows with a narrow component, where F has a step, at ``CUTS`` of each one too.
        """
        reach = REACH * np.sqrt(self.mixture.variances)
        width = (self.mixture.means + reach).max(axis=0) - (self.mixture.means - reach).min(axis=0)
        is_steep = (width > STEEP * np.sqrt(self.mixture.variances).min(axis=0)).any(axis=-1)
        scores = np.empty(np.shape(Y))
        for rows, cuts in ((np.flatnonzero(~is_steep), ()), (np.flatnonzero(is_steep), CUTS)):
            for chunk in chunks_of(len(self.mixture.means), len(rows)):
                part = self.mixture.of_rows(rows[chunk])
                scores[..., rows[chunk], :] = self._crps(part, Y[..., rows[chunk], :], cuts)
        return scores

    def _crps(self, part: GaussianMixture, Y: np.ndarray, cuts: Sequence[float]) -> np.ndarray:
        deviations = np.sqrt(part.variances)
        low, high = (part.means - REACH * deviations).min(axis=0), (part.means + REACH * deviations).max(axis=0)
        below, above = (self.warp.inverse(each) for each in (low, high))
        # Beyond the components' reach F is 0 or 1, and the integrand 1.
        total = np.maximum(Y - above, 0) + np.maximum(below - Y, 0)
        y = np.clip(self.warp.forward(Y), low, high)
        inner = (each for cut in cuts for each in part.means + cut * deviations)
        ends = np.sort(np.stack(np.broadcast_arrays(low, y, high, *inner)), axis=0)
        nodes, weights = np.polynomial.legendre.leggauss(max(FEWEST_NODES, LEGENDRE_NODES // (len(ends) - 1)))
        for left, right in pairwise(ends):
            middle, half = (right + left) / 2, (right - left) / 2
            integral = np.zeros_like(y)
            for node, weight in zip(nodes, weights, strict=True):
                z = middle + half * node
                slope = np.exp(-self.warp.log_slope(self.warp.inverse(z)))  # dx/dz
                integral += weight * (part.cdf(z) - (middle > y)) ** 2 * slope
            total += half * integral
        return total

    @classmethod
    def concatenate(cls, parts: "Sequence[WarpedMixture]") -> "WarpedMixture":
        """Join successive batches of rows with the same transformation."""
        return cls(GaussianMixture.concatenate([part.mixture for part in parts]), parts[0].warp)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """E[y] and Var[y], [N, P] each."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.warp.moments(self.mixture)


Densities = GaussianMixture | WarpedMixture


def warped(found: GaussianMixture | Quantiles | Samples, warp: Warp) -> WarpedMixture | Quantiles | Samples:
    """Predictions of z as predictions of y = g^-1(z); quantiles keep no mean, which is none of theirs."""
    if isinstance(found, Quantiles):
        return Quantiles(found.levels, warp.inverse(found.values))
    if isinstance(found, Samples):
        return Samples(warp.inverse(found.draws))
    return WarpedMixture(found, warp)
