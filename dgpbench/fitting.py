"""From a problem to predictions and scores: TensorFlow begins and ends here."""

import time
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dgpbench import config as configuration
from dgpbench import identity, records
from dgpbench.datasets.scaling import Regression
from dgpbench.datasets.table import Table
from dgpbench.errors import Diverged, Refused
from dgpbench.grids import predictive_grid
from dgpbench.problem import Problem
from dgpbench.progress import progress
from dgpbench.recording import Results, recorded_config
from dgpbench.seeds import seed_for

MAX_RETRIES = 2  # of a fit that diverges, each with MORE_JITTER times the jitter of the one before
MORE_JITTER, LEAST_JITTER = 10.0, 1e-6


def fit_and_score(config: dict[str, Any], problem: Problem, directory: Path, results: Results) -> None:
    """Everything between the data and the record; TensorFlow begins and ends here."""
    from dgpbench import metrics, quiet_tensorflow

    quiet_tensorflow.start(config["num_threads"], config["precision"])
    from gpflow.utilities import read_values

    seeds = _seeds(config, problem.table)
    predictor, standardised = _retrying(config, problem, directory, results, seeds)
    results.diagnostics = predictor.diagnostics
    mixture = problem.scaler.restore(standardised)
    targets = problem.table.y[problem.split.test][:, None]
    results.posterior, results.parameters = predictor.posterior(), read_values(predictor.model)
    inputs = _as_precision(problem.train, config["precision"]).X
    results.posterior |= predictive_grid(predictor, problem.scaler, inputs, seeds.prediction)
    results.points = metrics.points(mixture, targets, problem.test.X, problem.train.X, problem.split.test)
    results.scores = metrics.scores(mixture, targets)


def _retrying(config: dict[str, Any], problem: Problem, directory: Path, results: Results, seeds) -> tuple[Any, Any]:
    """Fit and predict; where that diverges, from the start again with more jitter, a few times, each on record.

    :raises Diverged: as the last attempt did
    """
    method, begin = _sized(config["method"], problem.train), time.perf_counter()
    training = configuration.with_iterations(config["training"], len(problem.train.X))
    while True:
        try:
            known = config | {"method": method, "training": training}
            return _fit_and_predict(known, problem, directory, results, seeds, begin)
        except Diverged as ended:
            results.clock.checkpoints.clear()
            if "jitter" not in method or len(results.retries) == MAX_RETRIES:
                raise
            method = method | {"jitter": MORE_JITTER * max(method["jitter"], LEAST_JITTER)}
            results.retries.append({"retry": len(results.retries) + 1, "jitter": method["jitter"], "after": str(ended)})


def _fit_and_predict(
    config, problem: Problem, directory: Path, results: Results, seeds, begin: float
) -> tuple[Any, Any]:
    """One attempt: the predictor and its mixture at the test rows, in standard units."""
    from dgpbench.methods.choices import choices_of
    from dgpbench.training.checkpoints import Checkpoints, interval
    from dgpbench.training.clock import Clock

    module, _, function = config["method"]["_target_"].rpartition(".")
    fit = getattr(import_module(module), function)
    minutes, precision = config["timeout_minutes"], config["precision"]
    title, objective = f"{config['method']['name']} on {problem.table.name}", config["method"]["objective"]
    with progress(title, objective=objective, shown=config["progress"]) as report:
        limit = None if minutes is None else 60 * minutes
        # The key holds the jitter: an attempt never goes on from the checkpoint of another.
        kept = Checkpoints(directory / "checkpoint", identity.config_hash(recorded_config(config)), interval())
        results.clock = Clock(config["training"].get("max_seconds"), limit, report, kept, started=begin)
        choices = choices_of(config, _initial(config["init_from"]))
        predictor = fit(_as_precision(problem.train, precision), choices, seeds, results.clock)
    start = time.perf_counter()
    standardised = predictor.predict(_as_precision(problem.test, precision).X, seeds.prediction)
    results.prediction_seconds = time.perf_counter() - start
    return predictor, standardised


def _initial(run: str | None) -> dict[str, np.ndarray] | None:
    """The parameters of the finished run to start from.

    :raises Refused: where there is no such run, or it did not finish
    """
    if run is None:
        return None
    record = records.read_if_present(run)
    if record is None or record["status"] != "done":
        raise Refused(f"init_from={run} is not the directory of a finished run; those lie below results/runs")
    try:
        return records.read_parameters(run)
    except (OSError, EOFError, ValueError, BadZipFile) as problem:
        raise Refused(f"init_from={run} has no parameters that can be read ({problem}); run it again first") from None


def _sized(method: dict[str, Any], train: Regression) -> dict[str, Any]:
    """The method's settings with a width of 'inputs' made a number: min(30, D), as the papers have it."""
    return method | {"width": min(30, train.X.shape[1])} if method.get("width") == "inputs" else method


def _as_precision(data: Regression, precision: str) -> Regression:
    kind = "float32" if precision == "float32" else "float64"  # mixed precision takes and gives float64
    return Regression(data.X.astype(kind), data.Y.astype(kind))


def _seeds(config: dict[str, Any], table: Table):
    """Splits are shared by all methods; everything drawn here belongs to one method, one split and one seed."""
    from dgpbench.methods.choices import Seeds

    axes = {
        "table": table.digest_xy,
        "task": config["task"]["name"],
        "split": config["split"],
        "method": config["method"]["name"],
        "num_layers": config["method"]["num_layers"],
        "seed": config["seed"],
    }
    return Seeds(*(seed_for(purpose, **axes) for purpose in ("initial", "holdout", "batches", "samples", "prediction")))
