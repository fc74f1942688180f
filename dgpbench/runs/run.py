"""One run: problem -> predictor -> mixture -> scores -> record.

A method sees standardised training rows only; metrics see columns of predictions and targets, never a model.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from dgpbench.data import datasets
from dgpbench.data.standardise import Found, Regression
from dgpbench.data.table import Table
from dgpbench.data.user_table import reading_of
from dgpbench.errors import UserError
from dgpbench.methods.interface import FitSettings, Predictor, Seeds
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.runs import fitting, on_the_way, start, store, summary
from dgpbench.runs.description import Description
from dgpbench.runs.effects import partial_dependence
from dgpbench.runs.guard import checkpoints_of, guarded
from dgpbench.runs.outcomes import Outcome, Result
from dgpbench.runs.predictive_grid import predictive_grid, rows_of_one_feature
from dgpbench.runs.problem import Problem, prepare
from dgpbench.runs.resolve import Run
from dgpbench.seeds import seed_for
from dgpbench.system import tf_session
from dgpbench.system.progress import Forecast, progress
from dgpbench.training.early_stopping import may_end_early
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import AdamSettings


def execute(run: Run, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """Carry out a run, or find it done; raises for nothing but an interruption.

    :param say: told what the run will take, before it starts and once more by its first iterations
    """
    try:
        if (skipped := _skip(run)) is not None:  # needs no data
            return skipped
        table = datasets.load(run.dataset)
        run = run.filed_under(table.name)
        with store.lock(run.directory, say=say):
            if (skipped := _skip(run)) is not None:
                return skipped
            if (damage := store.damage(run.directory)) is not None:
                again = "the run starts again, and its record replaces this one"
                print(f"dgpbench: {damage}; {again}", file=sys.stderr, flush=True)
            problem = prepare(run, table)
            say(summary.of_start(run, len(problem.train.X)))
            at_most = may_end_early(run.training.for_rows(len(problem.train.X)))
            forecast = Forecast(say, at_most, run.training.max_seconds)
            with tf_session.releasing_graphs():
                return guarded(run, problem, forecast, lambda log: carry_out(run, problem, log))
    except UserError as refusal:
        return Outcome("refused", None, f"dgpbench: {refusal}")


def carry_out(run: Run, problem: Problem, log: Monitor) -> Result:
    """Fit, predict and score.

    :raises Diverged: where the fit, or its predictions, are not finite
    """
    from dgpbench.predictive.scores import all_scores, per_row, points_table

    fitting.prepare_libraries(run.method.name, run.limits.num_threads, run.precision)
    seeds, test = seeds_of(run, problem.table), fitting.as_precision(problem.test, run.precision)
    with progress(
        f"{run.card.name} on {problem.table.name}", objective=run.card.objective, shown=run.limits.progress
    ) as log.report:
        if isinstance(run.training, AdamSettings) and run.training.trace_test:
            log.test = on_the_way.scorer(problem, test.X, seed_for("trace_test", **axes_of(run, problem.table)))
        fit = fitting.fit(run, problem.train, seeds, log)
    predictor = fit.predictor
    found = _predict(predictor, test, seeds, log)
    rows = per_row(problem.restore(found), problem.targets)
    inputs = fitting.as_precision(problem.train, run.precision).X
    return Result(
        diagnostics=predictor.diagnostics,
        scores=all_scores(rows),
        points=points_table(rows, problem.test.X, problem.train.X, problem.split.test),
        posterior=predictor.posterior()
        | (_pictured(predictor, problem, inputs, seeds.prediction) if isinstance(found, GaussianMixture) else {}),
        parameters=predictor.parameters(),
        model=_describe(run, problem, fit.settings, seeds).to_json(),
        start=fit.start,
    )


def _pictured(predictor: Predictor, problem: Problem, inputs: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """What the pictures of tables with one feature, and of a user's own, are drawn from."""
    grid = predictive_grid(predictor, problem.scaler, inputs, seed)
    return grid | rows_of_one_feature(problem) | partial_dependence(predictor, problem, inputs, seed)


def _predict(predictor: Predictor, test: Regression, seeds: Seeds, log: Monitor) -> Found:
    """What is predicted of the test rows, in standard units, and the seconds that it took."""
    begin = time.perf_counter()
    standardised = predictor.predict(test.X, seeds.prediction)
    log.prediction_seconds = time.perf_counter() - begin
    return standardised


def _describe(run: Run, problem: Problem, settings: FitSettings, seeds: Seeds) -> Description:
    """What new rows can be predicted with, beside the parameters."""
    return Description(
        family=run.card.family,
        settings=settings,
        num_threads=run.limits.num_threads,
        seed=seeds.prediction,
        target=problem.table.target_name,
        reading=reading_of(run.dataset),
        encoder=problem.encoder,
        scaler=problem.scaler,
    )


def seeds_of(run: Run, table: Table) -> Seeds:
    """Splits are shared by all methods; everything drawn here belongs to one method, one split and one seed.

    A run that starts where another ended holds out the rows that the other did: it has not been trained on them.
    """
    axes = axes_of(run, table)
    drawn = {name: seed_for(name, **axes) for name in ("initial", "holdout", "batches", "samples", "prediction")}
    if run.init_from is not None:
        before = start.identity(run.init_from, run.limits.results_dir, run.split, run.config["task"], table.digest_xy)
        of_before = {"method": before.method, "num_layers": before.num_layers, "seed": before.seed}
        drawn["holdout"] = seed_for("holdout", **axes | of_before)
    return Seeds(**drawn)


def axes_of(run: Run, table: Table) -> dict[str, object]:
    """What the draws of a run depend on."""
    return {
        "table": table.digest_xy,
        "task": run.task.name,
        "split": run.split,
        "method": run.card.name,
        "num_layers": run.method.num_layers,
        "seed": run.seed,
    }


def _skip(run: Run) -> Outcome | None:
    """Skip a run that is done, and remove checkpoints that a kill just after the record was written left behind."""
    skipped = skipped_outcome(run)
    if skipped is not None and (record := store.read_if_present(run.directory)) and record["status"] == "done":
        checkpoints_of(run).clear()
    return skipped


def skipped_outcome(run: Run) -> Outcome | None:
    """Return the outcome of a run that is done, here or as a compact record; None if it has to be run.

    :raises UserError: if its place holds a record of other settings, or two records contradict each other
    """
    state = store.state_of(run.limits.results_dir, run.identity, run.config_hash)
    if state.name == store.CONFLICT:
        raise UserError(state.why)
    if state.name != store.DONE or state.stored is None:
        return None
    source = state.stored.source
    where = f"{source} is done already" if source == str(run.directory) else f"skipped: its record is in {source}"
    text = "\n".join([f"{where}, so nothing was run", *summary.score_lines(state.stored.record["scores"])])
    return Outcome("skipped", str(run.directory), text)
