"""Every method in conf/ through the command line: a small table learnt within its noise, a whole record."""

import json
import subprocess
import sys

import fit_once
import numpy as np
import pytest

from dgpbench.cli import main
from dgpbench.config import groups
from dgpbench.runs import store

METHODS = groups.names("method")
# Enough iterations to learn the table below; the single-layer references take as many as L-BFGS needs.
LEARN = ("training.max_iterations=200", "training.learning_rate=0.05")
HOW = dict.fromkeys(METHODS, LEARN) | {
    "gpr": (),
    "sgpr": (),
    "fitc": (),
    "fc_mc": ("training.max_iterations=500", "training.learning_rate=0.02", "training.num_samples=10"),
    "sghmc": ("training.max_iterations=1000",),
}
NOISE, DEVIATION = 2.0, 8.35  # of the table's targets
TLL_OF_THE_MEAN = -0.5 * np.log(2 * np.pi * np.e * DEVIATION**2)  # -3.54; the noise alone would allow -2.11


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One results directory for the module."""
    return tmp_path_factory.mktemp("every") / "results"


def run(folder, *overrides):
    return main(["run", *overrides, f"results_dir={folder}", "budget=smoke", "progress=false", "plot=false"])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A smooth function of two inputs in 120 rows, with noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(120, 2))
    f = 50 + 10 * (np.sin(2 * X[:, 0]) + 0.5 * X[:, 1])
    return fit_once.write_table(tmp_path_factory.mktemp("table") / "smooth.csv", X, f + NOISE * rng.normal(size=120))


@pytest.mark.parametrize("method", fit_once.some_of(METHODS, "gpr", "star", "sghmc"))
def test_a_short_run_of_every_method_learns_and_leaves_a_whole_record(method, table, folder):
    assert run(folder / method, f"method={method}", *table, *HOW[method]) == 0
    (path,) = (folder / method).rglob(store.RECORD)
    record = store.read_record(path.parent)
    assert record["status"] == "done"
    assert record["iterations"] > 0
    assert store.verify_run(path.parent) == []
    scores = record["scores"]
    assert set(scores) >= {"tll", "nlpp", "rmse", "crps", "calibration_error", "sharpness"}
    if method.startswith("sod"):
        # 200 steps from the subset's starting values are only on the way: better than the mean alone.
        assert scores["rmse"] < 0.95 * DEVIATION
        assert scores["tll"] > TLL_OF_THE_MEAN - 0.4
    elif method == "dspp":  # its likelihood overfits so few rows (docs/methods.md, "Sigma points"); its mean does not
        assert NOISE / 2 < scores["rmse"] < 1.75 * NOISE
    else:
        assert NOISE / 2 < scores["rmse"] < 1.75 * NOISE
        assert TLL_OF_THE_MEAN + 0.8 < scores["tll"] < -1.7
    assert record["seconds"].keys() == {"tracing", "training", "prediction", "total"}


@pytest.mark.parametrize("method", ["aep", "aepmcm", "fully_factorised", "sod", "mf"])
def test_more_gps_than_memory_holds_are_refused(method, tmp_path, capsys):
    assert run(tmp_path, f"method={method}", "dataset=boston", "method.width=1000000", "method.num_inducing=100") == 2
    assert "method.width" in capsys.readouterr().err


@pytest.mark.full
def test_one_method_as_a_real_process_from_another_folder(tmp_path):
    command = [sys.executable, "-m", "dgpbench", "run", "method=mf", "dataset=boston", "budget=smoke", "plot=false"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "tll" in ended.stdout
    assert "tensorflow" not in ended.stderr.lower(), "TensorFlow's chatter reaches the user"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]


@pytest.mark.full
def test_a_run_repeated_elsewhere_has_the_same_scores(tmp_path):
    scores = []
    for folder in ("a", "b"):
        assert run(tmp_path / folder, "method=star", "dataset=diabetes", "split=1") == 0
        path = next((tmp_path / folder).rglob(store.RECORD))
        scores.append(json.loads(path.read_text())["scores"])
    assert scores[0] == scores[1]
