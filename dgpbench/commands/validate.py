"""``dgpbench validate``: would ``run`` take this? Nothing is run or downloaded, and TensorFlow is not imported."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from dgpbench.config.overrides import expand, parse, split_arguments
from dgpbench.runs import summary
from dgpbench.runs.execute import finished_outcome
from dgpbench.runs.fit import initial_identity, initial_parameters
from dgpbench.runs.resolve import Run, check_overrides
from dgpbench.system.progress import counted

if TYPE_CHECKING:
    from dgpbench.data.table import Table

HELP = """dgpbench validate [GROUP=NAME ...] [SETTING=VALUE ...] [--multirun]

Check what `run` would be given, its data too, and say what it would take; run nothing.
--plugin FILE loads methods from a Python file.
A time is that of finished runs that differ in split or seed alone. Where there are none it is a lower bound:
the products that training cannot leave out, counted, at the rate of this machine's products."""


@dataclass(frozen=True)
class Sizes:
    """Of one run's data: rows that train and test, features that vary, the table in words, what its columns become."""

    num_rows: int
    num_test_rows: int
    num_features: int
    words: str
    columns: Sequence[str] = ()


def validate(arguments: Sequence[str]) -> int:
    """Check the arguments of ``dgpbench run``, and the data that they name.

    :raises UserError: as ``run`` would, with one sentence
    """
    if {"--help", "-h"} & set(arguments):
        print(HELP)
        return 0
    flags, overrides = split_arguments(arguments)
    runs = check_overrides(overrides, multirun=bool({"--multirun", "-m"} & set(flags)))
    said = list(dict.fromkeys(_look_into(runs)))
    number = prod(len(expand(override)) for override in parse(overrides))
    looked_at = "all" if len(runs) == number else "each value once, not every combination,"
    print("valid: `dgpbench run` takes it" + (f"; {number} runs, {looked_at} checked" if number > 1 else ""))
    print("\n".join(said))
    return 0


def _look_into(runs: list[Run]) -> Iterator[str]:
    """What there is to say of each run; each table is read once.

    :raises UserError: for data, a record in the way or a start that a run would refuse
    """
    tables: dict[str, Table | None] = {}
    for run in runs:
        key = json.dumps(run.dataset, default=str)
        if key not in tables:
            tables[key] = _at_hand(run.dataset)
        table = tables[key]
        yield from _outlook(run if table is None else run.with_dataset_name(table.name), table)


def _outlook(run: Run, table: "Table | None") -> list[str]:
    """What a run would do: its data, its iterations and its time; a table that is not here has its file's size."""
    from dgpbench.benchmarks.forecast import forecast

    if (skipped := finished_outcome(run)) is not None:
        return [skipped.message.splitlines()[0]]
    sizes = declared(run) if table is None else _read(run, table)
    if run.init_from is not None:
        initial_parameters(run)
        if table is not None:
            initial_identity(run, table)
    return [
        f"{sizes.words}; {sizes.num_rows:,} train and {sizes.num_test_rows:,} test",
        *sizes.columns,
        f"{summary.of_start(run, sizes.num_rows)}\n  {forecast(run, sizes.num_rows, sizes.num_features)}",
    ]


def _at_hand(spec: Mapping[str, Any]) -> "Table | None":
    """The table, or None where it would have to be downloaded."""
    from dgpbench.data import datasets

    return datasets.load(spec) if datasets.is_here(spec) else None


def _read(run: Run, table: "Table") -> Sizes:
    """The sizes of a table's parts, posed as the run would pose them."""
    from dgpbench.runs.outcomes import described_problem
    from dgpbench.runs.problem import prepare

    problem = prepare(run, table)
    features = problem.train.X.shape[1]
    words = f"{table.name}: {table.num_rows:,} rows, {counted(features, 'feature')}, target {table.target_name}"
    columns = summary.column_lines(described_problem(problem))
    return Sizes(len(problem.train.X), len(problem.test.X), features, words, columns)


def declared(run: Run) -> Sizes:
    """Split a table of the size that the data set's file declares: the sizes of the parts follow from it."""
    import numpy as np

    from dgpbench.data.splits import make_split
    from dgpbench.data.table import Table
    from dgpbench.runs.problem import check_sizes

    spec = run.dataset
    rows = np.arange(spec["n"], dtype=float)
    table = Table(spec["name"], rows[:, None], rows, ("row",), spec["target"])
    known = {**spec, "digest_xy_ordered": table.digest_xy_ordered}  # published splits need no more than the size here
    split = make_split(table, run.task, run.split, known)
    check_sizes(run, len(split.train), spec["d"], len(split.test))
    words = (
        f"{spec['name']}: {spec['n']:,} rows, {counted(spec['d'], 'feature')}, not downloaded yet (dgpbench data fetch)"
    )
    return Sizes(len(split.train), len(split.test), spec["d"], words)
