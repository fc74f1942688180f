"""Settings of a user's table, and the cells of one column as numbers, truth values, dates or categories.

The same rules hold for every file format. Text stays text until the kind of its column is decided. Numbers follow one
grammar: a sign, digits with one kind of group mark in groups of three, one decimal mark, an exponent. Settings of
numbers affect neither dates nor categories.
"""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dgpbench.config.settings import setting
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

# Texts without a value: those of pandas.
GAPS = {
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
}  # fmt: skip
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "blanks": r"\s+"}
MARKS = {"point": ".", "comma": ",", "blank": " \u00a0\u2009\u202f", "apostrophe": "'\u2019"}
TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
EXACT = 2.0**53  # beyond, float64 merges neighbouring whole numbers
NUMBERS, DATES = (int, float, np.integer, np.floating, Decimal), (datetime.date, np.datetime64)


@dataclass(frozen=True)
class TableSettings:
    """Settings of ``dataset=csv``."""

    DEFAULT: ClassVar["TableSettings"]

    path: str | None = setting("the file: csv, tsv or other text, also as .gz, .bz2 or .xz; .parquet, .xlsx, .xls")
    target: str | None = setting("the column to predict")
    test_path: str | None = setting("a second file with the test rows of task=fixed", default=None)
    separator: str | None = setting(f"between columns: {', '.join(SEPARATORS)} or a character; null detects it")
    drop: list = setting("columns to leave out")
    missing: str = setting(
        "cells without a value: impute fills in the training rows' median, drop leaves out their rows",
        words=("refuse", "drop", "impute"),
        default="refuse",
    )
    categorical: list | str = setting(
        "columns to encode as one 0/1 column per category; auto: all columns of text",
        words=("refuse", "auto"),
        default="refuse",
    )
    dates: list | str = setting(
        "columns to convert to days since 1970-01-01; auto: all columns of dates",
        words=("refuse", "auto"),
        default="refuse",
    )
    date_format: str | None = setting("format of dates, such as %d.%m.%Y; null: 2024-12-31", default=None)
    decimal: str = setting("decimal mark", words=("point", "comma"), default="point")
    thousands: str | None = setting(
        "mark between thousands", words=("comma", "point", "blank", "apostrophe"), default=None
    )
    encoding: str | None = setting("of a text file, such as latin-1 or utf-16; null: UTF-8", default=None)
    header: bool | None = setting("whether the first row names the columns, else they are 1, 2, ...", default=None)
    sheet: str | None = setting("sheet of a workbook", default=None)
    na_values: list | None = setting("texts that mean a missing value, besides NA, NaN, null and none", default=None)
    target_transform: str = setting(
        "transform of the target in training, undone in predictions: sinh_arcsinh for skewed or heavy-tailed targets",
        words=("none", "log", "sinh_arcsinh"),
        default="none",
    )
    keep: list | None = setting(
        "columns to use although they look like row numbers, repeated names or copies of the target", default=None
    )

    def __post_init__(self) -> None:
        if self.decimal == self.thousands:
            other = "comma" if self.decimal == "point" else "point"
            raise UserError(
                f"dataset.decimal={self.decimal} and dataset.thousands={self.thousands} are the same mark: "
                f"set dataset.decimal={other}, or another dataset.thousands"
            )

    @property
    def settled(self) -> set[str]:
        """Columns with a decision: to drop or to keep them."""
        return {*map(str, self.drop), *map(str, self.keep or ())}


TableSettings.DEFAULT = TableSettings(path=None, target=None, separator=None, drop=[])


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one column by their type; every array is [N]."""

    values: np.ndarray  # as given, objects, or numbers where all cells are numbers
    texts: Any  # large_string, without blanks at the ends; null where the cell is not text
    numbers: np.ndarray  # NaN where the cell's type is not a number
    truths: np.ndarray  # 1, 0, NaN where the cell's type is not a truth value
    dates: np.ndarray  # days since 1970-01-01, NaN where the cell's type is not a date
    present: np.ndarray  # the cell has a value
    is_category: bool  # the column has a categorical type
    settings: TableSettings

    @classmethod
    def of(cls, column: "pd.Series", settings: TableSettings) -> "Cells":
        """Return the cells of a raw column of any type."""
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
            gaps = pc.is_in(texts, value_set=pa.array([*GAPS, *map(str, settings.na_values or ())], pa.large_string()))
            present = present & ~gaps.to_numpy(zero_copy_only=False)
            texts = pc.if_else(gaps, None, texts)
        if numeric := _numbers_of(settings.na_values or ()):
            present = present & ~np.isin(numbers, numeric)
        return cls(values, texts, numbers, truths, dates, present, is_category, settings)

    def at(self, rows: np.ndarray) -> "Cells":
        """Return the cells of some rows."""
        arrays = {name: getattr(self, name)[rows] for name in ("values", "numbers", "truths", "dates", "present")}
        return replace(self, texts=self.texts.take(rows), **arrays)

    @cached_property
    def is_text(self) -> np.ndarray:
        """[N] True where the cell is text with a value."""
        return self.texts.is_valid().to_numpy(zero_copy_only=False)

    def read(self, kind: str, date_format: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells as one kind, NaN or None where unreadable, and whether each has a value."""
        if kind == "category":
            return self.categories(), self.present
        if kind == "date":
            return np.where(self.present, self.days(date_format), np.nan), self.present
        if kind == "flag":  # truth values, their texts, and the numbers 1 and 0
            values = np.where(np.isin(self.numbers, (0.0, 1.0)), self.numbers, self.truths)
            if self.is_text.any():
                texts = np.array([TRUTHS.get(text, np.nan) for text in self.texts.to_pylist()])
                numbers = parse(self.texts, "point", None)
                values = np.where(self.is_text, np.where(np.isin(numbers, (0.0, 1.0)), numbers, texts), values)
            return np.where(self.present, values, np.nan), self.present
        values = np.full(len(self.present), np.nan) if self.is_category else self.numbers
        if self.texts.null_count < len(self.texts) and not self.is_category:
            values = np.where(self.is_text, parse(self.texts, self.settings.decimal, self.settings.thousands), values)
        present = self.present & ~np.isin(values, _numbers_of(self.settings.na_values or ()))
        return np.where(present, values, np.nan), present

    def holds_truths(self) -> bool:
        """Return whether all cells are truth values, or texts of them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = pc.is_in(self.texts, value_set=pa.array(list(TRUTHS), pa.large_string()))
        return bool((np.isfinite(self.truths) | texts.to_numpy(zero_copy_only=False))[self.present].all())

    def days(self, date_format: str | None) -> np.ndarray:
        """Return dates as days since 1970-01-01, NaN for other cells; texts must match the whole format."""
        import pandas as pd

        texts = self.texts.to_numpy(zero_copy_only=False).astype(object)
        texts[~self.is_text] = None
        whole = np.isfinite(self.numbers)
        texts[whole] = [text_of(value) for value in np.asarray(self.values)[whole]]
        if not any(text is not None for text in texts):
            return self.dates
        column = pd.Series(texts, dtype=object)
        try:
            dates = pd.to_datetime(column, format=date_format or "ISO8601", errors="coerce", utc=True)
        except ValueError as error:
            raise UserError(f"dataset.date_format={date_format} cannot be used: {error}") from error
        # pandas reads "now" as today's date, and "--5" as May of the year 0.
        dates = dates.where(column.str.contains(r"\d" if date_format else r"^\d{4}", na=False))
        if date_format and re.search("%[a-zA-Z]%", date_format):
            # Without marks between its parts, 1012020 would be the 10th of January.
            dates = dates.where(dates.dt.strftime(date_format) == column)
        return np.where(np.isnan(self.dates), _days(dates), self.dates)

    def categories(self) -> np.ndarray:
        """Return each category as text, None for a gap and for floats that merge several whole numbers."""
        import pandas as pd

        categories = np.full(len(self.present), None, dtype=object)
        if self.is_text.any():
            categories[self.is_text] = self.texts.drop_null().to_pylist()
        typed = np.isfinite(self.numbers) | np.isfinite(self.truths) | np.isfinite(self.dates)
        if not (typed := typed & self.present & ~self.is_text).any():
            return categories
        values = self.values[typed]
        if self.values.dtype == object:  # 1 and True differ here, but not in factorize
            categories[typed] = [_text_that_tells(value) for value in values]
        else:
            codes, different = pd.factorize(values)
            categories[typed] = np.array([_text_that_tells(value) for value in different], dtype=object)[codes]
        return categories


def frame_of(table: Any) -> "pd.DataFrame":
    """Convert an arrow table to a frame in which whole numbers keep their digits beside gaps.

    The metadata that pandas stores beside the columns is ignored.
    """
    import pandas as pd
    import pyarrow as pa

    names = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    whole = {pa.type_for_alias(name.lower()): pd.api.types.pandas_dtype(name) for name in names}
    return pa.table(table).to_pandas(ignore_metadata=True, types_mapper=whole.get)


def parse(texts: Any, decimal: str, thousands: str | None) -> np.ndarray:
    """Return the nearest float64 of each text that is a number with these marks, NaN for others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == "point":
        try:
            return pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)  # its spellings are those of the grammar
        except pa.ArrowInvalid:
            pass
    texts = pc.if_else(pc.match_substring_regex(texts, grammar(decimal, thousands)), texts, None)
    if thousands is not None:
        texts = pc.replace_substring_regex(texts, f"[{MARKS[thousands]}]", "")
    for mark, plain in ((MARKS[decimal], "."), ("\u2212", "-")):
        texts = pc.replace_substring(texts, mark, plain)
    return pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)


def grammar(decimal: str, thousands: str | None) -> str:
    """Return the regular expression of numbers with these marks; a typographic minus counts as a minus."""
    mark = f"[{MARKS[decimal]}]"
    groups = "" if thousands is None else rf"[1-9]\d{{0,2}}(?:[{MARKS[thousands]}]\d{{3}})+(?:{mark}\d*)?|"
    return rf"\A[+\-\x{{2212}}]?(?:(?:{groups}\d+(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity))\z"


def text_of(value: Any) -> str:
    """Return the text of a category of type number, truth value or date: 5 for 5.0."""
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else str(value)
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, datetime.datetime) else text


def _text_that_tells(value: Any) -> str | None:  # None for floats that may stand for several whole numbers
    return None if isinstance(value, float | np.floating) and abs(float(value)) > EXACT else text_of(value)


def value_of(text: str) -> str:
    """Return the value that texts of one number or truth value share: 1 for 01, 5 for 5.0, True for TRUE."""
    if text.lower() in ("true", "false"):
        return text.capitalize()
    if not re.fullmatch(NUMBER, text):
        return text
    return str(int(text)) if text.isdecimal() else text_of(float(text))


def _numbers_of(marks: Sequence[Any]) -> list[float]:
    return [float(mark) for mark in map(str, marks) if re.fullmatch(NUMBER, mark)]


def _days(dates: "pd.Series") -> np.ndarray:
    # In NumPy, since pandas would convert to microseconds, which do not reach the years that milliseconds can name.
    return (dates.dt.tz_localize(None).to_numpy() - np.datetime64(0, "D")) / np.timedelta64(1, "D")
