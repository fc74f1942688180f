"""Tables that an installed package ships; the package is found, never imported."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dgpbench.data import uci
from dgpbench.data.download import Copy, Damaged
from dgpbench.data.sources import Source
from dgpbench.data.table import Table

parts = uci.parts


def load(spec: Mapping[str, Any]) -> Table:
    """The table from the package's file, or from a download where the package is missing or ships another table."""
    path = package_file(spec["package"], spec["path"])
    if path is not None and path.is_file():
        shipped = Copy(Source("", reader=spec["reader"]), path, f"package {spec['package']}")
        try:
            return uci.read_table(spec, shipped)
        except Damaged:
            pass
    return uci.load(spec)


def package_file(package: str, path: str) -> Path | None:
    """A file below an installed package's folder, None where the package is not installed."""
    found = find_spec(package)
    return Path(found.origin).parent / path if found and found.origin else None
