"""What a published item costs in core-hours: its runs, their iterations, and the measured time of a step.

A measured ratio to the floor carries a step to sizes that were not timed: ms = ratio x floor at those sizes. Where a
method was not timed, its family's does. Small sizes have larger ratios, so costs of small models are low estimates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dgpbench import config
from dgpbench.benchmarks.cells import Cell

if TYPE_CHECKING:
    import pandas as pd

    from dgpbench.report.items import Item

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
    resolved = config.resolve(config.compose([f"{key}={value}" for key, value in choices.items()]))
    rows, features = _size(resolved)
    training = config.with_iterations(resolved["training"], rows)
    if training["optimiser"] == "lbfgs":
        return 0.0
    iterations = training["max_iterations"]
    if training["optimiser"] == "sghmc":  # collecting costs a sampler step, about a third of an iteration
        shares = training["thinning"] * resolved["prediction"]["num_samples"] / 3.0
        iterations *= 1.0 + shares
    return iterations * _milliseconds(resolved, rows, features, bench) / 3.6e6


def _size(resolved: Mapping[str, Any]) -> tuple[int, int]:
    """Training rows and features, as the data set's file states them."""
    dataset = resolved["dataset"]
    N, D = dataset.get("n") or dataset.get("num_rows"), dataset.get("d", 1)
    return math.floor(0.9 * N), D


def _milliseconds(resolved: Mapping[str, Any], rows: int, features: int, bench: "pd.DataFrame") -> float:
    from dgpbench.benchmarks.floors import flops

    method, training = resolved["method"], resolved["training"]
    width = min(30, features) if method["width"] == "inputs" else method["width"]
    B, R = min(training["batch_size"], rows), training.get("num_samples", 1)
    L, M, name = method["num_layers"], method["num_inducing"], method["name"]
    cell = Cell("dgpbench", name, "", "", M, L, width, B, R, "float64", 1)
    timed = bench[bench["method"] == PRECEDENTS.get(name, name.split("_")[0] if name.startswith("sod") else name)]
    if timed.empty:
        return float("nan")
    first = timed.iloc[0]
    return float(first["cpu_floor_ratio"] * flops(cell, resolved, features) / 1e6 / first["gemm_gflops"])
