"""Fitted slopes on frames whose slopes are known."""

import numpy as np
import pandas as pd
import pytest

from dgpbench.benchmarks.slopes import slope, slopes
from dgpbench.errors import UserError


def synthetic() -> pd.DataFrame:
    """mf costs M^1.5 tau, star M^2 L^2 tau; one size varied at a time, and one row in another precision."""
    usual = {"M": 128, "L": 3, "tau": 5}
    settings = [usual, *({**usual, "M": M} for M in (64, 256)), *({**usual, "L": L} for L in (2, 4))]
    settings += [{**usual, "tau": tau} for tau in (2, 10)]
    costs = {"mf": lambda s: s["M"] ** 1.5 * s["tau"], "star": lambda s: s["M"] ** 2 * s["L"] ** 2 * s["tau"]}
    rows = [
        {"method": m, **s, "precision": "float64", "ms_per_step": cost(s)}
        for m, cost in costs.items()
        for s in settings
    ]
    return pd.DataFrame([*rows, {**rows[0], "M": 512, "precision": "float32", "ms_per_step": 1.0}])


def test_a_power_law_has_its_exponent():
    assert slope([1, 2, 4], 3.0 * np.array([1, 2, 4]) ** 2) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("size", "expected"),
    [("M", {"mf": 1.5, "star": 2.0}), ("L", {"mf": 0.0, "star": 2.0}), ("tau", {"mf": 1.0, "star": 1.0})],
)
def test_each_method_has_the_slope_it_was_made_with_and_other_settings_stay_out(size, expected):
    assert slopes(synthetic(), size).to_dict() == pytest.approx(expected, abs=1e-9)


def test_cells_that_could_not_be_timed_are_left_out():
    frame = synthetic()
    frame.loc[frame["M"] == 256, "ms_per_step"] = np.nan
    assert slopes(frame, "M")["star"] == pytest.approx(2.0)


def test_a_size_that_never_varies_is_refused():
    frame = synthetic().assign(B=512)
    with pytest.raises(UserError, match="several values of B"):
        slopes(frame, "B")
