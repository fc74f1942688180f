"""Stored numbers that must not change: a table as csv, and the same cells computed again."""

from pathlib import Path

import pandas as pd

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, column_name, load
from dgpbench.report.cells import cells
from dgpbench.report.collect import collect

KEYS = ["metric", "dataset", "method", "num_layers"]
COLUMNS = [*KEYS, "mean", "count"]


def default_path(item: Item) -> Path:
    """Return the place of an item's reference."""
    return Path(item.results_dir, "reference", f"{item.name}-{item.budget}.csv")


def check(name: str, given: list[str], path: Path, tolerance: float) -> list[tuple[bool, str]]:
    """Compare every reference cell of the narrowed item with the records: True if it agrees, and a sentence.

    :raises UserError: if there is no such reference, or it has no cell of the item
    """
    item = load(name, given)
    merged = _read(path, item).merge(cells(item, collect(item.results_dir)), on=KEYS, suffixes=("_stored", ""))
    if merged.empty:
        raise UserError(f"{path} has no cell of {' '.join([name, *given])}")
    return [_line(row, tolerance) for row in merged.itertuples(index=False)]


def _read(path: Path, item: Item) -> pd.DataFrame:
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
    return stored.dropna(subset="mean")[COLUMNS]


def _line(row, tolerance: float) -> tuple[bool, str]:
    cell = f"{row.metric} {row.dataset} {column_name(row.method, row.num_layers)}"
    if row.count < row.wanted or row.count != row.count_stored:
        splits = f"{int(row.count)}/{int(row.wanted)} splits, and the reference has {int(row.count_stored)}"
        return False, f"{cell}: {splits}"
    moved = abs(row.mean - row.mean_stored)
    good = bool(moved <= tolerance)
    verdict = "within" if good else "CHANGED by"
    return good, f"{cell}: {row.mean:.6g}, reference {row.mean_stored:.6g}, {verdict} {moved:.3g}"
