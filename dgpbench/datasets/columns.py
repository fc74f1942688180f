"""What each column of a raw table becomes: numbers for a method, fitted on training rows alone.

Gaps are filled with the median of the training rows, beside a 0/1 column that says where there were some; a category
becomes one 0/1 column for each that the training rows hold, all 0 for an unknown one. scikit-learn does both.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.datasets.cells import check_gaps, shown, typed
from dgpbench.datasets.schema import Schema
from dgpbench.errors import Refused

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.compose import ColumnTransformer

MISSING = "(missing)"


@dataclass(frozen=True)
class Column:
    """What the training rows say of one column.

    :param fill: what a gap is filled with
    :param gaps: how many there were; where there were any, a 0/1 column says so
    :param categories: those of the training rows, sorted
    """

    name: str
    kind: str
    fill: float | None = None
    gaps: int = 0
    categories: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the columns that it becomes."""
        if self.kind == "category":
            return tuple(f"{self.name}={category}" for category in self.categories)
        return (self.name, f"{self.name}={MISSING}") if self.gaps else (self.name,)


@dataclass(frozen=True)
class ColumnEncoder:
    """Raw rows to numbers, by what the training rows said."""

    columns: tuple[Column, ...]
    schema: Schema

    @classmethod
    def fit(cls, frame: "pd.DataFrame", schema: Schema) -> "ColumnEncoder":
        """Medians and categories of the training rows.

        :param frame: training rows alone, raw
        """
        rows = typed(frame, schema.kinds, schema.date_format)
        return cls(tuple(_fitted(rows[name], kind, schema.missing) for name, kind in schema.kinds.items()), schema)

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> "ColumnEncoder":
        """Columns that are numbers already."""
        texts = [str(name) for name in names]
        return cls(tuple(Column(name, "number") for name in texts), Schema(dict.fromkeys(texts, "number")))

    @property
    def names(self) -> tuple[str, ...]:
        """The raw columns that it takes."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """D names, in the order of ``transform``."""
        return tuple(output for column in self.columns for output in column.outputs)

    @property
    def takes_arrays(self) -> bool:
        """Whether each raw column is one column of numbers, so that rows need no names."""
        return self.names == self.feature_names and set(self.schema.kinds.values()) <= {"number"}

    def transform(self, frame: "pd.DataFrame", where: str = "the table") -> np.ndarray:
        """Raw rows as numbers, [N, D] float64; columns are found by their names, and others ignored.

        :raises Refused: for a missing column, a cell that is not of its column's kind, or a gap that nothing fills
        """
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        check_names(self.names, list(frame.columns), where)
        rows = typed(frame, self.schema.kinds, self.schema.date_format, where, trained=True)
        if self.schema.missing != "impute":
            check_gaps(rows, where, trained=True)
        categories = [column.name for column in self.columns if column.kind == "category"]
        rows[categories] = rows[categories].fillna(MISSING)
        return np.ascontiguousarray(self._transformer().transform(rows), dtype=np.float64)

    def unknown(self, frame: "pd.DataFrame") -> Counter[tuple[str, str]]:
        """How many raw rows hold each category that the training rows did not, by column and category."""
        found: Counter[tuple[str, str]] = Counter()
        for column in self.columns:
            if column.kind == "category":
                texts = typed(frame, {column.name: "category"})[column.name].fillna(MISSING)
                found.update((column.name, text) for text in texts[~texts.isin(column.categories)])
        return found

    def _transformer(self) -> "ColumnTransformer":
        """scikit-learn's transformer with every value given, so that its fit, to a row of zeros, learns nothing."""
        import pandas as pd
        from sklearn.compose import ColumnTransformer

        steps = [(str(number), part, names) for number, (part, names) in enumerate(_steps(self.columns))]
        blank = {column.name: [column.categories[0]] if column.categories else [0.0] for column in self.columns}
        return ColumnTransformer(steps).fit(pd.DataFrame(blank))

    def describe(self) -> list[dict[str, Any]]:
        """What each column became, as plain data: what a record keeps and ``in_words`` prints."""
        return [{"outputs": list(column.outputs)} | _said(column) for column in self.columns]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ColumnEncoder":
        """From what ``to_json`` gave."""
        columns = [Column(**{**each, "categories": tuple(each["categories"])}) for each in values["columns"]]
        return cls(tuple(columns), Schema(**values["schema"]))


def said_of_unknown(found: Counter[tuple[str, str]], where: str) -> list[str]:
    """A sentence for each column with categories that training did not have, by what ``unknown`` counted."""
    sentences = []
    for name in dict.fromkeys(name for name, _ in found):
        rows = {text: count for (column, text), count in found.items() if column == name}
        number = sum(rows.values())
        sentences.append(
            f"{where} has categories in {name!r} that training did not have ({shown(list(rows))}), in {number:,} "
            f"row{'s' * (number != 1)}, which count as none of the known ones"
        )
    return sentences


def check_names(wanted: Sequence[str], there: Sequence[str], where: str) -> None:
    """Refuse a table that lacks columns, or has one twice, and say which may be meant."""
    if twice := [name for name in wanted if there.count(name) > 1]:
        raise Refused(f"{where} has {there.count(twice[0])} columns named {twice[0]!r}: give each its own name")
    if absent := [name for name in wanted if name not in there]:
        folded = {name.casefold(): name for name in there}
        near = get_close_matches(absent[0].casefold(), folded, n=1)
        meant = "".join(f"; is {folded[each]!r} meant to be {absent[0]!r}?" for each in near)
        raise Refused(f"{where} lacks {len(absent)} of the {len(wanted)} columns: {shown(absent)}{meant}")


def _said(column: Column) -> dict[str, Any]:
    said: dict[str, Any] = {"column": column.name, "kind": column.kind}
    if column.kind == "category":
        return said | {"categories": list(column.categories)}
    return said | ({} if column.fill is None or not column.gaps else {"fill": column.fill, "gaps": column.gaps})


def _fitted(column: "pd.Series", kind: str, missing: str) -> Column:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    values = column.to_frame()
    if kind == "category":
        encoder = OneHotEncoder().fit(values.fillna(MISSING))
        return Column(str(column.name), kind, categories=tuple(map(str, encoder.categories_[0])))
    if missing != "impute":
        return Column(str(column.name), kind)
    imputer = SimpleImputer(strategy="median", keep_empty_features=True).fit(values)
    return Column(str(column.name), kind, float(imputer.statistics_[0]), int(column.isna().sum()))


def _steps(columns: Sequence[Column]) -> Iterator[tuple[Any, list[str]]]:
    """scikit-learn's step for each column; those that pass as they are share one, since a thousand would take time."""
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    for passes, group in groupby(columns, key=lambda column: column.kind != "category" and column.fill is None):
        if passes:
            yield "passthrough", [column.name for column in group]
            continue
        for column in group:
            if column.kind == "category":
                known = [np.array(column.categories, dtype=object)]
                yield OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False), [column.name]
                continue
            fill = SimpleImputer(strategy="constant", fill_value=column.fill, keep_empty_features=True)
            yield fill, [column.name]
            if column.gaps:
                yield MissingIndicator(features="all"), [column.name]
