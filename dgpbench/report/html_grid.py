"""Cells and grids: what the HTML report's tables are made of, as plain texts, which the template escapes."""

from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Cell:
    """One cell: its text, what it sorts by, the groups of runs behind it, and its mark (bold, italic)."""

    text: str
    order: float | str = ""
    groups: tuple[str, ...] = ()
    mark: str = ""
    numeric: bool = False


@dataclass(frozen=True)
class Grid:
    """A sortable table; ``notes`` stand under it."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def number(value: float, digits: int = 3) -> Cell:
    """A number that links to no runs."""
    return Cell("" if pd.isna(value) else f"{value:.{digits}f}", order(value), numeric=True)


def name(text: Any) -> Cell:
    """A name; it sorts as what it is."""
    return Cell(str(text), text)


def order(value: float) -> float | str:
    return "" if pd.isna(value) else float(value)
