"""Fit the method of a run to standardised rows: its seeds, its warm start, and restarts with more jitter."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dgpbench.data.standardise import Regression
from dgpbench.data.table import Table
from dgpbench.errors import Diverged, UserError
from dgpbench.methods.interface import FitSettings, Predictor, Seeds, fit_function, fit_together_function
from dgpbench.methods.plugins import needs_tensorflow
from dgpbench.methods.settings import DeepSettings, SparseSettings
from dgpbench.runs import store
from dgpbench.runs.identity import Identity, name_of_run
from dgpbench.runs.record import file_problem
from dgpbench.runs.resolve import Run
from dgpbench.seeds import seed_for
from dgpbench.system import tf_session
from dgpbench.system.progress import progress
from dgpbench.training.checkpoints import Checkpoints
from dgpbench.training.early_stopping import hold_out
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import AdamSettings

MAX_RESTARTS = 2  # of a fit that diverges, each with more jitter than the one before
TRIED = 256  # training rows that are predicted as part of a fit


@dataclass(frozen=True)
class Fit:
    """A finished fit."""

    predictor: Predictor
    settings: FitSettings  # of the last attempt
    start: dict[str, str] | None = None  # with ``init_from``: name of that run, and the sha256 of its parameters


def fit(run: Run, train: Regression, seeds: Seeds, monitor: Monitor) -> Fit:
    """Fit the run's method to standardised rows.

    A fit that diverges is restarted with more jitter, at most ``MAX_RESTARTS`` times, and each restart is recorded. So
    is one with non-finite predictions of training rows; held-out rows have no influence.

    :raises Diverged: if the last attempt did
    """
    prepare_libraries(run.method.name, run.limits.num_threads, run.precision, run.limits.device)
    initial, start = None, None
    if run.init_from is not None:
        initial, sha256 = initial_parameters(run)
        start = {"name": name_of_run(run.init_from), "parameters_sha256": sha256}
    train = as_precision(train, run.precision)
    settings = run.sized(train.X.shape, initial)
    while True:
        try:
            # The key holds the jitter: an attempt is never resumed from a checkpoint of another.
            monitor.start_attempt(replace(run, method=settings.method).config_hash)
            predictor = fit_function(run.card.family)(train, settings, seeds, monitor)
            predictor.predict(train.X[:TRIED], seeds.prediction)
            return Fit(predictor, settings, start)
        except Diverged as problem:
            monitor.checkpoints.clear()
            method = settings.method.with_more_jitter()
            if method is None or len(monitor.retries) == MAX_RESTARTS:
                raise
            settings = replace(settings, method=method)
            monitor.restart({"jitter": method.jitter, "after": str(problem)})


def trains_together(run: Run) -> bool:
    """Return whether runs that differ from this one in their split alone can be trained as one model."""
    training = run.training
    return (
        run.method.trains_together
        and type(training) is AdamSettings
        and not (training.max_seconds is not None or training.trace_test)
        and not (training.early_stopping and training.average_last)  # a mean of its own for each model that stops
        and run.init_from is None
    )


def fit_together(
    run: Run, trains: Sequence[Regression], seeds: Sequence[Seeds], monitors: Sequence[Monitor]
) -> list[Fit]:
    """Fit the run's method to the standardised rows of several splits as one model.

    :raises Diverged: if one of the fits does; none is restarted
    """
    prepare_libraries(run.method.name, run.limits.num_threads, run.precision, run.limits.device)
    rows = [as_precision(train, run.precision) for train in trains]
    settings = run.sized(rows[0].X.shape)
    predictors = fit_together_function(run.card.family)(rows, settings, seeds, monitors)
    for predictor, train, own in zip(predictors, rows, seeds, strict=True):
        predictor.predict(train.X[:TRIED], own.prediction)
    return [Fit(predictor, settings) for predictor in predictors]


@contextmanager
def monitoring(run: Run, table: Table, checkpoints: Checkpoints | None = None, **more: Any) -> Iterator[Monitor]:
    """Show the progress of a fit, and yield the monitor that it reports to; release the fit's graphs at the end.

    :param more: further fields of the monitor
    """
    title, objective = f"{run.card.name} on {table.name}", run.objective
    with tf_session.releasing_graphs(), progress(title, objective=objective, shown=run.limits.progress) as report:
        yield Monitor(run.training.max_seconds, report=report, checkpoints=checkpoints or Checkpoints(), **more)


def prepare_libraries(method: str, num_threads: int, precision: str, device: str = "cpu") -> None:
    """Limit the threads of numerical libraries, and start TensorFlow if a method may need it.

    :raises UserError: for ``gpu`` without one, or with a method without TensorFlow
    """
    tf_session.limit_threads(num_threads)
    if "tensorflow" in sys.modules or needs_tensorflow(method):
        tf_session.start(num_threads, precision, device)
    elif device == "gpu":
        raise UserError(f"device=gpu cannot be used with {method}, which does not use TensorFlow")
    else:
        import sklearn.base  # noqa: F401  # the plug-in's import would count as training


def with_fewer_inducing_points(run: Run, num_rows: int) -> Run:
    """Reduce the inducing points to the number of rows that are fitted to, unless the user set their number."""
    if not isinstance(run.method, DeepSettings | SparseSettings) or "method.num_inducing" in run.changed:
        return run
    if isinstance(run.training, AdamSettings):
        rows = np.empty((num_rows, 0))
        num_rows = len(hold_out(Regression(rows, rows), run.training.for_rows(num_rows), 0)[0].X)
    return replace(run, method=replace(run.method, num_inducing=min(run.method.num_inducing, num_rows)))


def as_precision(data: Regression, precision: str) -> Regression:
    """Rows in the type that a method computes with; mixed precision takes and returns float64."""
    kind = "float32" if precision == "float32" else "float64"
    return Regression(data.X.astype(kind), data.Y.astype(kind))


# Seeds ----------------------------------------------------------------------------------------------------------------


def seeds_of(run: Run, table: Table) -> Seeds:
    """Return the seeds of a fit; splits are shared by all methods, these belong to one method, split and seed.

    A run with ``init_from`` holds out the rows that the earlier run held out, which has not been trained on them.
    """
    axes = axes_of(run, table)
    drawn = {name: seed_for(name, **axes) for name in ("initial", "holdout", "batches", "samples", "prediction")}
    if run.init_from is not None:
        before = initial_identity(run, table)
        of_before = {"method": before.method, "num_layers": before.num_layers, "seed": before.seed}
        drawn["holdout"] = seed_for("holdout", **axes | of_before)
    return Seeds(**drawn)


def axes_of(run: Run, table: Table) -> dict[str, object]:
    """Return the values that the draws of a run depend on."""
    return {
        "table": table.digest_xy,
        "task": run.task.name,
        "split": run.split,
        "method": run.card.name,
        "num_layers": run.method.num_layers,
        "seed": run.seed,
    }


# Warm starts ----------------------------------------------------------------------------------------------------------


def initial_identity(run: Run, table: Table) -> Identity:
    """Return the identity of the run at ``init_from``.

    :raises UserError: if it is missing or not finished, was trained on other rows, on which this run may be tested, or
        has parameters of other coordinates
    """
    _, record = _finished_start(run)
    before, task = Identity(**record["identity"]), run.config["task"]
    rows = (before.split, record["config"]["task"], record["data"]["digest_xy"])
    if rows != (run.split, dict(task), table.digest_xy):
        raise UserError(
            f"init_from={run.init_from} was trained on the rows of {before.task} split {before.split} of "
            f"{before.dataset}; a run starts from one of its own data set, task and split (here {task['name']} split "
            f"{run.split}), or it would be tested on rows that it was trained on"
        )
    whitened, own = (config["method"].get("whiten") for config in (record["config"], run.config))
    if None not in (whitened, own) and whitened != own:
        raise UserError(
            f"init_from={run.init_from} has method.whiten={str(whitened).lower()}; with the other value its parameters "
            "would be another posterior, so set the same one"
        )
    return before


def initial_parameters(run: Run) -> tuple[dict[str, np.ndarray], str]:
    """Return the parameters of the run at ``init_from``, and their sha256.

    :raises UserError: if it is missing or not finished, or its parameters do not match its record
    """
    directory, record = _finished_start(run)
    stored = record["files"].get(store.PARAMETERS)
    path = directory / store.PARAMETERS
    problem = f"{path} is not mentioned in its record" if stored is None else file_problem(path, stored)
    if stored is None or problem is not None:
        raise UserError(f"init_from={run.init_from} has damaged parameters: {problem}; rerun it first")
    try:
        return store.read_arrays(path), stored["sha256"]
    except (OSError, EOFError, ValueError, BadZipFile) as unreadable:
        raise UserError(
            f"init_from={run.init_from} has no readable parameters ({unreadable}); rerun it first"
        ) from None


def _finished_start(run: Run) -> tuple[Path, Mapping[str, Any]]:
    """Return directory and record of ``init_from``, a path or a name below ``results_dir``."""
    assert run.init_from is not None
    below = Path(run.limits.results_dir, run.init_from)
    directory = below if below.is_dir() else Path(run.init_from)
    if (problem := store.damage(directory)) is not None:
        raise UserError(f"init_from={run.init_from} has a damaged record: {problem}; rerun it first")
    record = store.read_if_present(directory)
    if record is None or record["status"] != "done":
        raise UserError(
            f"init_from={run.init_from} is not the directory of a finished run; these are below results/runs, and "
            f"names that begin with runs/ are relative to results_dir={run.limits.results_dir}"
        )
    return directory, record
