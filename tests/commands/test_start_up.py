"""Imports at the start of a process."""

import os
import subprocess
import sys
from pathlib import Path

import fit_once
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def in_a_process(folder: Path, code: str) -> str:
    """Return the last line that some code prints in its own process."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys\nfrom dgpbench.cli import main\n{code}"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout.splitlines()[-1]


@pytest.mark.full
def test_predict_imports_no_keras_3_and_predicts_the_same_bits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(20, 2))
    table = fit_once.write_table(tmp_path / "small.csv", X, X.sum(axis=1))
    tiny = ("method=mf", "budget=smoke", "method.num_inducing=3", "training.max_iterations=2")
    assert fit_once.command("fit", *table, *tiny, "--holdout=0", "--output=model", "progress=false") == 0
    capsys.readouterr()
    assert fit_once.command("predict", "model", "small.csv") == 0
    here = capsys.readouterr().out
    call = "main(['predict', 'model', 'small.csv', '--output', 'there.csv'])"
    assert in_a_process(tmp_path, f"{call}\nprint({{'keras', 'matplotlib'}} & set(sys.modules))") == "set()"
    assert (tmp_path / "there.csv").read_text() == here


@pytest.mark.full
def test_a_method_of_scikit_learn_imports_no_tensorflow(tmp_path):
    words = ["run", "method=bayesian_ridge", "dataset=diabetes", "plot=false"]
    code = f"assert main({words}) == 0\nprint({{'tensorflow', 'gpflow', 'keras'}} & set(sys.modules))"
    assert in_a_process(tmp_path, code) == "set()"


@pytest.mark.full
def test_a_method_that_imports_tensorflow_gets_it_with_its_threads(tmp_path):
    from dgpbench.config import groups
    from dgpbench.methods import plugins
    from dgpbench.methods.plugins import needs_tensorflow

    names = ("bayesian_ridge", "gradient_boosting_quantiles", "deep_ensemble", "mc_dropout", "gpflux_dgp", "mf")
    assert all(groups.exists("method", name) or plugins.find("method", name) for name in names)
    assert [needs_tensorflow(name) for name in names] == [False, False, True, True, True, True]


def test_make_announces_the_installation_before_pip_starts(tmp_path):
    listed = subprocess.run(
        ["make", "--dry-run", "run", f"VENV={tmp_path / 'none'}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert 0 < listed.index("this takes minutes") < listed.index("pip install")
