"""Runs that differ in their budget or settings alone, side by side on the same data set, split and seed."""

import numpy as np
import pandas as pd

from dgpbench.report import cells
from dgpbench.report.tables import loss_of

SHARED = [*cells.KEYS, "task", "protocol", "split", "seed"]


def pairs(runs: pd.DataFrame, base: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Each run beside the one of ``base`` that shares all axes but the budget.

    :return: the columns of both, those of ``base`` ending in _base, with ``value`` and ``difference``: what the run's
        score is better by, in the metric's unit
    """
    sides = (each.assign(value=cells.value_of(metric)(each)) for each in (runs, base))
    a, b = (each.astype(dict.fromkeys(SHARED, object)) for each in sides)  # an empty side has types of its own
    both = a.merge(b, on=SHARED, suffixes=("", "_base"))
    loss = loss_of(metric)
    return both.assign(difference=[loss(y) - loss(x) for x, y in zip(both["value"], both["value_base"], strict=True)])


def mean_and_error(values: pd.Series) -> tuple[float, float]:
    """The mean of some differences and its standard error, NaN where there is only one."""
    return float(values.mean()), float(values.std() / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def mean_text(values: pd.Series, digits: int) -> str:
    """'+0.012 ± 0.004 (2)': mean, standard error and number of pairs."""
    if values.empty:
        return ""
    mean, error = mean_and_error(values)
    spread = "" if np.isnan(error) else f" ± {error:.{digits}f}"
    return f"{mean:+.{digits}f}{spread} ({len(values)})"
