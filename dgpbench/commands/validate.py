"""``dgpbench validate``: check the arguments of ``run`` without running, downloading or importing TensorFlow."""

import json
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from dgpbench.config.overrides import expand, is_multirun, parse, split_arguments
from dgpbench.runs import summary
from dgpbench.runs.execute import finished_outcome
from dgpbench.runs.fit import initial_identity, initial_parameters
from dgpbench.runs.resolve import Run, check_overrides
from dgpbench.system.progress import counted

if TYPE_CHECKING:
    from dgpbench.data.table import Table

HELP = """dgpbench validate [GROUP=NAME ...] [SETTING=VALUE ...] [--multirun]

Check the arguments of `run` and its data, and print what it would do; run nothing.
--plugin FILE loads methods from a Python file.
The time is that of finished runs that differ in split or seed only. Without such runs it is a range, estimated from
the counted matrix products of training and the rate of this machine."""


def validate(arguments: Sequence[str]) -> int:
    """Check the arguments of ``dgpbench run``, and their data.

    :raises UserError: as ``run`` would, with one sentence
    """
    if {"--help", "-h"} & set(arguments):
        print(HELP)
        return 0
    from dgpbench.data import datasets

    flags, overrides = split_arguments(arguments)
    runs = check_overrides(overrides, multirun=is_multirun(flags))
    lines: dict[str, None] = {}  # without repetitions, in order
    tables: dict[str, Table | None] = {}  # each is read once; None if it would have to be downloaded
    for run in runs:
        key = json.dumps(run.dataset, default=str)
        if key not in tables:
            tables[key] = datasets.load(run.dataset) if datasets.is_here(run.dataset) else None
        table = tables[key]
        lines |= dict.fromkeys(_preview(run if table is None else run.with_dataset_name(table.name), table))
    number = prod(len(expand(override)) for override in parse(overrides))
    checked = "all" if len(runs) == number else "each value once, not every combination,"
    print("valid: `dgpbench run` takes it" + (f"; {number} runs, {checked} checked" if number > 1 else ""))
    print("\n".join(lines))
    return 0


def _preview(run: Run, table: "Table | None") -> list[str]:
    """Return what a run would do: its data, its iterations and its time."""
    from dgpbench.benchmarks.cost import forecast
    from dgpbench.runs.problem import check_sizes, prepare

    finished = finished_outcome(run)
    columns: list[str] = []
    if table is None:
        num_rows, num_features, num_test = declared_sizes(run)
        check_sizes(run, num_rows, num_features, num_test)
        name, total, rest = run.dataset["name"], run.dataset["n"], "not downloaded yet (dgpbench data fetch)"
    else:
        problem = prepare(run, table)
        (num_rows, num_features), num_test = problem.train.X.shape, len(problem.test.X)
        name, total, rest = table.name, table.num_rows, f"target {table.target_name}"
        columns = summary.column_lines(problem.described_split())
    if run.init_from is not None:
        initial_parameters(run)
        if table is not None:
            initial_identity(run, table)
    return [
        f"{name}: {total:,} rows, {counted(num_features, 'feature')}, {rest}; {num_rows:,} train and {num_test:,} test",
        *columns,
        f"{summary.of_start(run, num_rows)}\n  {forecast(run, num_rows, num_features)}",
        *([] if finished is None else [finished.message.splitlines()[0]]),
    ]


def declared_sizes(run: Run) -> tuple[int, int, int]:
    """Return the training rows, features and test rows that follow from the data set's file in conf/, without data."""
    import numpy as np

    from dgpbench.data.splits import make_split
    from dgpbench.data.table import Table

    spec = run.dataset
    rows = np.arange(spec["n"], dtype=float)
    table = Table(spec["name"], rows[:, None], rows, ("row",), spec["target"])
    known = {**spec, "digest_xy_ordered": table.digest_xy_ordered}  # published splits need only the size here
    split = make_split(table, run.task, run.split, known)
    return len(split.train), spec["d"], len(split.test)
