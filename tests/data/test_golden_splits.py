"""The splits and tables of today, stored: a change of either would give other numbers under unchanged names.

``golden_splits.json`` is beside this file. After an intended change, rewrite it from the repository's root with
the upstream files at hand, and say so in the changelog, since all records made before it are then of other splits:

    python tests/data/test_golden_splits.py
"""

import csv
import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dgpbench.data.datasets import load, specs
from dgpbench.data.splits import FoldsSettings, InterpolationSettings, TaskSettings, classic_permutations, make_split
from dgpbench.runs.resolve import resolve_overrides

GOLDEN = Path(__file__).with_name("golden_splits.json")
UPSTREAM = Path(__file__).resolve().parents[3] / "shared" / "data"
PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "published"
AT_HAND = ("boston", "diabetes", "bimodal", "heteroscedastic", "step")
MIRRORED = ("concrete", "energy", "kin8nm", "naval", "power", "protein", "wine_red", "wine_white", "yacht")
TASKS = {
    "interpolation": InterpolationSettings("interpolation", train_fraction=0.9),
    "extrapolation": TaskSettings("extrapolation"),
    "classic": TaskSettings("classic"),
    "shuffled": TaskSettings("shuffled"),
    "folds": FoldsSettings("folds", num_folds=10),
    "fixed": TaskSettings("fixed"),
}
FIRST = 6  # rows that are stored as they are, to be compared by eye


@cache
def table_of(name):
    return load(specs()[name])


def described(rows):
    """The number of rows, the first of them, and a digest of all in their order."""
    digest = hashlib.sha256(np.asarray(rows, "<i8").tobytes()).hexdigest()[:16]
    return f"{len(rows)} rows: {' '.join(map(str, rows[:FIRST]))} ... {digest}"


def splits_of(name):
    """Splits 0 and 9 of each task that the data set has, as they are stored."""
    spec, found = specs()[name], {}
    classic = spec.get("classic")
    tasks = ["interpolation", "extrapolation", "folds"] + ["classic"] * bool(classic)
    tasks += ["shuffled"] * ("digest_xy_ordered" in spec)
    for task in tasks:
        last = min(9, classic["num_splits"] - 1) if task == "classic" else 9
        for split in (0, last):
            drawn = make_split(table_of(name), TASKS[task], split, spec)
            found[f"{task} {split}"] = {"train": described(drawn.train), "test": described(drawn.test)}
    return found


def table_described(name):
    table = table_of(name)
    return {
        "n": table.num_rows,
        "d": table.X.shape[1],
        "digest_xy": table.digest_xy,
        "digest_xy_ordered": table.digest_xy_ordered,
    }


def cells_digest(path):
    """sha256 of a csv's cells, for any line ends."""
    with path.open(encoding="utf-8", newline="") as file:
        return hashlib.sha256(json.dumps(list(csv.reader(file))).encode()).hexdigest()


@pytest.fixture
def golden():
    return json.loads(GOLDEN.read_text())


@pytest.fixture
def upstream(monkeypatch):
    if not UPSTREAM.joinpath("mirror").is_dir():
        pytest.skip("the upstream files are not beside the repository")
    monkeypatch.setenv("DGPBENCH_MIRROR", str(UPSTREAM / "mirror"))


@pytest.mark.parametrize("name", AT_HAND)
def test_the_splits_of_tables_at_hand_are_those_stored(name, golden):
    assert splits_of(name) == golden["splits"][name]


@pytest.mark.parametrize("name", MIRRORED)
def test_the_splits_of_upstream_tables_are_those_stored(name, golden, upstream):
    assert splits_of(name) == golden["splits"][name]


@pytest.mark.parametrize("name", AT_HAND)
def test_tables_at_hand_are_those_stored(name, golden):
    assert table_described(name) == golden["tables"][name]


@pytest.mark.parametrize("name", MIRRORED)
def test_upstream_tables_are_those_stored(name, golden, upstream):
    assert table_described(name) == golden["tables"][name]


@pytest.mark.parametrize("name", ["boston", *MIRRORED])
def test_the_configuration_names_the_tables_that_are_stored(name, golden):
    """Also without the upstream files: downloads are recognised by the digests verified when they were at hand."""
    spec = specs()[name]
    assert {key: spec[key] for key in golden["tables"][name]} == golden["tables"][name]


@pytest.mark.parametrize("name", ["boston", *MIRRORED])
def test_the_stored_tables_are_those_of_the_upstream_manifest(name, golden, upstream):
    (published,) = [
        each for each in json.loads((UPSTREAM / "manifest.json").read_text())["datasets"] if each["name"] == name
    ]
    ordered = published.get("digest_xy_ordered_sheet5", published["digest_xy_ordered"])
    assert golden["tables"][name] == {
        "n": published["n"],
        "d": published["d"],
        "digest_xy": published["digest_xy"],
        "digest_xy_ordered": ordered,
    }


@pytest.mark.parametrize("name", [name for name in ("boston", *MIRRORED) if specs()[name].get("classic")])
def test_the_stored_classic_splits_do_not_need_the_table(name, golden):
    spec = specs()[name]
    last = min(9, spec["classic"]["num_splits"] - 1)
    drawn = classic_permutations(spec["n"], last + 1)
    for split in (0, last):
        stored = golden["splits"][name][f"classic {split}"]
        num_train = int(stored["train"].split()[0])
        assert described(drawn[split][:num_train]) == stored["train"]
        assert described(drawn[split][num_train:]) == stored["test"]


def test_a_split_is_drawn_as_it_is_documented():
    """PCG64 under the first 63 bits of blake2b of the axes, over the rows in sorted order; half to even rounds."""
    table = table_of("diabetes")
    text = "\x1f".join(["split", "split=3", f"table={table.digest_xy}", "task=interpolation"])
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
    rows = sorted(range(442), key=lambda row: [*table.X[row], table.y[row]])
    expected = np.array(rows)[np.random.Generator(np.random.PCG64(seed)).permutation(442)]
    drawn = make_split(table, InterpolationSettings("interpolation", train_fraction=0.75), 3, specs()["diabetes"])
    assert len(drawn.train) == 332  # 331.5
    np.testing.assert_array_equal(np.concatenate([drawn.train, drawn.test]), expected)


def test_an_extrapolation_is_drawn_as_it_is_documented():
    """The lower half along a normal direction of the standardised inputs tests; an odd row trains."""
    table = table_of("boston")
    X = (table.X - table.X.mean(axis=0)) / table.X.std(axis=0)
    for split in (0, 4):
        text = "\x1f".join(["split", f"split={split}", f"table={table.digest_xy}", "task=extrapolation"])
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
        height = X @ np.random.Generator(np.random.PCG64(seed)).standard_normal(13)
        drawn = make_split(table, TaskSettings("extrapolation"), split, specs()["boston"])
        assert set(drawn.test) == set(np.argsort(height)[:253])
        assert set(drawn.train) == set(np.argsort(height)[253:])


@pytest.mark.parametrize("num_rows", [7, 8, 9])
def test_a_share_of_the_rows_is_rounded_to_the_nearest(num_rows):
    """506 x 0.9 = 455.4 does not distinguish rounding from truncation; 8 x 0.9 = 7.2 and 7 x 0.8 = 5.6 do."""
    table = type(table_of("step"))("t", np.arange(num_rows)[:, None], np.arange(num_rows), ("x",), "y")
    for tenths in range(1, 10):
        exact = tenths * num_rows / 10
        if exact % 1 == 0.5:
            continue
        drawn = make_split(
            table, InterpolationSettings("interpolation", train_fraction=tenths / 10), 0, {"kind": "csv"}
        )
        nearest = int(exact) + (exact % 1 > 0.5)
        assert len(drawn.train) == min(max(nearest, 1), num_rows - 1)


def test_the_packaged_task_settings_are_those_of_the_stored_splits():
    for name, settings in TASKS.items():
        assert resolve_overrides([f"task={name}"]).task == settings


def test_the_published_numbers_are_those_stored(golden):
    """The papers' tables, cell by cell: a digit that is lost would move every verdict that rests on it."""
    assert {path.name: cells_digest(path) for path in PUBLISHED.glob("*.csv")} == golden["published"]


def test_the_published_numbers_are_the_upstream_ones():
    upstream = UPSTREAM.parent / "published"
    if not upstream.is_dir():
        pytest.skip("the upstream files are not beside the repository")
    known = [path for path in PUBLISHED.glob("*.csv") if (upstream / path.name).is_file()]
    assert {"published.csv", "mc_dropout_classic.csv"} <= {path.name for path in known}
    for path in known:
        assert cells_digest(path) == cells_digest(upstream / path.name)


def _write():
    import os

    os.environ["DGPBENCH_MIRROR"] = str(UPSTREAM / "mirror")
    names = [*AT_HAND, *MIRRORED]
    stored = {
        "published": {path.name: cells_digest(path) for path in sorted(PUBLISHED.glob("*.csv"))},
        "tables": {name: table_described(name) for name in names},
        "splits": {name: splits_of(name) for name in names},
    }
    text = json.dumps(stored, indent=1)
    GOLDEN.write_text(text + "\n")


if __name__ == "__main__":
    _write()
