"""Which kind each column of a raw table is: numbers, flags, dates or categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.datasets.cells import advice_on, days, listed
from dgpbench.errors import Refused

if TYPE_CHECKING:
    import pandas as pd

MAX_CATEGORIES = 50  # of a column that nobody has named as categorical


@dataclass(frozen=True)
class Schema:
    """How the columns of a table are read, decided over all of its rows.

    :param kinds: each feature's ``number``, ``flag``, ``date`` or ``category``, in order
    :param missing: ``refuse``, ``drop`` or ``impute``
    :param date_format: None for ISO 8601
    """

    kinds: Mapping[str, str]
    missing: str = "refuse"
    date_format: str | None = None

    @classmethod
    def of(
        cls,
        frame: "pd.DataFrame",
        missing: str = "refuse",
        categorical: str | Sequence[str] = "refuse",
        dates: str | Sequence[str] = "refuse",
        date_format: str | None = None,
    ) -> "Schema":
        """The schema of a raw frame's features.

        :param categorical: ``refuse``, ``auto`` (columns of text) or names; ``dates`` likewise
        :raises Refused: for a column of text with very many different texts that nobody has named
        """
        kinds = {name: _kind(frame[name], categorical, dates, date_format) for name in frame.columns}
        return cls(kinds, missing, date_format)


def _kind(column: "pd.Series", categorical: str | Sequence[str], dates: str | Sequence[str], form: str | None) -> str:
    import pandas as pd

    if not isinstance(categorical, str) and column.name in categorical:
        return "category"
    if not isinstance(dates, str) and column.name in dates:
        return "date"
    given = column.dropna()
    if len(given) and given.map(lambda value: isinstance(value, bool | np.bool_)).all():
        return "flag"
    if pd.api.types.is_numeric_dtype(column.dtype) or not len(given):
        return "number"
    if dates == "auto" and days(given, form).notna().all():
        return "date"
    if categorical != "auto" or _mostly_numbers(given):
        return "number"
    if advice := advice_on(given):
        raise Refused(
            f"column {column.name!r} holds values such as {given.iloc[0]}, of which dataset.categorical=auto would "
            f"make categories: {advice}, and dataset.categorical={listed([column.name])} makes them categories all "
            "the same"
        )
    if (count := given.nunique()) > MAX_CATEGORIES:
        raise Refused(
            f"column {column.name!r} holds {count:,} different texts in {len(column):,} rows, more than the "
            f"{MAX_CATEGORIES} that dataset.categorical=auto takes: leave it out with "
            f"dataset.drop={listed([column.name])}, or name all categorical columns in dataset.categorical"
        )
    return "category"


def _mostly_numbers(given: "pd.Series") -> bool:
    import pandas as pd

    different = pd.Series(given.astype(object).unique())
    return bool(pd.to_numeric(different, errors="coerce").notna().mean() > 0.5)
