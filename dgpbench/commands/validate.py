"""``dgpbench validate``: would ``run`` take this? Nothing is run or downloaded, and TensorFlow is not imported."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dgpbench.config.overrides import split_arguments
from dgpbench.runs.resolve import Run
from dgpbench.runs.validation import check_overrides

if TYPE_CHECKING:
    from dgpbench.datasets.table import Table


def validate(arguments: Sequence[str]) -> int:
    """Check the arguments of ``dgpbench run``, and the data that they name.

    :raises Refused: as ``run`` would, with one sentence
    """
    if {"--help", "-h"} & set(arguments):
        print(
            "dgpbench validate [GROUP=NAME ...] [SETTING=VALUE ...]: check what `run` would be given, and run nothing"
        )
        return 0
    flags, overrides = split_arguments(arguments)
    runs = check_overrides(overrides, multirun=bool({"--multirun", "-m"} & set(flags)))
    absent = _check_data(runs)
    print("valid: `dgpbench run` takes it")
    if absent:
        print(f"not looked into, since it is not downloaded yet: {', '.join(absent)} (dgpbench data fetch)")
    return 0


def _check_data(runs: list[Run]) -> list[str]:
    """Read each table once and split it as each run would; the names of those that would have to be downloaded.

    :raises Refused: for data that a run would refuse
    """
    from dgpbench.runs.problem import prepare

    tables: dict[str, Table | None] = {}
    absent: dict[str, None] = {}
    for run in runs:
        key = json.dumps(run.dataset, default=str)
        if key not in tables:
            tables[key] = _at_hand(run.dataset)
        table = tables[key]
        if table is None:
            absent[run.dataset_name] = None
            _check_declared(run)
        else:
            prepare(run, table)
    return list(absent)


def _at_hand(spec: Mapping[str, Any]) -> "Table | None":
    """The table, or None where it would have to be downloaded."""
    from dgpbench.datasets import download, registry

    missing = "sources" in spec and not registry.is_at_hand(spec)
    if missing and not all(download.is_here(part.sources) for part in registry.loader(spec).parts(spec)):
        return None
    return registry.load(spec)


def _check_declared(run: Run) -> None:
    """Split a table of the size that the data set's file declares: the sizes of the parts follow from it."""
    import numpy as np

    from dgpbench.datasets.table import Table
    from dgpbench.datasets.tasks import make_split
    from dgpbench.runs.problem import check_sizes

    spec = run.dataset
    rows = np.arange(spec["n"], dtype=float)
    table = Table(spec["name"], rows[:, None], rows, ("row",), spec["target"])
    known = {**spec, "digest_xy_ordered": table.digest_xy_ordered}  # published splits need no more than the size here
    split = make_split(table, run.task, run.split, known)
    check_sizes(run, len(split.train), spec["d"], len(split.test))
