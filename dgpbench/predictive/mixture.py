"""What every predictor returns: a Gaussian mixture for each row, in NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from dgpbench.errors import NonFinitePredictions
from dgpbench.predictive.quantiles import mixture_quantiles

LOG_2PI = np.log(2 * np.pi)


class ShortRepr:
    """A ``repr`` with the shapes of arrays instead of their numbers, for a dataclass with ``repr=False``."""

    def __repr__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        shown = {
            name: f"array{value.shape}" if isinstance(value, np.ndarray) else repr(value)
            for name, value in values.items()
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture(ShortRepr):
    """One mixture of S equally weighted Gaussians for each test row and output.

    ``p(y_n) = 1/S sum_s N(y_n; means[s, n], variances[s, n])``; the variances include the noise. Densities,
    distribution functions and quantiles are those of each output by itself.

    :param means: [S, N, P], in units of y
    :param variances: [S, N, P], positive, in units of y squared
    :raises ValueError: when the shapes differ or are not [S, N, P], or a value is not finite or not positive
    """

    means: np.ndarray
    variances: np.ndarray

    def __post_init__(self) -> None:
        for name in ("means", "variances"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        _check_shapes(self.means, self.variances)
        _check_values(self.means, self.variances)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, P)."""
        return self.means.shape[1], self.means.shape[2]

    @property
    def mean(self) -> np.ndarray:
        """E[y] = 1/S sum_s m_s, [N, P]."""
        return self.means.mean(axis=0)

    @property
    def variance(self) -> np.ndarray:
        """Var[y] = 1/S sum_s v_s + 1/S sum_s (m_s - E[y])^2, [N, P]."""
        return self.variances.mean(axis=0) + self.means.var(axis=0)

    def log_density(self, Y: np.ndarray) -> np.ndarray:
        """log 1/S sum_s N(y; m_s, v_s) by logsumexp, which does not underflow in the tails; [..., N, P] as Y, nats."""
        from scipy.special import logsumexp

        squares = (self._components_beside(Y) - self.means) ** 2 / self.variances
        return logsumexp(-0.5 * (squares + np.log(self.variances) + LOG_2PI), axis=-3) - np.log(len(self.means))

    def cdf(self, Y: np.ndarray) -> np.ndarray:
        """u = 1/S sum_s Phi((y - m_s) / sqrt(v_s)), [..., N, P] as Y; at an observed y, its PIT."""
        from scipy.special import ndtr

        return ndtr((self._components_beside(Y) - self.means) / np.sqrt(self.variances)).mean(axis=-3)

    def quantile(self, p: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """The y at which the distribution function is p, [..., N, P] for p of shape [...], 0 < p < 1."""
        p = np.asarray(p, dtype=np.float64)
        if not np.all((p > 0) & (p < 1)):
            raise ValueError(f"quantiles are at probabilities between 0 and 1, both excluded, not {p}")
        S, *rows = self.means.shape
        means, deviations = self.means.reshape(S, -1), np.sqrt(self.variances).reshape(S, -1)
        return np.reshape([mixture_quantiles(each, means, deviations) for each in p.ravel()], (*p.shape, *rows))

    def sample(self, generator: np.random.Generator, num: int) -> np.ndarray:
        """Draws from the mixtures, one component for all outputs of a row, [num, N, P]."""
        S, N, P = self.means.shape
        components, rows = generator.integers(S, size=(num, N)), np.arange(N)
        normals = generator.standard_normal((num, N, P))
        return self.means[components, rows] + np.sqrt(self.variances[components, rows]) * normals

    def shifted_scaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> "GaussianMixture":
        """The mixture of shift + scale y: its log-density is the one of y less log(scale).

        :param shift: a number or [P], in the new units
        :param scale: a number or [P], positive, new units per unit of y
        """
        if not np.all(np.asarray(scale) > 0):
            raise ValueError(f"a change of units needs a positive scale, not {scale}")
        return GaussianMixture(shift + scale * self.means, np.square(scale) * self.variances)

    @classmethod
    def concatenate(cls, parts: Sequence["GaussianMixture"]) -> "GaussianMixture":
        """The mixtures of successive batches of rows, in turn; all must have the same S and P."""
        return cls(
            np.concatenate([part.means for part in parts], axis=1),
            np.concatenate([part.variances for part in parts], axis=1),
        )

    def _components_beside(self, Y: np.ndarray) -> np.ndarray:
        """Y with an axis of length 1 for the components, [..., 1, N, P]; never broadcast over rows by accident."""
        Y = np.asarray(Y, dtype=np.float64)
        if Y.shape[-2:] != self.means.shape[1:]:
            raise ValueError(f"targets must have shape [N, P] = {self.means.shape[1:]}, not {Y.shape}")
        return np.expand_dims(Y, -3)


def _check_shapes(means: np.ndarray, variances: np.ndarray) -> None:
    if means.ndim != 3 or means.shape != variances.shape or means.shape[0] == 0:
        raise ValueError(
            "a mixture needs means and variances of one shape [S, N, P] with S > 0, "
            f"not {means.shape} and {variances.shape}"
        )


def _check_values(means: np.ndarray, variances: np.ndarray) -> None:
    bad_means, bad_variances = ~np.isfinite(means), ~(np.isfinite(variances) & (variances > 0))
    if bad_means.any():
        raise NonFinitePredictions(f"{bad_means.sum()} of {means.size} predictive means are not finite")
    if bad_variances.any():
        raise NonFinitePredictions(
            f"{bad_variances.sum()} of {variances.size} predictive variances are not finite and positive"
        )
