"""How a step's cost grows with a size: the slope of a line through logarithms (Lindinger et al. 2020, Fig. S7)."""

from typing import TYPE_CHECKING

import numpy as np

from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

SIZES = ("M", "L", "tau", "B", "R")
SETTING = (*SIZES, "code", "data", "precision", "threads")


def slope(values, milliseconds) -> float:
    """The exponent b of ms = a values^b, by least squares on logarithms."""
    return float(np.polyfit(np.log(np.asarray(values, float)), np.log(np.asarray(milliseconds, float)), 1)[0])


def slopes(bench: "pd.DataFrame", size: str, usual: dict[str, float] | None = None) -> "pd.Series":
    """The fitted exponent of each method along one size, the other settings at their usual values.

    :param bench: columns method, ms_per_step and the sizes, as ``bench steps`` writes them
    :param size: one of ``SIZES``
    :param usual: usual values; by default the most frequent of each column
    :raises UserError: where no method has two values of the size
    """
    others = [name for name in SETTING if name != size and name in bench]
    fixed = bench.dropna(subset=["ms_per_step"])
    for name in others:
        value = (usual or {}).get(name, bench[name].mode().iloc[0])
        fixed = fixed[fixed[name] == value]
    found = {
        method: slope(rows[size], rows["ms_per_step"])
        for method, rows in fixed.groupby("method", sort=False)
        if rows[size].nunique() > 1
    }
    if not found:
        raise UserError(f"no method of this table was timed at several values of {size} with the rest unchanged")
    import pandas as pd

    return pd.Series(found, name=f"slope_{size}")
