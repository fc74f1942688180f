"""Stored numbers that must not move: a table as csv, and the same cells computed again."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, column_name, load
from dgpbench.report.cells import cells
from dgpbench.report.collect import collect

KEYS = ["metric", "dataset", "method", "num_layers"]
COLUMNS = [*KEYS, "mean", "count"]


@dataclass(frozen=True)
class Line:
    """One reference cell: whether it is where it was, and the sentence about it."""

    good: bool
    text: str


def usual_path(item: Item) -> Path:
    """Where an item's reference is kept."""
    return Path(item.results_dir, "reference", f"{item.name}-{item.budget}.csv")


def check(name: str, given: list[str], path: Path, tolerance: float) -> list[Line]:
    """Every reference cell of the narrowed item, beside the same cell of the records.

    :raises UserError: where there is no such reference, or nothing of it belongs to the item
    """
    item = load(name, given)
    stored = _read(path, item)
    ours = cells(item, collect(item.results_dir))
    merged = stored.merge(ours, on=KEYS, how="inner", suffixes=("_stored", ""))
    if merged.empty:
        raise UserError(f"{path} has no cell of {' '.join([name, *given])}")
    return [_line(row, tolerance) for row in merged.itertuples(index=False)]


def _read(path: Path, item: Item) -> pd.DataFrame:
    words = " ".join([item.name, f"budget={item.budget}"])
    usable = f"`dgpbench table {words} --format csv --output {path}` makes one"
    try:
        stored = pd.read_csv(path)
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read as a reference ({str(problem).splitlines()[0]}); {usable}") from None
    if missing := set(COLUMNS) - set(stored.columns):
        raise UserError(f"{path} is no reference: it lacks {', '.join(sorted(missing))}; {usable}")
    if "budget" in stored and set(stored["budget"]) != {item.budget}:
        raise UserError(
            f"{path} is of budget {', '.join(sorted(set(stored['budget'])))}, and budget={item.budget} is asked for"
        )
    return stored.dropna(subset="mean")[COLUMNS]


def _line(row, tolerance: float) -> Line:
    cell = f"{row.metric} {row.dataset} {column_name(row.method, row.num_layers)}"
    if row.count < row.wanted or row.count != row.count_stored:
        return Line(
            False, f"{cell}: {int(row.count)}/{int(row.wanted)} splits, and the reference has {int(row.count_stored)}"
        )
    moved = abs(row.mean - row.mean_stored)
    good = bool(moved <= tolerance)
    return Line(
        good, f"{cell}: {row.mean:.6g}, reference {row.mean_stored:.6g}, {'within' if good else 'MOVED by'} {moved:.3g}"
    )
