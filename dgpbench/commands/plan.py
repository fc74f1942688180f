"""``dgpbench plan``: the runs of an item, and what is left to do."""

import json
from argparse import Namespace

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
from dgpbench.report.collect import collect
from dgpbench.runs.resolve import Run
from dgpbench.system.progress import counted, in_words


def plan(options: Namespace) -> int:
    """Print the matrix of an item: done/wanted for each data set and column, and the time left."""
    item = load(options.item, options.overrides)
    runs = plan_of(item)
    left = seconds_left([run for run in runs if run.state == MISSING], collect(item.results_dir))
    if options.json:
        entries = [
            {"overrides": list(each.overrides), "state": each.state, "directory": str(each.directory)}
            | ({} if each.run.start is None else {"starts_from": str(each.run.start)})
            | ({"why": each.why} if each.why else {})
            for each in runs
        ]
        print(json.dumps({"item": item.name, "counts": count(runs), "seconds_left": left, "runs": entries}, indent=2))
        return 0
    print(matrix(runs))
    counts = ", ".join(f"{number} {state}" for state, number in count(runs).items() if number)
    print(f"\n{item.name}, protocol {item.protocol}, budget {item.budget}: {counted(len(runs), 'run')}: {counts}")
    print(f"left with one worker: {_by_products(runs) if left is None else time_left(left)}")
    for run in runs:
        if run.state in (BLOCKED, CONFLICT):
            print(f"{run.state}: {run.why}")
    return 0


def _by_products(runs: list[Planned]) -> str:
    """The least time of the missing runs, by their products, where no record says how long such runs take."""
    known: dict[str, float | None] = {}
    seconds, unknown = 0.0, 0
    for run in (each.run for each in runs if each.state == MISSING):
        key = f"{run.directory.parent} {run.changed}"
        if key not in known:
            known[key] = _least_seconds(run)
        seconds += known[key] or 0.0
        unknown += known[key] is None
    low, high = TIMES_THE_FLOOR
    words = f"at least {in_words(seconds)} by their products; {low} to {high} times that at the published sizes"
    without = (
        f"{counted(unknown, 'run')} not counted, as nothing is known of such runs' time before one is done"
        if unknown
        else ""
    )
    return "; ".join(filter(None, [words if seconds else "", without]))


def _least_seconds(run: Run) -> float | None:
    if "n" not in run.dataset:
        return None
    sizes = declared(run)
    return least_seconds(run, sizes.num_rows, sizes.num_features)
