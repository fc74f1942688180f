"""What a published item costs in core-hours: its runs, their iterations, and the measured time of a step.

A measured ratio to the floor carries a step to sizes that were not timed: ms = ratio x floor at those sizes. Where a
method was not timed, its family's does. Small sizes have larger ratios, so costs of small models are low estimates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dgpbench.benchmarks.cases import OURS, Cell
from dgpbench.methods.settings import DeepSettings
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.training.settings import AdamSettings, LbfgsSettings, OwnSettings, SamplerSettings

if TYPE_CHECKING:
    import pandas as pd

    from dgpbench.experiments.items import Item

PRECEDENTS = {"sgp": "mf", "mf_fixed_z": "mf", "stripes": "star", "arrow": "star", "chain": "fc", "custom": "fc"}


@dataclass(frozen=True)
class Cost:
    """Of one item.

    :param runs: how many there are
    :param core_hours: of training alone, one thread each; NaN where a method was not timed
    :param longest_hours: of its longest run, which no number of workers shortens
    """

    runs: int
    core_hours: float
    longest_hours: float


def cost(item: "Item", bench: "pd.DataFrame") -> Cost:
    """The cost of an item at its budget, from a table of ``bench steps``."""
    hours = []
    for sweep in item.sweeps:
        repeats = len(sweep.values.get("split", "0")) * len(sweep.values.get("seed", "0"))
        for choices in sweep.combinations([key for key in sweep.values if key not in ("split", "seed")]):
            hours += [_hours(choices, bench)] * repeats
    return Cost(len(hours), sum(hours), max(hours))


def _hours(choices: Mapping[str, str], bench: "pd.DataFrame") -> float:
    run = resolve_overrides([f"{key}={value}" for key, value in choices.items()])
    rows, features = _size(run)
    training = run.training.for_rows(rows)
    if isinstance(training, LbfgsSettings | OwnSettings):
        return 0.0
    return iterations(run, training) * _milliseconds(run, training, rows, features, bench) / 3.6e6


def iterations(run: Run, training: AdamSettings | SamplerSettings) -> float:
    """Iterations, those that collect samples too: each costs a sampler step, about a third of an iteration."""
    count = float(training.max_iterations or 0)
    if isinstance(training, SamplerSettings):
        count *= 1.0 + training.thinning * run.prediction.num_samples / 3.0
    return count


def _size(run: Run) -> tuple[int, int]:
    """Training rows and features, as the data set's file states them."""
    N = run.dataset["n"] if "n" in run.dataset else run.dataset["num_rows"]
    return math.floor(0.9 * N), run.dataset.get("d", 1)


def _milliseconds(
    run: Run, training: AdamSettings | SamplerSettings, rows: int, features: int, bench: "pd.DataFrame"
) -> float:
    name = run.card.name
    timed = bench[bench["method"] == PRECEDENTS.get(name, name.split("_")[0] if name.startswith("sod") else name)]
    if timed.empty:
        return float("nan")
    first = timed.iloc[0]
    return float(first["cpu_floor_ratio"] * step_flops(run, training, rows, features) / 1e6 / first["gemm_gflops"])


def step_flops(run: Run, training: AdamSettings | SamplerSettings, rows: int, features: int) -> float:
    """Unavoidable flops of one of a run's iterations; NaN for a family that is not counted."""
    from dgpbench.benchmarks.floors import flops

    method = run.method.for_inputs(features)
    assert isinstance(method, DeepSettings)
    B, R = min(training.batch_size, rows), training.paths if isinstance(training, AdamSettings) else 1
    L, M, tau = method.num_layers, method.num_inducing, method.width
    assert isinstance(tau, int), "for_inputs comes first"
    return flops(Cell(OURS, run.card.name, "", "", M, L, tau, B, R, run.precision, 1), run, features)
