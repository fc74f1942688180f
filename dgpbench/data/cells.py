"""The cells of one column as numbers, truth values, dates or categories: one rule for every format.

Text stays text until the kind of its column is decided. Numbers follow one grammar: a sign, digits with one kind of
group mark in groups of three, one decimal mark, an exponent. Settings of numbers touch neither dates nor categories.
"""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.data.table_settings import TableSettings
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

# Texts without a value: those that pandas knows.
GAPS = frozenset(
    [
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)
MARKS = {"point": ".", "comma": ",", "blank": " \u00a0\u2009\u202f", "apostrophe": "'\u2019"}
TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
EXACT = 2.0**53  # beyond, float64 merges neighbouring whole numbers
ISO = "ISO8601"
NUMBERS, DATES = (int, float, np.integer, np.floating, Decimal), (datetime.date, np.datetime64)


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one column, told apart by what they are.

    :param values: [N] as they were given, an array of objects, or of numbers where all cells are
    :param texts: [N] large_string, without blanks at the ends; null where the cell is no text
    :param numbers: [N] NaN where the cell is not a number by type
    :param truths: [N] 1, 0, NaN where the cell is not a truth value by type
    :param dates: [N] days since 1970-01-01, NaN where the cell is not a date by type
    :param present: [N] whether the cell has a value
    :param is_category: whether the column's type says that it holds categories
    """

    values: np.ndarray
    texts: Any
    numbers: np.ndarray
    truths: np.ndarray
    dates: np.ndarray
    present: np.ndarray
    is_category: bool
    settings: TableSettings

    @classmethod
    def of(cls, column: "pd.Series", settings: TableSettings) -> "Cells":
        """The cells of a raw column of any type."""
        import pandas as pd
        import pyarrow as pa
        import pyarrow.compute as pc

        size, dtype = len(column), column.dtype
        nothing, no_text = np.full(size, np.nan), pa.nulls(size, pa.large_string())
        numbers, truths, dates, texts = nothing, nothing, nothing, no_text
        is_category = isinstance(dtype, pd.CategoricalDtype) or "dictionary" in str(dtype)
        if isinstance(dtype, pd.SparseDtype):
            column = column.sparse.to_dense()
            dtype = column.dtype
        if is_category:
            column = column.astype(object)
        elif pd.api.types.is_bool_dtype(dtype):
            truths = column.to_numpy(np.float64, na_value=np.nan)
        elif pd.api.types.is_integer_dtype(dtype) or pd.api.types.is_float_dtype(dtype):
            numbers = column.to_numpy(np.float64, na_value=np.nan)
        elif pd.api.types.is_datetime64_any_dtype(dtype):
            dates = _days(pd.to_datetime(column, utc=True))
        elif pd.api.types.is_string_dtype(dtype) and column.dtype != object:
            texts = pa.array(column.array, pa.large_string(), from_pandas=True)
        else:
            column = column.astype(object)
        present = column.notna().to_numpy()
        values = column.to_numpy() if isinstance(dtype, np.dtype) and dtype.kind in "iufb" else column.array
        if column.dtype == object:
            values = column.to_numpy()
            is_text, is_truth, is_number, is_date = (
                np.fromiter((isinstance(value, kinds) for value in values), bool, size) & present
                for kinds in (str, bool | np.bool_, NUMBERS, DATES)
            )
            texts = pa.array(values, pa.large_string(), mask=~is_text) if is_text.any() else no_text
            truths = np.where(is_truth, values, np.nan).astype(np.float64)
            numbers = np.where(is_number & ~is_truth, values, np.nan).astype(np.float64)
            if is_date.any():
                dated = pd.Series(values).where(is_date, None)
                dates = _days(pd.to_datetime(dated, utc=True, errors="coerce"))
        if texts is not no_text:
            texts = pc.utf8_trim_whitespace(texts)
            marks = [*GAPS, *map(str, settings.na_values or ())]
            gaps = pc.is_in(texts, value_set=pa.array(marks, pa.large_string()))
            present = present & ~gaps.to_numpy(zero_copy_only=False)
            texts = pc.if_else(gaps, None, texts)
        if numeric := _numbers_of(settings.na_values or ()):
            present = present & ~np.isin(numbers, numeric)
        return cls(values, texts, numbers, truths, dates, present, is_category, settings)

    def at(self, rows: np.ndarray) -> "Cells":
        """The cells of some rows."""
        arrays = {name: getattr(self, name)[rows] for name in ("values", "numbers", "truths", "dates", "present")}
        return replace(self, texts=self.texts.take(rows), **arrays)

    @cached_property
    def is_text(self) -> np.ndarray:
        """[N] whether the cell is text with a value."""
        return self.texts.is_valid().to_numpy(zero_copy_only=False)

    def read(self, kind: str, date_format: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The cells as a kind has them, and whether each has a value; those that cannot be read are NaN, or None."""
        if kind == "category":
            return self.categories(), self.present
        if kind == "date":
            return np.where(self.present, self.days(date_format), np.nan), self.present
        if kind == "flag":
            return self._flags(), self.present
        values = np.full(len(self.present), np.nan) if self.is_category else self.numbers
        if self.texts.null_count < len(self.texts) and not self.is_category:
            values = np.where(self.is_text, parse(self.texts, self.settings.decimal, self.settings.thousands), values)
        present = self.present & ~np.isin(values, _numbers_of(self.settings.na_values or ()))
        return np.where(present, values, np.nan), present

    def holds_truths(self) -> bool:
        """Whether all cells are truth values, or the texts of such."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = pc.is_in(self.texts, value_set=pa.array(list(TRUTHS), pa.large_string()))
        return bool((np.isfinite(self.truths) | texts.to_numpy(zero_copy_only=False))[self.present].all())

    def _flags(self) -> np.ndarray:
        """1 and 0 of truth values, of the texts of such, and of the numbers 1 and 0."""
        values = np.where(np.isin(self.numbers, (0.0, 1.0)), self.numbers, self.truths)
        if self.is_text.any():
            texts = np.array([TRUTHS.get(text, np.nan) for text in self.texts.to_pylist()])
            numbers = parse(self.texts, "point", None)
            values = np.where(self.is_text, np.where(np.isin(numbers, (0.0, 1.0)), numbers, texts), values)
        return np.where(self.present, values, np.nan)

    def days(self, date_format: str | None) -> np.ndarray:
        """Dates as days since 1970-01-01, NaN for cells that are no dates; texts must have the whole of the format."""
        import pandas as pd

        texts = self.texts.to_numpy(zero_copy_only=False).astype(object)
        texts[~self.is_text] = None
        whole = np.isfinite(self.numbers)
        texts[whole] = [text_of(value) for value in np.asarray(self.values)[whole]]
        if not any(text is not None for text in texts):
            return self.dates
        column = pd.Series(texts, dtype=object)
        try:
            dates = pd.to_datetime(column, format=date_format or ISO, errors="coerce", utc=True)
        except ValueError as error:
            raise UserError(f"dataset.date_format={date_format} cannot be used: {error}") from error
        # pandas reads "now" as today's date, and "--5" as May of the year 0.
        dates = dates.where(column.str.contains(r"\d" if date_format else r"^\d{4}", na=False))
        if date_format and re.search("%[a-zA-Z]%", date_format):
            # Without marks between its parts, 1012020 would be the 10th of January.
            dates = dates.where(dates.dt.strftime(date_format) == column)
        return np.where(np.isnan(self.dates), _days(dates), self.dates)

    def categories(self) -> np.ndarray:
        """Each category as text, None for a gap and for cells that no text tells apart."""
        import pandas as pd

        found = np.full(len(self.present), None, dtype=object)
        if self.is_text.any():
            found[self.is_text] = self.texts.drop_null().to_pylist()
        typed = np.isfinite(self.numbers) | np.isfinite(self.truths) | np.isfinite(self.dates)
        if not (typed := typed & self.present & ~self.is_text).any():
            return found
        values = self.values[typed]
        if self.values.dtype == object:  # in which 1 and True are told apart
            found[typed] = [_text_that_tells(value) for value in values]
        else:
            codes, different = pd.factorize(values)
            found[typed] = np.array([_text_that_tells(value) for value in different], dtype=object)[codes]
        return found


def frame_of(table: Any) -> "pd.DataFrame":
    """An arrow table, or what gives one, as a frame whose whole numbers keep their digits beside gaps.

    Nothing that pandas has stored beside the columns is believed.
    """
    import pandas as pd
    import pyarrow as pa

    whole = {
        getattr(pa, f"{u}int{bits}")(): pd.array([], f"{u.upper()}Int{bits}").dtype
        for u in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    return pa.table(table).to_pandas(ignore_metadata=True, types_mapper=whole.get)


def parse(texts: Any, decimal: str, thousands: str | None) -> np.ndarray:
    """The nearest float64 of each text that is a number as the two marks say, NaN for any other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == "point":
        try:
            return pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)  # whose spellings the grammar has, too
        except pa.ArrowInvalid:
            pass
    texts = pc.if_else(pc.match_substring_regex(texts, grammar(decimal, thousands)), texts, None)
    if thousands is not None:
        texts = pc.replace_substring_regex(texts, f"[{MARKS[thousands]}]", "")
    for mark, plain in ((MARKS[decimal], "."), ("\u2212", "-")):
        texts = pc.replace_substring(texts, mark, plain)
    return pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)


def grammar(decimal: str, thousands: str | None) -> str:
    """The regular expression of a number with these marks; a typographic minus is one like any other."""
    mark = f"[{MARKS[decimal]}]"
    groups = "" if thousands is None else rf"[1-9]\d{{0,2}}(?:[{MARKS[thousands]}]\d{{3}})+(?:{mark}\d*)?|"
    return rf"\A[+\-\x{{2212}}]?(?:(?:{groups}\d+(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity))\z"


def text_of(value: Any) -> str:
    """The text of a category that is a number, truth value or date by type: 5 of 5.0."""
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else str(value)
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, datetime.datetime) else text


def _text_that_tells(value: Any) -> str | None:
    """None of floats that stand for several whole numbers."""
    return None if isinstance(value, float | np.floating) and abs(float(value)) > EXACT else text_of(value)


def value_of(text: str) -> str:
    """What categories that are the same number, or truth value, share: 1 of 01, 5 of 5.0, True of TRUE."""
    if text.lower() in ("true", "false"):
        return text.capitalize()
    if not re.fullmatch(NUMBER, text):
        return text
    return str(int(text)) if text.isdecimal() else text_of(float(text))


def _numbers_of(marks: Sequence[Any]) -> list[float]:
    """Marks of gaps that are numbers."""
    return [float(mark) for mark in map(str, marks) if re.fullmatch(NUMBER, mark)]


def _days(dates: "pd.Series") -> np.ndarray:
    import pandas as pd

    return ((dates - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(days=1)).to_numpy(np.float64)
