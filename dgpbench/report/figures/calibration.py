"""Calibration: predicted variance against distance and error (Lindinger et al. 2020, Fig. 3), reliability.

``points`` are rows of ``points.parquet`` with the run's method and num_layers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.experiments.items import Item
from dgpbench.predictive.scores import CENTRAL_INTERVALS
from dgpbench.report.figures.page import Panel
from dgpbench.report.figures.sources import curves, tables
from dgpbench.report.figures.style import entries, log_scale
from dgpbench.runs import store
from dgpbench.runs.compact_records import coverage_counts


def calibration_study(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Variance against distance and squared error against variance, over the test rows of all splits (Fig. 3)."""
    panels = []
    for dataset, rows in tables(runs, store.POINTS).groupby("dataset", sort=False):
        panels += curves(dataset, draw_variance_against_distance, variance_along_distance(rows), runs)
        panels += curves(dataset, draw_error_against_variance, error_along_variance(rows), runs)
    return panels


def reliability_curves(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Reliability diagram of each data set, over all splits of complete cells; compact records are enough."""
    panels = []
    for name, rows in runs[runs["count"] >= runs["wanted"]].groupby("dataset", sort=False):
        if len(frame := interval_coverage(rows.assign(method=rows["series"]))):
            panels += curves(name, draw_reliability, frame, runs)
    return panels


# Numbers --------------------------------------------------------------------------------------------------------------


def _for_each(rows: pd.DataFrame, function: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    groups = rows.groupby(["method", "num_layers"], sort=False)
    parts = [function(part).assign(method=method, num_layers=depth) for (method, depth), part in groups]
    return pd.concat(parts, ignore_index=True) if parts else rows


def median_filtered(rows: pd.DataFrame, along: str, value: str, share: float = 0.1) -> pd.DataFrame:
    """Return the running median of one column along another, over windows of a share of the rows.

    Half a window at either end is left out, so that every median is over equally many rows.
    """
    from scipy.ndimage import median_filter

    x, y = rows[along].to_numpy(), rows[value].to_numpy()
    kept = np.isfinite(x) & np.isfinite(y)  # distances may be known for some rows only
    order = np.argsort(x[kept], kind="stable")
    size = max(1, round(share * len(order)) // 2 * 2 + 1)
    half = size // 2
    inner = slice(half, len(order) - half)
    return pd.DataFrame({along: x[kept][order][inner], value: median_filter(y[kept][order], size)[inner]})


def variance_along_distance(points: pd.DataFrame) -> pd.DataFrame:
    """Filter the variance along the distance to training data: columns distance, variance, method, num_layers."""
    return _for_each(points, lambda rows: median_filtered(rows, "distance", "variance"))


def error_along_variance(points: pd.DataFrame) -> pd.DataFrame:
    """Filter the squared error along the variance: columns variance, squared_error, method, num_layers.

    The median of a squared error is below its mean: of N(0, v) it is 0.455 v. The curve is divided by that, so that a
    calibrated Gaussian prediction gives y = x.
    """
    from scipy.stats import chi2

    errors = points.assign(squared_error=(points["y"] - points["mean"]) ** 2 / chi2.median(1))
    return _for_each(errors, lambda rows: median_filtered(rows, "variance", "squared_error"))


def interval_coverage(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the share of targets in central intervals: columns nominal (0.05 to 0.95), observed, and the method.

    Over the rows of all runs of a method, from their files or else their compact records.

    :param runs: as ``collect`` returns them; those with neither are left out
    """

    def counts(run: Any) -> tuple[list[int], int] | None:  # test rows inside each central interval, and all
        if Path(run.path, store.POINTS).is_file():
            points = pd.read_parquet(Path(run.path, store.POINTS))
            return (coverage_counts(points["pit"].to_numpy()), len(points)) if "pit" in points else None
        if run.compact is None or run.compact["coverage_counts"] is None:
            return None
        return run.compact["coverage_counts"], sum(run.compact["pit_counts"])

    counted = runs.assign(counts=[counts(run) for run in runs.itertuples(index=False)])
    return _for_each(counted.dropna(subset=["counts"]), lambda rows: _pooled(list(rows["counts"])))


def _pooled(counts: list[tuple[list[int], int]]) -> pd.DataFrame:
    inside, total = (np.sum(each, axis=0) for each in zip(*counts, strict=True))
    return pd.DataFrame({"nominal": CENTRAL_INTERVALS, "observed": inside / total})


# Drawing --------------------------------------------------------------------------------------------------------------


def draw_variance_against_distance(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw ``variance_along_distance``."""
    for name, look, rows in entries(frame):
        ax.plot(rows["distance"], rows["variance"], label=name, **look.of_line())
    log_scale(ax, "y")
    ax.set(xlabel="distance to training data (standard deviations)", ylabel="predicted variance (squared units of y)")


def draw_error_against_variance(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw ``error_along_variance``; above y = x the variance is too small."""
    for name, look, rows in entries(frame):
        ax.plot(rows["variance"], rows["squared_error"], label=name, **look.of_line())
    ends = [frame["variance"].min(), frame["variance"].max()]
    ax.plot(ends, ends, color="black", linewidth=0.8, label="y = x")
    log_scale(ax, "x")
    log_scale(ax, "y")
    ax.set(xlabel="predicted variance (squared units of y)", ylabel="squared error / 0.455 (squared units of y)")


def draw_reliability(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw ``interval_coverage``; below the line a method is overconfident."""
    ax.plot([0, 1], [0, 1], color="black", linewidth=0.8, label="calibrated")
    for name, look, rows in entries(frame):
        ax.plot(rows["nominal"], rows["observed"], label=name, markersize=3, **look.of_points() | look.of_line())
    labels = {"xlabel": "nominal coverage (share of rows)", "ylabel": "observed coverage (share of rows)"}
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", **labels)
