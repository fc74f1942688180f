"""conf/ as it lies on the disk: the file names are the registry of methods, data sets, tasks, protocols and items."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dgpbench.config.settings import did_you_mean
from dgpbench.errors import UserError

GROUPS = ("method", "dataset", "task", "protocol", "budget", "optimiser")
_added: dict[tuple[str, str], dict[str, Any]] = {}
_finders: dict[Callable[[str, str], bool], Callable[[str], list[str]]] = {}


def folder() -> Path:
    """The packaged conf/ of an installed wheel, else the repository's."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def names(group: str) -> list[str]:
    """The names in one group, sorted; with those of the plug-ins that are loaded."""
    return sorted(files(group).union(added(group)))


@cache
def files(group: str) -> frozenset[str]:
    """The names in one group that conf/ has."""
    return frozenset(path.stem for path in (folder() / group).glob("*.yaml"))


def exists(group: str, name: str) -> bool:
    """Whether there is such a name; a plug-in that is installed is loaded by this, and by nothing else."""
    return name in names(group) or any(find(group, name) for find in _finders)


def add(group: str, name: str, values: dict[str, Any]) -> None:
    """Add what no file of conf/ has, as plain data: a method of a plug-in."""
    _added[group, name] = values


def added(group: str) -> list[str]:
    """The names that plug-ins have added, in that order."""
    return [name for kind, name in _added if kind == group]


def find_by(finder: Callable[[str, str], bool], offers: Callable[[str], list[str]]) -> None:
    """Let a function look for a name that is not there: it adds the name, or returns False.

    :param offers: the names in a group that it would find
    """
    _finders[finder] = offers


def offered(group: str) -> list[str]:
    """The names in one group, sorted; with those of plug-ins that are installed, which are not loaded by this."""
    return sorted({*names(group), *(name for offers in _finders.values() for name in offers(group))})


def describe(group: str, name: str) -> dict[str, Any]:
    """One file of conf/ as plain data, without composing it; or what was added under this name."""
    return _added[group, name] if (group, name) in _added else _read(group, name)


@cache
def _read(group: str, name: str) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((folder() / group / f"{name}.yaml").read_text("utf-8"), Loader=loader) or {}


def unknown(group: str, given: str) -> UserError:
    """The refusal for a misspelt method, data set, ..."""
    known = offered(group)
    hint = did_you_mean(given, known)
    if group == "dataset" and "." in given:
        hint = f"; a file is dataset=csv dataset.path={given} dataset.target=COLUMN"
    if group == "method" and not hint:
        hint = "; --plugin FILE brings one of your own"
    return UserError(f"there is no {group} '{given}'; {group} is one of {', '.join(known)}{hint}")
