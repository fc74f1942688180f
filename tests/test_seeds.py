"""The seeds of a run: each depends on its purpose, and on every axis that a draw may depend on."""

import hashlib
from dataclasses import asdict

import numpy as np
import pytest

from dgpbench.data.table import Table
from dgpbench.runs.fit import seeds_of
from dgpbench.runs.resolve import resolve_overrides

USUAL = {"method": "method=mf", "task": "task=interpolation", "num_layers": "method.num_layers=3", "split": "split=0",
         "seed": "seed=0"}  # fmt: skip
OTHER = {"method": "method=star", "task": "task=extrapolation", "num_layers": "method.num_layers=2", "split": "split=1",
         "seed": "seed=1", "table": 1.0}  # fmt: skip


def table(shift=0.0):
    X = np.arange(20.0).reshape(10, 2)
    return Table("mine", X + shift, X[:, 0], ("a", "b"), "y", verified="own")


def seeds(**changed):
    """The seeds of the usual run but for some axes."""
    run = resolve_overrides(["dataset=csv", *((USUAL | changed)[axis] for axis in USUAL)])
    return asdict(seeds_of(run, table(changed.get("table", 0.0))))


@pytest.mark.parametrize("axis", OTHER)
def test_every_draw_depends_on_every_axis(axis):
    usual, other = seeds(), seeds(**{axis: OTHER[axis]})
    assert [name for name in usual if usual[name] == other[name]] == []


def test_seeds_are_those_of_earlier_versions():
    """CONTRIBUTING.md, "Identity": the digest of the purpose and of the axes by name."""
    axes = ["method=mf", "num_layers=3", "seed=0", "split=0", f"table={table().digest_xy}", "task=interpolation"]
    for purpose, seed in seeds().items():
        digest = hashlib.blake2b("\x1f".join([purpose, *axes]).encode(), digest_size=8).digest()
        assert seed == int.from_bytes(digest, "big") >> 1
