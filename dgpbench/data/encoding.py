"""Encode the columns of a user's table as numbers, fitted on the training rows only.

Gaps are filled with the median of the training rows, and a 0/1 column marks them. Categories become one 0/1 column per
category of the training rows, all 0 for an unknown category.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.data import cell_messages
from dgpbench.data.cells import Cells, TableSettings, value_of
from dgpbench.errors import UserError
from dgpbench.system.progress import counted

if TYPE_CHECKING:
    import pandas as pd

MISSING = "(missing)"
MAX_CATEGORIES = 50  # of a column that is not named as categorical


@dataclass(frozen=True)
class Schema:
    """How to read the columns of a table, decided on all of its rows."""

    kinds: Mapping[str, str]  # ``number``, ``flag``, ``date`` or ``category`` for each feature, in order
    missing: str = "refuse"  # or ``drop`` or ``impute``
    date_format: str | None = None  # None for ISO 8601
    by_text: bool = False  # categories differ by their text; in models of earlier versions by their value

    @classmethod
    def of(cls, frame: "pd.DataFrame", settings: TableSettings, where: str = "the table") -> "Schema":
        """Return the schema of a raw frame's features.

        :raises UserError: for a column of text with too many different texts that is not named as categorical
        """
        kinds, crowded = {}, {}
        for name in frame.columns:
            kinds[name] = _kind(name, cells := Cells.of(frame[name], settings), settings)
            if kinds[name] == "category" and settings.categorical == "auto":
                crowded[name] = len(cells.texts.unique())
        if names := [name for name, count in crowded.items() if count > MAX_CATEGORIES]:
            drop, them = cell_messages.hint("drop", names, settings), cell_messages.it(names)
            named = cell_messages.hint("categorical", [name for name in kinds if kinds[name] == "category"], settings)
            raise UserError(
                f"{where} has {max(crowded.values()):,} different texts in {len(frame):,} rows of "
                f"{cell_messages.shown(names)}, more than the {MAX_CATEGORIES} that dataset.categorical=auto accepts: "
                f"{drop} leaves {them} out, {named} makes categories of {them} nevertheless"
            )
        return cls(kinds, settings.missing, settings.date_format, by_text=True)


def _kind(name: str, cells: Cells, settings: TableSettings) -> str:
    for kind, names in (("category", settings.categorical), ("date", settings.dates)):
        if not isinstance(names, str) and name in map(str, names):
            return kind
    if cells.is_category:
        return "category" if settings.categorical == "auto" else "number"
    if not cells.present.any():
        return "number"
    if cells.holds_truths():
        return "flag"
    automatic, form = settings.dates == "auto", settings.date_format
    values, present = cells.read("number")
    if not np.isnan(values[present]).any():
        if automatic and form and present.any() and np.isfinite(cells.days(form)[present]).all():
            named = cell_messages.hint("dates", [name], settings)
            raise UserError(
                f"{name!r} holds numbers that dataset.date_format={form} also reads as dates: {named} makes dates of "
                "it, a list of other columns in dataset.dates makes numbers"
            )
        return "number"
    if automatic and np.isfinite(cells.days(form)[cells.present]).all():
        return "date"
    if settings.categorical != "auto" or not cells.is_text.any() or not cells.is_text[cells.present].all():
        return "number"
    return "number" if cell_messages.written_otherwise(cells) else "category"


def typed(
    frame: "pd.DataFrame",
    schema: Schema,
    settings: TableSettings,
    where: str = "the table",
    *,
    target: str | None = None,
    questions: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
) -> "pd.DataFrame":
    """Return columns of numbers, flags and dates as float64, NaN for a gap; of categories as texts, None for a gap.

    :param target: a further column, of numbers
    :param questions: clauses about the table to refuse together with those about its cells
    :param known: categories of a fitted encoder by column, which typed cells may mean; no setting is advised then
    :raises UserError: for cells that are not of their column's kind, infinite, or missing where that is refused
    """
    import pandas as pd

    kinds = dict(schema.kinds) | ({} if target is None else {target: "number"})
    columns: dict[str, np.ndarray] = {}
    wrong, infinite, gaps = (dict[str, np.ndarray]() for _ in range(3))
    for name, kind in kinds.items():
        cells = Cells.of(frame[name], settings)
        columns[name], present = cells.read(kind, schema.date_format)
        gaps[name], wrong[name] = ~present, present & pd.isna(columns[name])
        if kind != "category":
            infinite[name] = np.isinf(columns[name])
        elif known is not None:
            # Cells other than text become the only known category with their value, such as 05 for 5.
            texts, exact = columns[name], cells.is_text if schema.by_text else ~present
            by_value: dict[str, list[str]] = {}
            for category in known[name]:
                by_value.setdefault(value_of(category), []).append(category)
            unknown = {text: by_value.get(value_of(text), ()) for text in set(texts[~exact]) - {None, *known[name]}}
            meant = {text: same[0] for text, same in unknown.items() if len(same) == 1}
            columns[name] = np.where(exact, texts, np.array([meant.get(text, text) for text in texts], dtype=object))
    wrong, infinite, gaps = ({name: at for name, at in each.items() if at.any()} for each in (wrong, infinite, gaps))
    if questions or wrong or infinite or (gaps and schema.missing == "refuse"):
        first = frame.index.start if isinstance(frame.index, pd.RangeIndex) else 0  # of a part of a file
        places = partial(cell_messages.places, frame, first=first)
        clauses = list(questions)
        if wrong:
            every = {name: Cells.of(frame[name], settings) for name in kinds}
            is_trained = known is not None
            clauses += cell_messages.of_wrong(every, wrong, kinds, settings, places, target, trained=is_trained)
        if infinite:
            clauses.append(f"holds an infinite number in {places(infinite)}: correct it, or remove its row")
        if gaps and schema.missing == "refuse":
            rows = int(np.logical_or.reduce(list(gaps.values())).sum())
            advice = (
                "the model was not trained to fill gaps: provide values, or leave out"
                if known is not None
                else "dataset.missing=impute fills in the training rows' median, dataset.missing=drop leaves out"
            )
            affected = f"the {counted(rows, 'row')} concerned"
            clauses.append(f"has no value (NaN) in {places(gaps, bare=True)}: {advice} {affected}")
        raise UserError(f"{where} {'; it also '.join(clauses)}")
    return pd.DataFrame(columns, index=frame.index)


@dataclass(frozen=True)
class Column:
    """Encoding of one column, fitted on the training rows."""

    name: str
    kind: str
    fill: float | None = None  # the value of a gap
    gaps: int = 0  # in the training rows; if there are any, a 0/1 column marks gaps
    categories: tuple[str, ...] = ()  # of the training rows, sorted by value

    @classmethod
    def fit(cls, values: "pd.Series", kind: str, missing: str) -> "Column":
        """Fit to typed training rows."""
        name = str(values.name)
        if kind == "category":
            texts = values.fillna(MISSING).unique()
            return cls(name, kind, categories=tuple(sorted(texts, key=lambda text: (value_of(text), text))))
        if missing != "impute":
            return cls(name, kind)
        fill = values.median()
        return cls(name, kind, 0.0 if np.isnan(fill) else float(fill), int(values.isna().sum()))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        if self.kind == "category":
            return tuple(f"{self.name}={category}" for category in self.categories)
        return (self.name, f"{self.name}={MISSING}") if self.gaps else (self.name,)

    def encode(self, values: "pd.Series") -> np.ndarray:
        """Encode typed cells as numbers [N, len(outputs)]."""
        if self.kind == "category":
            return np.equal.outer(values.fillna(MISSING).to_numpy(object), np.array(self.categories, object))
        if self.fill is None:
            return values.to_numpy()[:, None]
        filled = values.fillna(self.fill)
        return np.column_stack([filled, values.isna()] if self.gaps else [filled])

    def describe(self) -> dict[str, Any]:
        """Return plain data for a record."""
        facts: dict[str, Any] = {"outputs": list(self.outputs), "column": self.name, "kind": self.kind}
        if self.kind == "category":
            return facts | {"categories": list(self.categories)}
        return facts | ({"fill": self.fill, "gaps": self.gaps} if self.gaps else {})


@dataclass(frozen=True)
class ColumnEncoder:
    """Encoder of raw rows as numbers, fitted on the training rows."""

    columns: tuple[Column, ...]
    schema: Schema

    @classmethod
    def fit(cls, rows: "pd.DataFrame", schema: Schema) -> "ColumnEncoder":
        """Fit medians and categories to typed training rows."""
        return cls(tuple(Column.fit(rows[name], kind, schema.missing) for name, kind in schema.kinds.items()), schema)

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> "ColumnEncoder":
        """Return the encoder of columns that are already numbers."""
        texts = [str(name) for name in names]
        return cls(tuple(Column(name, "number") for name in texts), Schema(dict.fromkeys(texts, "number")))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the raw columns."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the D encoded columns."""
        return tuple(output for column in self.columns for output in column.outputs)

    @property
    def takes_arrays(self) -> bool:
        """Whether all raw columns are numbers, so that rows need no names."""
        return set(self.schema.kinds.values()) <= {"number", "flag"}

    def transform(
        self,
        frame: "pd.DataFrame",
        where: str = "the table",
        settings: TableSettings = TableSettings.DEFAULT,
        unknown: Counter[tuple[str, str]] | None = None,
    ) -> np.ndarray:
        """Encode raw rows as numbers [N, D] float64; columns are found by name, and others ignored.

        :param unknown: receives the number of rows with each category that is not in the training rows
        :raises UserError: for a missing column, a cell that is not of its column's kind, or a gap that nothing fills
        """
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        check_names(self.names, list(frame.columns), where)
        rows = typed(frame, self.schema, settings, where, known={each.name: each.categories for each in self.columns})
        if unknown is not None:
            for column in (each for each in self.columns if each.kind == "category"):
                texts = rows[column.name].fillna(MISSING)
                unknown.update((column.name, text) for text in texts[~texts.isin(column.categories)])
        return self.encode(rows)

    def encode(self, rows: "pd.DataFrame") -> np.ndarray:
        """Encode typed rows as numbers [N, D] float64."""
        X, first = np.empty((len(rows), len(self.feature_names))), 0
        for column in self.columns:
            X[:, first : first + len(column.outputs)] = column.encode(rows[column.name])
            first += len(column.outputs)
        return X

    def describe(self) -> list[dict[str, Any]]:
        """Describe the encoding of each column as plain data, for records and ``describe_columns``."""
        return [column.describe() for column in self.columns]


@dataclass(frozen=True, eq=False)
class UserColumns:
    """Features of a user's table, not yet encoded."""

    rows: "pd.DataFrame"  # typed, one for each row of the table
    schema: Schema
    plain: bool = False  # all cells are numbers, so that the table's ``X`` holds them

    def digits(self) -> np.ndarray:
        """Return numbers that distinguish the cells, [N, K]: for digests and the order of rows only."""
        columns = []
        for name in self.rows:
            column = self.rows[name]
            if column.dtype != np.float64:
                # The first 48 bits of a sha256: of the categories' values if these differ, else of their texts.
                texts = column.dropna().unique().tolist()
                values = [value_of(text) for text in texts]
                different = values if len(set(values)) == len(texts) else texts
                hashes = [hashlib.sha256(each.encode()).digest()[:6] for each in different]
                numbers = [float(int.from_bytes(each, "big")) for each in hashes]
                column = column.map(dict(zip(texts, numbers, strict=True)))
            columns.append(column.to_numpy(np.float64, na_value=np.nan))
        return np.column_stack(columns)


def describe_unknown_categories(counts: Counter[tuple[str, str]], where: str) -> list[str]:
    """Return a sentence for each column with categories unknown to ``transform``."""
    sentences = []
    for name in dict.fromkeys(name for name, _ in counts):
        rows = {text: count for (column, text), count in counts.items() if column == name}
        number, categories = counted(sum(rows.values()), "row"), cell_messages.shown(list(rows))
        sentences.append(
            f"{where} has categories in {name!r} that are not in the training rows ({categories}), in {number}, "
            "which count as none of the known ones"
        )
    return sentences


def check_names(wanted: Sequence[str], there: Sequence[str], where: str) -> None:
    """Refuse a table that lacks columns, or has one twice, and suggest similar names."""
    if twice := [name for name in wanted if there.count(name) > 1]:
        raise UserError(f"{where} has {there.count(twice[0])} columns named {twice[0]!r}: give each its own name")
    if absent := [name for name in wanted if name not in there]:
        folded = {name.casefold(): name for name in there}
        near = get_close_matches(absent[0].casefold(), folded, n=1)
        meant = "".join(f"; is {folded[each]!r} meant to be {absent[0]!r}?" for each in near)
        raise UserError(
            f"{where} lacks {len(absent)} of the {len(wanted)} columns: {cell_messages.shown(absent)}{meant}"
        )


def describe_columns(columns: Sequence[Mapping[str, Any]], most: int = 20) -> list[str]:
    """Return lines on the encoding of columns: one for all plain numbers, and one for each other column."""
    plain = [each["column"] for each in columns if each["kind"] == "number" and "fill" not in each]
    others = [each for each in columns if each["column"] not in plain]
    more = f" and {len(plain) - most} more" * (len(plain) > most)
    lines = [f"  {', '.join(plain[:most])}{more}: numbers"] if plain else []
    kinds = {"number": "numbers", "flag": "1 for true, 0 for false", "date": "days since 1970-01-01"}
    for each in others[:most]:
        if each["kind"] == "category":
            categories, count = ", ".join(each["categories"][:5]), len(each["categories"])
            text = f"{count} column{'s' * (count != 1)} of 0 and 1, one for each category ({categories}"
            text += f"{', ...' * (count > 5)}); all 0 for an unknown one"
        else:
            text = kinds[each["kind"]]
            if "fill" in each:
                text += f", {counted(each['gaps'], 'gap')} filled with the training rows' median, "
                text += f"{each['fill']:.6g}, and marked in a column"
        lines.append(f"  {each['column']}: {text}")
    return lines + ([f"  and {len(others) - most} more columns"] if len(others) > most else [])
