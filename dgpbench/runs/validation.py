"""Reads the command line of ``run`` before Hydra does, so that a mistake gets one sentence and nothing is started.

Hydra itself answers a misspelt name with several lines and exit code 1, and accepts ``+new=1`` and ``~method``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from dgpbench.config import groups
from dgpbench.config.overrides import expand, parse, values
from dgpbench.config.settings import did_you_mean
from dgpbench.errors import UserError
from dgpbench.runs.resolve import Run, is_known, keys, resolve_overrides

FOLDERS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
HYDRAS = (*FOLDERS, "hydra.output_subdir", "hydra.verbose", "hydra/launcher")
FEW = 100  # combinations of a sweep, all of which are looked at


def check_overrides(overrides: Sequence[str], *, multirun: bool) -> list[Run]:
    """Refuse what cannot run: unknown names, keys and values, before anything is started.

    :return: the run; with ``multirun`` every combination, or where these are many every value of every sweep once
    :raises UserError: with one sentence
    """
    parsed = parse_known(overrides)
    for override in parsed:
        if override.is_sweep_override() and not multirun:
            raise UserError(
                f"{override.input_line} names several values; add --multirun to run them all, or quote a value that "
                f"holds commas or brackets inside the shell's quotes, as in '{override.get_key_element()}=\"...\"'"
            )
    own = [override for override in parsed if not _is_hydras(override)]
    return [resolve_overrides(combination) for combination in _one_at_a_time(own)]


def parse_known(texts: Iterable[str]) -> list[Any]:
    """Overrides as a user typed them, sweeps included; nothing is composed.

    :raises UserError: for another grammar, an unknown key or an unknown choice
    """
    parsed = parse(texts)
    for override in parsed:
        _check_key(override)
    return parsed


def _is_hydras(override: Any) -> bool:
    return override.key_or_group.split(".")[0].split("/")[0] == "hydra"


def _check_key(override: Any) -> None:
    key = override.key_or_group
    if _is_hydras(override):
        _check_hydras(override)
        return
    known = is_known(key)
    if known and (override.is_add() or override.is_force_add() or override.is_delete()):
        raise UserError(f"{override.input_line} adds or removes a key; settings can be changed only, as in {key}=VALUE")
    if key in groups.GROUPS:
        for name in map(str, values(override)):  # {} and [a,b] are no text
            if not groups.exists(key, name):
                raise groups.unknown(key, name)
    elif not known:
        raise _unknown_key(key)


def _check_hydras(override: Any) -> None:
    """Refuse what may name code: Hydra calls what a callback, a launcher or a sweeper says, in whatever spelling."""
    key, value, package = override.key_or_group, override.value(), override.package
    allowed = key in HYDRAS or re.fullmatch(r"hydra\.launcher\.[a-z]\w*", key)
    plain = value is None or isinstance(value, bool | int | float | str)
    refers = "${" in str(value) and key not in FOLDERS
    elsewhere = key == "hydra/launcher" and not re.fullmatch(r"\w+", str(value))
    if not allowed or not plain or refers or elsewhere or package is not None:
        raise UserError(
            f"{override.input_line} may name code to be run, so it cannot be set; of Hydra's own keys, "
            f"{', '.join((*HYDRAS, 'hydra.launcher.KEY'))} take a word or a number each"
        )


def _unknown_key(key: str) -> UserError:
    if key in ("path", "target"):
        return UserError(f"there is no setting '{key}'; use dataset=csv dataset.path=FILE dataset.target=COLUMN")
    names = [*groups.GROUPS, *keys()]
    return UserError(f"there is no setting '{key}'{did_you_mean(key, names)}; `dgpbench run --help` lists them all")


def _one_at_a_time(overrides: Iterable[Any]) -> Iterator[list[str]]:
    """Every combination where they are few; else every value of every sweep once, the others at their first value."""
    expanded = [expand(override) for override in overrides]
    if prod(map(len, expanded)) <= FEW:
        yield from map(list, product(*expanded))
        return
    yield [choices[0] for choices in expanded]
    for position, choices in enumerate(expanded):
        for value in choices[1:]:
            yield [value if index == position else others[0] for index, others in enumerate(expanded)]
