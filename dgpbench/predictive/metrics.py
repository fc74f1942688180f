"""Scores of predictions against targets, all in the original units of y.

Reference: docs/methods.md, "Prediction and scores".

A metric is one function of columns of ``points.rows_of``, named under ``@metric(...)``; its own column then appears in
every table, and whatever holds those columns can be scored: a mixture, or the table that a run has kept.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.errors import Diverged
from dgpbench.predictive.points import QUANTILES, Rows

if TYPE_CHECKING:
    import pandas as pd

CENTRAL_INTERVALS = np.arange(1, 20) / 20  # 0.05, 0.10, ..., 0.95


@dataclass(frozen=True)
class Metric:
    """A score, and what a table needs to know about it.

    :param function: takes ``columns``, each [N, P], in their order
    :param unit: ``nats``, ``units of y`` or ``share``
    :param direction: ``higher`` or ``lower`` is better, or ``nearer`` to ``target``
    :param summary: whether the report's overview of all runs shows it
    """

    name: str
    function: Callable[..., float]
    columns: tuple[str, ...]
    unit: str
    direction: str
    target: float | None = None
    summary: bool = False

    def of(self, rows: Rows) -> float:
        """The score of rows that hold its columns."""
        return float(self.function(*(rows[column] for column in self.columns)))

    def loss(self, score: float) -> float:
        """The score turned so that less is better, for ranks and comparisons."""
        if self.target is not None:
            return abs(score - self.target)
        return -score if self.direction == "higher" else score


METRICS: dict[str, Metric] = {}


def metric(
    *columns: str, unit: str, direction: str, target: float | None = None, summary: bool = False
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register a function of some columns of ``points.rows_of`` as a metric under its own name."""

    def register(function: Callable[..., float]) -> Callable[..., float]:
        name = function.__name__
        METRICS[name] = Metric(name, function, columns, unit, direction, target, summary)
        return function

    return register


def scores(rows: Rows) -> dict[str, float]:
    """Every registered metric whose columns the rows hold: a method that gives no density has no log-likelihood.

    :raises Diverged: when a score is not a finite number, so that none can ever enter an average
    """
    values = {name: each.of(rows) for name, each in METRICS.items() if set(each.columns) <= set(rows)}
    if broken := {name: value for name, value in values.items() if not math.isfinite(value)}:
        listed = ", ".join(f"{name} = {value}" for name, value in broken.items())
        raise Diverged(f"the predictions have scores that are not finite numbers: {listed}")
    return values


@metric("log_density", unit="nats", direction="higher", summary=True)
def tll(log_density: np.ndarray) -> float:
    """Test log-likelihood, mean_n log p(y_n); of a mixture, log 1/S sum_s N(y_n; m_ns, v_ns)."""
    return log_density.mean()


@metric("log_density", unit="nats", direction="lower")
def nlpp(log_density: np.ndarray) -> float:
    """Negative log predictive probability, -tll."""
    return -tll(log_density)


@metric("y", "mean", unit="units of y", direction="lower", summary=True)
def rmse(y: np.ndarray, mean: np.ndarray) -> float:
    """Root mean squared error of the predictive mean, sqrt(mean_n (y_n - E[y_n])^2)."""
    return np.sqrt(np.mean((mean - y) ** 2))


@metric("crps", unit="units of y", direction="lower", summary=True)
def crps(of_rows: np.ndarray) -> float:
    """Continuous ranked probability score, the mean over rows of ``crps.crps_rows``."""
    return of_rows.mean()


def coverage(pit: np.ndarray, p: float) -> float:
    """Share of targets inside the central p interval, mean_n(|u_n - 1/2| <= p/2) with u the PIT."""
    return np.mean(np.abs(pit - 0.5) <= p / 2)


@metric("pit", unit="share", direction="nearer", target=0.50)
def coverage_50(pit: np.ndarray) -> float:
    """Share of targets inside the central 50 % interval."""
    return coverage(pit, 0.50)


@metric("pit", unit="share", direction="nearer", target=0.80)
def coverage_80(pit: np.ndarray) -> float:
    """Share of targets inside the central 80 % interval."""
    return coverage(pit, 0.80)


@metric("pit", unit="share", direction="nearer", target=0.90)
def coverage_90(pit: np.ndarray) -> float:
    """Share of targets inside the central 90 % interval."""
    return coverage(pit, 0.90)


@metric("pit", unit="share", direction="nearer", target=0.95, summary=True)
def coverage_95(pit: np.ndarray) -> float:
    """Share of targets inside the central 95 % interval."""
    return coverage(pit, 0.95)


@metric("pit", unit="share", direction="lower", summary=True)
def calibration_error(pit: np.ndarray) -> float:
    """Mean over p = 0.05, 0.10, ..., 0.95 of |coverage_p - p|.

    It is not zero even for a perfect predictor: about 0.044 at 50 rows and 0.002 at 20,000.
    """
    distances = np.abs(pit - 0.5)
    return np.mean([abs(np.mean(distances <= p / 2) - p) for p in CENTRAL_INTERVALS])


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
