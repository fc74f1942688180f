"""``dgpbench plan``: the runs of an item, and what is left to do."""

import json
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from dgpbench.benchmarks.forecast import TIMES_THE_FLOOR, least_seconds
from dgpbench.commands.validate import declared
from dgpbench.experiments.items import load
from dgpbench.experiments.plan import (
    BLOCKED,
    CONFLICT,
    MISSING,
    Planned,
    count,
    matrix,
    plan_of,
    seconds_left,
    time_left,
)
from dgpbench.report.collect import collect, frame_of
from dgpbench.runs.resolve import Run
from dgpbench.system.progress import counted, in_words


def plan(options: Namespace) -> int:
    """Print the matrix of an item: done/wanted for each data set and column, and the time left."""
    item = load(options.item, options.overrides)
    runs = plan_of(item)
    todo = [run for run in runs if run.state == MISSING]
    there = Path(item.results_dir).exists()  # `run` and `reproduce` make the folder
    left = seconds_left(todo, collect(item.results_dir) if there else frame_of(()))
    bound = None if left is not None else _bound(todo)
    if options.json:
        entries = [
            {"overrides": list(each.overrides), "state": each.state, "directory": str(each.directory)}
            | ({} if each.run.start is None else {"starts_from": str(each.run.start)})
            | ({"why": each.why} if each.why else {})
            for each in runs
        ]
        least = bound.seconds if bound is not None and bound.seconds > 0 else None
        times = {"seconds_left": left, "seconds_left_at_least": least}
        print(json.dumps({"item": item.name, "counts": count(runs), **times, "runs": entries}, indent=2))
        return 0
    print(matrix(runs))
    counts = ", ".join(f"{number} {state}" for state, number in count(runs).items() if number)
    print(f"\n{item.name}, protocol {item.protocol}, budget {item.budget}: {counted(len(runs), 'run')}: {counts}")
    print(f"left with one worker: {time_left(left) if bound is None else bound.in_words()}")
    for run in runs:
        if run.state in (BLOCKED, CONFLICT):
            print(f"{run.state}: {run.why}")
    return 0


@dataclass(frozen=True)
class _Bound:
    """The least time of some runs.

    :param seconds: of those that are counted
    :param unknown: how many are not, as nothing is known of their time
    """

    seconds: float
    unknown: int

    def in_words(self) -> str:
        low, high = TIMES_THE_FLOOR
        least = f"at least {in_words(self.seconds)}, counting matrix products alone"
        text = f"{least}; at the published sizes {low} to {high} times that"
        without = f"{counted(self.unknown, 'run')} not counted, whose time nobody knows before one is done"
        return "; ".join(filter(None, [text if self.seconds else "", without if self.unknown else ""]))


def _bound(todo: list[Planned]) -> _Bound:
    """The least time of runs, by their products, where no record says how long such runs take."""
    known: dict[str, float | None] = {}
    found = []
    for run in (each.run for each in todo):
        key = f"{run.directory.parent} {run.changed}"
        if key not in known:
            known[key] = _least_seconds(run)
        found.append(known[key])
    return _Bound(sum(seconds or 0.0 for seconds in found), found.count(None))


def _least_seconds(run: Run) -> float | None:
    if "n" not in run.dataset:
        return None
    sizes = declared(run)
    return least_seconds(run, sizes.num_rows, sizes.num_features)
