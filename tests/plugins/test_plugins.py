"""A method from outside: runs, records, tables, workers and refusals, through the command line."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import fit_once
import numpy as np
import pytest
from plugin_files import QUANTILES, QUICK, changed, run
from test_check_method import GOOD, plugin

from dgpbench.plugins import load_file
from dgpbench.report.collect import collect
from dgpbench.report.html_grids import with_groups
from dgpbench.runs import store

VERSION_THEN_RUN = """
import sys
from importlib.metadata import version
from dgpbench.cli import main
print(version("dgpbench"))
sys.exit(main(sys.argv[1:]))
"""


def test_a_run_is_recorded_as_any_other(tmp_path):
    path = plugin(tmp_path, "recorded")
    record = run(tmp_path, "recorded", f"--plugin={path}", "method.noise=0.3").record
    assert record["identity"]["method"] == "recorded"
    assert record["identity"]["overrides"] == {"method.noise": 0.3}
    assert record["config"]["method"]["num_features"] == 100
    assert len(record["config"]["method"]["code"]) == 16
    assert record["scores"]["tll"] > -6.5
    assert record["scores"]["tll"] == -record["scores"]["nlpp"]


@pytest.mark.full
@pytest.mark.parametrize("name", ["shows_layers", "of_no_layers", "of_a_list"])
def test_layers_are_shown_where_a_plug_in_declares_them(name, tmp_path, capsys):
    first, second = {"shows_layers": ("layers: int", "2"), "of_a_list": ("layers: list", "(5, 5)")}.get(name, ("", ""))
    more = f'{first} = setting("layers", default={second})\n    ' if first else ""
    path = plugin(tmp_path, name, "    num_features: int", f"    {more}num_features: int")
    given = (f"method={name}", *QUICK, f"--plugin={path}", f"results_dir={tmp_path}/results")
    assert fit_once.command("run", *given, "plot=false") == 0
    message = capsys.readouterr()
    (directory,) = [each.parent for each in tmp_path.rglob("record.json")]
    assert fit_once.command("show", str(directory), "--plot", "--output", str(tmp_path / "picture.svg")) == 0
    shown = f"{name} (L = 2) on diabetes" if name == "shows_layers" else f"{name} on diabetes"
    for text in (message.out, message.err, capsys.readouterr().out, (tmp_path / "picture.svg").read_text()):
        assert shown in text
    assert f"/{name}-L1/" in str(directory)
    frame = with_groups(collect(str(tmp_path / "results")))
    assert (frame["num_layers"].tolist(), frame["L"].tolist()) == ([1], [2 if name == "shows_layers" else ""])


@pytest.mark.full
def test_a_changed_file_is_another_method_with_its_own_records(tmp_path):
    """In processes of their own, as a user meets it."""
    words = ["run", "method=changing", *QUICK, "progress=false", "plot=false", f"results_dir={tmp_path}/results"]

    def outcome(path: Path):
        command = [sys.executable, "-m", "dgpbench", *words, "--plugin", str(path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=200)

    path = plugin(tmp_path, "changing")
    assert outcome(path).returncode == 0
    again = outcome(path)
    assert again.returncode == 0
    assert "is done already" in again.stdout
    path.write_text(path.read_text().replace("np.cos", "np.sin"))
    changed = outcome(path)
    assert changed.returncode == 2
    assert "made with other code of the method" in changed.stderr


@pytest.mark.parametrize("command", ["run", "validate", "check-method"])
def test_a_method_with_a_missing_package_is_refused_before_it_runs(tmp_path, capsys, command):
    name = f"lacking_{command.replace('-', '_')}"
    path = plugin(tmp_path, name)
    path.write_text(path.read_text().replace("fit, Ridge)", "fit, Ridge, packages={'no_such': 'pip install such'})"))
    words = [name] if command == "check-method" else [f"method={name}", *QUICK, f"results_dir={tmp_path}/results"]
    assert fit_once.command(command, *words, f"--plugin={path}") == 2
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == f"dgpbench: method={name} needs the package no_such, which is not installed: pip install such"
    )
    assert not list(tmp_path.rglob("record.json"))


def test_reproduce_names_a_missing_package_once_and_every_run(tmp_path, capsys):
    path = plugin(tmp_path, "lacking_reproduced")
    path.write_text(path.read_text().replace("fit, Ridge)", "fit, Ridge, packages={'no_such': 'pip install such'})"))
    words = ["dataset=boston", "split=range(3)", "method=lacking_reproduced", f"results_dir={tmp_path}/results"]
    assert fit_once.command("reproduce", "dgpbench_uci", *words, f"--plugin={path}") == 2
    message = capsys.readouterr().err
    assert message.count("needs the package no_such") == 1
    assert all(f"dataset=boston split={split}" in message for split in range(3))


def test_a_method_that_ends_the_process_is_a_failed_run_with_a_record(tmp_path):
    path = plugin(tmp_path, "leaving")
    path.write_text(path.read_text().replace("    return Fitted(", "    raise SystemExit('no licence')\n    Fitted("))
    record = run(tmp_path, "leaving", f"--plugin={path}", status="failed").record
    assert record["reason"] == "SystemExit: no licence"


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "diagnostics", "recorded"),
    [
        ("counts_in_tenths", "{'num_parameters': 12.5}", {"num_parameters": 12.5}),
        ("names_half_a_character", r"{'file \udc80': 'a\udc80'}", {r"file \udc80": r"a\udc80"}),
        ("reports_deeply", "[a := {}, [a := {'inner': a} for _ in range(60)]][1][-1]", None),
        ("reports_in_a_circle", "[a := {}, a.update(own=a)][0]", None),
    ],
)
def test_any_diagnostics_leave_a_record_that_can_be_read(name, diagnostics, recorded, tmp_path):
    line = "        self.noise, F = settings.noise, self.features(train.X)\n"
    path = changed(tmp_path, name, (line, f"{line}        self.diagnostics = {diagnostics}\n"))
    left = run(tmp_path, name, f"--plugin={path}", status="done" if recorded else "failed")
    assert store.verify_run(left.directory) == []
    assert left.record["num_parameters"] is None
    assert left.record["notes"] == [recorded or {}]
    assert bool(left.scores) == bool(recorded)


def test_an_installed_plug_in_needs_no_flag_and_has_version_and_digest(tmp_path):
    """In separate processes, since installed packages are looked up once."""
    metadata = tmp_path / "guest-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.5\n")
    (metadata / "entry_points.txt").write_text("[dgpbench.methods]\nguest = guest_methods:METHOD\n")
    code = GOOD.replace("NAME", "guest")
    seen = []
    for text in (code, code.replace("np.cos", "np.sin")):
        (tmp_path / "guest_methods.py").write_text(text)
        words = ["run", "method=guest", *QUICK, *fit_once.QUIET, f"results_dir={tmp_path}/results{len(seen)}"]
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "-m", "dgpbench", *words], check=True, timeout=200, env=environment)
        (path,) = (tmp_path / f"results{len(seen)}").rglob("record.json")
        seen.append(json.loads(path.read_text())["config"]["method"]["code"])
    assert all(re.fullmatch("guest 1.5 [0-9a-f]{16}", each) for each in seen)
    assert seen[0] != seen[1]


@pytest.mark.full
def test_a_baseline_of_ours_is_the_same_at_another_version_of_this_package(tmp_path):
    """In a separate process with a package first on its path that reports dgpbench 9.9."""
    metadata = tmp_path / "dgpbench-9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: dgpbench\nVersion: 9.9\n")
    points = "[dgpbench.methods]\nbayesian_ridge = dgpbench.baselines.linear:BAYESIAN_RIDGE\n"
    (metadata / "entry_points.txt").write_text(points)
    record = run(tmp_path, "bayesian_ridge").record
    words = ["run", "method=bayesian_ridge", *QUICK, *fit_once.QUIET, f"results_dir={tmp_path}/results"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", VERSION_THEN_RUN, *words]
    again = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)
    assert again.stdout.splitlines()[0] == "9.9"
    assert "is done already" in again.stdout, again.stderr
    assert record["config"]["method"]["code"] == "dgpbench 0.1.0"


def test_settings_are_checked_as_all_settings_are(tmp_path, capsys):
    path = plugin(tmp_path, "checked")
    assert fit_once.command("run", "method=checked", f"--plugin={path}", "method.noise=-1", *QUICK) == 2
    assert "method.noise takes a number above 0" in capsys.readouterr().err
    assert fit_once.command("run", "method=checked", f"--plugin={path}", "method.nose=1", *QUICK) == 2
    assert "did you mean method.noise?" in capsys.readouterr().err
    assert fit_once.command("run", "method=checked", f"--plugin={path}", "training.learning_rate=1", *QUICK) == 2


def test_a_plug_ins_own_settings_can_be_set(capsys):
    assert fit_once.command("validate", "method=deep_ensemble", "method.num_networks=3", *QUICK) == 0
    assert fit_once.command("validate", "method=deep_ensemble", "method.num_networks=0", *QUICK) == 2
    assert "method.num_networks takes a whole number of at least 1" in capsys.readouterr().err
    assert fit_once.command("validate", "method=mc_dropout", "budget=paper", "method.noises=[0.1,0.2]") == 0


@pytest.mark.full
def test_a_sweep_and_workers_know_it(tmp_path):
    path, results = plugin(tmp_path, "swept"), f"results_dir={tmp_path}/results"
    words = ("method=swept", "split=0,1", f"--plugin={path}", *QUICK, results, *fit_once.QUIET)
    assert fit_once.command("run", *words, "--multirun") == 0
    frame = collect(tmp_path / "results")
    assert sorted(frame["split"]) == [0, 1]
    assert set(frame["status"]) == {"done"}


@pytest.mark.full
def test_workers_load_it(tmp_path):
    """Settings of a plug-in reach other processes by the path of its code."""
    from dgpbench.experiments.engine import engine
    from dgpbench.methods import plugins
    from dgpbench.runs.resolve import resolve_overrides

    plugins.load_file(plugin(tmp_path, "travelling"))
    words = ["method=travelling", *QUICK, f"results_dir={tmp_path}/results", *fit_once.QUIET]
    runs = [resolve_overrides([*words, f"split={split}", "method.noise=0.2"]) for split in (0, 1)]
    assert [outcome.status for outcome in engine(runs, workers=2)] == ["done", "done"]


@pytest.mark.full
def test_budgets_that_it_names_change_its_settings(tmp_path):
    path = plugin(tmp_path, "budgeted")
    path.write_text(path.read_text().replace("fit, Ridge)", 'fit, Ridge, budgets={"smoke": {"num_features": 7}})'))
    record = run(tmp_path, "budgeted", f"--plugin={path}").record
    assert record["config"]["method"]["num_features"] == 7
    assert record["identity"]["overrides"] == {}


def test_scores_that_quantiles_do_not_give_are_reported_missing(tmp_path, capsys):
    path = tmp_path / "linear_quantiles.py"
    path.write_text(QUANTILES)
    record = run(tmp_path, "linear_quantiles", f"--plugin={path}").record
    assert {"tll", "nlpp", "rmse", "sharpness"} & set(record["scores"]) == set()
    assert {"crps", "pinball", "interval_score_90", "coverage_50", "coverage_95"} <= set(record["scores"])
    assert 0.85 < record["scores"]["coverage_95"] <= 1.0
    assert "not available for this type of prediction: tll, nlpp, rmse, sharpness" in capsys.readouterr().out


def test_an_estimator_of_scikit_learn_is_a_method_in_three_lines(tmp_path):
    from sklearn.linear_model import BayesianRidge

    path = tmp_path / "bayes.py"
    path.write_text(
        "from sklearn.linear_model import BayesianRidge\n"
        "from dgpbench.plugins import from_sklearn\n"
        'METHOD = from_sklearn("bayes", lambda settings, seed: BayesianRidge())\n'
    )
    found = run(tmp_path, "bayes", f"--plugin={path}")
    from dgpbench.data import datasets
    from dgpbench.runs.problem import prepare
    from dgpbench.runs.resolve import resolve_overrides

    same = resolve_overrides(["method=gpr", *QUICK])
    problem = prepare(same, datasets.load(same.dataset))
    fitted = BayesianRidge().fit(problem.train.X, problem.train.Y[:, 0])
    mean, deviation = fitted.predict(problem.test.X, return_std=True)
    scale = problem.scaler.scale_y
    assert found.points["mean"].to_numpy() == pytest.approx(problem.scaler.mean_y + scale * mean, rel=1e-12)
    assert found.points["variance"].to_numpy() == pytest.approx(np.square(scale * deviation), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n", "defines no Method"),
        ("import nowhere_at_all\n", "cannot be loaded: ModuleNotFoundError"),
        (GOOD.replace("NAME", "star"), "a method named star already exists"),
        (GOOD.replace("NAME", "mc_dropout"), "a method named mc_dropout already exists"),
        (GOOD.replace('"NAME"', "3"), "a method cannot be named '3'"),
        (GOOD.replace("NAME", "unbound").replace("Ridge)", "object)"), "a frozen dataclass derived from Settings"),
        (GOOD.replace("NAME", "lacks").replace(", default=0.1", ""), "setting noise needs a default"),
        (GOOD.replace("NAME", "idle").replace("fit, Ridge", "None, Ridge"), "fit must be a function"),
        (GOOD.replace("NAME", "listed").replace("Ridge)", "Ridge, packages=['numpy'])"), "packages must map import"),
    ],
)
def test_a_file_that_is_not_a_plug_in_is_refused(text, sentence, tmp_path, capsys):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    assert fit_once.command("run", "method=mf", f"--plugin={path}", *QUICK) == 2
    error = capsys.readouterr().err.strip()
    assert sentence in error
    assert "\n" not in error


def test_a_missing_plug_in_file_is_refused(capsys):
    assert fit_once.command("run", "method=mf", "--plugin", "nowhere.py") == 2
    assert "file not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [
        ("ngboost", "ngboost", "ngboost"),
        ("catboost", "catboost", "catboost"),
        ("xgboost_quantiles", "xgboost", "xgboost"),
        ("conformal", "crepes", "conformal"),
    ],
)
def test_a_baseline_without_its_package_is_refused_without_a_record(
    method, package, extra, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, package, None)
    assert fit_once.command("run", f"method={method}", *QUICK, *fit_once.QUIET, f"results_dir={tmp_path}") == 2
    assert f"pip install 'dgpbench[{extra}]'" in capsys.readouterr().err
    assert not list(tmp_path.rglob("record.json"))


def test_gpytorch_runs_without_triton_which_crashes_beside_tensorflow(tmp_path, monkeypatch):
    """With or without GPyTorch installed: the run fails in an empty environment."""
    monkeypatch.setitem(sys.modules, "triton", None)  # put back after the test
    monkeypatch.delitem(sys.modules, "triton")
    monkeypatch.setitem(sys.modules, "gpytorch", None)  # so is this
    monkeypatch.delitem(sys.modules, "gpytorch")
    (tmp_path / "triton.py").touch()
    (tmp_path / "gpytorch.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    fit_once.command("run", "method=gpytorch_dgp", *QUICK, *fit_once.QUIET, f"results_dir={tmp_path}/results")
    with pytest.raises(ImportError, match="triton"):
        importlib.import_module("triton")


def test_no_record_and_no_configuration_names_code(tmp_path):
    """A record of a plug-in's run holds a digest of its code and no path to it."""
    path = plugin(tmp_path, "pathless")
    assert str(tmp_path) not in json.dumps(run(tmp_path, "pathless", f"--plugin={path}").record)


def test_a_file_is_loaded_in_python_by_its_name_as_a_text(tmp_path):
    assert load_file(str(plugin(tmp_path, "by_text"))) == ["by_text"]


@pytest.mark.full
def test_the_networks_of_an_ensemble_have_different_initial_weights():
    """A network's output layer had the draws of the next one's hidden layer, but for their scale."""
    from dgpbench.baselines.networks import EnsembleSettings, fit_ensemble
    from dgpbench.data.standardise import Regression
    from dgpbench.training.monitor import Monitor

    train = Regression(np.linspace(-1, 1, 20).reshape(10, 2), np.zeros((10, 1)))
    as_they_start = {"epochs": 1, "learning_rate": 1e-12}
    settings = EnsembleSettings(name="deep_ensemble", num_layers=1, num_networks=3, **as_they_start)
    networks = fit_ensemble(train, settings, fit_once.SEEDS, Monitor()).networks
    draws = [layer.get_weights()[0].ravel()[:100] for network in networks for layer in network.layers]
    assert len(draws) == 6
    assert np.max(np.abs(np.corrcoef(draws) - np.eye(6))) < 0.5


@pytest.mark.full
@pytest.mark.parametrize(("num_rows", "epochs", "steps"), [(10, 7, 7 * 3), (90, 5, 5 * 23)])
def test_a_network_takes_a_step_for_every_batch_of_every_epoch(num_rows, epochs, steps):
    """Keras takes a hundred steps in a call, also if their number is not a multiple of it."""
    from dgpbench.baselines.networks import DropoutSettings, fit_dropout
    from dgpbench.data.standardise import Regression
    from dgpbench.training.monitor import Monitor

    rng = np.random.default_rng(0)
    train = Regression(rng.normal(size=(num_rows, 2)), rng.normal(size=(num_rows, 1)))
    few = {"rates": [0.1], "noises": [0.1], "num_samples": 2, "batch_size": 4}
    settings = DropoutSettings(name="mc_dropout", num_layers=1, epochs=epochs, **few)
    fitted = fit_dropout(train, settings, fit_once.SEEDS, Monitor())
    assert fitted.network.optimizer.iterations.numpy() == steps
