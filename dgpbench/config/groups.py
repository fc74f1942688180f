"""The files of conf/: their names are the registry of methods, data sets, tasks, protocols and items."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from dgpbench.config.settings import did_you_mean
from dgpbench.errors import UserError

GROUPS = ("method", "dataset", "task", "protocol", "budget", "optimiser")
_added: dict[tuple[str, str], dict[str, Any]] = {}
_finders: set[str] = set()


def folder() -> Path:
    """Return the packaged conf/ of an installed wheel, else the repository's."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def names(group: str) -> list[str]:
    """Return the names in one group, sorted, with those of the plug-ins that are loaded."""
    return sorted(files(group).union(added(group)))


@cache
def files(group: str) -> frozenset[str]:
    """Return the names in one group of conf/."""
    return frozenset(path.stem for path in (folder() / group).glob("*.yaml"))


def exists(group: str, name: str) -> bool:
    """Return whether a name exists. Only this function loads the plug-ins of installed packages."""
    return name in names(group) or any(import_module(each).find(group, name) for each in _finders)


def add(group: str, name: str, values: dict[str, Any]) -> None:
    """Add an entry without a file in conf/, as plain data: a plug-in's method."""
    _added[group, name] = values


def added(group: str) -> list[str]:
    """Return the names that plug-ins have added, in order."""
    return [name for kind, name in _added if kind == group]


def find_by(module: str) -> None:
    """Look up unknown names in a module, imported when needed: its ``find`` adds a name, its ``offers`` lists them."""
    _finders.add(module)


def offered(group: str) -> list[str]:
    """Return the names in one group, sorted, with those of installed packages, without loading them."""
    return sorted({*names(group), *(name for each in _finders for name in import_module(each).offers(group))})


def describe(group: str, name: str) -> dict[str, Any]:
    """Return one file of conf/, or an added entry, as plain data, without composing it."""
    return _added[group, name] if (group, name) in _added else _read(group, name)


@cache
def _read(group: str, name: str) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((folder() / group / f"{name}.yaml").read_text("utf-8"), Loader=loader) or {}


def check(group: str, name: str) -> str:
    """Return the name.

    :raises UserError: for an unknown method, data set, ..., with the closest name
    """
    if not exists(group, name):
        raise unknown(group, name)
    return name


def unknown(group: str, given: str) -> UserError:
    """Return the error for an unknown method, data set, ..."""
    known = offered(group)
    hint = did_you_mean(given, known)
    if group == "dataset" and "." in given:
        hint = f"; a file is dataset=csv dataset.path={given} dataset.target=COLUMN"
    if group == "method" and not hint:
        hint = "; --plugin FILE loads one of your own"
    return UserError(f"unknown {group} '{given}'; available: {', '.join(known)}{hint}")
