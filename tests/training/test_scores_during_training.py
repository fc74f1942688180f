"""``training.trace_test=true``: test scores along the trace, and a run that is otherwise the same to the last bit."""

from types import SimpleNamespace

import fit_once
import numpy as np
import pandas as pd
import pytest

from dgpbench.data.standardise import Regression
from dgpbench.errors import NonFinitePredictions
from dgpbench.runs.execute import scorer_of_test_rows
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.training.checkpoints import Checkpoints
from dgpbench.training.monitor import Monitor, Scored

SMALL = ("budget=smoke", "method.num_inducing=4", "training.max_iterations=30", "prediction.num_samples=4")
DEEP = ("method=mf", "method.num_layers=2", *SMALL)
TRACED = "training.trace_test=true"
SCORES = ["test_tll", "test_rmse"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Forty rows with a target far from standard units."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return fit_once.write_table(tmp_path_factory.mktemp("table") / "t.csv", X, 500 + 90 * np.sin(2 * X[:, 0]))


@pytest.fixture(scope="module")
def traced(data, tmp_path_factory):
    return fit_once.run(tmp_path_factory.mktemp("traced"), *data, *DEEP, TRACED)


def parameters(run):
    return dict(np.load(run.directory / "parameters.npz"))


def assert_same_but_for_the_scores(with_scores, without):
    pd.testing.assert_frame_equal(with_scores.points, without.points, check_exact=True)
    assert with_scores.scores == without.scores
    for found, expected in ((parameters(with_scores), parameters(without)), (with_scores.posterior, without.posterior)):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    kept = ["iteration", "elbo", "validation_tll"]
    pd.testing.assert_frame_equal(with_scores.trace[kept], without.trace[kept], check_exact=True)


@pytest.mark.full
def test_a_run_with_test_scores_is_the_run_without_them_bit_by_bit(data, traced, tmp_path):
    without = fit_once.run(tmp_path, *data, *DEEP)
    assert_same_but_for_the_scores(traced, without)
    assert np.isfinite(traced.trace[SCORES]).all(axis=None)
    assert not set(SCORES) & set(without.trace)
    assert "testing" not in without.record["seconds"]
    assert traced.record["config_hash"] != without.record["config_hash"]
    assert traced.directory.name.endswith(",training.trace_test=true")


@pytest.mark.full
@pytest.mark.parametrize("method", ["sod", "aep", "aepmcm", "fully_factorised", "fc_mc", "stopping"])
def test_every_family_that_adam_trains_is_scored_and_not_changed(method, data, tmp_path):
    given = (f"method={method}", *DEEP[1:])
    if method == "stopping":
        given = (*DEEP, "training.max_iterations=300", "training.early_stopping=true")
    with_scores = fit_once.run(tmp_path / "with", *data, *given, TRACED)
    without = fit_once.run(tmp_path / "without", *data, *given)
    assert_same_but_for_the_scores(with_scores, without)
    assert np.isfinite(with_scores.trace[SCORES]).all(axis=None)


@pytest.mark.full
def test_scores_are_of_the_parameters_at_that_iteration_in_original_units(data, tmp_path):
    """One layer's predictions draw nothing, so a run that ends there has the same scores for any seed."""
    one = ("method=sgp", *SMALL)
    longer = fit_once.run(tmp_path / "longer", *data, *one, TRACED).trace.set_index("iteration")
    shorter = fit_once.run(tmp_path / "shorter", *data, *one, "training.max_iterations=10")
    assert longer.loc[10, SCORES].tolist() == pytest.approx([shorter.scores[name] for name in ("tll", "rmse")])
    assert longer.loc[10, "test_rmse"] > 5  # standardised targets have a deviation of 1


@pytest.mark.full
def test_test_scores_have_their_own_draws_equal_at_every_iteration(data, traced, tmp_path):
    still = ("training.learning_rate=1e-30", f'init_from="{traced.directory}"')
    run = fit_once.run(tmp_path, *data, *DEEP, TRACED, *still)
    assert run.trace["test_tll"].nunique() == 1
    assert run.trace["test_tll"].iloc[-1] != run.scores["tll"]
    assert run.trace["test_tll"].iloc[-1] == pytest.approx(run.scores["tll"], rel=0.05)


@pytest.mark.full
def test_an_interrupted_run_resumes_with_the_same_scores(data, traced, tmp_path, monkeypatch):
    keep = Monitor.keep

    def stop(log, step, variables, *, now=False):
        keep(log, step, variables, now=True)
        if step == 20:
            raise KeyboardInterrupt("SIGINT")

    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "keep", stop)
        fit_once.run(tmp_path, *data, *DEEP, TRACED, status="interrupted")
    resumed = fit_once.run(tmp_path, *data, *DEEP, TRACED)
    columns = ["iteration", "elbo", *SCORES]
    pd.testing.assert_frame_equal(resumed.trace[columns], traced.trace[columns], check_exact=True)
    assert resumed.scores == traced.scores


# The log --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("iterations", "expected"),
    [
        (35, [10, 20, 30, 35]),
        (1000, range(10, 1001, 10)),
        (20_000, range(200, 20_001, 200)),
        (1500, range(20, 1501, 20)),
    ],
)
def test_test_rows_are_scored_at_every_hundredth_and_the_last_iteration(iterations, expected):
    log = Monitor(test=lambda predict: Scored(predict(None, 0), 1.0))
    for iteration in [*range(10, iterations, 10), iterations]:
        log.record(iteration, 0.0, None, iterations, lambda X, seed, at=iteration: at)
    assert [row.test_tll for row in log.trace if row.test_tll is not None] == list(expected)


def test_time_of_test_scores_is_counted_apart_also_after_a_resume(tmp_path, monkeypatch):
    from dgpbench.training import monitor as module

    ticks = iter(range(1000))
    log = Monitor(max_seconds=5.0, test=lambda predict: Scored(*[next(ticks) for _ in range(6)][:2]))
    log.checkpoints = Checkpoints(tmp_path, "key", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(module.time, "perf_counter", lambda: float(next(ticks)))
        log.training(lambda: None)
        log.record(10, -1.0, None, 10, lambda X, seed: None)
    assert log.seconds() == {"tracing": 0.0, "training": 1.0, "testing": 7.0}
    assert (log.trace[-1].seconds, log.spent) == (1.0, False)
    log.keep(10, [])
    later = Monitor(checkpoints=Checkpoints(tmp_path, "key", 0.0), test=lambda predict: Scored())
    later.resume([])
    assert later.trace == log.trace
    assert (later.testing_seconds, later.earlier_seconds) == (7.0, 8.0)


def test_predictions_that_are_not_finite_leave_a_gap_and_end_nothing():
    def predict(X, seed):
        raise NonFinitePredictions("a made-up divergence")

    rows = Regression(np.zeros((3, 2)), np.zeros((3, 1)))
    table = SimpleNamespace(digest_xy="of a table")
    problem = SimpleNamespace(restore=lambda mixture: mixture, test=rows, targets=rows.Y, table=table)
    assert scorer_of_test_rows(resolve_overrides([*DEEP, TRACED]), problem)(predict) == (None, None)


@pytest.mark.parametrize("method", ["gpr", "sgpr", "sghmc"])
def test_a_method_that_cannot_predict_during_training_refuses(method, capsys):
    assert fit_once.command("run", f"method={method}", TRACED) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "has no setting 'training.trace_test'; it has max_iterations" in line


# The figure -----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_item_of_jains_figure_11_sets_test_scores(capsys, tmp_path):
    from dgpbench.experiments import items, plan

    runs = [each.run for each in plan.plan_of(items.load("jain2021_fig11", [f"results_dir={tmp_path}"]))]
    assert {run.card.name for run in runs} == {"sod", "sod_random", "mf", "mf_fixed_z"}
    assert all(run.training.trace_test for run in runs)
