"""Messages about raw cells: how many are affected, where the first three are, and which setting reads them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from dgpbench.data.cells import EXACT, MARKS, Cells, TableSettings, parse
from dgpbench.system.progress import counted

SHOWN = 3  # cells, and names
LENGTH = 40  # of a quoted text
LOOKED_AT = 20_000  # cells of each column on which advice is tested
MOST_GAPS = 10  # texts that one advice names as marks of gaps
PERCENT = r"[+-]?[\d.,]+\s*%"
DROP, CATEGORIES = "{drop} leaves {it} out", "{categorical} makes categories of all values"
FORMATS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y"),
    *("%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%d-%b-%Y"),
)
ALIENS = {
    "complex": ("complex numbers", "put the real and imaginary parts into two columns"),
    "timedelta": ("durations", "convert them to numbers, such as hours"),
    "period": ("periods", "convert each to a date, such as its first day"),
    "interval": ("intervals", "put the two ends into two columns"),
    "bytes": ("bytes", "convert them to text or numbers"),
    "time": ("times of day", "convert them to numbers, such as hours"),
    "": ("lists or structs", "put each of their parts into its own column"),
}


def hint(key: str, names: Sequence[Any], settings: TableSettings) -> str:
    """Return a setting of columns as the command line takes it, with the columns it has already; if long, its key."""
    present = getattr(settings, key)
    items = []
    for name in map(str, [*(present if isinstance(present, list) else ()), *names]):
        words = ("null", "true", "false", "nan", "inf", "none", "yes", "no", "on", "off")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name.lower() in words:
            escaped = re.sub(r'(\\+)(?="|$)', r"\1\1", name).replace('"', '\\"')
            name = f'"{escaped}"'
        items.append(name)
    text = f"dataset.{key}=[{','.join(items)}]"
    return f"dataset.{key}" if len(text) > 200 else "'" + text.replace("'", "'\\''") + "'"


def either(names: Sequence[str], settings: TableSettings) -> str:
    """Return the two settings that decide about columns."""
    return f"{hint('drop', names, settings)} leaves {it(names)} out, {hint('keep', names, settings)} keeps {it(names)}"


def it(names: Collection[str]) -> str:
    """Return the pronoun for one or several columns."""
    return "it" if len(names) == 1 else "them"


def cut(value: Any, length: int = LENGTH) -> str:
    """Return a text of bounded length in one line."""
    text = str(value)[: length + 1]
    text = text if len(text) <= length else f"{text[:length]}..."
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def quoted(value: Any) -> str:
    """Return a text of bounded length in quotes."""
    text = str(value)
    return repr(text if len(text) <= LENGTH else f"{text[:LENGTH]}...")


def shown(names: Sequence[Any]) -> str:
    """Return the first three names."""
    return ", ".join(quoted(name) for name in names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def places(raw: Mapping[str, Any], chosen: Mapping[str, np.ndarray], first: int = 0, *, bare: bool = False) -> str:
    """Return "4 cells (row 2 of 'b': 'red', row 5 of 'b': 'blue', row 9 of 'c': 'x', ...)".

    :param first: number of rows before these; printed rows count from 1 below the header
    :param bare: leave the cells' values out
    """
    names = [name for name, each in chosen.items() if each.any()]
    count = sum(int(chosen[name].sum()) for name in names)
    cells = []
    for row, column in np.argwhere(np.column_stack([chosen[name] for name in names]))[:SHOWN]:
        value = raw[names[column]].iloc[row]
        plain = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        text = "" if bare else f": {cut(value) if plain else quoted(value)}"
        cells.append(f"row {first + row + 1:,} of {quoted(names[column])}{text}")
    return f"{counted(count, 'cell')} ({', '.join(cells)}{', ...' * (count > SHOWN)})"


def of_wrong(
    cells: Mapping[str, Cells],
    wrong: Mapping[str, np.ndarray],
    kinds: Mapping[str, str],
    settings: TableSettings,
    locate: Callable[[Mapping[str, np.ndarray]], str],
    target: str | None,
    *,
    trained: bool,
) -> list[str]:
    """Return a clause for each advice that columns with unreadable cells need.

    :param cells: of all columns
    :param wrong: unreadable cells of the columns with some
    :param locate: formats the places of chosen cells
    :param target: the column that no setting of features can help
    :param trained: whether a fitted model determines how cells are read, so that no setting can change it
    """
    groups: dict[tuple[str, str], list[str]] = {}
    marks = {} if trained else _advice_on_marks(cells, wrong, kinds, settings)
    for name, at in wrong.items():
        regression = f"{name!r} is the target, and a regression predicts numbers" if name == target else None
        what, advice = _advice(cells[name], at, kinds[name], marks.get(name), regression)
        advice = "cells are read as in training: correct them, or remove their rows" if trained else advice
        groups.setdefault((what, advice), []).append(name)
    clauses = []
    for (what, advice), names in groups.items():
        words = {key: hint(key, names, settings) for key in ("drop", "categorical", "dates")}
        where = locate({name: wrong[name] for name in names})
        clauses.append(f"holds {what} in {where}: {advice.format(it=it(names), **words)}")
    return clauses


def _advice(cells: Cells, wrong: np.ndarray, kind: str, marks: str | None, otherwise: str | None) -> tuple[str, str]:
    """Return a description of unreadable cells, and what to do, with placeholders for settings."""
    values = cells.values[wrong]
    typed = cells.is_text | np.isfinite(cells.truths) | np.isfinite(cells.dates) | ~np.isnan(cells.numbers)
    if strange := [value for value, known in zip(values, typed[wrong], strict=True) if not known]:
        what, advice = next(ALIENS[key] for key in ALIENS if key in type(strange[0]).__name__.lower())
        return what, f"{advice}, or {DROP}"
    if kind == "category":
        return f"numbers beyond {EXACT:.0f} as floats", "floats merge such categories: convert the column to text"
    texts = _texts(cells, wrong).unique().to_pylist()
    formats: list[str | None] = []  # at most two that read all of them as dates, None for ISO 8601
    few = cells.at(np.flatnonzero(wrong)[:LOOKED_AT])
    if np.isfinite(few.dates).any():
        formats = [None]
    elif few.is_text.all():
        start = few.at(np.arange(min(9, len(few.values))))
        reads = (form for form in (None, *FORMATS) if np.isfinite(start.days(form)).all())
        formats = list(islice((form for form in reads if np.isfinite(few.days(form)).all()), 2))
    if kind == "date":
        example = " or ".join(f"dataset.date_format={each}" for each in formats) or "dataset.date_format=%d.%m.%Y"
        return "no date", f"{example}{', or the like,' * (not formats)} sets their format"
    if kind == "flag":
        return "values other than true and false", "correct them"
    if cells.is_category and otherwise is None:
        return "categories", f"dataset.categorical=auto encodes categories as 0/1 columns, {DROP}"
    if marks is not None:
        return "text", marks
    if otherwise:
        return "text", otherwise
    if formats[:1] == [None]:
        return "dates", f"dataset.dates=auto converts dates to days since 1970-01-01, {DROP}"
    if formats:
        ways = " or ".join(f"dataset.dates=auto dataset.date_format={each}" for each in formats)
        return "dates", f"{ways} reads them, {CATEGORIES}, {DROP}"
    if texts and all(re.fullmatch(PERCENT, text) for text in texts):
        return "text", f"no setting reads percent signs: remove them, or {CATEGORIES}"
    if cells.present.sum() > 2 * wrong.sum() and 0 < len(texts) <= MOST_GAPS:
        gaps = hint("na_values", sorted(texts), cells.settings).replace("{", "{{").replace("}", "}}")
        means = "if it means" if len(texts) == 1 else "if they mean"
        return "text", f"{means} a missing value, set {gaps}; else correct {it(texts)}, or {CATEGORIES}"
    if np.isfinite(cells.numbers).any() or (
        len(texts) < 2 * wrong.sum()
        and not np.isnan(parse(cells.texts, cells.settings.decimal, cells.settings.thousands)).all()
    ):
        return "text", f"correct them, or {CATEGORIES}, {DROP}"
    return "text", f"dataset.categorical=auto encodes categories as 0/1 columns, {DROP}"


def written_otherwise(cells: Cells) -> bool:
    """Return whether other settings would read most texts of a column as numbers or dates."""
    texts = cells.texts.drop_null().unique()
    few = cells.at(np.flatnonzero(cells.is_text)[:LOOKED_AT])
    if any(np.isfinite(parse(texts, *each)).mean() > 0.5 for each in COMBINATIONS):
        return True
    percents = [re.fullmatch(PERCENT, text) is not None for text in texts.to_pylist()]
    return bool(np.mean(percents) > 0.5) or any(np.isfinite(few.days(form)).all() for form in (None, *FORMATS))


COMBINATIONS = tuple(
    (decimal, thousands) for decimal, thousands in product(("point", "comma"), (None, *MARKS)) if decimal != thousands
)


def _advice_on_marks(
    cells: Mapping[str, Cells], wrong: Mapping[str, np.ndarray], kinds: Mapping[str, str], settings: TableSettings
) -> dict[str, str]:
    """Return, by column, the settings of marks that read most cells of all number columns, if any read more."""
    samples, readable = {}, {}
    for name, each in cells.items():
        if kinds[name] == "number" and each.is_text.any() and not each.is_category:
            samples[name] = _texts(each, wrong.get(name, True)).slice(0, LOOKED_AT)
            readable[name] = _texts(each, ~wrong[name]).slice(0, LOOKED_AT) if name in wrong else samples[name][:0]
    suspects = [name for name in samples if name in wrong]
    unread = {
        marks: {
            name: sum(int(np.isnan(parse(texts, *marks)).sum()) for texts in (samples[name], readable[name]))
            for name in samples
        }
        for marks in COMBINATIONS
    }
    now = unread[settings.decimal, settings.thousands]
    helped = {name: [marks for marks in COMBINATIONS if unread[marks][name] < now[name]] for name in suspects}
    best = min(sum(each.values()) for each in unread.values())
    if best >= sum(now.values()):
        advice = "no setting reads these beside the other numbers of the table: write all with the same marks, "
        return {name: f"{advice}{CATEGORIES}, {DROP}" for name in suspects if helped[name] and now[name]}
    sentences = {}
    for name in suspects:
        if ways := [marks for marks in helped[name] if sum(unread[marks].values()) == best]:
            # The combinations that give different values, each with the fewest settings to change.
            current = (settings.decimal, settings.thousands)
            ways.sort(key=lambda each: (each[0] != current[0]) + 2 * (each[1] != current[1]) - (each[1] is None))
            different: dict[bytes, str] = {}
            for decimal, thousands in ways:
                texts = samples[name].slice(0, 200)
                values = parse(texts, decimal, thousands)
                changed = f"dataset.decimal={decimal} " * (decimal != settings.decimal)
                changed += f"dataset.thousands={thousands or 'null'}" * (thousands != settings.thousands)
                read = int(np.flatnonzero(np.isfinite(values))[0])
                words = f"{changed.strip()} reads {quoted(texts[read].as_py())} as {values[read]:.15g}"
                different.setdefault(values.tobytes(), words.replace("{", "{{").replace("}", "}}"))
            sentences[name] = ", ".join(list(different.values())[:3])
            sentences[name] += f", {CATEGORIES}" if settings.categorical == "auto" else ""
    return sentences


def _texts(cells: Cells, rows: np.ndarray | bool) -> Any:
    """Return the texts among some rows."""
    import pyarrow as pa

    return cells.texts.filter(pa.array(rows & cells.is_text))
