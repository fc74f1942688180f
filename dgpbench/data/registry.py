"""The data sets that there are: one YAML file each in ``conf/dataset``, and no second list."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from dgpbench.config import groups
from dgpbench.config.settings import setting
from dgpbench.data.table import Table
from dgpbench.data.table_settings import TableSettings
from dgpbench.errors import UserError

# The module whose ``load`` makes the table of each kind.
LOADERS = {
    "uci": "uci",
    "embedded": "embedded",
    "sklearn": "embedded_sklearn",
    "flights": "flights",
    "airline": "airline",
    "synthetic": "synthetic",
    "csv": "user_table",
}


@dataclass(frozen=True)
class SyntheticSettings:
    """What a user sets of a table that is drawn."""

    seed: int = setting("seed of the table; that of a run is another", low=0)
    num_rows: int = setting("rows to draw", low=2)


@dataclass(frozen=True)
class NoSettings:
    """What a user sets of any other data set."""


SETTINGS: dict[str, type] = {"csv": TableSettings, "synthetic": SyntheticSettings}


def settings_class(spec: Mapping[str, Any]) -> type:
    """The settings of data sets of this kind."""
    return SETTINGS.get(spec["kind"], NoSettings)


def load(dataset_cfg: Mapping[str, Any]) -> Table:
    """The table that a composed configuration of one data set describes, from the cache, a package or the network.

    :raises UserError: when it cannot be had or is not what it should be
    """
    return loader(dataset_cfg).load(dataset_cfg)


def loader(spec: Mapping[str, Any]) -> ModuleType:
    """The module that loads data sets of this kind."""
    if spec.get("kind") not in LOADERS:
        raise UserError(f"dataset.kind is one of {', '.join(LOADERS)}, not {spec.get('kind')!r}")
    return import_module(f"dgpbench.data.{LOADERS[spec['kind']]}")


def specs() -> dict[str, dict[str, Any]]:
    """Every data set's file of conf/ by name; without Hydra, for lists and cards."""
    return {name: groups.describe("dataset", name) for name in groups.names("dataset")}


def is_at_hand(spec: Mapping[str, Any]) -> bool:
    """Whether the data set needs no download: drawn, or shipped with a package that is installed."""
    if spec["kind"] in ("embedded", "flights"):
        return find_spec(spec["package"]) is not None
    return spec["kind"] in ("sklearn", "synthetic")
