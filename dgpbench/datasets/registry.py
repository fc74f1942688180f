"""The data sets that there are: one YAML file each in ``conf/dataset``, and no second list."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from dgpbench.datasets.table import Table
from dgpbench.errors import Refused

# The module whose ``load`` makes the table of each kind.
LOADERS = {
    "uci": "published",
    "embedded": "embedded",
    "sklearn": "embedded_sklearn",
    "flights": "flights",
    "airline": "airline",
    "synthetic": "synthetic",
    "csv": "own_csv",
}


def load(dataset_cfg: Mapping[str, Any]) -> Table:
    """The table that a composed configuration of one data set describes, from the cache, a package or the network.

    :raises Refused: when it cannot be had or is not what it should be
    """
    return loader(dataset_cfg).load(dataset_cfg)


def loader(spec: Mapping[str, Any]) -> ModuleType:
    """The module that loads data sets of this kind."""
    if spec.get("kind") not in LOADERS:
        raise Refused(f"dataset.kind is one of {', '.join(LOADERS)}, not {spec.get('kind')!r}")
    return import_module(f"dgpbench.datasets.{LOADERS[spec['kind']]}")


def specs(conf_dir: Path | str | None = None) -> dict[str, dict[str, Any]]:
    """Every data set's configuration as it stands in its file, by name; without Hydra, for lists and cards."""
    import yaml

    files = sorted((Path(conf_dir) if conf_dir else conf_folder()).joinpath("dataset").glob("*.yaml"))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {file.stem: yaml.load(file.read_text("utf-8"), Loader=loader) for file in files}


def conf_folder() -> Path:
    """``conf/`` inside the installed package, else beside it in the repository."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def is_at_hand(spec: Mapping[str, Any]) -> bool:
    """Whether the data set needs no download: drawn, or shipped with a package that is installed."""
    if spec["kind"] in ("embedded", "flights"):
        return find_spec(spec["package"]) is not None
    return spec["kind"] in ("sklearn", "synthetic")
