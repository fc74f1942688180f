"""Predictions without a density: quantiles, and samples.

Each has some columns of ``scores.per_row``; scores that need others are missing from its records.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.errors import NonFinitePredictions
from dgpbench.predictive.mixture import GaussianMixture, ShortRepr

OUTERMOST = 0.025  # this level, and 1 less this, are needed for the coverage of 95 % intervals
ROUNDING = 1e-6  # of a level, such as 1 - 0.975 or a float32


def Gaussian(mean: np.ndarray, variance: np.ndarray) -> GaussianMixture:
    """Return one Gaussian for each row, noise included.

    :param mean: [N], or [N, P]
    :param variance: as ``mean``, positive
    """
    return GaussianMixture(_with_outputs(mean, 1)[None], _with_outputs(variance, 1)[None])


@dataclass(frozen=True, eq=False, repr=False)
class Quantiles(ShortRepr):
    """Quantiles of each row; those that cross are sorted (Chernozhukov et al. 2010).

    :param levels: [K], a list or an array, increasing, between 0 and 1
    :param values: [K, N], or [K, N, P], in units of y
    :param mean: [N], or [N, P], where the method has one; without it there is no RMSE
    """

    levels: np.ndarray
    values: np.ndarray
    mean: np.ndarray | None = None

    def __post_init__(self) -> None:
        levels, values = np.asarray(self.levels, np.float64), _with_outputs(self.values, 2)
        if levels.ndim != 1 or len(levels) < 2 or np.any(np.diff([0.0, *levels, 1.0]) <= 0):
            raise ValueError(f"quantiles need two levels or more that increase between 0 and 1, not {levels}")
        if values.ndim != 3 or len(values) != len(levels):
            raise ValueError(f"quantiles need values [{len(levels)}, N], not {np.shape(self.values)}")
        _check_finite(values, "quantiles")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "values", np.sort(values, axis=0))
        if self.mean is not None:
            mean = _with_outputs(self.mean, 1)
            if mean.shape != values.shape[1:]:
                raise ValueError(f"the mean has shape {mean.shape}, the quantiles are of {values.shape[1:]}")
            _check_finite(mean, "means")
            object.__setattr__(self, "mean", mean)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, P)."""
        return self.values.shape[1], self.values.shape[2]

    def shifted_scaled(self, shift: Any, scale: Any) -> "Quantiles":
        """Return the predictions of shift + scale y."""
        mean = None if self.mean is None else shift + scale * self.mean
        return Quantiles(self.levels, shift + scale * self.values, mean)

    def quantile(self, p: float) -> np.ndarray | None:
        """Interpolate linearly between the levels; None outside them, [N, P]."""
        if not self.levels[0] - ROUNDING <= p <= self.levels[-1] + ROUNDING:
            return None
        p = float(np.clip(p, self.levels[0], self.levels[-1]))
        above = int(np.clip(np.searchsorted(self.levels, p), 1, len(self.levels) - 1))
        low, high = self.levels[above - 1], self.levels[above]
        share = (p - low) / (high - low)
        return (1 - share) * self.values[above - 1] + share * self.values[above]

    def cdf(self, Y: np.ndarray) -> np.ndarray:
        """Return the level at y by linear interpolation; half the outermost level beyond all quantiles, [N, P].

        Where quantiles are tied at y it is the mean of the lowest and the highest of their levels.
        """
        return (self._level((self.values <= Y).sum(axis=0), Y) + self._level((self.values < Y).sum(axis=0), Y)) / 2

    def _level(self, below: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return the level at y, which is above the ``below`` lowest quantiles."""
        K = len(self.levels)
        low, high = np.clip(below - 1, 0, K - 1), np.clip(below, 0, K - 1)
        left, right = (np.take_along_axis(self.values, each[None], axis=0)[0] for each in (low, high))
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(right > left, (Y - left) / (right - left), 0.0)
        inside = self.levels[low] + share * (self.levels[high] - self.levels[low])
        outside = np.where(below == 0, self.levels[0] / 2, (1 + self.levels[-1]) / 2)
        return np.where((below == 0) | (below == K), outside, inside)

    def crps(self, Y: np.ndarray) -> np.ndarray:
        """int (F(x) - 1[x >= y])^2 dx, F by straight lines between quantiles and without tails beyond them, [N, P].

        The probability beyond an outermost quantile lies at it: a distribution, so that the score is proper.
        """
        low, high = self.values[:-1], self.values[1:]
        p, r = self.levels[:-1, None, None], self.levels[1:, None, None]
        at = np.clip(Y, low, high)
        with np.errstate(invalid="ignore", divide="ignore"):
            s = p + (r - p) * np.where(high > low, (at - low) / (high - low), 0.0)
        below, above = (p * p + p * s + s * s) / 3, ((1 - s) ** 2 + (1 - s) * (1 - r) + (1 - r) ** 2) / 3
        inside = ((at - low) * below + (high - at) * above).sum(axis=0)
        return inside + np.maximum(self.values[0] - Y, 0.0) + np.maximum(Y - self.values[-1], 0.0)

    def columns(self, Y: np.ndarray, levels: dict[str, float]) -> dict[str, np.ndarray]:
        """Return the columns of ``scores.per_row`` that quantiles have."""
        found = {"mean": self.mean, "crps": self.crps(Y)} | {name: self.quantile(p) for name, p in levels.items()}
        if self.levels[0] <= OUTERMOST + ROUNDING and self.levels[-1] >= 1 - OUTERMOST - ROUNDING:
            found["pit"] = self.cdf(Y)
        return {name: column for name, column in found.items() if column is not None}


@dataclass(frozen=True, eq=False, repr=False)
class Samples(ShortRepr):
    """Draws from the predictive distribution of each row, noise included.

    :param draws: [S, N], or [S, N, P], in units of y
    """

    draws: np.ndarray

    def __post_init__(self) -> None:
        draws = _with_outputs(self.draws, 2)
        if draws.ndim != 3 or len(draws) < 2:
            raise ValueError(f"samples need draws [S, N] with two draws or more, not {np.shape(self.draws)}")
        _check_finite(draws, "draws")
        object.__setattr__(self, "draws", draws)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, P)."""
        return self.draws.shape[1], self.draws.shape[2]

    def shifted_scaled(self, shift: Any, scale: Any) -> "Samples":
        """Return the predictions of shift + scale y."""
        return Samples(shift + scale * self.draws)

    def crps(self, Y: np.ndarray) -> np.ndarray:
        """1/S sum_s |x_s - y| - 1/(2 S^2) sum_{s,s'} |x_s - x_s'|, [N, P], units of y."""
        S = len(self.draws)
        ordered = np.sort(self.draws, axis=0)
        weights = (2 * np.arange(1, S + 1) - S - 1)[:, None, None]  # sum_{s < s'} of differences in order
        return np.abs(self.draws - Y).mean(axis=0) - (weights * ordered).sum(axis=0) / S**2

    def columns(self, Y: np.ndarray, levels: dict[str, float]) -> dict[str, np.ndarray]:
        """Return the columns of ``scores.per_row`` that samples have."""
        pit = (self.draws < Y).mean(axis=0) + 0.5 * (self.draws == Y).mean(axis=0)
        found = {"mean": self.draws.mean(axis=0), "variance": self.draws.var(axis=0), "pit": pit, "crps": self.crps(Y)}
        return found | {name: np.quantile(self.draws, p, axis=0) for name, p in levels.items()}


def _with_outputs(values: np.ndarray, axes: int) -> np.ndarray:
    """Append an axis for one output to values with ``axes`` axes."""
    values = np.asarray(values, np.float64)
    return values[..., None] if values.ndim == axes else values


def _check_finite(values: np.ndarray, what: str) -> None:
    if bad := int((~np.isfinite(values)).sum()):
        raise NonFinitePredictions(f"{bad} of {values.size} predicted {what} are not finite")
