"""Truncated files are named, are never read in part, and do not affect intact files."""

import shutil

import pytest
from fault_tools import EVERY_STEP, TINY, one_sentence, the_record, until
from one_record import forge

from dgpbench.cli import main
from dgpbench.runs import store


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A results folder with one finished run."""
    folder = tmp_path_factory.mktemp("finished") / "results"
    assert main(["run", *TINY, f"results_dir={folder}"]) == 0
    return folder


@pytest.fixture
def kept(tmp_path, finished):
    """A copy of it that may be damaged, and the run's directory."""
    shutil.copytree(finished, tmp_path / "results")
    (path,) = tmp_path.rglob(store.RECORD)
    return tmp_path / "results", path.parent


def truncate(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_record_is_named_and_the_run_is_rerun(share, kept, tiny, capsys):
    results, run = kept
    scores = the_record(results)["scores"]
    truncate(run / store.RECORD, share)
    assert main(["results", "verify", str(results)]) == 1
    assert "truncated" in capsys.readouterr().out
    assert tiny() == 0
    assert the_record(results)["scores"] == scores


@pytest.mark.parametrize("name", store.FILES)
def test_a_truncated_file_of_a_run_is_named_and_quarantined(name, kept, capsys):
    results, run = kept
    truncate(run / name, 0.5)
    capsys.readouterr()
    assert main(["results", "verify", str(results), "--quarantine"]) == 1
    assert name in capsys.readouterr().out
    assert not run.exists()
    assert main(["results", "verify", str(results)]) == 0


@pytest.mark.parametrize("name", ["trace.parquet", "points.parquet", "posterior.npz"])
def test_plotting_a_run_with_a_truncated_file_is_a_clean_error(name, kept, capsys):
    _, run = kept
    truncate(run / name, 0.5)
    capsys.readouterr()
    code = main(["show", str(run), "--plot"])
    message = capsys.readouterr()
    assert name in message.out
    assert code == 0 or (code == 2 and one_sentence(message.err))


def test_starting_from_truncated_parameters_is_a_clean_error(kept, tiny, capsys):
    _, run = kept
    truncate(run / store.PARAMETERS, 0.5)
    capsys.readouterr()
    assert tiny("seed=1", f'init_from="{run}"') == 2
    assert "init_from" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize("name", [store.RECORD, *store.FILES])
def test_the_report_of_a_store_with_a_truncated_file_is_written(name, kept, tiny, capsys):
    results, run = kept
    assert tiny("split=1") == 0
    truncate(run / name, 0.5)
    assert main(["report", str(results)]) == 0
    text = (results / "report.html").read_text()
    assert "split1-seed0" in text
    assert "Traceback" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def whole(fork_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    fork_server.run(["run", *TINY], folder)
    return the_record(folder)["scores"]


@pytest.mark.parametrize("damaged", [1, 2], ids=["the newest", "both"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_truncated_checkpoint_is_skipped_and_the_bits_are_the_same(damaged, share, whole, fork_server, tmp_path):
    import os
    import signal

    job = fork_server.start(["run", *TINY], tmp_path, **EVERY_STEP)
    until(lambda: len(list(tmp_path.rglob("step-*.npz"))) == 2)
    os.kill(job.pid, signal.SIGTERM)
    if job.wait() == 0:
        pytest.skip("the run was over before the signal came")
    for path in sorted(tmp_path.rglob("step-*.npz"), reverse=True)[:damaged]:
        truncate(path, share)
    fork_server.run(["run", *TINY], tmp_path)
    assert the_record(tmp_path)["scores"] == whole


def test_stale_checkpoints_of_higher_steps_do_not_replace_new_ones(tmp_path):
    import tensorflow as tf

    from dgpbench.training.checkpoints import Checkpoints

    variable, progress = tf.Variable([1.0]), {"trace": [], "training_seconds": 0.0}
    for step in (80, 90):
        Checkpoints(tmp_path, "old").save(step, [variable], progress)
    new = Checkpoints(tmp_path, "new")
    assert new.restore([variable]) is None
    new.save(10, [variable], progress)
    assert new.restore([variable])[0] == 10


def test_a_record_from_elsewhere_is_found(kept, capsys):
    results, run = kept
    forge(run / store.RECORD, lambda record: record["identity"].update(split=5))
    capsys.readouterr()
    assert main(["results", "verify", str(results)]) == 1
    assert "another run" in capsys.readouterr().out
