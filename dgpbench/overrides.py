"""Reads the command line of ``run`` before Hydra does, so that a mistake gets one sentence and nothing is started.

Hydra itself answers a misspelt name with several lines and exit code 1, and accepts ``+new=1`` and ``~method``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dgpbench import config
from dgpbench.errors import Refused
from dgpbench.settings import SETTINGS, did_you_mean

_FLAGS = {"--multirun", "-m", "--resolve", "--hydra-help", "--version"}
_VALUED_FLAGS = {"--cfg", "-c", "--package", "-p", "--info", "-i", "-sc", "--shell-completion"}


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Hydra's own flags, with their values, and the overrides.

    :raises Refused: for a flag that does not exist
    """
    flags: list[str] = []
    overrides: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("-"):
            overrides.append(argument)
        elif argument in _VALUED_FLAGS:
            flags += [argument, *([value] if (value := next(remaining, None)) is not None else [])]
        elif argument in _FLAGS or argument.split("=")[0] in _VALUED_FLAGS:
            flags.append(argument)
        else:
            names = sorted(_FLAGS | _VALUED_FLAGS)
            raise Refused(f"run has no flag {argument}; it takes overrides such as method=star, and {', '.join(names)}")
    return flags, overrides


def check_overrides(overrides: Sequence[str], *, multirun: bool) -> list[dict[str, Any]]:
    """Refuse what cannot run: unknown names, keys and values, before anything is started.

    :return: the resolved configurations; of sweeps, every value of each once
    :raises Refused: with one sentence
    """
    parsed = [_parse(text) for text in overrides]
    for override in parsed:
        _check_key(override)
        if override.is_sweep_override() and not multirun:
            raise Refused(
                f"{override.input_line} names several values; add --multirun to run them all, or quote a value that "
                f"holds commas or brackets inside the shell's quotes, as in '{override.get_key_element()}=\"...\"'"
            )
    own = [override for override in parsed if not _is_hydras(override)]
    return [_resolved(combination) for combination in _one_at_a_time(own)]


def parse(texts: Iterable[str]) -> list[Any]:
    """Overrides as Hydra parses them, sweeps included; nothing is composed, and a name need not exist yet."""
    return [_parse(text) for text in texts]


def parse_known(texts: Iterable[str]) -> list[Any]:
    """As ``parse``, for what a user typed.

    :raises Refused: for another grammar, an unknown key or an unknown choice
    """
    parsed = parse(texts)
    for override in parsed:
        _check_key(override)
    return parsed


def _parse(text: str) -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(text)
    except HydraException:
        raise Refused(
            f"{text!r} is not an override of the form key=value; a value that holds commas, '=', brackets or spaces "
            "needs quotes of its own inside the shell's, as in 'dataset.path=\"my,file.csv\"'"
        ) from None


def _is_hydras(override: Any) -> bool:
    return override.key_or_group.split(".")[0].split("/")[0] == "hydra"


def _check_key(override: Any) -> None:
    key = override.key_or_group
    if _is_hydras(override):
        # Hydra would call whatever function a callback or launcher names, here or in a YAML file on its search path.
        if "_target_" in key or "_target_" in str(override.value()) or key == "hydra.searchpath":
            raise Refused(f"{override.input_line} names code to be run; an override can choose and set, but not that")
        return
    known = key in config.GROUPS or key in SETTINGS or key.split(".")[0] in ("dataset", "task")
    if known and (override.is_add() or override.is_force_add() or override.is_delete()):
        raise Refused(f"{override.input_line} adds or removes a key; settings can be changed only, as in {key}=VALUE")
    if key in config.GROUPS:
        for name in _values(override):
            if name not in config.choices(key):
                raise config.unknown_choice(key, str(name))
    elif not known:
        raise _unknown_key(key)


def _unknown_key(key: str) -> Refused:
    names = [*config.GROUPS, *SETTINGS]
    if key in ("path", "target"):
        return Refused(f"there is no setting '{key}'; use dataset=csv dataset.path=FILE dataset.target=COLUMN")
    return Refused(f"there is no setting '{key}'{did_you_mean(key, names)}; `dgpbench run --help` lists them all")


def _values(override: Any) -> list[Any]:
    from hydra.core.override_parser.types import Glob

    value = override.value()
    if isinstance(value, Glob):
        return value.filter(config.choices(override.key_or_group))
    if not override.is_sweep_override():
        return [value]
    return [text.strip("'\"") for text in override.sweep_string_iterator()]


def expand(override: Any) -> list[str]:
    """An override as the list of single overrides that it stands for."""
    from hydra.core.override_parser.types import Glob

    if isinstance(override.value(), Glob):
        return [f"{override.get_key_element()}={name}" for name in _values(override)]
    if not override.is_sweep_override():
        return [override.input_line]
    return [f"{override.get_key_element()}={text}" for text in override.sweep_string_iterator()]


def _one_at_a_time(overrides: Iterable[Any]) -> Iterator[list[str]]:
    """Every value of every sweep once, the other sweeps at their first value: a sum of lengths, not a product."""
    expanded = [expand(override) for override in overrides]
    yield [values[0] for values in expanded]
    for position, values in enumerate(expanded):
        for value in values[1:]:
            yield [value if index == position else others[0] for index, others in enumerate(expanded)]


def _resolved(overrides: list[str]) -> dict[str, Any]:
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        return config.resolve(config.compose(overrides))
    except (HydraException, OmegaConfBaseException) as problem:
        raise _as_refusal(overrides, problem) from None


def _as_refusal(overrides: list[str], problem: Exception) -> Refused:
    """Hydra's complaint about a key that exists, but not for this method, data set or task, as one sentence."""
    composed = config.compose([text for text in overrides if text.split("=")[0] in config.GROUPS])
    for text in overrides:
        key = text.split("=")[0]
        section, _, name = key.partition(".")
        if (
            section in ("method", "training", "dataset", "task")
            and name
            and name.split(".")[0] not in composed[section]
        ):
            owner = composed[section].get("name", composed[section].get("optimiser"))
            names = [other for other in composed[section] if f"{section}.{other}" in SETTINGS or section == "dataset"]
            return Refused(
                f"{section} {owner} has no setting '{key}'; it has {', '.join(names)}{did_you_mean(name, names)}"
            )
    return Refused(str(problem).splitlines()[0])
