"""What a user sets of a table of their own: how its file is read, and how its columns become numbers."""

from dataclasses import dataclass
from typing import ClassVar

from dgpbench.config.settings import setting

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "blanks": r"\s+"}


@dataclass(frozen=True)
class TableSettings:
    """What a user sets of ``dataset=csv``."""

    DEFAULT: ClassVar["TableSettings"]

    path: str | None = setting("the file: csv, tsv or other text, also as .gz, .bz2 or .xz; .parquet, .xlsx, .xls")
    target: str | None = setting("the column to predict")
    test_path: str | None = setting("a second file, whose rows are the test set of task=fixed", default=None)
    separator: str | None = setting(f"between columns, {', '.join(SEPARATORS)} or the character itself; null finds it")
    drop: list = setting("columns to leave out")
    missing: str = setting(
        "cells without a value: impute fills in the training rows' median, drop leaves out their rows",
        words=("refuse", "drop", "impute"),
        default="refuse",
    )
    categorical: list | str = setting(
        "columns that become one 0/1 column for each category; auto: all columns of text",
        words=("refuse", "auto"),
        default="refuse",
    )
    dates: list | str = setting(
        "columns that become days since 1970-01-01; auto: all columns of dates",
        words=("refuse", "auto"),
        default="refuse",
    )
    date_format: str | None = setting("how dates are written, such as %d.%m.%Y; null: 2024-12-31", default=None)
    decimal: str = setting("the decimal mark", words=("point", "comma"), default="point")
    thousands: str | None = setting(
        "the mark between thousands", words=("comma", "point", "blank", "apostrophe"), default=None
    )
    encoding: str | None = setting("of a text file, such as latin-1 or utf-16; null: UTF-8", default=None)
    header: bool | None = setting("whether the first row names the columns, else they are 1, 2, ...", default=None)
    sheet: str | None = setting("which sheet of a workbook", default=None)
    na_values: list | None = setting(
        "texts that stand for no value, besides NA, NaN, null and none at all", default=None
    )
    target_transform: str = setting(
        "of the target before training, undone in predictions: sinh_arcsinh for skewed or heavy-tailed ones",
        words=("none", "log", "sinh_arcsinh"),
        default="none",
    )
    keep: list | None = setting(
        "features all the same: row numbers, repeated names, copies of the target", default=None
    )


TableSettings.DEFAULT = TableSettings(path=None, target=None, separator=None, drop=[])
