"""Predictions of our families: a Gaussian mixture for each row, in NumPy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from dgpbench.errors import NonFinitePredictions

LOG_2PI = np.log(2 * np.pi)
PAIRS_AT_ONCE = 50_000  # components x rows of one pass: what the processor's cache holds
MAX_STEPS = 500  # a bracket of finite numbers is halved at least every second step, and needs fewer
ROUNDING = 1e-6  # of the sum of weights, which may be float32
NEWTON_TOLERANCE = 1e-8  # in the smallest standard deviations; an error squares with each step, so none is left


class ShortRepr:
    """A ``repr`` with the shapes of arrays instead of their numbers, for a dataclass with ``repr=False``."""

    def __repr__(self) -> str:
        shown = []
        for each in fields(self):  # type: ignore[arg-type]  # this class is no dataclass
            value = getattr(self, each.name)
            shown.append(f"{each.name}=" + (f"array{value.shape}" if isinstance(value, np.ndarray) else repr(value)))
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture(ShortRepr):
    """One mixture of S Gaussians for each test row and output.

    ``p(y_n) = sum_s w_s N(y_n; means[s, n], variances[s, n])``; the variances include the noise. Densities,
    distribution functions and quantiles are those of each output by itself.

    :param means: [S, N, P], in units of y
    :param variances: [S, N, P], positive, in units of y squared
    :param weights: w [S], positive, with sum 1; None for equal weights
    :raises ValueError: when the shapes differ or are not [S, N, P], or a value is not finite or not positive
    """

    means: np.ndarray
    variances: np.ndarray
    weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("means", "variances"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        means, variances = self.means, self.variances
        if means.ndim != 3 or means.shape != variances.shape or means.shape[0] == 0:
            raise ValueError(
                "a mixture needs means and variances of one shape [S, N, P] with S > 0, "
                f"not {means.shape} and {variances.shape}"
            )
        if bad := np.count_nonzero(~np.isfinite(means)):
            raise NonFinitePredictions(f"{bad} of {means.size} predictive means are not finite")
        if bad := np.count_nonzero(~(np.isfinite(variances) & (variances > 0))):
            raise NonFinitePredictions(f"{bad} of {means.size} predictive variances are not finite and positive")
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            if weights.shape != means.shape[:1] or not np.all(weights > 0) or abs(weights.sum() - 1) > ROUNDING:
                raise ValueError(f"a mixture needs {len(means)} positive weights with sum 1, not {weights}")
            object.__setattr__(self, "weights", weights)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, P)."""
        return self.means.shape[1], self.means.shape[2]

    @cached_property
    def relative_weights(self) -> np.ndarray:
        """S w_s, [S, 1, 1]: ones for equal weights, where a mean over s is then the same to the last bit."""
        S = len(self.means)
        return np.ones([S, 1, 1]) if self.weights is None else S * self.weights[:, None, None]

    def average(self, values: np.ndarray) -> np.ndarray:
        """sum_s w_s values_s for values [..., S, N, P]."""
        return (self.relative_weights * values).mean(axis=-3)

    @property
    def mean(self) -> np.ndarray:
        """E[y] = sum_s w_s m_s, [N, P]."""
        return self.average(self.means)

    @property
    def variance(self) -> np.ndarray:
        """Var[y] = sum_s w_s v_s + sum_s w_s (m_s - E[y])^2, [N, P]."""
        return self.average(self.variances) + self.average((self.means - self.mean) ** 2)

    def log_density(self, Y: np.ndarray) -> np.ndarray:
        """log sum_s w_s N(y; m_s, v_s) by logsumexp, which does not underflow in the tails; [..., N, P] as Y, nats."""
        from scipy.special import logsumexp

        squares = (self._components_beside(Y) - self.means) ** 2 / self.variances
        each = -0.5 * (squares + np.log(self.variances) + LOG_2PI) + np.log(self.relative_weights)
        return logsumexp(each, axis=-3) - np.log(len(self.means))

    def cdf(self, Y: np.ndarray) -> np.ndarray:
        """u = sum_s w_s Phi((y - m_s) / sqrt(v_s)), [..., N, P] as Y; at an observed y, its PIT."""
        from scipy.special import ndtr

        u = self.average(ndtr((self._components_beside(Y) - self.means) / np.sqrt(self.variances)))
        return np.minimum(u, 1.0)  # the sum of rounded weights may exceed 1

    def quantile(self, p: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """The y at which the distribution function is p, [..., N, P] for p of shape [...], 0 < p < 1."""
        p = np.asarray(p, dtype=np.float64)
        if not np.all((p > 0) & (p < 1)):
            raise ValueError(f"quantiles are at probabilities between 0 and 1, both excluded, not {p}")
        S, *rows = self.means.shape
        means, deviations = self.means.reshape(S, -1), np.sqrt(self.variances).reshape(S, -1)
        weights = self.relative_weights[..., 0]
        found = [
            np.concatenate([_solve(each, means[:, k], deviations[:, k], weights) for k in chunks_of(*means.shape)])
            for each in p.ravel()
        ]
        return np.reshape(found, (*p.shape, *rows))

    def crps(self, Y: np.ndarray) -> np.ndarray:
        """Continuous ranked probability score of each row, in closed form, [..., N, P] as Y, units of y.

        ``sum_s w_s A(y - m_s, v_s) - 1/2 sum_{s,s'} w_s w_s' A(m_s - m_s', v_s + v_s')``, with A as in
        ``_mean_absolute``. Reference: Grimit et al. 2006. Time is O(S^2 N); memory does not grow with N.
        """
        Y = self._components_beside(Y)
        chunks = chunks_of(*self.means.shape[:2])
        return np.concatenate([_crps(self.of_rows(rows), Y[..., rows, :]) for rows in chunks], axis=-2)

    def of_rows(self, rows: slice | np.ndarray) -> "GaussianMixture":
        """Return the mixtures of some rows."""
        # In one order of memory, so that sums have the same bits whether rows are numbers or a slice.
        means, variances = (np.ascontiguousarray(each[:, rows]) for each in (self.means, self.variances))
        return replace(self, means=means, variances=variances)

    def sample(self, generator: np.random.Generator, num: int) -> np.ndarray:
        """Draws from the mixtures, one component for all outputs of a row, [num, N, P]."""
        S, N, P = self.means.shape
        # ``choice`` does not accept the rounding of weights in float32.
        weights = None if self.weights is None else self.weights / self.weights.sum()
        components, rows = generator.choice(S, size=(num, N), p=weights), np.arange(N)
        normals = generator.standard_normal((num, N, P))
        return self.means[components, rows] + np.sqrt(self.variances[components, rows]) * normals

    def shifted_scaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> "GaussianMixture":
        """The mixture of shift + scale y: its log-density is the one of y less log(scale).

        :param shift: a number or [P], in the new units
        :param scale: a number or [P], positive, new units per unit of y
        """
        if not np.all(np.asarray(scale) > 0):
            raise ValueError(f"a change of units needs a positive scale, not {scale}")
        return replace(self, means=shift + scale * self.means, variances=np.square(scale) * self.variances)

    @classmethod
    def concatenate(cls, parts: Sequence["GaussianMixture"]) -> "GaussianMixture":
        """Join successive batches of rows; all must have the same weights and P."""
        return cls(
            np.concatenate([part.means for part in parts], axis=1),
            np.concatenate([part.variances for part in parts], axis=1),
            parts[0].weights,
        )

    def _components_beside(self, Y: np.ndarray) -> np.ndarray:
        """Y with an axis of length 1 for the components, [..., 1, N, P]; never broadcast over rows by accident."""
        Y = np.asarray(Y, dtype=np.float64)
        if Y.shape[-2:] != self.means.shape[1:]:
            raise ValueError(f"targets must have shape [N, P] = {self.means.shape[1:]}, not {Y.shape}")
        return np.expand_dims(Y, -3)


def chunks_of(num_components: int, num_rows: int) -> Iterator[slice]:
    """Yield slices of the rows that hold about ``PAIRS_AT_ONCE`` pairs of a component and a row each."""
    size = max(1, PAIRS_AT_ONCE // num_components)
    return (slice(start, start + size) for start in range(0, num_rows, size))


def _crps(mixture: GaussianMixture, Y: np.ndarray) -> np.ndarray:  # Y [..., 1, N, P]
    means, variances, w = mixture.means, mixture.variances, mixture.relative_weights
    S = len(means)
    pairs = (w**2 * _mean_absolute(np.zeros_like(means), 2 * variances)).sum(axis=0)  # s = s'
    for s in range(S - 1):  # s < s' counts twice
        each = _mean_absolute(means[s + 1 :] - means[s], variances[s + 1 :] + variances[s])
        pairs += 2 * w[s] * (w[s + 1 :] * each).sum(axis=0)
    return mixture.average(_mean_absolute(Y - means, variances)) - pairs / (2 * S**2)


def _mean_absolute(d: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A(d, v) = E|z| for z ~ N(d, v): 2 sqrt(v) phi(d / sqrt v) + d (2 Phi(d / sqrt v) - 1)."""
    from scipy.special import erf

    z = d / np.sqrt(2 * v)
    return np.sqrt(2 * v / np.pi) * np.exp(-(z**2)) + d * erf(z)


# Quantiles, by Newton's method inside a bracket that bisection keeps halving ----------------------------------------


def _solve(p: float, means: np.ndarray, deviations: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The y at which ``sum_s w_s Phi((y - m_s) / d_s) = p``, for each of K mixtures, [K].

    :param means: [S, K]
    :param deviations: [S, K], positive
    :param weights: S w_s, [S, 1]
    """
    from scipy.special import ndtri

    # The mixture's quantile lies between the smallest and the largest quantile of its components.
    bounds = means + ndtri(p) * deviations
    low, high = bounds.min(axis=0), bounds.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # of predictions that have diverged
        mean = (weights * means).mean(axis=0)
        variance = (weights * deviations**2).mean(axis=0) + (weights * (means - mean) ** 2).mean(axis=0)
        y = mean + ndtri(p) * np.sqrt(variance)
    y = np.clip(np.where(np.isfinite(y), y, 0.5 * low + 0.5 * high), low, high)  # start: a Gaussian of equal moments
    smallest = deviations.min(axis=0)
    step, left = high - low, np.arange(len(y))  # the last step, and which rows are not found yet
    found = y.copy()
    for _ in range(MAX_STEPS):
        if not len(left):
            break
        excess, density = _excess_and_density(y, p, means, deviations, weights)
        low, high = np.where(excess < 0, y, low), np.where(excess < 0, high, y)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # between two far modes the density is zero
            newton = y - excess / density
            trusted = (newton >= low) & (newton <= high) & (np.abs(newton - y) <= 0.5 * np.abs(step))
        following = np.where(trusted, newton, 0.5 * (low + high))
        step, y = following - y, following
        found[left] = y
        # As near as rounding lets y be known; relative to |y| alone, a quantile at zero would take 1,000 steps.
        rounding = 2 * np.finfo(float).eps * (np.abs(y) + smallest)
        near = np.abs(step) <= np.where(trusted, np.maximum(NEWTON_TOLERANCE * smallest, rounding), rounding)
        kept = np.flatnonzero(~near)
        low, high, y, step, smallest, left = (each[kept] for each in (low, high, y, step, smallest, left))
        means, deviations = means[:, kept], deviations[:, kept]
    return found


def _excess_and_density(y: np.ndarray, p: float, means: np.ndarray, deviations: np.ndarray, weights: np.ndarray):
    """F(y) - p and its derivative, the density, [K] each."""
    from scipy.special import ndtr

    z = (y - means) / deviations
    density = (weights * (np.exp(-0.5 * z**2) / deviations)).mean(axis=0) / np.sqrt(2 * np.pi)
    return (weights * ndtr(z)).mean(axis=0) - p, density
