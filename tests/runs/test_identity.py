"""Identities: one directory and one hash for equal settings, never one for different ones."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from one_record import WHO, directory_of

from dgpbench.config import groups
from dgpbench.config.canonical import canonical, config_hash
from dgpbench.runs.resolve import resolve_overrides


def test_the_directory_names_task_data_method_protocol_and_split(tmp_path):
    expected = tmp_path / "runs/interpolation/boston/star-L3/lindinger2020-paper/split0-seed0"
    assert directory_of(tmp_path) == expected
    assert directory_of(tmp_path, {"training.learning_rate": 0.01, "precision": "float32"}).name == (
        "split0-seed0+precision=float32,training.learning_rate=0.01"
    )


@given(st.permutations(["training.learning_rate", "precision", "method.width", "a"]))
def test_the_order_of_overrides_does_not_matter(names):
    values = {"training.learning_rate": 0.01, "precision": "float32", "method.width": 3, "a": None}
    assert directory_of(Path("x"), {name: values[name] for name in names}) == directory_of(Path("x"), values)


def test_both_names_and_values_of_overrides_are_in_the_identity():
    identities = [
        {},
        {"a": 1},
        {"a": 2},
        {"b": 1},
        {"a": 1, "b": 1},
        {"a": "1,b=1"},
        {"a": "x+b"},
        {"a": [1]},
        {"a": True},
    ]
    assert len({directory_of(Path("x"), overrides) for overrides in identities}) == len(identities)


@pytest.mark.parametrize("name", WHO)
def test_every_axis_is_in_the_identity(name):
    other = WHO[name] + 1 if isinstance(WHO[name], int) else "other"
    assert directory_of(Path("x"), **{name: other}) != directory_of(Path("x"))


def test_protocol_and_budget_cannot_be_mistaken_for_one_another():
    assert directory_of(Path("x"), protocol="a-b", budget="c") != directory_of(Path("x"), protocol="a", budget="b-c")


@pytest.mark.parametrize(
    ("value", "same", "text"),
    [
        (1e-3, "1e-3", "0.001"),
        (20, 20.0, "20"),
        (np.float64(0.5), 0.5, "0.5"),
        (np.int64(7), "7", "7"),
        (True, "true", "true"),
        (None, "null", "null"),
        ([1, 2.0], (1.0, 2), "[1,2]"),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, '{"a":2,"b":1}'),
        (-0.0, 0, "0"),
        ("adam", "adam", "adam"),
        (float("nan"), "nan", "nan"),
    ],
)
def test_values_have_one_canonical_form(value, same, text):
    assert canonical(value) == canonical(same) == text


def test_true_and_one_are_different_values():
    assert canonical(True) != canonical(1)


def test_sixty_overrides_stay_within_what_file_systems_take_and_stay_apart():
    many = {f"group.setting_{number}": number / 7 for number in range(60)}
    first, second = directory_of(Path("x"), many), directory_of(Path("x"), many | {"group.setting_3": 0})
    assert len(os.fsencode(first.name)) < 255
    assert len(first.name.partition("+")[2]) == 16
    assert first != second


@example("..", "..")
@example(".", "/")
@given(st.text(min_size=1, max_size=400), st.text(max_size=400))
def test_odd_characters_stay_in_the_results_folder_with_short_names(name, value):
    directory = directory_of(Path("results"), {name: value}, dataset=name, method=name)
    assert len(directory.parts) == 7
    assert not {"..", ".", ""} & set(directory.parts)
    assert all(len(os.fsencode(part)) < 255 and "\0" not in part for part in directory.parts)


def test_the_config_hash_depends_on_values_and_not_on_the_order_of_keys():
    assert config_hash({"a": 1, "b": {"c": [1, 2]}}) == config_hash({"b": {"c": (1, 2)}, "a": 1})
    assert config_hash({"a": 1}) != config_hash({"a": 2})


GOLDEN = Path(__file__).with_name("golden_identities.json")


def identities_of_today():
    """Directory and hash of every method as published, and of some runs with other settings."""
    runs = [[f"method={name}"] for name in groups.names("method") if name not in groups.added("method")]
    runs += [
        ["method=mf", "optimiser=natgrad_adam", "training.learning_rate=0.01", "split=3", "seed=1"],
        ["method=star", "protocol=jain2021", "dataset=bimodal", "task=extrapolation", "precision=mixed"],
        ["method=sghmc", "method.num_layers=1", "dataset=energy", "prediction.num_samples=50"],
        ["method=custom", "method.blocks=[{layers: [2, 1], gps: all}]", "init_from=results/runs/x"],
    ]
    resolved = {" ".join(given): resolve_overrides(given) for given in runs}
    return {text: [str(run.directory), run.config_hash] for text, run in resolved.items()}


@pytest.mark.full
def test_directories_and_hashes_are_those_stored():
    """Committed records are found by them. An intended change raises ``store.SCHEMA`` and rewrites the file:

    PYTHONPATH=tests python tests/runs/test_identity.py
    """
    assert identities_of_today() == json.loads(GOLDEN.read_text())


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(identities_of_today(), indent=1) + "\n")
