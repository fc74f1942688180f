"""Several fits trained as one model: each takes the steps that it takes alone."""

import json
import time

import fit_once
import numpy as np
import pytest
from one_record import forge

from dgpbench.cli import main
from dgpbench.data.standardise import Regression
from dgpbench.methods.interface import Seeds, fit_function, fit_together_function
from dgpbench.runs import execute, store
from dgpbench.runs.fit import trains_together
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.training.monitor import Monitor

ITEM = ["reproduce", "lindinger2020_table1", "dataset=boston", "budget=smoke", "split=0,1,2"]
SHORT = ["training.max_iterations=10", "method.num_inducing=5", "precision=float64"]
METHODS = ["mf", "sgp", "star", "fc", "fc_mc", "dspp", "mf_lv", "aep", "aepmcm"]


@pytest.mark.parametrize("method", fit_once.first_of(METHODS))
def test_each_fit_is_the_one_that_it_is_alone(method):
    check([f"method={method}", *SHORT, "training.batch_size=8", "training.average_last=0.5"])


def test_each_fit_stops_early_where_it_does_alone():
    early = ["training.early_stopping=true", "training.early_stopping_start=0.1", "training.average_last=0"]
    length = ["training.max_iterations=500", "training.learning_rate=0.01", "training.batch_size=30"]
    # From the prior: from the optimum of L-BFGS, which rounding moves, the held-out score changes by 1e-4 alone.
    start = ["method=sgp", "precision=float64", "method.num_inducing=20", "method.output_start=prior"]
    iterations = check([*start, *length, *early])
    assert iterations[2] < iterations[0] < iterations[1] == 500


def check(overrides) -> list[int]:
    """Compare fits of three tables as one model with those of each table; return their iterations."""
    run = resolve_overrides(["budget=laptop", *overrides])
    rng, S, N, D = np.random.default_rng(0), 3, 30, 4
    tables = [Regression(rng.normal(size=(N, D)), rng.normal(size=(N, 1))) for _ in range(S)]
    for table, noise in zip(tables[:2], (0.8, 0.0), strict=True):  # the third one is noise alone
        table.Y[:] = table.X[:, :1] + noise * table.Y
    seeds = [Seeds(*range(10 * place, 10 * place + 5)) for place in range(S)]
    settings = run.sized((N, D))
    monitors = [Monitor() for _ in range(S)]
    family = run.card.family
    together = fit_together_function(family)(tables, settings, seeds, monitors)
    for table, own, monitor, joint in zip(tables, seeds, monitors, together, strict=True):
        log = Monitor()
        alone = fit_function(family)(table, settings, own, log)
        ours, theirs = (each.predict(table.X, 7) for each in (joint, alone))
        np.testing.assert_allclose(ours.means, theirs.means, rtol=0, atol=1e-9)
        np.testing.assert_allclose(ours.variances, theirs.variances, rtol=0, atol=1e-9)
        for row, other in zip(monitor.trace, log.trace, strict=True):
            assert row.iteration == other.iteration
            np.testing.assert_allclose(row.elbo, other.elbo, rtol=1e-9)
            assert (row.validation_tll is None) == (other.validation_tll is None)
        assert monitor.training_seconds > 0
        assert joint.diagnostics["iterations"] == alone.diagnostics["iterations"]
    return [each.diagnostics["iterations"] for each in together]


def test_splits_without_memory_for_one_model_are_trained_alone(tmp_path, capsys, monkeypatch):
    def without_memory(*_):
        raise MemoryError("too little")

    monkeypatch.setattr(execute, "fit_together", without_memory)
    fixed = ["method=sgp", "dataset=boston", "budget=smoke", f"results_dir={tmp_path}", *SHORT]
    outcomes = execute.execute_together([resolve_overrides([*fixed, f"split={split}"]) for split in (0, 1)])
    assert [outcome.status for outcome in outcomes] == ["done", "done"]
    said = "2 splits cannot be trained as one model (MemoryError: too little); each is trained alone"
    assert said in capsys.readouterr().err


def test_the_time_of_runs_trained_together_begins_when_all_are_held(tmp_path, monkeypatch):
    prepare, prepared = execute.prepare, []

    def noted(run, table):
        problem = prepare(run, table)
        prepared.append(time.perf_counter())
        return problem

    class Stop(BaseException):
        """Ends the test before a fit; an exception would be met by fits of each run alone."""

    def looked_at(run, rows, seeds, monitors):
        assert len(monitors) == len(prepared) == 2
        assert min(monitor.started for monitor in monitors) > max(prepared)
        raise Stop

    monkeypatch.setattr(execute, "prepare", noted)
    monkeypatch.setattr(execute, "fit_together", looked_at)
    fixed = ["method=sgp", "dataset=boston", "budget=smoke", f"results_dir={tmp_path}", *SHORT]
    with pytest.raises(Stop):
        execute.execute_together([resolve_overrides([*fixed, f"split={split}"]) for split in (0, 1)])


@pytest.mark.full
def test_splits_of_a_cell_have_the_records_that_they_have_alone(tmp_path, capsys):
    cell = [*ITEM, "method=mf,sghmc", "method.num_layers=2", *SHORT]
    for name, how in (("together", ["--batch-splits"]), ("alone", [])):
        assert main([*cell, f"results_dir={tmp_path / name}", *how]) == 0
    found = {
        name: {
            (record["identity"]["method"], record["identity"]["split"]): record
            for record in map(json.loads, (path.read_text() for path in (tmp_path / name).rglob("record.json")))
        }
        for name in ("together", "alone")
    }
    assert len(found["alone"]) == 6
    for key, alone in found["alone"].items():
        joint = found["together"][key]
        assert joint["config_hash"] == alone["config_hash"]
        for score, value in alone["scores"].items():
            np.testing.assert_allclose(joint["scores"][score], value, rtol=1e-8, atol=1e-8)
        assert joint["notes"][0].get("trained_together") == (3 if key[0] == "mf" else None)
        assert joint["seconds"]["total"] >= sum(value for part, value in joint["seconds"].items() if part != "total")
    capsys.readouterr()
    assert main([*cell, f"results_dir={tmp_path / 'together'}", "--batch-splits"]) == 0
    assert "6 runs, 0 to do" in capsys.readouterr().err


@pytest.mark.full
def test_splits_with_unequal_numbers_of_rows_are_trained_alone(tmp_path, monkeypatch):
    from dgpbench.runs import execute

    prepare = execute.prepare

    def unequal(run, table):
        problem = prepare(run, table)
        fewer = Regression(problem.train.X[run.split :], problem.train.Y[run.split :])
        return type(problem)(**{**vars(problem), "train": fewer})

    monkeypatch.setattr(execute, "prepare", unequal)
    runs = [
        resolve_overrides(["method=mf", "budget=smoke", f"split={split}", f"results_dir={tmp_path}", *SHORT])
        for split in (0, 1)
    ]
    assert [outcome.status for outcome in execute.execute_together(runs)] == ["done", "done"]
    for run in runs:
        assert "trained_together" not in store.read_record(run.directory)["notes"][0]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["method=mf"], True),
        (["method=star", "training.trace_test=true"], False),
        (["method=mf", "training.max_seconds=5"], False),
        (["method=mf", "budget=paper", "training.early_stopping=true"], True),
        (["method=mf", "training.early_stopping=true", "training.average_last=0.1"], False),
        (["method=sgp", "optimiser=natgrad_adam"], False),
        (["method=sghmc"], False),
        (["method=aepmcm"], True),
        (["method=aep"], True),
        (["method=gpr"], False),
    ],
)
def test_runs_that_end_by_a_clock_or_need_a_mean_of_their_own_are_trained_alone(overrides, expected):
    assert trains_together(resolve_overrides(["budget=laptop", *overrides])) is expected


def test_batches_and_workers_exclude_each_other(capsys):
    assert main([*ITEM, "--batch-splits", "--workers", "2"]) == 2
    assert "leave --workers" in capsys.readouterr().err


def test_a_record_is_not_overwritten_where_the_splits_of_its_cell_are_trained_as_one_model(tmp_path, capsys):
    cell = [*ITEM, "method=sgp", *SHORT, f"results_dir={tmp_path}"]
    assert main([*cell, "split=0"]) == 0
    (path,) = tmp_path.rglob("record.json")
    forge(path, lambda record: record.update(config_hash="0" * 64))
    before = path.read_bytes()
    capsys.readouterr()
    assert main([*cell, "--batch-splits"]) == 2
    assert path.read_bytes() == before
    shown = capsys.readouterr().err
    assert "1 refused" in shown
    assert "3 splits cannot be trained as one model (" in shown
    assert len(list(tmp_path.rglob("record.json"))) == 3
