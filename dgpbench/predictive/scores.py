"""Scores of predictions against targets, all in the original units of y.

Reference: docs/methods.md, "Prediction and scores".

A metric is a function of columns of ``per_row``, registered by ``@metric(...)`` under its own name. It then has a
column in every table. Whatever holds these columns can be scored: predictions, or the table that a run has stored.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.errors import Diverged
from dgpbench.predictive.quantiles import Quantiles, Samples
from dgpbench.predictive.warped import Densities

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.50, "q75": 0.75, "q95": 0.95}  # column -> probability
DISTANCE_WORK = 2e11  # training rows x test rows x features that may be compared: some ten seconds on one core

Rows = Mapping[str, np.ndarray]  # column -> [N, P]
Predicted = Densities | Quantiles | Samples  # in the original units of y
CENTRAL_INTERVALS = np.arange(1, 20) / 20  # 0.05, 0.10, ..., 0.95


@dataclass(frozen=True)
class Metric:
    """A score, and how tables show it.

    :param function: takes ``columns``, each [N, P], in their order
    :param unit: ``nats``, ``units of y`` or ``share``
    :param direction: ``higher`` or ``lower`` is better, or ``nearer`` to ``target``
    """

    name: str
    function: Callable[..., float]
    columns: tuple[str, ...]
    unit: str
    direction: str
    target: float | None = None

    def of(self, rows: Rows) -> float:
        """Return the score of rows with its columns."""
        return float(self.function(*(rows[column] for column in self.columns)))

    def loss(self, score: float) -> float:
        """Return the score with a sign such that less is better, for ranks and comparisons."""
        if self.target is not None:
            return abs(score - self.target)
        return -score if self.direction == "higher" else score


METRICS: dict[str, Metric] = {}


def metric(
    *columns: str, unit: str, direction: str, target: float | None = None
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register a function of some columns of ``per_row`` as a metric under its own name."""

    def register(function: Callable[..., float]) -> Callable[..., float]:
        name = function.__name__
        METRICS[name] = Metric(name, function, columns, unit, direction, target)
        return function

    return register


def all_scores(rows: Rows) -> dict[str, float]:
    """Return every registered metric with columns in the rows: without a density there is no log-likelihood.

    :raises Diverged: for a score that is not a finite number, so that none can enter an average
    """
    values = {name: each.of(rows) for name, each in METRICS.items() if set(each.columns) <= set(rows)}
    if broken := {name: value for name, value in values.items() if not math.isfinite(value)}:
        listed = ", ".join(f"{name} = {value}" for name, value in broken.items())
        raise Diverged(f"the predictions have scores that are not finite numbers: {listed}")
    return values


@metric("log_density", unit="nats", direction="higher")
def tll(log_density: np.ndarray) -> float:
    """Test log-likelihood, mean_n log p(y_n); of a mixture, log sum_s w_s N(y_n; m_ns, v_ns)."""
    return log_density.mean()


@metric("log_density", unit="nats", direction="lower")
def nlpp(log_density: np.ndarray) -> float:
    """Negative log predictive probability, -tll."""
    return -tll(log_density)


@metric("y", "mean", unit="units of y", direction="lower")
def rmse(y: np.ndarray, mean: np.ndarray) -> float:
    """Root mean squared error of the predictive mean, sqrt(mean_n (y_n - E[y_n])^2)."""
    return np.sqrt(np.mean((mean - y) ** 2))


@metric("crps", unit="units of y", direction="lower")
def crps(of_rows: np.ndarray) -> float:
    """Continuous ranked probability score, the mean over rows."""
    return of_rows.mean()


def coverage(pit: np.ndarray, p: float) -> float:
    """Share of targets inside the central p interval, mean_n(|u_n - 1/2| <= p/2) with u the PIT."""
    return np.mean(np.abs(pit - 0.5) <= p / 2)


for name, p in {"coverage_50": 0.50, "coverage_80": 0.80, "coverage_90": 0.90, "coverage_95": 0.95}.items():
    METRICS[name] = Metric(name, partial(coverage, p=p), ("pit",), unit="share", direction="nearer", target=p)


@metric("pit", unit="share", direction="lower")
def calibration_error(pit: np.ndarray) -> float:
    """Mean over p = 0.05, 0.10, ..., 0.95 of |coverage_p - p|.

    It is not zero even for a perfect predictor: about 0.044 at 50 rows and 0.002 at 20,000.
    """
    return np.mean([abs(coverage(pit, p) - p) for p in CENTRAL_INTERVALS])


@metric("variance", unit="units of y", direction="lower")
def sharpness(variance: np.ndarray) -> float:
    """Mean predictive standard deviation; the targets do not enter."""
    return np.sqrt(variance).mean()


@metric("y", "q05", "q95", unit="units of y", direction="lower")
def interval_score_90(y: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Interval score of the central 90 % interval [l, u]: its width, and 2 / 0.1 times what a target lies outside it.

    ``mean_n (u_n - l_n) + 20 max(l_n - y_n, 0) + 20 max(y_n - u_n, 0)``.
    Reference: Gneiting & Raftery 2007, Eq. 43.
    """
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return np.mean(high - low + 2 / 0.1 * outside)


@metric("y", *QUANTILES, unit="units of y", direction="lower")
def pinball(y: np.ndarray, *quantiles: np.ndarray) -> float:
    """Pinball loss, the mean over rows and over the levels p of ``QUANTILES`` of max(p (y - q), (p - 1) (y - q)).

    Reference: Gneiting & Raftery 2007, Sec. 6.
    """
    levels = QUANTILES.values()
    return np.mean([np.maximum(p * (y - q), (p - 1) * (y - q)) for p, q in zip(levels, quantiles, strict=True)])


# Columns of each row ------------------------------------------------------------------------------------------------


def per_row(predictions: Predicted, Y: np.ndarray) -> dict[str, np.ndarray]:
    """Return every column that a metric can use and that the predictions have, each computed once, [N, P].

    y, mean and ``QUANTILES`` in units of y, variance in units of y squared, log_density in nats, pit, and crps in
    units of y. A mixture has all of them.

    :param Y: [N, P], in the predictions' units
    :raises ValueError: for Y of another shape: broadcasting [N] against [N, 1] gives nonsense
    """
    Y = np.asarray(Y, dtype=np.float64)
    if Y.shape != predictions.shape:
        raise ValueError(f"targets must have shape [N, P] = {predictions.shape}, not {Y.shape}")
    if not isinstance(predictions, Densities):
        return {"y": Y, **predictions.columns(Y, QUANTILES)}
    quantiles = predictions.quantile(list(QUANTILES.values()))
    return {
        "y": Y,
        "mean": predictions.mean,
        "variance": predictions.variance,
        "log_density": predictions.log_density(Y),
        "pit": predictions.cdf(Y),
        "crps": predictions.crps(Y),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def points_table(rows: Rows, X_test: np.ndarray, X_train: np.ndarray, numbers: np.ndarray) -> "pd.DataFrame":
    """Return one line for each test row, for rescoring, the calibration study and direct comparisons.

    Columns: row, those of ``per_row``, distance (to the nearest training row).

    :param rows: as ``per_row`` gives them, of one output
    :param X_test: [N, D], standardised
    :param X_train: [N_train, D], standardised
    :param numbers: [N], the rows' numbers in the data set
    """
    import pandas as pd

    flat = {name: column[:, 0] for name, column in rows.items()}
    return pd.DataFrame({"row": np.asarray(numbers)} | flat | {"distance": nearest_distances(X_test, X_train)})


def rows_from(table: "pd.DataFrame") -> dict[str, np.ndarray]:
    """Return the columns of a table of points as ``per_row`` does, [N, 1] each; an older table lacks some."""
    return {str(name): table[[name]].to_numpy() for name in table.columns}


def nearest_distances(X_test: np.ndarray, X_train: np.ndarray, max_work: float = DISTANCE_WORK) -> np.ndarray:
    """Return the Euclidean distance from each test row to the nearest training row, [N].

    Above ``max_work`` comparisons (year: 2e12) evenly spaced test rows get a distance and the others NaN.
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


# Comparisons of rows, and calibration ----------------------------------------------------------------------


def win_share(points_a: "pd.DataFrame", points_b: "pd.DataFrame") -> float:
    """Return the share of a split's test rows on which a's log-density exceeds b's; a tie is not a win."""
    return float((_density_differences(points_a, points_b) > 0).mean())


def mean_density_difference(points_a: "pd.DataFrame", points_b: "pd.DataFrame") -> float:
    """Return the mean over a split's test rows of a's log-density less b's, in nats."""
    return float(_density_differences(points_a, points_b).mean())


def _density_differences(points_a: "pd.DataFrame", points_b: "pd.DataFrame") -> np.ndarray:
    a, b = (points.sort_values("row") for points in (points_a, points_b))
    same = np.array_equal(a["row"], b["row"]) and np.array_equal(a["y"], b["y"])
    if not same or a["row"].duplicated().any():
        raise ValueError("a direct comparison needs the same test rows, once each, on both sides")
    return a["log_density"].to_numpy() - b["log_density"].to_numpy()


def describe_coverage(coverage: float, num_rows: int) -> str:
    """'95 % intervals hold 92.2 % of 51 rows, within chance (88.2 to 100.0 %)'.

    Of N targets, calibrated intervals hold Binomial(N, 0.95); chance is the central 95 % of its distribution.

    :param coverage: the share of the targets that the central 95 % intervals hold
    """
    from scipy.stats import binom

    low, high = (int(count) for count in binom.ppf([0.025, 0.975], num_rows, 0.95))
    held = round(coverage * num_rows)
    verdict = "within chance" if low <= held <= high else "too few for chance" if held < low else "too many for chance"
    meaning = {"too few for chance": ": too narrow", "too many for chance": ": too wide"}.get(verdict, "")
    expected = f"{low / num_rows:.1%} to {high / num_rows:.1%}".replace("%", " %")
    return f"95 % intervals hold {100 * coverage:.1f} % of {num_rows:,} rows, {verdict} ({expected}){meaning}"
