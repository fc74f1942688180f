"""Announcements of a run before and soon after its start, and those of ``validate``."""

import re
from functools import partial

import fit_once
import numpy as np
import pytest
from one_record import forge

from dgpbench.system import progress
from dgpbench.training.monitor import TraceRow

TINY = ("method.num_inducing=4", "prediction.num_samples=2", "plot=false")


def started(capsys, folder, *overrides: str) -> list[str]:
    """The lines on standard error of a run on diabetes with made-up training, but for its progress."""
    capsys.readouterr()
    assert fit_once.command("run", "dataset=diabetes", *overrides, "plot=false", f"results_dir={folder}") == 0
    return [line for line in capsys.readouterr().err.splitlines() if ": iteration " not in line]


# Before it starts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        # 398 of 442 rows train; early stopping may end the published 20,000 iterations
        (["method=mf"], "398 training rows: at most 20,000 iterations, budget=paper; budget=laptop takes 2,000"),
        (["method=mf", "budget=laptop"], "398 training rows: 2,000 iterations, budget=laptop"),
        (["method=mf", "training.max_iterations=400"], "398 training rows: at most 400 iterations, budget=paper"),
        (
            ["method=mf", "budget=laptop", "training.max_seconds=90"],
            "398 training rows: at most 2,000 iterations or 90 s, budget=laptop",
        ),
        (["method=sghmc"], "398 training rows: 20,000 iterations, budget=paper; budget=laptop takes 2,000"),
        (["method=gpr"], "398 training rows: at most 1,000 iterations, budget=paper"),
    ],
)
def test_a_run_prints_its_iterations_and_suggests_a_quicker_budget(given, words, monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    (line,) = started(capsys, tmp_path, *given)
    assert line.startswith(f"{given[0].removeprefix('method=')} (L = ")
    assert " on diabetes, " in line
    assert line.endswith(words)


def test_iterations_are_counted_where_passes_over_the_rows_are_published(monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    given = ("method=mf", "training.max_iterations=null", "training.epochs=500", "training.batch_size=100")
    (line,) = started(capsys, tmp_path, *given)
    assert "at most 2,000 iterations" in line  # 500 times ceil(398 / 100)


def test_a_run_without_progress_prints_nothing(monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    assert started(capsys, tmp_path, "method=mf", "progress=false") == []


def test_a_run_that_is_done_already_takes_nothing(monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    assert len(started(capsys, tmp_path, "method=mf")) == 1
    assert started(capsys, tmp_path, "method=mf") == []


@pytest.mark.full
def test_reproduce_prints_one_line_a_run(monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    given = ("lindinger2020_table1", "method=sgp", "dataset=boston", "split=0,1,2", f"results_dir={tmp_path}")
    assert fit_once.command("reproduce", *given) == 0
    messages = capsys.readouterr().err
    assert "budget=laptop" not in messages
    assert len(re.findall(r"^\[\d/3\] done", messages, re.MULTILINE)) == 3
    lines = [line for line in messages.splitlines() if ": iteration " not in line]
    assert len(lines) == 3 + 2  # how many there are to do, and how they ended


# By the first iterations ----------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand: clock[0] is the time."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def fed(forecast, clock, ends, total):
    """Feed a forecast with blocks that end at (iteration, seconds)."""
    for iteration, seconds in ends:
        clock[0] = 100.0 + seconds
        forecast(TraceRow(iteration, seconds, 0.0, None), total)


def test_the_rest_is_estimated_once_and_without_the_first_block(clock):
    messages = []
    forecast = progress.Forecast(messages.append)
    # 9 s until the first ten are done, then 0.1 s for ten, which is too short to judge by, then 0.4 s for ten
    fed(forecast, clock, [(10, 9.0), (20, 9.1), (30, 9.5), (40, 9.6), (50, 99.0)], 28_830)
    assert messages == ["about 12 min of training to go, at 25 ms an iteration"]  # 28,800 of 0.5 s / 20


def test_early_stopping_and_limits_are_announced(clock):
    messages = []
    fed(progress.Forecast(messages.append, at_most=True), clock, [(10, 1.0), (20, 2.0)], 1020)
    fed(progress.Forecast(messages.append, max_seconds=32.0), clock, [(10, 1.0), (20, 2.0)], 1020)
    assert [text.partition(" of training")[0] for text in messages] == ["at most 100 s", "about 30 s"]


def test_tracing_and_scores_between_blocks_are_not_training_time(clock):
    messages = []
    forecast = progress.Forecast(messages.append)
    for iteration, now, seconds in ((10, 1.0, 1.0), (20, 99.0, 2.0)):
        clock[0] = now
        forecast(TraceRow(iteration, seconds, 0.0, None), 1020)
    assert messages == ["about 100 s of training to go, at 100 ms an iteration"]


def test_a_restarted_fit_is_timed_by_itself(clock):
    messages = []
    forecast = progress.Forecast(messages.append)
    fed(forecast, clock, [(10, 1.0), (10, 50.0), (20, 50.5)], 120)
    assert messages == ["about 5 s of training to go, at 50 ms an iteration"]


@pytest.mark.full
def test_the_time_left_is_by_the_clock_where_seconds_are_the_share_of_a_split(monkeypatch, capsys):
    now = iter([0.0, 10.0, 40.0])  # made, and two rows
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with progress.progress("mf on boston", objective="ELBO", shown=True) as report:
        report(TraceRow(10, 1.0, -5.0, None), 100)
        report(TraceRow(40, 11.0, -5.0, None), 100)  # 30 iterations in 30 s, of which a third is this split's
    first, second = capsys.readouterr().err.splitlines()
    assert "left" not in first
    assert second == "mf on boston: iteration 40/100  ELBO -5.00  60 s left"


def test_a_real_run_prints_both_lines_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)
    draws = np.random.default_rng(0)
    X = draws.normal(size=(30, 2))
    table = fit_once.write_table(tmp_path / "small.csv", X, np.sin(X[:, 0]))
    given = ("method=mf", *table, *TINY, "budget=smoke", f"results_dir={tmp_path}")
    assert fit_once.command("run", *given) == 0
    messages = [line for line in capsys.readouterr().err.splitlines() if ": iteration " not in line]
    assert len(messages) == 2
    assert messages[0].endswith("27 training rows: 50 iterations, budget=smoke")
    assert re.fullmatch(r"about [\d.]+ s of training to go, at [\d.]+ ms an iteration", messages[1])


# In place of a run: validate ------------------------------------------------------------------------------------------


def validated(capsys, *overrides: str) -> list[str]:
    """The lines of ``dgpbench validate``, which takes the overrides."""
    capsys.readouterr()
    assert fit_once.command("validate", *overrides) == 0
    return capsys.readouterr().out.splitlines()


def test_validate_prints_the_sizes_of_the_data_and_runs_announcement(monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    table = fit_once.write_table(tmp_path / "own.csv", np.arange(60.0).reshape(20, 3), np.arange(20.0))
    given = (*table, "method=mf", "method.num_inducing=4", f"results_dir={tmp_path}")
    valid, data, columns, start, _ = validated(capsys, *given)
    assert valid == "valid: `dgpbench run` takes it"
    assert re.fullmatch(r"own-\w+: 20 rows, 3 features, target y; 18 train and 2 test", data)
    assert columns == "  x0, x1, x2: numbers"
    capsys.readouterr()
    assert fit_once.command("run", *given, "plot=false") == 0
    assert start in capsys.readouterr().err.splitlines()


def test_without_records_a_time_is_a_range_by_the_counted_products(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("dgpbench.benchmarks.cost.numpy_rate", lambda precision: 40.0)
    given = ("method=mf", "dataset=protein", "training.max_iterations=2000", f"results_dir={tmp_path}")
    # mf at M = 128, L = 3, tau = 5, B = 512, R = 5: 1.5666 GFLOP a step by hand (tests/benchmarks/test_floors.py)
    assert pytest.approx(78.3, abs=0.05) == 2000 * 1.566572544 / 40.0
    seconds, _, counted = validated(capsys, *given)[-1].partition(", from ")
    assert seconds == "  between 39 s and 8 min on one thread"
    assert counted.startswith("its matrix products (1.6 GFLOP an iteration, 40 GFLOP/s here)")


def _finished_by_hand(record, seconds):
    record["seconds"]["total"], record["reason"] = seconds, "done-by-hand"


@pytest.mark.full
def test_finished_runs_of_other_splits_or_seeds_give_the_estimate(monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    given = ("method=sgp", "dataset=diabetes", "progress=false", "plot=false", f"results_dir={tmp_path}")
    for more, seconds in (("split=1", 100.0), ("seed=1", 300.0), ("split=2", 700.0), ("method.jitter=1e-5", 9000.0)):
        assert fit_once.command("run", *given, more) == 0
        (left,) = [path for path in tmp_path.rglob("record.json") if "done-by-hand" not in path.read_text()]
        forge(left, partial(_finished_by_hand, seconds=seconds))
    assert validated(capsys, *given)[-1] == "  about 5 min, based on 3 finished runs that differ in split or seed only"
    alone = validated(capsys, *given, "method.jitter=1e-5", "split=1")[-1]
    assert alone == "  about 2 h 30 min, based on 1 finished run that differs in split or seed only"


def test_validate_reports_a_finished_or_conflicting_run(monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    run = fit_once.run(tmp_path, "method=mf", "dataset=diabetes")
    given = ("method=mf", "dataset=diabetes", f"results_dir={tmp_path}")
    *_, time, last = validated(capsys, *given)
    assert time.startswith("  between ") or time.startswith("  about ")
    assert last == f"{run.directory} is done already, so there is nothing to run"
    path = run.directory / "record.json"
    forge(path, lambda record: record.update(config_hash="0" * 64))
    refusals = []
    for command in ("validate", "run"):
        assert fit_once.command(command, *given) == 2
        refusals.append(capsys.readouterr().err)
    assert "made with other settings" in refusals[0]
    assert refusals[0] == refusals[1]


def test_validate_refuses_a_start_that_run_refuses(tmp_path, capsys):
    assert fit_once.command("validate", "method=mf", "dataset=diabetes", f"init_from={tmp_path}") == 2
    assert "not the directory of a finished run" in capsys.readouterr().err


def test_a_sweep_announces_each_kind_of_run_once(tmp_path, capsys):
    given = ("method=mf,sgp", "dataset=diabetes", "split=range(5)", "--multirun", f"results_dir={tmp_path}")
    messages = validated(capsys, *given)
    assert messages[0] == "valid: `dgpbench run` takes it; 10 runs, all checked"
    assert len(messages) == 2 + 2 * 2  # the table once, then each method's start and time


def test_a_setting_can_refer_to_another_setting():
    given = ("method=mf", "dataset=diabetes", "training.batch_size=${seed}", "seed=7")
    assert fit_once.identity(*given) == fit_once.identity(
        "method=mf", "dataset=diabetes", "training.batch_size=7", "seed=7"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["method=aep", "method.kernel=matern52"], "psi statistics"),
        (["method=fully_factorised", "method.kernel=matern52"], "psi statistics"),
        (["method=aepmcm", "method.output_scale=1"], "above 0 and below 1"),
    ],
)
def test_impossible_settings_are_refused_before_the_fit_starts(given, words, capsys):
    assert fit_once.command("validate", "dataset=diabetes", *given) == 2
    assert words in capsys.readouterr().err
    assert fit_once.command("validate", "dataset=diabetes", "method=aepmcm", "method.kernel=matern52") == 0
