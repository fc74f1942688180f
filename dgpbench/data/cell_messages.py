"""What a refusal says of raw cells: how many, where the first three are, and which setting reads them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from dgpbench.data.cells import EXACT, MARKS, Cells, parse
from dgpbench.data.table_settings import TableSettings

SHOWN = 3  # cells, and names
LENGTH = 40  # of a quoted text
LOOKED_AT = 20_000  # cells of each column that advice is judged by
FORMATS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y"),
    *("%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%d-%b-%Y"),
)
MOST_GAPS = 10  # texts that one setting names
ALIENS = {
    "complex": ("complex numbers", "give their two parts as columns of their own"),
    "timedelta": ("durations", "give them as numbers, such as hours"),
    "period": ("periods", "give a date of each, such as its first day"),
    "interval": ("intervals", "give their two ends as columns of their own"),
    "bytes": ("bytes", "give them as text or numbers"),
    "time": ("times of day", "give them as numbers, such as hours"),
}
LISTS = ("lists or structs", "give each of their parts a column of its own")


def listed(names: Sequence[Any]) -> str:
    """A list as the command line takes it: '["a b"]'; the shell needs quotes around it."""
    return "[" + ",".join(name if _is_word(name) else _quoted(name) for name in map(str, names)) + "]"


def _is_word(name: str) -> bool:
    words = ("null", "true", "false", "nan", "inf", "none", "yes", "no", "on", "off")
    return bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)) and name.lower() not in words


def _quoted(name: str) -> str:
    escaped = re.sub(r'(\\+)(?="|$)', r"\1\1", name).replace('"', '\\"')
    return f'"{escaped}"'


def hint(key: str, names: Sequence[Any], settings: TableSettings) -> str:
    """A setting of columns, in the shell's quotes, beside what it names already; of very many only its key."""
    given = getattr(settings, key)
    words = f"dataset.{key}={listed([*(given if isinstance(given, list) else ()), *names])}"
    return f"dataset.{key}" if len(words) > 200 else "'" + words.replace("'", "'\\''") + "'"


def either(names: Sequence[str], settings: TableSettings) -> str:
    """The two settings that answer the question what a column is."""
    return f"{hint('drop', names, settings)} leaves {it(names)} out, {hint('keep', names, settings)} keeps {it(names)}"


def it(names: Collection[str]) -> str:
    """The pronoun of so many columns."""
    return "it" if len(names) == 1 else "them"


def cut(value: Any, length: int = LENGTH) -> str:
    """A text of bounded length, in one line."""
    text = str(value)[: length + 1]
    text = text if len(text) <= length else f"{text[:length]}..."
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def quoted(value: Any) -> str:
    """The same in quotes."""
    text = str(value)
    return repr(text if len(text) <= LENGTH else f"{text[:LENGTH]}...")


def shown(names: Sequence[Any]) -> str:
    """The first three names."""
    return ", ".join(quoted(name) for name in names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def places(raw: Mapping[str, Any], chosen: Mapping[str, np.ndarray], first: int = 0, *, bare: bool = False) -> str:
    """'4 cells (row 2 of 'b': 'red', row 5 of 'b': 'blue', row 9 of 'c': 'x', ...)', rows from 1 below the header.

    :param first: the number of rows before these
    """
    names = [name for name, each in chosen.items() if each.any()]
    count = sum(int(chosen[name].sum()) for name in names)
    at = np.argwhere(np.column_stack([chosen[name] for name in names]))[:SHOWN]
    cells = [
        f"row {first + row + 1:,} of {quoted(names[column])}"
        + ("" if bare else f": {_cell(raw[names[column]].iloc[row])}")
        for row, column in at
    ]
    return f"{count:,} cell{'s' * (count != 1)} ({', '.join(cells)}{', ...' * (count > SHOWN)})"


def _cell(value: Any) -> str:
    plain = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return cut(value) if plain else quoted(value)


def of_wrong(
    cells: Mapping[str, Cells],
    wrong: Mapping[str, np.ndarray],
    kinds: Mapping[str, str],
    settings: TableSettings,
    say: Callable[[Mapping[str, np.ndarray]], str],
    target: str | None,
    *,
    trained: bool = False,
) -> list[str]:
    """A clause for each advice that columns with wrong cells need.

    :param cells: of all columns
    :param wrong: the cells that their kind cannot read, of the columns that have some
    :param say: gives the places of chosen cells
    :param target: the column for which no setting of features is advised
    :param trained: whether a fitted model says how cells are read, so that no setting can change it
    """
    groups: dict[tuple[str, str], list[str]] = {}
    marks = {} if trained else _of_marks(cells, wrong, kinds, settings)
    for name, at in wrong.items():
        regression = f"{name!r} is the target, and a regression predicts numbers" if name == target else None
        what, advice = _advice(cells[name], at, kinds[name], marks.get(name), regression)
        advice = "cells are read as in training: correct them, or leave their rows out" if trained else advice
        groups.setdefault((what, advice), []).append(name)
    clauses = []
    for (what, advice), names in groups.items():
        words = {key: hint(key, names, settings) for key in ("drop", "categorical", "dates")}
        where = say({name: wrong[name] for name in names})
        clauses.append(f"holds {what} in {where}: {advice.format(it=it(names), **words)}")
    return clauses


DROP = "{drop} leaves {it} out"


def _advice(cells: Cells, wrong: np.ndarray, kind: str, marks: str | None, otherwise: str | None) -> tuple[str, str]:
    """What the wrong cells of a column are, and what to do, with the keys of settings in braces."""
    values = cells.values[wrong]
    typed = cells.is_text | np.isfinite(cells.truths) | np.isfinite(cells.dates) | ~np.isnan(cells.numbers)
    if strange := [value for value, known in zip(values, typed[wrong], strict=True) if not known]:
        name = next((key for key in ALIENS if key in type(strange[0]).__name__.lower()), "")
        what, advice = ALIENS.get(name, LISTS)
        return what, f"{advice}, or {DROP}"
    if kind == "category":
        return f"numbers beyond {EXACT:.0f} as floats", "floats merge such categories: give the column as text"
    texts = cells.texts.filter(_mask(wrong & cells.is_text)).unique().to_pylist()
    formats = _formats(cells, wrong)
    if kind == "date":
        example = " or ".join(f"dataset.date_format={each}" for each in formats) or "dataset.date_format=%d.%m.%Y"
        return "no date", f"{example}{', or the like,' * (not formats)} says how dates are written"
    if kind == "flag":
        return "neither true nor false", "correct them"
    if cells.is_category and otherwise is None:
        return "categories", f"dataset.categorical=auto makes columns of 0 and 1 of categories, {DROP}"
    if marks is not None:
        return "text", marks
    if otherwise:
        return "text", otherwise
    if formats[:1] == [None]:
        return "dates", f"dataset.dates=auto makes days since 1970-01-01 of dates, {DROP}"
    if formats:
        ways = " or ".join(f"dataset.dates=auto dataset.date_format={each}" for each in formats)
        return "dates", f"{ways} reads them, {{categorical}} makes categories of all values, {DROP}"
    if texts and all(re.fullmatch(r"[+-]?[\d.,]+\s*%", text) for text in texts):
        return "text", "no setting reads percent signs: take them out, or {categorical} makes categories of all values"
    if cells.present.sum() > 2 * wrong.sum() and 0 < len(texts) <= MOST_GAPS:
        gaps = hint("na_values", sorted(texts), cells.settings).replace("{", "{{").replace("}", "}}")
        which = "if it stands" if len(texts) == 1 else "if they stand"
        return (
            "text",
            f"{which} for no value, {gaps} says so; else correct {'it' if len(texts) == 1 else 'them'}, or "
            "{categorical} makes categories of all values",
        )
    if np.isfinite(cells.numbers).any() or (
        len(texts) < 2 * wrong.sum()
        and not np.isnan(parse(cells.texts, cells.settings.decimal, cells.settings.thousands)).all()
    ):
        return "text", "correct them, or {categorical} makes categories of all values, " + DROP
    return "text", f"dataset.categorical=auto makes columns of 0 and 1 of categories, {DROP}"


def _formats(cells: Cells, wrong: np.ndarray) -> list[str | None]:
    """The formats of dates, None for ISO 8601, that read all wrong cells; one of them where it can be told."""
    at = np.flatnonzero(wrong)[:LOOKED_AT]
    few = cells.at(at)
    if np.isfinite(few.dates).any():
        return [None]
    if not few.is_text.all():
        return []
    return [
        form
        for form in (None, *FORMATS)
        if np.isfinite(few.at(np.arange(min(9, len(at)))).days(form)).all() and np.isfinite(few.days(form)).all()
    ][:2]


def written_otherwise(cells: Cells) -> bool:
    """Whether most texts of a column are numbers or dates that other settings would read."""
    texts = cells.texts.drop_null().unique()
    few = cells.at(np.flatnonzero(cells.is_text)[:LOOKED_AT])
    if any(np.isfinite(parse(texts, *each)).mean() > 0.5 for each in COMBINATIONS):
        return True
    percents = [re.fullmatch(r"[+-]?[\d.,]+\s*%", text) is not None for text in texts.to_pylist()]
    return bool(np.mean(percents) > 0.5) or any(np.isfinite(few.days(form)).all() for form in (None, *FORMATS))


COMBINATIONS = tuple(
    (decimal, thousands) for decimal, thousands in product(("point", "comma"), (None, *MARKS)) if decimal != thousands
)


def _of_marks(
    cells: Mapping[str, Cells], wrong: Mapping[str, np.ndarray], kinds: Mapping[str, str], settings: TableSettings
) -> dict[str, str]:
    """By column, the settings of marks that read most of the cells of all number columns; none where they read most."""
    columns = {name: each for name, each in cells.items() if kinds[name] == "number" and each.is_text.any()}
    samples = {
        name: each.texts.filter(_mask(wrong[name] & each.is_text)).slice(0, LOOKED_AT)
        if name in wrong
        else each.texts.drop_null().slice(0, LOOKED_AT)
        for name, each in columns.items()
        if not each.is_category
    }
    suspects = [name for name in samples if name in wrong]
    known = {name: columns[name].texts.filter(_mask(~wrong[name] & columns[name].is_text)) for name in suspects}
    unread = {
        marks: {
            name: int(np.isnan(parse(texts, *marks)).sum())
            + (int(np.isnan(parse(known[name].slice(0, LOOKED_AT), *marks)).sum()) if name in known else 0)
            for name, texts in samples.items()
        }
        for marks in COMBINATIONS
    }
    now = {name: unread.get((settings.decimal, settings.thousands), {}).get(name, 0) for name in samples}
    helped = {name: [marks for marks in COMBINATIONS if unread[marks][name] < now[name]] for name in suspects}
    best = min(sum(each.values()) for each in unread.values())
    if best >= sum(now.values()):
        other = "no setting reads these beside the other numbers of the table: write all with the same marks, "
        other += "{categorical} makes categories of all values, {drop} leaves {it} out"
        return {name: other for name in suspects if helped[name] and now[name]}
    sentences = {}
    for name in suspects:
        ways = [marks for marks in helped[name] if sum(unread[marks].values()) == best]
        if ways:
            sentences[name] = _ways(samples[name].slice(0, 200), ways, settings) + (
                ", {categorical} makes categories of all values" if settings.categorical == "auto" else ""
            )
    return sentences


def _ways(texts: Any, ways: Sequence[tuple[str, str | None]], settings: TableSettings) -> str:
    """The combinations that give different values, each with the fewest settings that have to change."""
    different: dict[bytes, str] = {}
    for decimal, thousands in sorted(
        ways, key=lambda each: (each[0] != settings.decimal) + 2 * (each[1] != settings.thousands) - (each[1] is None)
    ):
        values = parse(texts, decimal, thousands)
        given = f"dataset.decimal={decimal} " * (decimal != settings.decimal)
        given += f"dataset.thousands={thousands or 'null'}" * (thousands != settings.thousands)
        read = int(np.flatnonzero(np.isfinite(values))[0])
        words = f"{given.strip()} reads {quoted(texts[read].as_py())} as {values[read]:.15g}"
        different.setdefault(values.tobytes(), words.replace("{", "{{").replace("}", "}}"))
    return ", ".join(list(different.values())[:3])


def _mask(chosen: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.array(chosen)
