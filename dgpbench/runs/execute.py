"""The flow of one run: prepare, fit, predict, score, record."""

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial

from dgpbench.data import datasets
from dgpbench.errors import Diverged, TimedOut, UserError
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.warped import Densities
from dgpbench.runs import limits, outcomes, store, summary
from dgpbench.runs.figure_data import draws_of_layers, partial_dependence, predictive_grid, rows_of_one_feature
from dgpbench.runs.fit import Fit, as_precision, axes_of, fit, fit_together, monitoring, seeds_of
from dgpbench.runs.outcomes import Ending, Outcome, Result
from dgpbench.runs.problem import Problem, prepare
from dgpbench.runs.resolve import Run
from dgpbench.seeds import seed_for
from dgpbench.system.progress import Forecast
from dgpbench.training.checkpoints import Checkpoints, interval
from dgpbench.training.early_stopping import may_end_early
from dgpbench.training.monitor import Monitor, Predict, Scored
from dgpbench.training.settings import AdamSettings


def execute(run: Run, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """Fit, predict and score one run and store its record, or find its finished record; raise only KeyboardInterrupt.

    :param say: prints the size of the run before it starts, and an estimate of its time after the first iterations
    """
    try:
        if (finished := finished_outcome(run)) is not None:  # needs no data
            _checkpoints(run).clear()  # left by a kill just after the record was written
            return finished
        table = datasets.load(run.dataset)
        run = run.with_dataset_name(table.name)
        with store.lock(run.directory, say=say):
            if (finished := finished_outcome(run)) is not None:
                _checkpoints(run).clear()
                return finished
            if (damage := store.damage(run.directory)) is not None:
                again = "the run starts again, and its record replaces this one"
                print(f"dgpbench: {damage}; {again}", file=sys.stderr, flush=True)
            problem = prepare(run, table)
            say(summary.of_start(run, len(problem.train.X)))
            training = run.training.for_rows(len(problem.train.X))
            forecast = Forecast(say, may_end_early(training), training.max_seconds)
            more = {"timeout_seconds": run.limits.seconds, "test": scorer_of_test_rows(run, problem)}
            with monitoring(run, table, _checkpoints(run), forecast=forecast, **more) as monitor:
                return _recorded(run, problem, monitor, datetime.now(UTC), fit_and_score)
    except UserError as refusal:
        return Outcome("refused", None, f"dgpbench: {refusal}")


def execute_together(runs: Sequence[Run]) -> list[Outcome]:
    """Train runs that differ in their split alone as one model; score and record each.

    Where that is not possible, since their tables have unequal numbers of rows, one of them diverges, or one has a
    record, which is never overwritten, each run is executed alone.
    """
    try:
        with ExitStack() as open_until_recorded:
            problems = []
            for run in runs:
                table = datasets.load(run.dataset)
                open_until_recorded.enter_context(store.lock(run.directory))
                if (finished := finished_outcome(run)) is not None:  # by another process, since the runs were planned
                    raise UserError(finished.message.splitlines()[0])
                problems.append(prepare(run, table))
            if len({problem.train.X.shape for problem in problems}) == 1:
                shown = [runs[0], *(run.without_progress() for run in runs[1:])]
                monitors = [  # their time begins when every run is held
                    open_until_recorded.enter_context(
                        monitoring(run, problem.table, timeout_seconds=run.limits.seconds)
                    )
                    for run, problem in zip(shown, problems, strict=True)
                ]
                started, start = datetime.now(UTC), time.perf_counter()
                seeds = [seeds_of(run, problem.table) for run, problem in zip(runs, problems, strict=True)]
                fits = fit_together(runs[0], [problem.train for problem in problems], seeds, monitors)
                share = (time.perf_counter() - start) / len(runs)
                ended = []
                for run, problem, monitor, fitted in zip(runs, problems, monitors, fits, strict=True):
                    monitor.started = time.perf_counter() - share
                    ended.append(_recorded(run, problem, monitor, started, partial(predict_and_score, fitted)))
                return ended
    except Exception as problem:  # such as a divergence of one, or too little memory for all
        why = str(problem) if isinstance(problem, UserError) else f"{type(problem).__name__}: {problem}"
        print(
            f"dgpbench: {len(runs)} splits cannot be trained as one model ({why}); each is trained alone",
            file=sys.stderr,
        )
    return [execute(run) for run in runs]


def finished_outcome(run: Run) -> Outcome | None:
    """Return the outcome of a run that has a finished record, raw or compact; else None. Nothing is changed.

    :raises UserError: if the record was made with other settings, or two records contradict each other
    """
    state = store.state_of(run.limits.results_dir, run.identity, run.config_hash)
    if state.name == store.CONFLICT:
        raise UserError(state.why)
    if state.name != store.DONE or state.stored is None:
        return None
    source = state.stored.source
    where = f"{source} is done already" if source == str(run.directory) else f"skipped: its record is in {source}"
    text = "\n".join([f"{where}, so there is nothing to run", *summary.score_lines(state.stored.record["scores"])])
    return Outcome("skipped", str(run.directory), text)


def _checkpoints(run: Run) -> Checkpoints:
    return Checkpoints(run.directory / "checkpoint", every_seconds=interval())


def scorer_of_test_rows(run: Run, problem: Problem) -> Callable[[Predict], Scored] | None:
    """Return a function that scores the test rows during training; None without ``training.trace_test``.

    Training passes it a way to predict and never sees the rows. The seed is always the same, so that a curve changes
    with the parameters only.
    """
    if not (isinstance(run.training, AdamSettings) and run.training.trace_test):
        return None
    X, y = as_precision(problem.test, run.precision).X, problem.targets
    seed = seed_for("trace_test", **axes_of(run, problem.table))

    def score(predict: Predict) -> Scored:
        from dgpbench.predictive.scores import rmse, tll

        try:
            mixture = problem.scaler.restore(predict(X, seed))
        except Diverged:  # divergence while scoring does not stop training
            return Scored()
        assert isinstance(mixture, Densities)
        return Scored(float(tll(mixture.log_density(y))), float(rmse(y, mixture.mean)))

    return score


def _recorded(
    run: Run, problem: Problem, monitor: Monitor, started: datetime, compute: Callable[[Run, Problem, Monitor], Result]
) -> Outcome:
    """Compute the result within the limits of the run, and write its record however it ends.

    :raises KeyboardInterrupt: after the record of an interrupted run is written
    :raises UserError: if the run cannot be executed
    """
    write = partial(outcomes.write, run, problem, monitor, started)
    unwritten = partial(outcomes.compose, run, problem, monitor, started, Result(), Ending("timeout", limits.HUNG))

    def write_hung(stack: str) -> None:
        write(Result(), Ending("timeout", limits.HUNG, stack))

    result = Result()
    try:
        with limits.limited(run.limits.seconds, run.directory, unwritten, write_hung):
            result = compute(run, problem, monitor)
        ending = Ending("done")
    except KeyboardInterrupt:
        write(Result(), Ending("interrupted", "the run was interrupted"))
        raise
    except TimedOut as problem_met:
        ending = Ending("timeout", str(problem_met))
    except Diverged as problem_met:
        ending = Ending("diverged", str(problem_met))
    except UserError:
        raise
    except (Exception, SystemExit) as problem_met:  # a method can fail in any way
        ending = Ending("failed", f"{type(problem_met).__name__}: {problem_met}", traceback.format_exc())
    try:
        written = write(result if ending.status == "done" else Result(), ending)
    except (ValueError, RecursionError) as problem_met:  # a plug-in's diagnostics cannot be written
        ending = Ending("failed", f"{type(problem_met).__name__}: {problem_met}", traceback.format_exc())
        written = write(Result(), ending)
    return Outcome(ending.status, str(run.directory), summary.of_run(written, run.directory))


def fit_and_score(run: Run, problem: Problem, monitor: Monitor) -> Result:
    """Fit, predict and score.

    :raises Diverged: if the fit, or its predictions, are not finite
    """
    fitted = fit(run, problem.train, seeds_of(run, problem.table), monitor)
    return predict_and_score(fitted, run, problem, monitor)


def predict_and_score(fitted: Fit, run: Run, problem: Problem, monitor: Monitor) -> Result:
    """Predict with a fit, and score.

    :raises Diverged: if the predictions are not finite
    """
    from dgpbench.predictive.scores import all_scores, per_row, points_table

    seeds = seeds_of(run, problem.table)
    predictor, test = fitted.predictor, as_precision(problem.test, run.precision)
    predictions = monitor.predicting(lambda: predictor.predict(test.X, seeds.prediction))
    rows = per_row(problem.scaler.restore(predictions), problem.targets)
    posterior = predictor.posterior()
    if isinstance(predictions, GaussianMixture):
        X = as_precision(problem.train, run.precision).X
        inputs = (predictor, problem.scaler, X, seeds.prediction)
        figures = predictive_grid(*inputs) | draws_of_layers(*inputs) | rows_of_one_feature(problem)
        posterior = posterior | figures | partial_dependence(predictor, problem, X, seeds.prediction)
    return Result(
        diagnostics=predictor.diagnostics,
        scores=all_scores(rows),
        points=points_table(rows, problem.test.X, problem.train.X, problem.split.test),
        posterior=posterior,
        parameters=predictor.parameters(),
        model=problem.describe(run, fitted.settings, seeds).to_json(),
        start=fitted.start,
    )
