"""A run that stops at any step goes on from its checkpoint and ends in the same bits."""

import os
import signal

import fit_once
import numpy as np
import pytest

from dgpbench.cli import main
from dgpbench.errors import Diverged
from dgpbench.runs import store
from dgpbench.system import interrupts
from dgpbench.training.checkpoints import Checkpoints
from dgpbench.training.monitor import Monitor

RUN = [
    "run",
    "method=star",
    "dataset=diabetes",
    "budget=smoke",
    "training.max_iterations=60",
    "progress=false",
    "plot=false",
]


class _Stop(Exception):
    pass


def run(folder):
    return main([*RUN, f"results_dir={folder}"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The scores of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder) == 0
    return store.read_record(next(folder.rglob(store.RECORD)))["scores"]


@pytest.fixture
def stopping(monkeypatch):
    """Interrupt the run after the row of one iteration is recorded, every checkpoint due at once."""

    def at(iteration):
        original = Monitor.keep

        def keep(log, step, variables, *, now=False):
            original(log, step, variables, now=True)
            if step == iteration:
                raise KeyboardInterrupt("SIGINT")

        monkeypatch.setattr(Monitor, "keep", keep)
        return lambda: monkeypatch.setattr(Monitor, "keep", original)

    return at


@pytest.mark.full
@pytest.mark.parametrize("iteration", [30, *(pytest.param(first, marks=pytest.mark.full) for first in (10, 50))])
def test_an_interrupted_run_resumes_and_ends_in_the_same_bits(iteration, whole, stopping, tmp_path):
    go_on = stopping(iteration)
    assert run(tmp_path) == 130
    path = next(tmp_path.rglob(store.RECORD))
    assert store.read_record(path)["status"] == "interrupted"
    go_on()
    assert run(tmp_path) == 0
    assert store.read_record(path)["scores"] == whole
    assert not list(tmp_path.rglob("step-*.npz"))


@pytest.mark.full
def test_a_resumed_runs_total_counts_the_training_before(stopping, tmp_path, monkeypatch):
    go_on = stopping(30)
    resume = Monitor.resume
    run(tmp_path)
    go_on()

    def after_an_hour(log, variables):
        iteration = resume(log, variables)
        progress = {"trace": log.trace, "training_seconds": 3600.0}
        log.checkpoints.save(iteration, variables, progress)
        return resume(log, variables)

    monkeypatch.setattr(Monitor, "resume", after_an_hour)
    assert run(tmp_path) == 0
    seconds = store.read_record(next(tmp_path.rglob(store.RECORD)))["seconds"]
    assert 3600.0 < seconds["training"] < seconds["total"]


@pytest.mark.full
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(whole, stopping, tmp_path):
    go_on = stopping(40)
    run(tmp_path)
    newest = max(tmp_path.rglob("step-*.npz"))
    newest.write_bytes(newest.read_bytes()[:1000])
    go_on()
    assert run(tmp_path) == 0
    assert store.read_record(next(tmp_path.rglob(store.RECORD)))["scores"] == whole


def test_any_damaged_byte_of_a_checkpoint_falls_back_to_the_older_one(tmp_path):
    """A compression that zipfile does not know and a password that it lacks are errors of their own kinds."""
    import tensorflow as tf

    variable, found = tf.Variable([1.0, 1.0]), set()
    for step in (1, 2):
        variable.assign([step, step])
        Checkpoints(tmp_path, "key").save(step, [variable], {"trace": [], "training_seconds": 0.0})
    newest = tmp_path / "step-000000002.npz"
    whole = newest.read_bytes()
    for place in range(0, len(whole)):
        newest.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        iteration, _ = Checkpoints(tmp_path, "key").restore([variable])
        assert variable.numpy().tolist() == [iteration, iteration]
        found.add(iteration)
    assert found == {1, 2}  # a date does not matter


def test_a_checkpoint_of_other_settings_is_ignored(tmp_path):
    import tensorflow as tf

    variable = tf.Variable([1.0])
    Checkpoints(tmp_path, "one").save(10, [variable], {"trace": [], "training_seconds": 0.0})
    assert Checkpoints(tmp_path, "one").restore([variable]) is not None
    assert Checkpoints(tmp_path, "other").restore([variable]) is None


def test_a_finished_run_removes_a_killed_runs_checkpoint(tmp_path, monkeypatch):
    fit_once.without_training(monkeypatch)
    plain = ("method=gpr", "dataset=diabetes", "budget=smoke")
    left = fit_once.run(tmp_path, *plain).directory / "checkpoint"
    left.mkdir()
    (left / "step-000000060.npz").touch()
    assert fit_once.command("validate", *plain, f"results_dir={tmp_path}") == 0
    assert (left / "step-000000060.npz").exists()  # a question deletes nothing
    fit_once.run(tmp_path, *plain)
    assert not left.exists()


def test_a_signal_waits_for_the_end_of_a_deferred_block_and_is_then_raised():
    passed = []

    def interrupted_block():
        with interrupts.handled(), interrupts.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            passed.append("the end of the block")

    with pytest.raises(KeyboardInterrupt) as raised:
        interrupted_block()
    assert passed
    assert raised.value.args == ("SIGTERM",)


def test_a_signal_is_raised_where_the_deferred_block_ends_in_an_error():
    def diverging_block():
        with interrupts.handled(), interrupts.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            raise Diverged("in the same step")

    with pytest.raises(KeyboardInterrupt):
        diverging_block()


@pytest.mark.full
def test_fully_coupled_starts_from_a_finished_mean_field_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    smoke = ["dataset=diabetes", "budget=smoke", "progress=false", "plot=false"]
    assert main(["run", "method=mf", "training.max_iterations=200", *smoke]) == 0
    start = next(tmp_path.rglob(store.RECORD)).parent
    assert (
        main(
            [
                "run",
                "method=fc",
                "training.max_iterations=10",
                "training.learning_rate=1e-9",
                *smoke,
                f'init_from="{start}"',
            ]
        )
        == 0
    )
    mf, fc = (store.read_record(directory)["scores"] for directory in (start, next(tmp_path.rglob("fc-L3/*/*"))))
    assert abs(mf["rmse"] - fc["rmse"]) < 0.1 * mf["rmse"]
    assert main(["run", "method=star", "method.num_layers=2", *smoke, f'init_from="{start}"']) == 2
    assert "architecture" in capsys.readouterr().err


@pytest.mark.full
def test_a_run_holds_out_the_rows_that_the_run_it_starts_from_did(tmp_path):
    """Without a step it scores them as that one did at its end, but for the draws of 5 paths."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    table = fit_once.write_table(tmp_path / "t.csv", X, np.sin(2 * X[:, 0]) + rng.standard_t(2, size=60))
    small = ("budget=smoke", "method.num_inducing=4", "method.num_layers=2", "training.early_stopping=true")
    ended = fit_once.run(tmp_path / "mf", *table, "method=mf", *small, "training.max_iterations=400")
    still = ("training.max_iterations=400", "training.learning_rate=1e-30", f'init_from="{ended.directory}"')
    begun = fit_once.run(tmp_path / "fc", *table, "method=fc", *small, *still)
    expected = ended.trace["validation_tll"].iloc[-1]
    assert begun.trace["validation_tll"].to_numpy() == pytest.approx(expected, abs=0.02)


@pytest.mark.full
@pytest.mark.parametrize(
    "other", fit_once.first_of(["split=1", "task=extrapolation", "task.train_fraction=0.8", "dataset=boston"])
)
def test_starting_from_a_run_that_was_trained_on_other_rows_is_refused(other, tmp_path, capsys):
    """Which may be rows that the new run is tested on."""
    mf = ["method=mf", "dataset=diabetes", "budget=smoke", "method.num_layers=2"]
    ended = fit_once.run(tmp_path / "mf", *mf, other)
    capsys.readouterr()
    words = [*mf, f'init_from="{ended.directory}"', f"results_dir={tmp_path}/fc", *fit_once.QUIET]
    for command in ("validate", "run"):
        assert fit_once.command(command, *words) == 2
        assert "was trained on the rows of" in capsys.readouterr().err
    assert not list(tmp_path.joinpath("fc").rglob(store.RECORD))


@pytest.mark.full
def test_starting_from_a_missing_run_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "method=mf", "budget=smoke", "init_from=nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
