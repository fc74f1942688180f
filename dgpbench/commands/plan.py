"""``dgpbench plan``: the runs of an item, their state, and the time left."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgpbench.benchmarks import cost
from dgpbench.benchmarks.cost import Estimate, between
from dgpbench.commands.console import add_item, add_json
from dgpbench.commands.validate import declared_sizes
from dgpbench.experiments.items import load
from dgpbench.experiments.plan import BLOCKED, CONFLICT, MISSING, Planned, count, matrix, plan_of
from dgpbench.report.collect import collect
from dgpbench.system.progress import counted, in_words


def add_arguments(parser: ArgumentParser) -> None:
    add_item(parser)
    add_json(parser)


def plan(options: Namespace) -> int:
    """Print done/wanted for each data set and column of an item, and the time left."""
    item = load(options.item, options.overrides)
    runs = plan_of(item)
    device = runs[0].run.limits.device if runs else "cpu"
    records = cost.Records(collect(item.results_dir), item.budget, item.protocol, device)
    left = TimeLeft.of([run for run in runs if run.state == MISSING], records)
    if options.json:
        entries = [
            {"overrides": list(each.overrides), "state": each.state, "directory": str(each.directory)}
            | ({} if each.run.start is None else {"starts_from": str(each.run.start)})
            | ({"why": each.why} if each.why else {})
            for each in runs
        ]
        print(json.dumps({"item": item.name, "counts": count(runs), **left.to_json(), "runs": entries}, indent=2))
        return 0
    print(matrix(runs))
    counts = ", ".join(f"{number} {state}" for state, number in count(runs).items() if number)
    print(f"\n{item.name}, protocol {item.protocol}, budget {item.budget}: {counted(len(runs), 'run')}: {counts}")
    print(f"left with one worker: {left.describe()}")
    for run in runs:
        if run.state in (BLOCKED, CONFLICT):
            print(f"{run.state}: {run.why}")
    return 0


@dataclass(frozen=True)
class TimeLeft:
    """Time of the missing runs.

    :param estimates: of the runs with similar finished runs
    :param products: for each other run the seconds of its counted products; None if they cannot be counted
    """

    estimates: list[Estimate]
    products: list[float | None]

    @classmethod
    def of(cls, missing: list[Planned], records: cost.Records) -> "TimeLeft":
        """Estimate each run from finished runs, else from its counted products."""
        known: dict[tuple[Path, str], Estimate | float | None] = {}
        times = []
        for run in (each.run for each in missing):
            key = (run.directory.parent, str(run.changed))  # splits and seeds share an estimate
            if key not in known:
                known[key] = records.like(run)
                if known[key] is None and "n" in run.dataset:
                    rows, features, _ = declared_sizes(run)
                    known[key] = records.scaled(run, rows, features) or cost.least_seconds(run, rows, features)
            times.append(known[key])
        estimates = [each for each in times if isinstance(each, Estimate)]
        return cls(estimates, [each for each in times if not isinstance(each, Estimate)])

    @property
    def estimated(self) -> Estimate:
        """The sum of the estimates."""
        parts = zip(*self.estimates, strict=True) if self.estimates else ((), (), ())
        return Estimate(*map(sum, parts))

    @property
    def by_products(self) -> tuple[float, float]:
        """The range of the runs with counted products."""
        known = [each for each in self.products if each is not None]
        return cost.range_of(sum(known), len(known))

    def to_json(self) -> dict[str, Any]:
        """Return the seconds left, or a lower bound if there are runs without an estimate; and the range."""
        low, high = self.by_products
        least, whole = self.estimated.seconds + low, not self.products
        spread = [self.estimated.low + low, self.estimated.high + high]
        return {
            "seconds_left": least if whole else None,
            "seconds_left_at_least": None if whole else least or None,
            "seconds_left_between": None if None in self.products else spread,
        }

    def describe(self) -> str:
        """Return the time left in words."""
        expected, low, high = self.estimated
        words = f"about {in_words(expected)}"
        if in_words(low) != in_words(high):
            words += f" ({between((low, high))})"
        if not self.products:
            return words
        unknown = self.products.count(None)
        known = len(self.products) - unknown
        by_products = f"{between(self.by_products)}, by matrix products"
        if self.estimates:
            by_products += f", for {counted(known, 'run')} without"
        parts = {
            f"{words} for {counted(len(self.estimates), 'run')} with similar finished runs": self.estimates,
            by_products: known,
            f"{counted(unknown, 'run')} without a time estimate": unknown,
        }
        return "; ".join(text for text, some in parts.items() if some)
