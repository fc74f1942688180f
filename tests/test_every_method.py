"""Every method in conf/ through the command line: a few steps, finite scores, a whole record."""

import json
import subprocess
import sys

import pytest

from dgpbench import config, records
from dgpbench.cli import main

METHODS = config.choices("method")
# At the budget's width of 2 the subset's sampled values make k(Z_S, Z_S) nearly singular, and q starts at random values
# that it then interpolates: 50 steps from there are still far from the mean (1 step: RMSE 581, 50: 150, 500: 92).
LONGER = {name: ["training.max_iterations=500"] for name in METHODS if name.startswith("sod")}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One results directory for the module."""
    return tmp_path_factory.mktemp("every") / "results"


def run(store, *overrides):
    return main(["run", *overrides, f"results_dir={store}", "budget=smoke", "progress=false", "plot=false"])


@pytest.mark.parametrize("method", METHODS)
def test_a_smoke_run_of_every_method_leaves_a_whole_record_with_finite_scores(method, store):
    assert run(store, f"method={method}", "dataset=diabetes", *LONGER.get(method, [])) == 0
    directory = next((store / "runs/interpolation/diabetes").glob(f"{method}-L*/*/split0-seed0*"))
    record = records.read_record(directory)
    assert record["status"] == "done"
    assert record["iterations"] > 0
    assert records.verify_run(directory) == []
    assert set(record["scores"]) >= {"tll", "nlpp", "rmse", "crps", "calibration_error", "sharpness"}
    assert record["scores"]["rmse"] < 120  # the targets' own deviation is 77
    assert record["seconds"].keys() == {"tracing", "training", "prediction", "total"}


def test_one_method_as_a_real_process_from_another_folder(tmp_path):
    command = [sys.executable, "-m", "dgpbench", "run", "method=mf", "dataset=boston", "budget=smoke", "plot=false"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "tll" in ended.stdout
    assert "tensorflow" not in ended.stderr.lower(), "TensorFlow's chatter reaches the user"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]


def test_a_run_repeated_elsewhere_has_the_same_scores(tmp_path):
    scores = []
    for folder in ("a", "b"):
        assert run(tmp_path / folder, "method=star", "dataset=diabetes", "split=1") == 0
        path = next((tmp_path / folder).rglob(records.RECORD))
        scores.append(json.loads(path.read_text())["scores"])
    assert scores[0] == scores[1]
