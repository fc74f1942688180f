"""Raw cells as typed columns, and one sentence for those that cannot be: how many, and where the first three are."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.errors import Refused

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 3
ISO = "ISO8601"
EPOCH = "1970-01-01"


def typed(
    frame: "pd.DataFrame",
    kinds: Mapping[str, str],
    date_format: str | None = None,
    where: str = "the table",
    otherwise: str | None = None,
    *,
    trained: bool = False,
) -> "pd.DataFrame":
    """Columns of numbers, flags and dates as float64, NaN for a gap; of categories as texts, None for a gap.

    :param kinds: the kind of each column that is taken: ``number``, ``flag``, ``date`` or ``category``
    :param otherwise: the advice for text that no setting makes numbers of
    :param trained: whether a fitted model says how cells are read, so that no setting can change it
    :raises Refused: for cells that are not of their column's kind, or infinite
    """
    import pandas as pd

    if in_two_parts := [name for name in kinds if frame[name].dtype.kind == "c"]:
        raise Refused(
            f"{where} holds complex numbers in {shown(in_two_parts)}: give their two parts as columns of their own"
        )
    columns = {name: _typed(frame[name], kind, date_format) for name, kind in kinds.items()}
    wrong = {name: frame[name].notna() & columns[name].isna() for name in columns}
    if count := sum(int(each.sum()) for each in wrong.values()):
        advice = _advice(frame, {name: each for name, each in wrong.items() if each.any()}, kinds, otherwise)
        if trained:
            advice = replace(advice, sentence="cells are read as in training: correct them, or leave their rows out")
        raise Refused(f"{where} holds {advice.what} in {places(frame, wrong, count)}: {advice.sentence}")
    endless = {name: np.isinf(columns[name]) for name, kind in kinds.items() if kind != "category"}
    if count := sum(int(each.sum()) for each in endless.values()):
        raise Refused(
            f"{where} holds an infinite number in {places(frame, endless, count)}: correct it, or leave its row out"
        )
    return pd.DataFrame(columns, index=frame.index)


def check_gaps(typed_frame: "pd.DataFrame", where: str = "the table", *, trained: bool = False) -> None:
    """Refuse cells without a value.

    :param trained: whether a fitted model refuses them, whose training rows had none
    """
    gaps = {name: typed_frame[name].isna() for name in typed_frame}
    if count := sum(int(each.sum()) for each in gaps.values()):
        rows = int(typed_frame.isna().any(axis=1).sum())
        advice = (
            "the model was not trained to fill gaps in: give them values, or leave out"
            if trained
            else "dataset.missing=impute fills features in with the training rows' median, "
            "dataset.missing=drop leaves out"
        )
        raise Refused(
            f"{where} has no value (NaN) in {places(typed_frame, gaps, count, bare=True)}: "
            f"{advice} the {rows:,} row{'s' * (rows != 1)} concerned"
        )


def places(frame: "pd.DataFrame", chosen: "Mapping[str, pd.Series]", count: int, *, bare: bool = False) -> str:
    """'4 cells (row 2 of 'b': 'red', row 5 of 'b': 'blue', row 9 of 'c': 'x', ...)', rows from 1 below the header."""
    import pandas as pd

    names = [name for name, each in chosen.items() if each.any()]
    at = np.argwhere(np.column_stack([chosen[name] for name in names]))[:SHOWN]
    first = frame.index[0] if isinstance(frame.index, pd.RangeIndex) else 0  # of a part of a file
    cells = [
        f"row {first + row + 1:,} of {names[column]!r}"
        + ("" if bare else f": {_shown(frame[names[column]].iloc[row])}")
        for row, column in at
    ]
    return f"{count:,} cell{'s' * (count != 1)} ({', '.join(cells)}{', ...' * (count > SHOWN)})"


def text_of(value: Any) -> str:
    """A category as text, the same whatever else its column holds: pandas reads 01, 5.0 and TRUE as 1, 5 and True.

    It does so in a column, or a part of one, that holds nothing but numbers, or true and false.
    """
    text = str(value).strip()
    if text.lower() in ("true", "false"):
        return text.capitalize()
    if not re.fullmatch(NUMBER, text):
        return text
    if text.isdecimal():
        return str(int(text))
    number = float(text)
    return str(int(number)) if number.is_integer() else str(number)


def days(column: "pd.Series", date_format: str | None = None) -> "pd.Series":
    """Dates as days since 1970-01-01, NaN where there is none."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):  # which to_datetime gives back as an array
        column = column.astype(object)
    try:
        dates = pd.to_datetime(column, format=date_format or ISO, errors="coerce", utc=True)
    except ValueError as error:
        raise Refused(f"dataset.date_format={date_format} cannot be used: {error}") from error
    return (dates - pd.Timestamp(EPOCH, tz="UTC")) / pd.Timedelta(days=1)


def _typed(column: "pd.Series", kind: str, date_format: str | None) -> "pd.Series":
    import pandas as pd

    if kind == "category":
        texts = [None if gap else text_of(value) for value, gap in zip(column, column.isna(), strict=True)]
        return pd.Series(texts, index=column.index, dtype=object)
    if kind == "date":
        return days(column, date_format)
    if kind == "flag":
        return column.map({True: 1.0, False: 0.0}).astype(np.float64)
    if column.dtype == bool or not pd.api.types.is_numeric_dtype(column.dtype):
        column = column.map(_no_number_in_disguise).astype(object)
    numbers = pd.to_numeric(column, errors="coerce")
    return pd.Series(numbers.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index)


def _no_number_in_disguise(value: Any) -> Any:
    """pandas would count true and false, and dates as nanoseconds."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else str(value)


def _shown(value: Any) -> str:
    return repr(str(value)[:40]) if isinstance(value, str | bool | np.bool_) else str(value)


@dataclass(frozen=True)
class Advice:
    """What wrong cells hold, and the setting that most likely answers."""

    what: str
    sentence: str


NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
DATE = r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}"  # as people write it: 14.01.2020
# Numbers as people write them, in the order in which they are tried.
WRITTEN = {
    r"-?\d{1,3}(,\d{3})+(\.\d+)?": "dataset.thousands=comma reads a comma between thousands, "
    "dataset.decimal=comma a decimal comma",
    r"-?\d+,\d+": "dataset.decimal=comma reads a decimal comma",
    r"-?\d{1,3}(\.\d{3})+(,\d+)?": "dataset.decimal=comma and dataset.thousands=point read such numbers",
    r"-?\d{1,3}(\s\d{3})+(\.\d+)?": "dataset.thousands=blank reads a blank between thousands",
    r"-?\d{1,3}('\d{3})+(\.\d+)?": "dataset.thousands=apostrophe reads an apostrophe between thousands",
    r"-?\d+(\.\d+)?\s*%": "no setting reads percent signs: take them out",
    "\u2212.*": "a typographic minus sign begins them: write - in its place",
    DATE: "dataset.dates=auto dataset.date_format=%d.%m.%Y (or the like) reads dates",
}


def _advice(
    frame: "pd.DataFrame", wrong: "Mapping[str, pd.Series]", kinds: Mapping[str, str], otherwise: str | None
) -> Advice:
    """By what the cells of the columns that have wrong ones look like."""
    import pandas as pd

    if "date" in (kinds[name] for name in wrong):
        return Advice("no date", "dataset.date_format=%d.%m.%Y, or the like, says how dates are written")
    if "flag" in (kinds[name] for name in wrong):
        return Advice("neither true nor false", "correct them")
    written = {name: sentence for name, cells in wrong.items() if (sentence := advice_on(frame[name][cells]))}
    if written:
        name, sentence = next(iter(written.items()))
        alike = set(written.values()) == {sentence} and len(written) == len(wrong)
        return Advice("text", sentence if alike else f"in {name!r}, {sentence}")
    values = pd.concat([frame[name][cells].astype(str) for name, cells in wrong.items()]).str.strip()
    if otherwise:
        return Advice("text", otherwise)
    if all(frame[name].notna().sum() > 2 * cells.sum() for name, cells in wrong.items()):
        gaps = listed(sorted(values.unique())[:SHOWN])
        return Advice("text", f"if it stands for no value, 'dataset.na_values={gaps}' says so; else correct it")
    dates = [name for name, cells in wrong.items() if days(frame[name][cells].astype(str)).notna().all()]
    ways = ["dataset.dates=auto makes days since 1970-01-01 of dates"] if dates else []
    ways += ["dataset.categorical=auto makes columns of 0 and 1 of categories"] if len(dates) < len(wrong) else []
    drop = f"'dataset.drop={listed(list(wrong))}' leaves {it(wrong)} out"
    return Advice("text" if len(dates) < len(wrong) else "dates", ", ".join([*ways, drop]))


def advice_on(cells: "pd.Series") -> str | None:
    """What reads cells that are all numbers or dates as people write them; None of other text."""
    texts = cells.astype(str).str.strip()
    odd = texts[~texts.str.fullmatch(NUMBER)]
    found = (sentence for pattern, sentence in WRITTEN.items() if len(odd) and odd.str.fullmatch(pattern).all())
    return next(found, None)


def shown(names: Sequence[str]) -> str:
    """The first three names."""
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def it(names: Collection[str]) -> str:
    """The pronoun of so many columns."""
    return "it" if len(names) == 1 else "them"


def listed(names: Sequence[str]) -> str:
    """A list as the command line takes it: '["a b"]'; the shell needs quotes around it."""
    return "[" + ",".join(name if name.isidentifier() else f'"{name}"' for name in names) + "]"
