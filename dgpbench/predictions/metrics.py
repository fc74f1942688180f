"""Scores of predictive mixtures against targets, all in the original units of y.

Reference: docs/methods.md, "Prediction and scores".

A metric is one function ``(mixture, Y) -> float`` under ``@metric(...)``; its column then appears in every table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.errors import Diverged
from dgpbench.predictions.mixture import GaussianMixture

if TYPE_CHECKING:
    import pandas as pd

CENTRAL_INTERVALS = np.arange(1, 20) / 20  # 0.05, 0.10, ..., 0.95
PAIRS_AT_ONCE = 50_000  # components x rows of one pass of CRPS: what the processor's cache holds
DISTANCE_WORK = 2e11  # training rows x test rows x features that may be compared: some ten seconds on one core


@dataclass(frozen=True)
class Metric:
    """What a table needs to know about a score.

    :param unit: ``nats``, ``units of y`` or ``share``
    :param direction: ``higher`` or ``lower`` is better, or ``nearer`` to ``target``
    :param summary: whether the report's overview of all runs shows it
    """

    name: str
    function: Callable[[GaussianMixture, np.ndarray], float]
    unit: str
    direction: str
    target: float | None = None
    summary: bool = False

    def loss(self, score: float) -> float:
        """The score turned so that less is better, for ranks and comparisons."""
        if self.target is not None:
            return abs(score - self.target)
        return -score if self.direction == "higher" else score


METRICS: dict[str, Metric] = {}


def metric(unit: str, direction: str, target: float | None = None, *, summary: bool = False) -> Callable:
    """Register a function (mixture, Y [N, P]) -> float as a metric under its own name."""

    def register(function: Callable[[GaussianMixture, np.ndarray], float]) -> Callable:
        METRICS[function.__name__] = Metric(function.__name__, function, unit, direction, target, summary)
        return function

    return register


def scores(mixture: GaussianMixture, Y: np.ndarray) -> dict[str, float]:
    """Every registered metric of predictions at targets Y [N, P].

    :raises Diverged: when a score is not a finite number, so that none can ever enter an average
    """
    values = {name: float(each.function(mixture, Y)) for name, each in METRICS.items()}
    if broken := {name: value for name, value in values.items() if not math.isfinite(value)}:
        listed = ", ".join(f"{name} = {value}" for name, value in broken.items())
        raise Diverged(f"the predictions have scores that are not finite numbers: {listed}")
    return values


@metric(unit="nats", direction="higher", summary=True)
def tll(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Test log-likelihood, mean_n log 1/S sum_s N(y_n; m_ns, v_ns)."""
    return mixture.log_density(Y).mean()


@metric(unit="nats", direction="lower")
def nlpp(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Negative log predictive probability, -tll."""
    return -tll(mixture, Y)


@metric(unit="units of y", direction="lower", summary=True)
def rmse(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Root mean squared error of the mixture mean, sqrt(mean_n (y_n - E[y_n])^2)."""
    return np.sqrt(np.mean((mixture.mean - _targets(mixture, Y)) ** 2))


@metric(unit="units of y", direction="lower", summary=True)
def crps(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Continuous ranked probability score, the mean over rows of ``crps_rows``."""
    return crps_rows(mixture, Y).mean()


def crps_rows(mixture: GaussianMixture, Y: np.ndarray) -> np.ndarray:
    """The continuous ranked probability score of each row, in closed form, [N, P], units of y.

    ``1/S sum_s A(y - m_s, v_s) - 1/(2 S^2) sum_{s,s'} A(m_s - m_s', v_s + v_s')``, with A as in ``_mean_absolute``.
    Reference: Grimit et al. 2006. Time is O(S^2 N); memory does not grow with N.
    """
    S, N, _ = mixture.means.shape
    Y, size = _targets(mixture, Y), max(1, PAIRS_AT_ONCE // S)
    chunks = [slice(start, start + size) for start in range(0, N, size)]
    return np.concatenate([_crps(mixture.means[:, rows], mixture.variances[:, rows], Y[rows]) for rows in chunks])


def _crps(means: np.ndarray, variances: np.ndarray, Y: np.ndarray) -> np.ndarray:
    S = len(means)
    pairs = _mean_absolute(np.zeros_like(means), 2 * variances).sum(axis=0)  # s = s'
    for s in range(S - 1):  # s < s' counts twice
        pairs += 2 * _mean_absolute(means[s + 1 :] - means[s], variances[s + 1 :] + variances[s]).sum(axis=0)
    return _mean_absolute(Y - means, variances).mean(axis=0) - pairs / (2 * S**2)


def _mean_absolute(d: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A(d, v) = E|z| for z ~ N(d, v): 2 sqrt(v) phi(d / sqrt v) + d (2 Phi(d / sqrt v) - 1)."""
    from scipy.special import erf

    z = d / np.sqrt(2 * v)
    return np.sqrt(2 * v / np.pi) * np.exp(-(z**2)) + d * erf(z)


def coverage(mixture: GaussianMixture, Y: np.ndarray, p: float) -> float:
    """Share of targets inside the central p interval, mean_n(|u_n - 1/2| <= p/2) with u the PIT."""
    return np.mean(np.abs(mixture.cdf(Y) - 0.5) <= p / 2)


@metric(unit="share", direction="nearer", target=0.50)
def coverage_50(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Share of targets inside the central 50 % interval."""
    return coverage(mixture, Y, 0.50)


@metric(unit="share", direction="nearer", target=0.80)
def coverage_80(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Share of targets inside the central 80 % interval."""
    return coverage(mixture, Y, 0.80)


@metric(unit="share", direction="nearer", target=0.90)
def coverage_90(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Share of targets inside the central 90 % interval."""
    return coverage(mixture, Y, 0.90)


@metric(unit="share", direction="nearer", target=0.95, summary=True)
def coverage_95(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Share of targets inside the central 95 % interval."""
    return coverage(mixture, Y, 0.95)


@metric(unit="share", direction="lower", summary=True)
def calibration_error(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Mean over p = 0.05, 0.10, ..., 0.95 of |coverage_p - p|.

    It is not zero even for a perfect predictor: about 0.044 at 50 rows and 0.002 at 20,000.
    """
    distances = np.abs(mixture.cdf(Y) - 0.5)
    return np.mean([abs(np.mean(distances <= p / 2) - p) for p in CENTRAL_INTERVALS])


@metric(unit="units of y", direction="lower")
def sharpness(mixture: GaussianMixture, Y: np.ndarray) -> float:
    """Mean predictive standard deviation; the targets do not enter."""
    return np.sqrt(mixture.variance).mean()


def points(
    mixture: GaussianMixture, Y: np.ndarray, X_test: np.ndarray, X_train: np.ndarray, rows: np.ndarray
) -> "pd.DataFrame":
    """One line for each test row: what the calibration study and the direct comparisons need.

    Columns: row, y, mean, variance, log_density (nats), pit, distance (to the nearest training row).

    :param Y: [N, 1], in the mixture's units
    :param X_test: [N, D], standardised
    :param X_train: [N_train, D], standardised
    :param rows: [N], the rows' numbers in the data set
    """
    import pandas as pd

    if mixture.means.shape[2] != 1:
        raise ValueError(f"a table of points is for one output, not {mixture.means.shape[2]}")
    columns = {
        "y": _targets(mixture, Y),
        "mean": mixture.mean,
        "variance": mixture.variance,
        "log_density": mixture.log_density(Y),
        "pit": mixture.cdf(Y),
    }
    flat = {name: column[:, 0] for name, column in columns.items()}
    return pd.DataFrame({"row": np.asarray(rows)} | flat | {"distance": nearest_distances(X_test, X_train)})


def nearest_distances(X_test: np.ndarray, X_train: np.ndarray, max_work: float = DISTANCE_WORK) -> np.ndarray:
    """Euclidean distance from each test row to the nearest training row, [N].

    Where comparing all of them would be more than ``max_work`` (year: 2e12), evenly spaced test rows get a distance
    and the others NaN.
    """
    affordable = int(max_work / X_train.size)
    chosen = np.arange(0, len(X_test), max(1, math.ceil(len(X_test) / max(1, affordable))))
    distances = np.full(len(X_test), np.nan)
    distances[chosen] = _nearest(X_test[chosen], X_train)
    return distances


def _nearest(X_test: np.ndarray, X_train: np.ndarray) -> np.ndarray:
    if X_train.shape[1] <= 15:  # beyond that a tree prunes nothing, and comparing all rows by GEMM is faster
        from scipy.spatial import cKDTree

        return cKDTree(X_train).query(X_test)[0]
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=1, algorithm="brute").fit(X_train).kneighbors(X_test)[0][:, 0]


def win_share(points_a: "pd.DataFrame", points_b: "pd.DataFrame") -> float:
    """Share of the test rows of one split on which a's log-density exceeds b's; a tie is no win."""
    return float((_density_differences(points_a, points_b) > 0).mean())


def mean_density_difference(points_a: "pd.DataFrame", points_b: "pd.DataFrame") -> float:
    """Mean over the test rows of one split of a's log-density less b's, in nats."""
    return float(_density_differences(points_a, points_b).mean())


def _density_differences(points_a: "pd.DataFrame", points_b: "pd.DataFrame") -> np.ndarray:
    a, b = (points.sort_values("row") for points in (points_a, points_b))
    same = np.array_equal(a["row"], b["row"]) and np.array_equal(a["y"], b["y"])
    if not same or a["row"].duplicated().any():
        raise ValueError("a direct comparison needs the same test rows, once each, on both sides")
    return a["log_density"].to_numpy() - b["log_density"].to_numpy()


def _targets(mixture: GaussianMixture, Y: np.ndarray) -> np.ndarray:
    """Y as [N, P] floats, refused when its shape is another: broadcasting [N] against [N, 1] gives nonsense."""
    Y = np.asarray(Y, dtype=np.float64)
    if Y.shape != mixture.means.shape[1:]:
        raise ValueError(f"targets must have shape [N, P] = {mixture.means.shape[1:]}, not {Y.shape}")
    return Y
