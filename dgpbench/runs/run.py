"""One run: problem -> predictor -> mixture -> scores -> record.

A method sees standardised training rows only; metrics see a mixture and targets, never a model.
"""

import time
from dataclasses import replace
from zipfile import BadZipFile

import numpy as np

from dgpbench.datasets import registry
from dgpbench.datasets.scaling import Regression
from dgpbench.datasets.table import Table
from dgpbench.errors import Diverged, Refused
from dgpbench.methods.contract import FitSettings, Predictor, Seeds, fit_function
from dgpbench.predictions.mixture import GaussianMixture
from dgpbench.runs import store
from dgpbench.runs.guard import guarded
from dgpbench.runs.outcomes import Outcome
from dgpbench.runs.predictive_grid import predictive_grid
from dgpbench.runs.problem import Problem, prepare
from dgpbench.runs.record import Result
from dgpbench.runs.resolve import Run
from dgpbench.seeds import seed_for
from dgpbench.system import tf_session
from dgpbench.system.progress import progress
from dgpbench.training.log import TrainingLog

MAX_RETRIES = 2  # of a fit that diverges, each with more jitter than the one before


def execute(run: Run) -> Outcome:
    """Carry out a run, or find it done; raises for nothing but an interruption."""
    try:
        table = registry.load(run.dataset)
        run = run.filed_under(table.name)
        with store.lock(run.directory):
            if _is_done(run):
                return Outcome("skipped", str(run.directory), f"{run.directory} is done already, so nothing was run")
            problem = prepare(run, table)
            with tf_session.releasing_graphs():
                return guarded(run, problem, lambda log: carry_out(run, problem, log))
    except Refused as refusal:
        return Outcome("refused", None, f"dgpbench: {refusal}")


def carry_out(run: Run, problem: Problem, log: TrainingLog) -> Result:
    """Fit, predict and score; TensorFlow begins and ends here.

    :raises Diverged: where the fit, or its predictions, are not finite
    """
    from dgpbench.predictions import metrics

    tf_session.start(run.limits.num_threads, run.precision)
    seeds = seeds_of(run, problem.table)
    with progress(
        f"{run.card.name} on {problem.table.name}", objective=run.card.objective, shown=run.limits.progress
    ) as log.report:
        predictor, standardised = _fit_and_predict(run, problem, seeds, log)
    mixture = problem.restore(standardised)
    inputs = _as_precision(problem.train, run.precision).X
    return Result(
        diagnostics=predictor.diagnostics,
        scores=metrics.scores(mixture, problem.targets),
        points=metrics.points(mixture, problem.targets, problem.test.X, problem.train.X, problem.split.test),
        posterior=predictor.posterior() | predictive_grid(predictor, problem.scaler, inputs, seeds.prediction),
        parameters=predictor.parameters(),
    )


def _fit_and_predict(run: Run, problem: Problem, seeds: Seeds, log: TrainingLog) -> tuple[Predictor, GaussianMixture]:
    """The predictor and its mixture at the test rows, in standard units.

    A fit that diverges begins again with more jitter, a few times, each on record.

    :raises Diverged: as the last attempt did
    """
    train, test = (_as_precision(rows, run.precision) for rows in (problem.train, problem.test))
    fit, initial = fit_function(run.card.family), _initial(run.init_from)
    training, method = run.training.for_rows(len(train.X)), run.method.for_inputs(train.X.shape[1])
    while True:
        # The key holds the jitter: an attempt never goes on from the checkpoint of another.
        log.checkpoints.key = replace(run, method=method).config_hash
        try:
            settings = FitSettings(method, training, run.prediction.num_samples, run.precision, initial)
            predictor = fit(train, settings, seeds, log)
            start = time.perf_counter()
            standardised = predictor.predict(test.X, seeds.prediction)
            log.prediction_seconds = time.perf_counter() - start
            return predictor, standardised
        except Diverged as ended:
            log.checkpoints.clear()
            more = method.with_more_jitter()
            if more is None or len(log.retries) == MAX_RETRIES:
                raise
            method = more
            log.begin_again({"jitter": method.jitter, "after": str(ended)})


def seeds_of(run: Run, table: Table) -> Seeds:
    """Splits are shared by all methods; everything drawn here belongs to one method, one split and one seed."""
    axes = {
        "table": table.digest_xy,
        "task": run.task.name,
        "split": run.split,
        "method": run.card.name,
        "num_layers": run.method.num_layers,
        "seed": run.seed,
    }
    return Seeds(*(seed_for(purpose, **axes) for purpose in ("initial", "holdout", "batches", "samples", "prediction")))


def _is_done(run: Run) -> bool:
    """Whether the run needs no work.

    :raises Refused: where the record at this identity was made with other settings
    """
    record = store.read_if_present(run.directory)
    if record is None or record["status"] != "done":
        return False
    if record["config_hash"] != run.config_hash:
        raise Refused(
            f"{run.directory} holds a record made with other settings, so it is neither re-used nor overwritten; "
            "move it away, or choose another results_dir="
        )
    return True


def _initial(run: str | None) -> dict[str, np.ndarray] | None:
    """The parameters of the finished run to start from.

    :raises Refused: where there is no such run, or it did not finish
    """
    if run is None:
        return None
    record = store.read_if_present(run)
    if record is None or record["status"] != "done":
        raise Refused(f"init_from={run} is not the directory of a finished run; those lie below results/runs")
    try:
        return store.read_parameters(run)
    except (OSError, EOFError, ValueError, BadZipFile) as problem:
        raise Refused(f"init_from={run} has no parameters that can be read ({problem}); run it again first") from None


def _as_precision(data: Regression, precision: str) -> Regression:
    kind = "float32" if precision == "float32" else "float64"  # mixed precision takes and gives float64
    return Regression(data.X.astype(kind), data.Y.astype(kind))
