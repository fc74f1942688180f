"""What each column of a user's own table becomes: numbers for a method, fitted on training rows alone.

Gaps are filled with the median of the training rows, beside a 0/1 column that marks them; a category becomes one 0/1
column for each that the training rows hold, all 0 for an unknown one.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.data import cell_messages
from dgpbench.data.cells import Cells, value_of
from dgpbench.data.table_settings import TableSettings
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

MISSING = "(missing)"
MAX_CATEGORIES = 50  # of a column that nobody has named as categorical
ARRAYS = {"number", "flag"}  # kinds whose columns an array holds


@dataclass(frozen=True)
class Schema:
    """How the columns of a table are read, decided over all of its rows.

    :param kinds: each feature's ``number``, ``flag``, ``date`` or ``category``, in order
    :param missing: ``refuse``, ``drop`` or ``impute``
    :param date_format: None for ISO 8601
    :param by_text: whether categories are told apart by their text; in models of earlier versions by their value
    """

    kinds: Mapping[str, str]
    missing: str = "refuse"
    date_format: str | None = None
    by_text: bool = False

    @classmethod
    def of(cls, frame: "pd.DataFrame", settings: TableSettings, where: str = "the table") -> "Schema":
        """The schema of a raw frame's features.

        :raises UserError: for a column of text with very many different texts that nobody has named
        """
        kinds, crowded = {}, {}
        for name in frame.columns:
            kinds[name] = _kind(name, cells := Cells.of(frame[name], settings), settings)
            count = len(cells.texts.unique()) if kinds[name] == "category" and settings.categorical == "auto" else 0
            if count > MAX_CATEGORIES:
                crowded[name] = count
        if crowded:
            names = list(crowded)
            drop, more = cell_messages.hint("drop", names, settings), cell_messages.it(names)
            named = cell_messages.hint("categorical", [name for name in kinds if kinds[name] == "category"], settings)
            raise UserError(
                f"{where} holds {max(crowded.values()):,} different texts in {len(frame):,} rows of "
                f"{cell_messages.shown(names)}, more than the {MAX_CATEGORIES} that dataset.categorical=auto takes: "
                f"{drop} leaves {more} out, {named} makes categories of {more} all the same"
            )
        return cls(kinds, settings.missing, settings.date_format, by_text=True)


def _kind(name: str, cells: Cells, settings: TableSettings) -> str:
    if not isinstance(settings.categorical, str) and name in map(str, settings.categorical):
        return "category"
    if not isinstance(settings.dates, str) and name in map(str, settings.dates):
        return "date"
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
                f"{name!r} holds numbers that dataset.date_format={form} reads as dates, too: {named} makes "
                "dates of it, a list of other columns in dataset.dates numbers"
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
    """Columns of numbers, flags and dates as float64, NaN for a gap; of categories as texts, None for a gap.

    :param target: another column, of numbers
    :param questions: clauses about the table that are refused together with those about its cells
    :param known: of a fitted encoder, its categories by column: typed cells may mean them, and no setting is advised
    :raises UserError: for cells that are not of their column's kind, infinite, or missing where that is refused
    """
    import pandas as pd

    kinds = dict(schema.kinds) | ({} if target is None else {target: "number"})
    columns: dict[str, np.ndarray] = {}
    wrong: dict[str, np.ndarray] = {}
    endless: dict[str, np.ndarray] = {}
    gaps: dict[str, np.ndarray] = {}
    for name, kind in kinds.items():
        cells = Cells.of(frame[name], settings)
        columns[name], present = cells.read(kind, schema.date_format)
        gaps[name], wrong[name] = ~present, present & pd.isna(columns[name])
        if kind != "category":
            endless[name] = np.isinf(columns[name])
        elif known is not None:
            columns[name] = _meant(columns[name], cells.is_text if schema.by_text else ~present, known[name])
    first = frame.index.start if isinstance(frame.index, pd.RangeIndex) else 0  # of a part of a file

    def say(chosen: Mapping[str, np.ndarray], bare: bool = False) -> str:
        return cell_messages.places(frame, chosen, first, bare=bare)

    clauses = list(questions)
    if wrong := {name: at for name, at in wrong.items() if at.any()}:
        everything = {name: Cells.of(frame[name], settings) for name in kinds}
        clauses += cell_messages.of_wrong(everything, wrong, kinds, settings, say, target, trained=known is not None)
    if endless := {name: at for name, at in endless.items() if at.any()}:
        clauses.append(f"holds an infinite number in {say(endless)}: correct it, or leave its row out")
    gaps = {name: at for name, at in gaps.items() if at.any()}
    if gaps and schema.missing == "refuse":
        rows = int(np.logical_or.reduce(list(gaps.values())).sum())
        advice = (
            "the model was not trained to fill gaps in: give them values, or leave out"
            if known is not None
            else "dataset.missing=impute fills features in with the training rows' median, "
            "dataset.missing=drop leaves out"
        )
        concerned = f"the {rows:,} row{'s' * (rows != 1)} concerned"
        clauses.append(f"has no value (NaN) in {say(gaps, True)}: {advice} {concerned}")
    if clauses:
        raise UserError(f"{where} {'; it also '.join(clauses)}")
    return pd.DataFrame(columns, index=frame.index)


def _meant(texts: np.ndarray, exact: np.ndarray, known: Sequence[str]) -> np.ndarray:
    """Categories of new rows: a cell that is no text means the only known category of its value, such as 05 for 5."""
    by_value: dict[str, list[str]] = {}
    for category in known:
        by_value.setdefault(value_of(category), []).append(category)
    strange = {text: by_value.get(value_of(text), ()) for text in set(texts[~exact]) - {None, *known}}
    meant = {text: same[0] for text, same in strange.items() if len(same) == 1}
    return np.where(exact, texts, np.array([meant.get(text, text) for text in texts], dtype=object))


@dataclass(frozen=True)
class Column:
    """What the training rows say of one column.

    :param fill: what a gap is filled with
    :param gaps: how many there were; where there were any, a 0/1 column marks them
    :param categories: those of the training rows, sorted by value
    """

    name: str
    kind: str
    fill: float | None = None
    gaps: int = 0
    categories: tuple[str, ...] = ()

    @classmethod
    def fit(cls, values: "pd.Series", kind: str, missing: str) -> "Column":
        """The column of training rows, typed."""
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
        """The names of the columns that it becomes."""
        if self.kind == "category":
            return tuple(f"{self.name}={category}" for category in self.categories)
        return (self.name, f"{self.name}={MISSING}") if self.gaps else (self.name,)

    def encode(self, values: "pd.Series") -> np.ndarray:
        """Typed cells as numbers, [N, len(outputs)]."""
        if self.kind == "category":
            return np.equal.outer(values.fillna(MISSING).to_numpy(object), np.array(self.categories, object))
        if self.fill is None:
            return values.to_numpy()[:, None]
        filled = values.fillna(self.fill)
        return np.column_stack([filled, values.isna()] if self.gaps else [filled])

    def describe(self) -> dict[str, Any]:
        """Plain data for a record."""
        facts: dict[str, Any] = {"outputs": list(self.outputs), "column": self.name, "kind": self.kind}
        if self.kind == "category":
            return facts | {"categories": list(self.categories)}
        return facts | ({"fill": self.fill, "gaps": self.gaps} if self.gaps else {})

    def unknown(self, values: "pd.Series") -> Counter[tuple[str, str]]:
        """How many typed cells hold each category that the training rows did not."""
        if self.kind != "category":
            return Counter()
        texts = values.fillna(MISSING)
        return Counter((self.name, text) for text in texts[~texts.isin(self.categories)])


@dataclass(frozen=True)
class ColumnEncoder:
    """Raw rows to numbers, by what the training rows said."""

    columns: tuple[Column, ...]
    schema: Schema

    @classmethod
    def fit(cls, rows: "pd.DataFrame", schema: Schema) -> "ColumnEncoder":
        """Medians and categories of the training rows.

        :param rows: training rows alone, typed
        """
        return cls(tuple(Column.fit(rows[name], kind, schema.missing) for name, kind in schema.kinds.items()), schema)

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
        """Whether each raw column holds numbers, so that rows need no names."""
        return set(self.schema.kinds.values()) <= ARRAYS

    def transform(
        self,
        frame: "pd.DataFrame",
        where: str = "the table",
        settings: TableSettings = TableSettings.DEFAULT,
        unknown: Counter[tuple[str, str]] | None = None,
    ) -> np.ndarray:
        """Raw rows as numbers, [N, D] float64; columns are found by their names, and others ignored.

        :param settings: how cells are read
        :param unknown: takes the number of rows of each category that the training rows did not have
        :raises UserError: for a missing column, a cell that is not of its column's kind, or a gap that nothing fills
        """
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        check_names(self.names, list(frame.columns), where)
        rows = typed(frame, self.schema, settings, where, known={each.name: each.categories for each in self.columns})
        if unknown is not None:
            for column in self.columns:
                unknown.update(column.unknown(rows[column.name]))
        return self.encode(rows)

    def encode(self, rows: "pd.DataFrame") -> np.ndarray:
        """Typed rows as numbers, [N, D] float64."""
        X = np.empty((len(rows), len(self.feature_names)))
        first = 0
        for column in self.columns:
            X[:, first : first + len(column.outputs)] = column.encode(rows[column.name])
            first += len(column.outputs)
        return X

    def describe(self) -> list[dict[str, Any]]:
        """What each column became, as plain data: what a record keeps and ``in_words`` prints."""
        return [column.describe() for column in self.columns]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class UserColumns:
    """The features of a user's table, until the training rows are known.

    :param rows: typed, one line for each row of the table
    :param plain: whether all cells are numbers, so that the table's ``X`` holds them as they are
    """

    rows: "pd.DataFrame"
    schema: Schema
    plain: bool = False

    def digits(self) -> np.ndarray:
        """The cells as numbers that tell them apart, [N, K]: for digests and the order of rows, never a method."""
        return np.column_stack([_told_apart(self.rows[name]) for name in self.rows])


def _told_apart(column: "pd.Series") -> np.ndarray:
    """Categories as the first 48 bits of a sha256: by their value, as ever, where that tells them apart."""
    if column.dtype == np.float64:
        return column.to_numpy()
    texts = column.dropna().unique().tolist()
    values = [value_of(text) for text in texts]
    told = values if len(set(values)) == len(texts) else texts
    numbers = [float(int.from_bytes(hashlib.sha256(each.encode()).digest()[:6], "big")) for each in told]
    return column.map(dict(zip(texts, numbers, strict=True))).to_numpy(np.float64, na_value=np.nan)


def said_of_unknown(found: Counter[tuple[str, str]], where: str) -> list[str]:
    """A sentence for each column with categories that training did not have, by what ``transform`` counted."""
    sentences = []
    for name in dict.fromkeys(name for name, _ in found):
        rows = {text: count for (column, text), count in found.items() if column == name}
        number = sum(rows.values())
        sentences.append(
            f"{where} has categories in {name!r} that training did not have ({cell_messages.shown(list(rows))}), in "
            f"{number:,} row{'s' * (number != 1)}, which count as none of the known ones"
        )
    return sentences


def check_names(wanted: Sequence[str], there: Sequence[str], where: str) -> None:
    """Refuse a table that lacks columns, or has one twice, and say which may be meant."""
    if twice := [name for name in wanted if there.count(name) > 1]:
        raise UserError(f"{where} has {there.count(twice[0])} columns named {twice[0]!r}: give each its own name")
    if absent := [name for name in wanted if name not in there]:
        folded = {name.casefold(): name for name in there}
        near = get_close_matches(absent[0].casefold(), folded, n=1)
        meant = "".join(f"; is {folded[each]!r} meant to be {absent[0]!r}?" for each in near)
        raise UserError(
            f"{where} lacks {len(absent)} of the {len(wanted)} columns: {cell_messages.shown(absent)}{meant}"
        )


def in_words(described: Sequence[Mapping[str, Any]], most: int = 20) -> list[str]:
    """What the columns became, in lines: the numbers in one, and one for each other column."""
    plain = [each["column"] for each in described if each["kind"] == "number" and "fill" not in each]
    others = [each for each in described if each["column"] not in plain]
    more = f" and {len(plain) - most} more" * (len(plain) > most)
    lines = [f"  {', '.join(plain[:most])}{more}: numbers"] if plain else []
    lines += [f"  {each['column']}: {_words(each)}" for each in others[:most]]
    return lines + ([f"  and {len(others) - most} more columns"] if len(others) > most else [])


def _words(described: Mapping[str, Any]) -> str:
    if described["kind"] == "category":
        categories = described["categories"]
        shown = ", ".join(categories[:5]) + (", ..." if len(categories) > 5 else "")
        columns = f"{len(categories)} column{'s' * (len(categories) != 1)} of 0 and 1"
        return f"{columns}, one for each category ({shown}); all 0 for an unknown one"
    what = {"number": "numbers", "flag": "1 for true, 0 for false", "date": "days since 1970-01-01"}[described["kind"]]
    if "fill" not in described:
        return what
    gaps = f"{described['gaps']:,} gap{'s' * (described['gaps'] != 1)}"
    return f"{what}, {gaps} filled with the training rows' median, {described['fill']:.6g}, and marked in a column"
