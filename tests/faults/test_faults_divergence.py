"""Numbers that are not finite: never a score, never a table cell; a few more tries with more jitter, each on record."""

import pytest
from fault_tools import one_sentence, the_record

from dgpbench.report.collect import collect
from dgpbench.runs import store


@pytest.fixture
def indefinite(monkeypatch):
    """Have k(Z, Z) be indefinite below some jitter: TensorFlow's Cholesky on the CPU gives NaN and raises nothing."""
    import tensorflow as tf

    from dgpbench.gp.layers import GPLayer

    original = GPLayer.cholesky

    def below(least):
        def cholesky(layer):
            K = original(layer)
            return K if layer.jitter >= least else tf.linalg.cholesky(K - 10.0 * tf.eye(tf.shape(K)[0], dtype=K.dtype))

        monkeypatch.setattr(GPLayer, "cholesky", cholesky)

    return below


def test_an_indefinite_kernel_matrix_retries_with_jitter_and_then_diverges(indefinite, tiny, tmp_path):
    indefinite(1.0)
    assert tiny() == 1
    record = the_record(tmp_path)
    assert record["status"] == "diverged"
    assert record["scores"] == {}
    retries = [note for note in record["notes"] if "retry" in note]
    assert [note["retry"] for note in retries] == [1, 2]
    assert [note["jitter"] for note in retries] == pytest.approx([1e-5, 1e-4])
    assert all("nan" in note["after"] for note in retries)


def test_the_record_states_the_jitter_that_helped(indefinite, tiny, tmp_path):
    indefinite(5e-6)
    assert tiny() == 0
    record = the_record(tmp_path)
    assert record["status"] == "done"
    (note,) = [note for note in record["notes"] if "retry" in note]
    assert note["jitter"] == pytest.approx(1e-5)
    assert record["config"]["method"]["jitter"] == pytest.approx(1e-6)


@pytest.mark.parametrize(("rows", "retries"), [("train", 2), ("test", 0)])
def test_training_rows_alone_decide_on_a_restart(rows, retries, tiny, tmp_path, monkeypatch):
    """Predictions that are not finite make a run diverged and do not cause a restart."""
    from dgpbench.errors import NonFinitePredictions
    from dgpbench.methods.predictor import MixturePredictor

    predict, calls = MixturePredictor.predict, []

    def broken(self, X, seed):
        calls.append(len(X))
        if rows == "train" or len(calls) == 2:
            raise NonFinitePredictions("1 of 5 predictive variances are not finite and positive")
        return predict(self, X, seed)

    monkeypatch.setattr(MixturePredictor, "predict", broken)
    assert tiny() == 1
    record = the_record(tmp_path)
    assert record["status"] == "diverged"
    assert len([note for note in record["notes"] if "retry" in note]) == retries


def test_a_method_without_jitter_is_not_restarted(tiny, tmp_path, monkeypatch):
    from dgpbench.errors import Diverged
    from dgpbench.methods import single_layer

    def diverge(*_):
        calls.append(1)
        raise Diverged("the objective became nan")

    calls = []
    monkeypatch.setattr(single_layer, "build_kernel", diverge)
    settings = ["dataset=diabetes", "method=gpr", "budget=smoke", "progress=false", "plot=false"]
    from dgpbench.cli import main

    assert main(["run", *settings, f"results_dir={tmp_path}"]) == 1
    assert the_record(tmp_path)["status"] == "diverged"
    assert len(calls) == 1


def test_a_retry_does_not_use_the_diverged_attempts_checkpoint(indefinite, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("DGPBENCH_CHECKPOINT_SECONDS", "0")
    indefinite(0.0)
    assert tiny(f"method.jitter={10.0 * 1e-6!r}", folder=tmp_path / "plain") == 0
    indefinite(5e-6)
    assert tiny(folder=tmp_path / "retried") == 0
    plain, retried = (the_record(tmp_path / name) for name in ("plain", "retried"))
    assert plain["scores"] == retried["scores"]


@pytest.mark.parametrize("rate", ["1e6", "1e300"])
def test_a_learning_rate_far_too_large_diverges_and_has_no_scores(rate, tiny, tmp_path):
    """More jitter cannot help; the iteration at which it was seen is the first that was looked at."""
    assert tiny(f"training.learning_rate={rate}") == 1
    record = the_record(tmp_path)
    assert record["status"] == "diverged"
    assert record["scores"] == {}
    assert record["reason"] == "the objective became nan by iteration 10 of 60"
    assert [note["retry"] for note in record["notes"] if "retry" in note] == [1, 2]
    assert not list(tmp_path.rglob(store.POINTS))


@pytest.mark.parametrize("rate", ["nan", "inf", "-inf", "-1", "0", "null", "fast"])
def test_an_invalid_learning_rate_is_refused(rate, tiny, tmp_path, capsys):
    assert tiny(f"training.learning_rate={rate}") == 2
    assert "training.learning_rate" in one_sentence(capsys.readouterr().err)
    assert not list(tmp_path.rglob(store.RECORD))


def test_a_diverged_run_enters_no_table(indefinite, tiny, tmp_path):
    indefinite(1.0)
    assert tiny() == 1
    assert tiny("split=1") == 1
    frame = collect(tmp_path / "results")
    assert list(frame["status"]) == ["diverged", "diverged"]
    for metric in ("tll", "rmse"):
        assert metric not in frame or frame[metric].isna().all()


@pytest.mark.parametrize(
    ("method", "status"),
    [
        ("star", "done"),
        ("fc", "done"),
        ("sghmc", "done"),
        ("sod", "done"),
        ("aep", "diverged"),  # these two square the kernel's variance, which float64 does not hold
        ("fully_factorised", "diverged"),
    ],
)
def test_every_family_diverges_by_name_and_not_by_traceback(method, status, tiny, tmp_path, capsys):
    """A prior far out of range: finite results are kept, and others have no scores."""
    code = tiny(f"method={method}", "method.likelihood_variance=1e200", "method.kernel_variance=1e250")
    (path,) = tmp_path.rglob(store.RECORD)
    record = store.read_record(path)
    assert record["status"] == status, record["traceback"]
    assert code == (0 if status == "done" else 1)
    assert bool(record["scores"]) == (status == "done")
    assert "Traceback" not in capsys.readouterr().err
