"""Files in conf/dataset and conf/task are the registry: each loads and has a command."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dgpbench.config import groups
from dgpbench.data import published
from dgpbench.data.datasets import LOADERS, is_offline, load, specs
from dgpbench.data.download import sources_of
from dgpbench.data.splits import TASKS
from dgpbench.errors import UserError

FILES = sorted([*groups.folder().glob("dataset/*.yaml"), *groups.folder().glob("task/*.yaml")])


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_data_sets_file_starts_with_a_description_and_a_command(file: Path) -> None:
    first, second = file.read_text().splitlines()[:2]
    assert first.startswith("# ")
    assert second.startswith("#   dgpbench run ")
    assert f"{file.parent.name}={file.stem}" in second


@pytest.mark.parametrize("name", sorted(specs()))
def test_a_data_sets_configuration_has_what_lists_and_cards_need(name: str) -> None:
    spec = specs()[name]
    assert spec["name"] == name
    assert spec["title"]
    assert spec["kind"] in LOADERS
    assert {"citation", "licence", "doi", "duplicates", "constant", "notes"} <= set(spec["card"] | {"duplicates": 0})
    if name != "csv":
        assert spec["target"] in spec["columns"]
        assert len(spec["columns"]) == spec["d"] + 1 + len(spec.get("other_targets", []))
        assert set(spec["card"]["constant"]) <= set(spec["columns"])
    for source in sources_of(spec.get("sources", [])):
        assert source.reader.get("format", "csv") in published.READERS
        assert source.place


def test_every_task_has_a_configuration() -> None:
    assert {file.stem for file in FILES if file.parent.name == "task"} == set(TASKS)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match=r"dataset.kind=sql is unknown; available: uci, embedded"):
        load({"kind": "sql"})


def test_the_kind_determines_if_a_download_is_needed() -> None:
    at_hand = {name for name, spec in specs().items() if is_offline(spec)} - {"flights"}
    assert at_hand == {"boston", "diabetes", "bimodal", "heteroscedastic", "step"}
    assert not is_offline({**specs()["boston"], "package": "no_such_package"})


def test_listing_data_sets_imports_nothing_slow() -> None:
    code = "import sys; from dgpbench.data import datasets, datasets; datasets.specs(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"tensorflow", "pandas", "scipy", "sklearn", "platformdirs", "hydra"} & set(modules)


@pytest.mark.parametrize("name", ["bimodal", "heteroscedastic", "step"])
def test_a_synthetic_table_depends_on_its_own_seed(name: str) -> None:
    spec = specs()[name]
    assert load(spec).digest_xy == load(spec).digest_xy != load({**spec, "seed": 1}).digest_xy
    assert load({**spec, "num_rows": 7}).num_rows == 7
    assert load(spec).verified == "synthetic"
    with pytest.raises(UserError, match=r"dataset.num_rows takes a whole number of at least 2"):
        load({**spec, "num_rows": 0})


def test_the_synthetic_targets_follow_their_formulas() -> None:
    x, y = (lambda t: (t.X[:, 0], t.y))(load({**specs()["bimodal"], "num_rows": 20_000}))
    sine = np.abs(y - 10 * np.sin(x)) < np.abs(y - 10 * np.cos(x))
    assert np.abs(x).max() <= 2
    assert abs(sine.mean() - 0.5) < 0.02
    assert abs(np.where(sine, y - 10 * np.sin(x), y - 10 * np.cos(x)).std() - 1) < 0.1
    x, y = (lambda t: (t.X[:, 0], t.y))(load({**specs()["heteroscedastic"], "num_rows": 20_000}))
    noise = (y - 7 * np.sin(x)) / np.abs(np.cos(x / 2))
    assert 3.9 < np.abs(x).max() <= 4
    assert abs(noise.std() - 3) < 0.1
    x, y = (lambda t: (t.X[:, 0], t.y))(load({**specs()["step"], "num_rows": 20_000}))
    assert 0.2 <= np.abs(x).min() < 0.21
    assert 1.99 < np.abs(x).max() <= 2
    assert (y == np.where(x < 0, -1, 1)).all()
