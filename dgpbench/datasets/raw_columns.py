"""A user's own columns as they were read, until the training rows are known."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.datasets.cells import typed
from dgpbench.datasets.columns import ColumnEncoder
from dgpbench.datasets.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class RawColumns:
    """The features of a table as they were read, for an encoder of the training rows.

    :param frame: raw, one line for each row of the table
    :param plain: whether all cells are numbers, so that the table's ``X`` holds them as they are
    """

    frame: "pd.DataFrame"
    schema: Schema
    plain: bool = False

    def fit(self, rows: np.ndarray) -> ColumnEncoder:
        """The encoder of the rows with these numbers."""
        return ColumnEncoder.fit(self.frame.iloc[rows], self.schema)

    def cells(self) -> np.ndarray:
        """The raw cells as numbers that tell them apart, [N, K]: for digests and the order of rows, never a method."""
        columns = typed(self.frame, self.schema.kinds, self.schema.date_format)
        return np.column_stack([_told_apart(columns[name]) for name in columns])


def _told_apart(column: "pd.Series") -> np.ndarray:
    if column.dtype == np.float64:
        return np.where(np.isnan(column), np.nan, column)  # one NaN for all gaps
    return np.array([np.nan if value is None else _number_of(value) for value in column])


def _number_of(text: str) -> float:
    """The first 48 bits of a text's sha256: a whole number that float64 holds."""
    return float(int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big"))
