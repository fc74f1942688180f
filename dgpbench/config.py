"""From conf/ and the command line to one resolved, validated configuration.

The file names in conf/ are the registry: no second list of methods, data sets or protocols exists in Python.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

from dgpbench.errors import Refused
from dgpbench.settings import SETTINGS, check_value, did_you_mean

GROUPS = ("method", "dataset", "task", "protocol", "budget", "optimiser")
# These say where and how a run is carried out, not what it computes: they never enter its identity.
EXTERNAL = ("results_dir", "num_threads", "plot", "progress", "timeout_minutes")
PATH_KEYS = ("split", "seed", "method.num_layers")  # the run directory names them already


def config_directory() -> Path:
    """The packaged conf/ of an installed wheel, else the repository's."""
    packaged = Path(__file__).parent / "conf"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "conf"


def choices(group: str) -> list[str]:
    """The names in one group of conf/, sorted."""
    return sorted(path.stem for path in (config_directory() / group).glob("*.yaml"))


@cache
def describe(group: str, name: str) -> dict[str, Any]:
    """One file of conf/ as plain data, without composing it."""
    return yaml.safe_load((config_directory() / group / f"{name}.yaml").read_text()) or {}


def register_resolvers() -> None:
    """The interpolations of conf/: who speaks for a setting (method < protocol < budget)."""
    from omegaconf import OmegaConf

    for name, resolver in {"published": _published, "scheduled": _scheduled, "capped": _capped}.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def _published(key: str, default: Any, *, _root_: Any) -> Any:
    """The budget's value, else the protocol's for this data set, for this method, for all, else the default."""
    protocol = _root_.protocol
    on_data = (protocol.get("datasets") or {}).get(_root_.dataset.get("name")) or {}
    own = (protocol.get("methods") or {}).get(_root_.method.name) or {}
    for source in (_root_.budget.settings, on_data, own, protocol.settings):
        if key in source:
            return source[key]
    return default


def _scheduled(key: str, default: int | None, *, _root_: Any) -> int | None:
    """A count of the schedule: the budget's own, else the published one times the budget's share; null stays null."""
    if key in _root_.budget.settings:
        return _root_.budget.settings[key]
    count = _published(key, default, _root_=_root_)
    return None if count is None else max(1, round(count * _root_.budget.schedule))


def _capped(key: str, default: int, *, _root_: Any) -> int:
    """A count that no paper publishes: the budget's own where it has one, else the default."""
    return _root_.budget.settings.get(key, default)


def compose(overrides: Iterable[str] = ()) -> Any:
    """The composed configuration of one run, from any folder, inside or outside a Hydra job."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    register_resolvers()
    if GlobalHydra.instance().is_initialized():
        return hydra_compose("run", overrides=list(overrides))
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return hydra_compose("run", overrides=list(overrides))


def resolve(cfg: Any) -> dict[str, Any]:
    """A composed configuration as plain, validated data.

    :raises Refused: for a value out of range, an unknown key or an incompatible choice
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    register_resolvers()
    try:
        config = cast("dict[str, Any]", OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    except OmegaConfBaseException as problem:
        raise Refused(str(problem).splitlines()[0]) from None
    _check_values(config)
    _check_compatible(config)
    return config


def _check_values(config: dict[str, Any]) -> None:
    for key in _leaves(config):
        section, _, name = key.rpartition(".")
        if key in SETTINGS:
            target = config[section] if section else config
            target[name] = check_value(key, target[name])


def _leaves(config: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted keys of everything that is not itself a mapping."""
    keys: list[str] = []
    for key, value in config.items():
        keys += _leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [f"{prefix}{key}"]
    return keys


def _check_compatible(config: dict[str, Any]) -> None:
    method, training = config["method"], config["training"]
    if method["single_layer"] and method["num_layers"] != 1:
        raise Refused(
            f"method.num_layers={method['num_layers']} cannot be used; {method['name']} has one layer, "
            "and mf, star and fc are deep methods"
        )
    if training["optimiser"] not in method["optimisers"]:
        raise Refused(
            f"optimiser={training['optimiser']} cannot train {method['name']}; "
            f"use optimiser={' or optimiser='.join(method['optimisers'])}{_natural_gradient_reason(config)}"
        )
    if config["precision"] not in method["precisions"]:
        raise Refused(
            f"precision={config['precision']} cannot be used with {method['name']}; "
            f"use precision={' or precision='.join(method['precisions'])}"
        )
    if config["precision"] == "mixed" and method["kernel"] != "squared_exponential":
        raise Refused(f"precision=mixed needs method.kernel=squared_exponential, not {method['kernel']}")
    if training["max_iterations"] is None and training.get("epochs") is None:
        raise Refused("training.max_iterations and training.epochs are both null; one of them must say when to stop")
    if config["init_from"] is not None and method["_target_"] != "dgpbench.methods.variational.fit":
        raise Refused(f"init_from= cannot start {method['name']}; it starts mf, star, fc and their relatives")
    if method.get("blocks_file"):
        method["blocks"], method["blocks_file"] = _read_blocks(method["blocks_file"]), None


def _natural_gradient_reason(config: dict[str, Any]) -> str:
    """Why a method has no natural gradients, as the end of a sentence; nothing for other optimisers."""
    if config["training"]["optimiser"] != "natgrad_adam":
        return ""
    why = {"structure": "with blocks left out, the map to natural parameters is not invertible (Lindinger et al. 2020)"}
    why["subset"] = "its last q enters the bound through the subset's labels alone"
    reason = next(
        (text for key, text in why.items() if key in config["method"]), "it has no Gaussian of its own to take them on"
    )
    return f", as natural gradients are for mf, sgp and fc: {reason}"


def with_iterations(training: Mapping[str, Any], num_rows: int) -> dict[str, Any]:
    """The training settings with ``max_iterations`` as a number; where it is null, that of ``epochs`` over the rows.

    :param num_rows: training rows, N; an epoch is ceil(N / B) iterations
    """
    if training["max_iterations"] is not None:
        return dict(training)
    return {**training, "max_iterations": training["epochs"] * math.ceil(num_rows / training["batch_size"])}


def _read_blocks(path: str) -> list[Any]:
    try:
        blocks = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise Refused(f"method.blocks_file={path} cannot be read: {str(problem).splitlines()[0]}") from None
    if not isinstance(blocks, list):
        raise Refused(f"method.blocks_file={path} must hold a list of {{layers: [l, k], gps: same}} entries")
    return blocks


def changed_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Values that differ from what the named choices alone would give: the last part of a run's identity.

    Names *and values*, so that a sweep over ``training.learning_rate`` makes separate runs, while asking for a value
    that the choices give anyway is the same run.
    """
    named = [f"{group}={config[group]['name']}" for group in GROUPS if group != "optimiser"]
    usual = _usual(*named)
    changed: dict[str, Any] = {}
    optimiser = config["training"]["optimiser"]
    if usual["training"]["optimiser"] != optimiser:
        changed["optimiser"] = optimiser
        usual = _usual(*named, f"optimiser={optimiser}")
    for key in _leaves(config):
        top = key.split(".")[0]
        named_already = key in PATH_KEYS or top in EXTERNAL or (top == "dataset" and config["dataset"]["kind"] == "csv")
        if not named_already and _lookup(usual, key) != _lookup(config, key):
            changed[key] = _lookup(config, key)
    return changed


@cache
def _usual(*named: str) -> dict[str, Any]:
    """What named choices alone give, to be read only: Hydra composes slowly, and an item's runs share their choices."""
    return resolve(compose(named))


def _lookup(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def unknown_choice(group: str, given: str) -> Refused:
    """The refusal for a misspelt method, data set, ..."""
    names = choices(group)
    return Refused(f"there is no {group} '{given}'; {group} is one of {', '.join(names)}{did_you_mean(given, names)}")
