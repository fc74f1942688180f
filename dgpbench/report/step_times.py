"""Numbers of the timing figures: seconds per step along one size, and the slopes that theory gives."""

import pandas as pd

from dgpbench.errors import UserError

COLUMNS = ("method", "M", "L", "tau", "ms_per_step")
# Exponents of the leading term of a step, N M^2 tau^a L^b: the quadratic forms, whose number is that of
# the covariance blocks. In M all methods are quadratic until M^3 takes over.
EXPONENTS = {
    "mf": {"M": 2, "L": 1, "tau": 1},
    "star": {"M": 2, "L": 2, "tau": 1},
    "fc": {"M": 2, "L": 2, "tau": 2},
}


def along(bench: pd.DataFrame, size: str) -> pd.DataFrame:
    """The timings in which ``size`` (M, L or tau) varies and the others stay at their usual value.

    Columns: method, num_layers, size, value, ms_per_step, exponent (NaN where theory is not stated).

    :param bench: columns ``COLUMNS``
    :raises UserError: where columns are missing
    """
    if missing := [name for name in COLUMNS if name not in bench]:
        raise UserError(f"a table of timings has columns {', '.join(COLUMNS)}; this one lacks {', '.join(missing)}")
    fixed = bench
    for other in {"M", "L", "tau"} - {size}:
        fixed = fixed[fixed[other] == bench[other].mode().iloc[0]]
    mean = fixed.groupby(["method", size], sort=False, as_index=False)["ms_per_step"].mean()
    mean = mean.rename(columns={size: "value"}).sort_values("value")
    exponents = [EXPONENTS.get(family(method), {}).get(size) for method in mean["method"]]
    return mean.assign(
        num_layers=3, size=size, exponent=pd.array(exponents, dtype="Float64").to_numpy(float, na_value=float("nan"))
    )


def family(method: str) -> str:
    """fc for fc_natgrad and fc_mc, whose steps cost what FC's cost to leading order."""
    return method.split("_")[0]
