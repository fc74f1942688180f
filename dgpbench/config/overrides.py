"""Overrides ``key=value`` in Hydra's grammar: parse them, and expand sweeps."""

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from dgpbench.config import groups
from dgpbench.errors import UserError

_FLAGS = {"--multirun", "-m", "--resolve", "--hydra-help"}
_DRY = {"--dry-run", "--dryrun", "-n"}
_VALUED_FLAGS = {"--cfg", "-c", "--package", "-p", "--info", "-i", "-sc", "--shell-completion"}


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments into Hydra's own flags, with their values, and overrides.

    :raises UserError: for an unknown flag
    """
    flags, overrides, remaining = list[str](), list[str](), iter(arguments)
    for argument in remaining:
        if not argument.startswith("-"):
            overrides.append(argument)
        elif argument in _VALUED_FLAGS:
            flags += [argument, *([value] if (value := next(remaining, None)) is not None else [])]
        elif argument in _FLAGS or argument.split("=")[0] in _VALUED_FLAGS:
            flags.append(argument)
        else:
            names = sorted(_FLAGS | _VALUED_FLAGS)
            dry = "; `dgpbench validate` with the same arguments checks them without running"
            raise UserError(
                f"run has no flag {argument}; it takes overrides such as method=star, and {', '.join(names)}"
                f"{dry if argument in _DRY else ''}"
            )
    return flags, overrides


def is_multirun(flags: Sequence[str]) -> bool:
    """Return whether the flags include ``--multirun``."""
    return not {"--multirun", "-m"}.isdisjoint(flags)


def parse(texts: Iterable[str]) -> list[Any]:
    """Parse overrides, sweeps included, without composing; names need not exist.

    :raises UserError: for a syntax error
    """
    return [_parse(text) for text in texts]


@cache
def _parse(text: str) -> Any:
    from hydra.errors import HydraException

    try:
        return _parser().parse_override(text)
    except (HydraException, ValueError, RecursionError):  # the last two for thousands of digits or brackets
        if "=~" in text:
            raise UserError(f"{text!r}: the shell does not expand ~ within an argument; use $HOME") from None
        raise UserError(
            f"{text!r} is not an override of the form key=value; a value with commas, '=', brackets, spaces or "
            f"characters beyond ASCII needs quotes inside the shell's, as in {_quoted(text)}"
        ) from None


def _quoted(text: str) -> str:
    """Return the override with its value in quotes for the shell, or an example if that is not valid either."""
    from hydra.errors import HydraException

    key, _, value = text.partition("=")
    value = value.strip("'\"")
    if value[:1] + value[-1:] == "[]":
        items = [argument("", item.strip(" '\"")).removeprefix("=") for item in value[1:-1].split(",")]
        quoted = f"{key}=[{','.join(items)}]"
    else:
        quoted = f"{key}={_in_quotes(value)}"
    with suppress(HydraException, ValueError, RecursionError):
        if value and _parser().parse_override(quoted):
            return shlex.quote(quoted)
    return "'dataset.path=\"my,file.csv\"'"


@cache
def _parser() -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


def argument(key: str, value: str) -> str:
    """Return ``key=value`` in the grammar: texts of more than a word are quoted, lists and mappings are not."""
    plain = re.fullmatch(r"[\w.+/ -]*|[\[{].*", value, re.DOTALL | re.ASCII)
    return f"{key}={value if plain else _in_quotes(value)}"


def _in_quotes(value: str) -> str:
    doubled = re.sub(r'\\+(?="|\Z)', lambda backslashes: 2 * backslashes[0], value)  # the grammar halves these alone
    escaped = doubled.replace('"', '\\"')
    return f'"{escaped}"'


def values(override: Any, offered: Sequence[str]) -> list[str]:
    """Return the values of an override as texts without quotes.

    :param offered: what a glob selects among
    """
    texts = _swept(override, offered) if override.is_sweep_override() else [override.get_value_element_as_str()]
    return [text.strip("'\"") for text in texts]


def expand(override: Any) -> list[str]:
    """Return an override as a list of overrides with one value each; a glob selects among the group's names."""
    if not override.is_sweep_override():
        return [override.input_line]
    names = groups.names(override.key_or_group)
    if not (texts := _swept(override, names)):
        raise UserError(f"{override.input_line} matches no name: {', '.join(names)}")
    return [f"{override.get_key_element()}={text}" for text in texts]


def _swept(override: Any, offered: Sequence[str]) -> list[str]:
    """Return the texts of the values of a sweep; none if a glob matches nothing."""
    from hydra.core.override_parser.types import Glob
    from hydra.errors import HydraException

    if isinstance(value := override.value(), Glob):
        return value.filter(list(offered))
    key = override.get_key_element()
    example = f"{key}=range(10) stands for 0 to 9, {key}=0,1 for two values"
    try:
        texts = list(override.sweep_string_iterator())
    except (HydraException, ValueError) as problem:
        raise UserError(f"{override.input_line} is not a valid list of values ({problem}); {example}") from None
    if not texts:
        raise UserError(f"{override.input_line} has no values; {example}")
    return texts
