"""conf/ as it lies on the disk: the file names are the registry of methods, data sets, tasks, protocols and items."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dgpbench.config.settings import did_you_mean
from dgpbench.errors import Refused

GROUPS = ("method", "dataset", "task", "protocol", "budget", "optimiser")


def folder() -> Path:
    """The packaged conf/ of an installed wheel, else the repository's."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def names(group: str) -> list[str]:
    """The names in one group, sorted."""
    return sorted(path.stem for path in (folder() / group).glob("*.yaml"))


@cache
def describe(group: str, name: str) -> dict[str, Any]:
    """One file of conf/ as plain data, without composing it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((folder() / group / f"{name}.yaml").read_text("utf-8"), Loader=loader) or {}


def unknown(group: str, given: str) -> Refused:
    """The refusal for a misspelt method, data set, ..."""
    known = names(group)
    hint = did_you_mean(given, known)
    if group == "dataset" and "." in given:
        hint = f"; a file is dataset=csv dataset.path={given} dataset.target=COLUMN"
    return Refused(f"there is no {group} '{given}'; {group} is one of {', '.join(known)}{hint}")
