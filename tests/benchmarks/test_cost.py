"""Core-hours of an item follow from its runs, its iterations and a measured step."""

import pandas as pd
import pytest

from dgpbench.experiments import items
from scripts.docs.core_hours import cost


def test_cost_of_an_item_is_runs_times_iterations_times_a_step():
    bench = pd.DataFrame([{"method": "mf", "cpu_floor_ratio": 1.5, "gemm_gflops": 40.0}])
    item = items.load("lindinger2020_table1", ["method=mf", "method.num_layers=3", "dataset=protein", "split=range(2)"])
    found = cost(item, bench)
    step = 1.5 * 1.566572544 / 40.0  # seconds: the floor's GFLOP of mf at M = 128, L = 3, tau = 5, B = 512, R = 5
    assert found.runs == 2
    assert found.core_hours == pytest.approx(2 * 20000 * step / 3600)
    assert found.longest_hours == pytest.approx(found.core_hours / 2)


def test_a_method_that_was_not_timed_has_no_cost():
    bench = pd.DataFrame([{"method": "star", "cpu_floor_ratio": 1.5, "gemm_gflops": 40.0}])
    item = items.load("lindinger2020_table1", ["method=sghmc", "method.num_layers=2", "dataset=boston", "split=0"])
    assert cost(item, bench).core_hours != cost(item, bench).core_hours  # NaN
