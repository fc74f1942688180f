"""``dgpbench plan``: the runs of an item, and what is left to do."""

import json
from argparse import Namespace

from dgpbench.experiments.items import load
from dgpbench.experiments.plan import BLOCKED, CONFLICT, MISSING, count, matrix, plan_of, seconds_left, time_left
from dgpbench.report.collect import collect


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
    print(f"\n{item.name}, protocol {item.protocol}, budget {item.budget}: {len(runs)} runs: {counts}")
    print(f"left with one worker: {time_left(left)}")
    for run in runs:
        if run.state in (BLOCKED, CONFLICT):
            print(f"{run.state}: {run.why}")
    return 0
