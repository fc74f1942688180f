"""``dgpbench check``: compare with stored reference numbers, for nightly runs."""

import math
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pandas as pd

from dgpbench.commands.console import add_item
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, column_name, load
from dgpbench.report.cells import cells
from dgpbench.report.collect import collect

NUMBERS = ["num_layers", "mean", "count"]
COLUMNS = ["metric", "dataset", "method", *NUMBERS]  # of a reference, a table as csv


def check(options: Namespace) -> int:
    """Print a line for each reference cell; exit code 1 where one moved or is missing."""
    if not (math.isfinite(options.tolerance) and options.tolerance >= 0):
        raise UserError(f"--tolerance {options.tolerance} cannot be used; it takes a number of at least 0")
    item = load(options.item, options.overrides)
    if not item.blocks:
        raise UserError(f"{item.name} is a figure, which has no cells to check")
    path = Path(options.reference or Path(item.results_dir, "reference", f"{item.name}-{item.budget}.csv"))
    stored, ours = _read_reference(path, item), cells(item, collect(item.results_dir))
    both = stored.merge(ours, on=COLUMNS[:4], suffixes=("_stored", ""))
    if both.empty:
        raise UserError(f"{path} has no cell of {' '.join([options.item, *options.overrides])}")
    num_good = 0
    for row in both.itertuples(index=False):
        cell = f"{row.metric} {row.dataset} {column_name(row.method, row.num_layers)}"
        if row.count < row.wanted or row.count != row.count_stored:
            splits = f"{int(row.count)}/{int(row.wanted)} splits, and the reference has {int(row.count_stored)}"
            print(f"{cell}: {splits}")
            continue
        moved = abs(row.mean - row.mean_stored)
        good = bool(moved <= options.tolerance)
        num_good += good
        verdict = "within" if good else "CHANGED by"
        print(f"{cell}: {row.mean:.6g}, reference {row.mean_stored:.6g}, {verdict} {moved:.3g}")
    print(f"{num_good} of {len(both)} cells are within {options.tolerance:g} of {path}")
    return int(num_good < len(both))


def _read_reference(path: Path, item: Item) -> pd.DataFrame:
    usable = f"`dgpbench table {item.name} budget={item.budget} --format csv --output {path}` makes one"
    try:
        stored = pd.read_csv(path)
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read as a reference ({str(problem).splitlines()[0]}); {usable}") from None
    if missing := set(COLUMNS) - set(stored.columns):
        raise UserError(f"{path} is not a reference: it lacks {', '.join(sorted(missing))}; {usable}")
    if "budget" in stored and set(stored["budget"]) != {item.budget}:
        raise UserError(
            f"{path} is of budget {', '.join(sorted(set(stored['budget'])))}, but budget={item.budget} is requested"
        )
    stored = stored.dropna(subset="mean")[COLUMNS]
    for name in NUMBERS:
        if stored[name].isna().any() or not pd.api.types.is_numeric_dtype(stored[name]):
            raise UserError(f"{path} is not a reference: column {name} has values that are not numbers; {usable}")
    return stored


def add_arguments(parser: ArgumentParser) -> None:
    add_item(parser)
    tolerance = "largest accepted change of a mean, in the metric's unit"
    parser.add_argument("--tolerance", type=float, required=True, metavar="T", help=tolerance)
    reference = "a table as csv (default: results/reference/ITEM-BUDGET.csv)"
    parser.add_argument("--reference", metavar="FILE", help=reference)
