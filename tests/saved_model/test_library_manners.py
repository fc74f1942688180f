"""Python calls print nothing unless asked to; warnings go through the logger ``dgpbench``."""

import subprocess
import sys
from pathlib import Path

import fit_once
import pytest

import dgpbench

FIT = """
import numpy as np
from dgpbench import DeepGPRegressor, load
X = np.random.default_rng(0).normal(size=(30, 2))
model = DeepGPRegressor("sgp", budget="smoke", settings={{"training.max_iterations": 20}}, verbose={verbose})
model.fit(X, X[:, 0]).save("model")
load("model").predict_quantiles(X)
load("model").predict_dist(X).sample(2, random_state=0)
"""
READ = """
import logging
from dgpbench import load_results
logging.getLogger("dgpbench").setLevel("{level}")
print(len(load_results("results")))
"""


def printed(code: str, folder: Path) -> tuple[str, str]:
    """Return what a program prints on standard output and standard error, C++ code included."""
    root = Path(dgpbench.__file__).parents[1]
    program = f"import sys; sys.path.insert(0, {str(root)!r})\n{code}"
    ended = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=250)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout, ended.stderr


@pytest.mark.full
def test_a_fit_and_its_predictions_print_nothing(tmp_path):
    assert printed(FIT.format(verbose=False), tmp_path) == ("", "")


@pytest.mark.full
def test_a_verbose_fit_prints_its_progress_on_standard_error(tmp_path):
    out, err = printed(FIT.format(verbose=True), tmp_path)
    assert out == ""
    assert "iteration 20/20" in err


def test_a_record_that_is_left_out_is_logged_and_can_be_silenced(tmp_path):
    whole = fit_once.run(tmp_path / "results", "method=bayesian_ridge", "dataset=diabetes", "budget=smoke").directory
    damaged = whole.with_name("split1-seed0")
    damaged.mkdir()
    (damaged / "record.json").write_text("{")
    out, err = printed(READ.format(level="WARNING"), tmp_path)
    assert (out, err.count("split1-seed0"), len(err.splitlines())) == ("1\n", 1, 1)
    assert printed(READ.format(level="ERROR"), tmp_path) == ("1\n", "")
