"""docs/cost.md: core-hours of a published item, from its runs, its iterations and a table of ``bench steps``."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor

import pandas as pd

from dgpbench.benchmarks.cost import iterations, step_flops
from dgpbench.experiments.items import Item
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.training.settings import LbfgsSettings, OwnSettings

PRECEDENTS = {"sgp": "mf", "mf_fixed_z": "mf", "stripes": "star", "arrow": "star", "chain": "fc", "custom": "fc"}


@dataclass(frozen=True)
class Cost:
    """Cost of one item.

    :param runs: number of runs
    :param core_hours: of training alone, one thread each; NaN if a method was not timed
    :param longest_hours: of its longest run, which no number of workers shortens
    """

    runs: int
    core_hours: float
    longest_hours: float


def cost(item: Item, bench: pd.DataFrame) -> Cost:
    """Return the cost of an item at its budget, from a table of ``bench steps``.

    A measured ratio to the floor carries a step to sizes that were not timed: ms = ratio x floor at those sizes. A
    method that was not timed takes its family's. Small sizes have larger ratios, so costs of small models are low
    estimates.
    """
    hours = []
    for sweep in item.sweeps:
        repeats = len(sweep.values["split"]) * len(sweep.values["seed"])
        for choices in sweep.combinations([key for key in sweep.values if key not in ("split", "seed")]):
            hours += [_hours(choices, bench)] * repeats
    return Cost(len(hours), sum(hours), max(hours))


def _hours(choices: Mapping[str, str], bench: pd.DataFrame) -> float:
    run = resolve_overrides([f"{key}={value}" for key, value in choices.items()])
    size = run.dataset["n"] if "n" in run.dataset else run.dataset["num_rows"]
    rows, features = floor(0.9 * size), run.dataset.get("d", 1)
    training = run.training.for_rows(rows)
    if isinstance(training, LbfgsSettings | OwnSettings):
        return 0.0
    name = run.card.name
    timed = bench[bench["method"] == PRECEDENTS.get(name, name.split("_")[0] if name.startswith("sod") else name)]
    if timed.empty:
        return float("nan")
    first = timed.iloc[0]
    step = step_flops(run, training, rows, features) / 1e9 / float(first["gemm_gflops"])
    return iterations(run, training) * float(first["cpu_floor_ratio"]) * step / 3600
