"""Compose one configuration from conf/ and overrides, beside the defaults of its named choices."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, cast

from dgpbench.config import groups
from dgpbench.config.overrides import parse
from dgpbench.config.settings import did_you_mean
from dgpbench.errors import UserError

# Keys in files of conf/ that describe a choice; they cannot be set on the command line.
FACTS = (
    "name", "title", "citation", "card", "family", "objective", "single_layer", "optimiser", "optimisers", "precisions",
)  # fmt: skip


@dataclass(frozen=True)
class Composed:
    """A configuration as plain data.

    :param values: of the named choices and the other overrides
    :param defaults: of the named choices alone, which a run's name is compared with
    """

    values: Mapping[str, Any]
    defaults: Mapping[str, Any]


def compose(overrides: Iterable[str] = (), more: Mapping[str, Any] = MappingProxyType({})) -> Composed:
    """Return the configuration of one run.

    Hydra composes each set of named choices once in a process; other overrides replace single values of the result.

    :param more: settings as values, without grammar
    :raises UserError: for choices that Hydra cannot compose, or a key that they do not have
    """
    parsed = parse(overrides)
    for override in parsed:
        if override.is_sweep_override():
            quoted = f"'{override.get_key_element()}=\"...\"'"
            raise UserError(
                f"{override.input_line} names several values where one is needed; a value that contains commas or "
                f"brackets needs quotes inside the shell's, as in {quoted}"
            )
    chosen = {each.key_or_group: str(each.value()) for each in parsed if each.key_or_group in groups.GROUPS}
    defaults = values = _defaults(tuple(sorted(chosen.items())))
    settings = [each for each in parsed if each.key_or_group not in groups.GROUPS]
    for key, value in [*((each.key_or_group, each.value()) for each in settings), *more.items()]:
        _check_key(defaults, key)
        *path, last = key.split(".")
        values = within = dict(values)
        for name in path:
            if not isinstance(within.get(name), Mapping):
                raise UserError(f"{key}={value} cannot be set: {name} holds a value, not settings")
            within[name] = dict(within[name])
            within = within[name]
        within[last] = value
    if any(mark in override.input_line for override in settings for mark in ("${", "???")):  # interpolations
        from omegaconf import OmegaConf

        values = _plain(OmegaConf.create(dict(values)))
    return Composed(values, defaults)


def _check_key(cfg: Mapping[str, Any], key: str) -> None:
    """Refuse a key of another method or task; ``resolve`` refuses those of another data set."""
    section, _, name = key.partition(".")
    settings = cfg.get(section)
    if name in (*FACTS, "kind") and section in cfg:
        raise UserError(f"{key} cannot be set: {section}= determines it")
    if key in cfg and not isinstance(settings, Mapping):
        return
    if not name or not isinstance(settings, Mapping):
        raise UserError(f"there is no setting '{key}'; `dgpbench run --help` lists them all")
    if name.split(".")[0] in settings or (section == "dataset" and "." not in name):
        return
    owner = settings.get("name", settings.get("optimiser"))
    known = [other for other in settings if other not in FACTS]
    raise UserError(
        f"{section} {owner} has no setting '{key}'; it has {', '.join(known) or 'none'}{did_you_mean(name, known)}"
    )


def _plain(cfg: Any) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return cast("dict[str, Any]", OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    except OmegaConfBaseException as problem:
        raise UserError(str(problem).splitlines()[0]) from None


@cache
def _defaults(chosen: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    """Return the defaults of some choices as plain data; the file of a data set needs no composing."""
    from omegaconf import OmegaConf

    for group, name in chosen:
        groups.check(group, name)
    cfg = deepcopy(_by_hydra(tuple(choice for choice in chosen if choice[0] != "dataset")))
    if (dataset := dict(chosen).get("dataset")) is not None:
        OmegaConf.set_struct(cfg, False)
        cfg.dataset = groups.describe("dataset", dataset)
    return _plain(cfg)


@cache
def _by_hydra(chosen: tuple[tuple[str, str], ...]) -> Any:
    import hydra
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException

    register_resolvers()
    initialized = GlobalHydra.instance().is_initialized()
    try:
        with nullcontext() if initialized else hydra.initialize_config_dir(str(groups.folder()), version_base="1.3"):
            return hydra.compose("run", overrides=[f"{group}={name}" for group, name in chosen])
    except HydraException as problem:
        raise UserError(str(problem).splitlines()[0]) from None


def register_resolvers() -> None:
    """Register the interpolations of conf/, by which protocols and budgets set what methods leave open."""
    from omegaconf import OmegaConf

    for resolver in (published, scheduled, capped, precise, budgeted):
        OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)


def published(key: str, default: Any, *, _root_: Any) -> Any:
    """Return the value of the first source that has the key, else the default.

    First the budget's sources: for this method in this task, method, task, then under this protocol for this method in
    this task, method, and all, then all. Then the protocol's: for this method on this data set, data set, method, task,
    all.
    """
    budget, protocol, method = _root_.budget, _root_.protocol, _root_.method.name
    task, dataset = _part(budget, "tasks", _root_.task.name), _root_.dataset.get("name")
    under = _part(budget, "protocols", protocol.name)
    sources = (
        _part(task, "methods", method),
        _part(budget, "methods", method),
        task,
        _part(_part(under, "tasks", _root_.task.name), "methods", method),
        _part(under, "methods", method),
        under,
        budget.settings,
        _part(_part(protocol, "methods", method), "datasets", dataset),
        _part(protocol, "datasets", dataset),
        _part(protocol, "methods", method),
        _part(protocol, "tasks", _root_.task.name),
        protocol.settings,
    )
    return next((source[key] for source in sources if key in source), default)


def _part(choice: Any, kind: str, name: str | None) -> Mapping[str, Any]:
    """Return the settings in a file for one method, protocol, data set or task; a key may name several: ``mf,star``."""
    for names, settings in (choice.get(kind) or {}).items():
        if name in names.split(","):
            return settings
    return {}


def precise(default: str, *, _root_: Any) -> str:
    """Return the budget's precision if the method supports it, else the default."""
    precision = _root_.budget.settings.get("precision", default)
    return precision if precision in _root_.method.precisions else default


def scheduled(key: str, default: int | None, *, _root_: Any) -> int | None:
    """Return a count of the schedule: the budget's own, else the published one times the budget's fraction."""
    if key in _root_.budget.settings:
        return _root_.budget.settings[key]
    count = published(key, default, _root_=_root_)
    return None if count is None else max(1, round(count * _root_.budget.schedule))


def budgeted(key: str, *, _root_: Any) -> Any:
    """Return a setting of a plug-in's method: its value for this budget, else its default."""
    method = groups.describe("method", _root_.method.name)
    return method["budgets"].get(_root_.budget.name, {}).get(key, method[key])


def capped(key: str, default: int, *, _root_: Any) -> int:
    """Return a count that no paper publishes: the budget's own, else the default."""
    return _root_.budget.settings.get(key, default)
