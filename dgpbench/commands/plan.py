"""``dgpbench plan``: the runs of an item, and what is left to do."""

import json
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from dgpbench.benchmarks.forecast import TIMES_THE_PRODUCTS, between, least_seconds
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
    seconds_each,
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
    left = _left(todo, seconds_each(todo, collect(item.results_dir) if there else frame_of(())))
    if options.json:
        entries = [
            {"overrides": list(each.overrides), "state": each.state, "directory": str(each.directory)}
            | ({} if each.run.start is None else {"starts_from": str(each.run.start)})
            | ({"why": each.why} if each.why else {})
            for each in runs
        ]
        whole, least = not left.others, left.seconds + TIMES_THE_PRODUCTS[0] * left.products
        times = {"seconds_left": least if whole else None, "seconds_left_at_least": None if whole else least or None}
        print(json.dumps({"item": item.name, "counts": count(runs), **times, "runs": entries}, indent=2))
        return 0
    print(matrix(runs))
    counts = ", ".join(f"{number} {state}" for state, number in count(runs).items() if number)
    print(f"\n{item.name}, protocol {item.protocol}, budget {item.budget}: {counted(len(runs), 'run')}: {counts}")
    print(f"left with one worker: {left.in_words()}")
    for run in runs:
        if run.state in (BLOCKED, CONFLICT):
            print(f"{run.state}: {run.why}")
    return 0


@dataclass(frozen=True)
class _Left:
    """How long the runs that are to do will take.

    :param like: how many are like runs that are done
    :param seconds: of those, by the runs that they are like
    :param others: how many are like none
    :param products: seconds that the matrix products of those take
    :param unknown: how many of those have no products to count
    """

    like: int
    seconds: float
    others: int
    products: float
    unknown: int

    def in_words(self) -> str:
        known = f"about {in_words(self.seconds)}"
        if not self.others:
            return known
        others = f"{between(self.products)}, by matrix products"
        if self.like:
            others = f"of methods without a run yet {others}"
        parts = {
            f"{known} for {counted(self.like, 'run')} of methods with records": self.like,
            others: self.products,
            f"{counted(self.unknown, 'run')} not counted, whose time nobody knows before one is done": self.unknown,
        }
        return "; ".join(text for text, some in parts.items() if some)


def _left(todo: list[Planned], seconds: list[float | None]) -> _Left:
    """What records say of each run, and where they say nothing the time of its products."""
    bounds: dict[str, float | None] = {}
    found = []
    others = [each.run for each, known in zip(todo, seconds, strict=True) if known is None]
    for run in others:
        key = f"{run.directory.parent} {run.changed}"
        if key not in bounds:
            bounds[key] = _least_seconds(run)
        found.append(bounds[key])
    known = [each for each in seconds if each is not None]
    return _Left(len(known), sum(known), len(others), sum(each or 0.0 for each in found), found.count(None))


def _least_seconds(run: Run) -> float | None:
    if "n" not in run.dataset:
        return None
    sizes = declared(run)
    return least_seconds(run, sizes.num_rows, sizes.num_features)
