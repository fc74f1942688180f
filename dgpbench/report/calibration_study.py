"""Numbers of the calibration study, from the per-row tables that records keep (Lindinger et al. 2020, Fig. 3).

Each function takes rows of ``points.parquet`` with the run's method and num_layers beside them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.runs import store
from dgpbench.runs.compact_records import coverage_counts

WHO = ["method", "num_layers"]
LEVELS = np.arange(1, 20) / 20
BINS = 10


def _for_each(points: pd.DataFrame, function: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    parts = [function(rows).assign(method=m, num_layers=n) for (m, n), rows in points.groupby(WHO, sort=False)]
    return pd.concat(parts, ignore_index=True)


def median_filtered(x: np.ndarray, y: np.ndarray, share: float = 0.1) -> pd.DataFrame:
    """The running median of y along x, over windows of a share of the rows: columns x, y.

    Half a window at either end is left out, so that every median is over equally many rows.
    """
    from scipy.ndimage import median_filter

    kept = np.isfinite(x) & np.isfinite(y)  # distances may be known for some rows only
    order = np.argsort(x[kept], kind="stable")
    size = max(1, round(share * len(order)) // 2 * 2 + 1)
    half = size // 2
    inner = slice(half, len(order) - half)
    return pd.DataFrame({"x": x[kept][order][inner], "y": median_filter(y[kept][order], size)[inner]})


def variance_along_distance(points: pd.DataFrame) -> pd.DataFrame:
    """Predicted variance against distance to training data: columns distance, variance, method, num_layers."""
    return _for_each(points, lambda rows: _filtered(rows["distance"], rows["variance"], "distance", "variance"))


def error_along_variance(points: pd.DataFrame) -> pd.DataFrame:
    """Squared error against predicted variance: columns variance, squared_error, method, num_layers.

    The median of a squared error lies below its mean: of N(0, v) it is 0.455 v, and the curve is divided by that, so
    that y = x is what a calibrated Gaussian prediction gives.
    """
    return _for_each(points, lambda rows: _filtered(rows["variance"], _scaled_error(rows), "variance", "squared_error"))


def _scaled_error(rows: pd.DataFrame) -> pd.Series:
    from scipy.stats import chi2

    return (rows["y"] - rows["mean"]) ** 2 / chi2.median(1)


def _filtered(x: pd.Series, y: pd.Series, x_name: str, y_name: str) -> pd.DataFrame:
    return median_filtered(x.to_numpy(), y.to_numpy()).rename(columns={"x": x_name, "y": y_name})


def pit_density(points: pd.DataFrame, bins: int = BINS) -> pd.DataFrame:
    """Histogram of the probability integral transform: columns left, right, density, deviation, method, num_layers.

    A calibrated prediction has density 1; ``deviation`` is the standard deviation that sampling alone gives a bin.
    """
    return _for_each(points, lambda rows: _histogram(rows["pit"].to_numpy(), bins))


def _histogram(pit: np.ndarray, bins: int) -> pd.DataFrame:
    density, edges = np.histogram(pit, bins, range=(0, 1), density=True)
    deviation = np.sqrt((bins - 1) / len(pit))  # of a binomial count with p = 1 / bins, divided by its mean
    return pd.DataFrame({"left": edges[:-1], "right": edges[1:], "density": density, "deviation": deviation})


def reliability(points: pd.DataFrame) -> pd.DataFrame:
    """Share of targets inside central intervals, 0.05 to 0.95: columns nominal, observed, method, num_layers."""
    return _for_each(points, lambda rows: _coverages(rows["pit"].to_numpy()))


def reliability_of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """``reliability`` of all rows of some runs together, from the runs' rows or else from their compact records.

    :param runs: as ``collect`` gives them; those that kept neither are left out
    """
    counted = runs.assign(counts=[_counts(run.path, run.compact) for run in runs.itertuples(index=False)])
    counted = counted.dropna(subset=["counts"])
    return _for_each(counted, lambda rows: _pooled(list(rows["counts"]))) if len(counted) else counted


def _counts(path: str, compact: Mapping[str, Any] | None) -> tuple[np.ndarray, int] | None:
    """Test rows inside each central interval, and their number."""
    if Path(path, store.POINTS).is_file():
        points = pd.read_parquet(Path(path, store.POINTS))
        return (np.array(coverage_counts(points["pit"].to_numpy())), len(points)) if "pit" in points else None
    if compact is None or compact["coverage_counts"] is None:
        return None
    return np.array(compact["coverage_counts"]), sum(compact["pit_counts"])


def _pooled(counts: list[tuple[np.ndarray, int]]) -> pd.DataFrame:
    inside, total = (sum(each) for each in zip(*counts, strict=True))
    return pd.DataFrame({"nominal": LEVELS, "observed": inside / total})


def _coverages(pit: np.ndarray) -> pd.DataFrame:
    inside = np.abs(pit[:, None] - 0.5) <= LEVELS / 2
    return pd.DataFrame({"nominal": LEVELS, "observed": inside.mean(axis=0)})
