"""The names of a file's columns, and the questions that a header leaves open."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.datasets.cells import it, listed, shown
from dgpbench.datasets.table_settings import TableSettings
from dgpbench.errors import Refused

if TYPE_CHECKING:
    import pandas as pd

UNNAMED = "Unnamed: "  # pandas' name for a column that has none


def names_of(first: "pd.Series", settings: TableSettings) -> list[str]:
    """The columns' names in the first row of a file, or their numbers where it is no header."""
    if settings.header is False:
        return [str(number) for number in range(1, len(first) + 1)]
    return [str(name).strip() or f"{UNNAMED}{index}" for index, name in enumerate(first)]


def _unique(names: Sequence[str]) -> list[str]:
    """Names with .1, .2, ... behind those that are repeated."""
    taken: dict[str, None] = {}
    for name in names:
        others = (f"{name}.{number}" for number in count(1))
        taken[name if name not in taken else next(other for other in others if other not in {*taken, *names})] = None
    return list(taken)


def checked_names(
    path: Path, names: Sequence[str], settings: TableSettings, taken: Sequence[str] | None = None
) -> list[str]:
    """Names of which each is there once.

    :param taken: the columns that are used, so that nothing is asked about others; None where all are
    :raises Refused: where the header leaves a question open
    """
    _check_header(path, names, settings)
    unique = _unique(names)
    if taken is None:
        _check_names(path, names, unique, settings)
        return unique
    repeated = {name for name, each in zip(names, unique, strict=True) if each != name and each not in taken}
    if twice := [name for name in taken if name in repeated]:
        raise Refused(f"{path} has {names.count(twice[0])} columns named {twice[0]!r}: give each its own name")
    return unique


def _check_names(path: Path, names: Sequence[str], unique: Sequence[str], settings: TableSettings) -> None:
    """Ask about columns without a name, and about names that stand twice."""
    settled = {*map(str, settings.drop), *map(str, settings.keep or ())}
    open_ = [(name, each) for name, each in zip(names, unique, strict=True) if each not in settled]
    if unnamed := [each for _, each in open_ if each.startswith(UNNAMED)]:
        raise Refused(f"{path} has columns without a name, read as {shown(unnamed)}: {either(unnamed)}")
    if twice := [each for name, each in open_ if each != name]:
        first = next(name for name, each in open_ if each == twice[0])
        raise Refused(
            f"{path} has more than one column {first!r}; the later are read as {shown(twice)}: {either(twice)}"
        )


def either(names: Sequence[str]) -> str:
    """The two settings that answer the question what a column is."""
    columns = listed(names)
    return f"'dataset.drop={columns}' leaves {it(names)} out, 'dataset.keep={columns}' keeps {it(names)}"


def _check_header(path: Path, names: Sequence[str], settings: TableSettings) -> None:
    """A header of numbers is most likely a row of data."""
    import pandas as pd

    if settings.header is None and len(names) and pd.to_numeric(pd.Series(names), errors="coerce").notna().all():
        row = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise Refused(
            f"the first row of {path} holds numbers alone ({row}), so it seems to have no header: dataset.header=false "
            "counts it as data and calls the columns 1, 2, ..., dataset.header=true takes it for their names"
        )
