"""One run, from a configuration to a record: the flow of the house, as a list of calls.

    cfg -> Table -> Split -> Standardiser -> Regression -> fit -> GaussianMixture -> metrics -> record

A method sees standardised training rows only; metrics see a mixture and targets, never a model.
"""

import time
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dgpbench import config as configuration
from dgpbench import identity, memory, provenance, records, summary, watchdog
from dgpbench.datasets import registry
from dgpbench.datasets.scaling import Regression, Standardiser
from dgpbench.datasets.table import Table
from dgpbench.datasets.tasks import Split, make_split, min_deviation
from dgpbench.errors import Diverged, Refused, TimedOut
from dgpbench.grids import predictive_grid
from dgpbench.outcomes import Outcome
from dgpbench.progress import progress
from dgpbench.seeds import seed_for

MAX_RETRIES = 2  # of a fit that diverges, each with MORE_JITTER times the jitter of the one before
MORE_JITTER, LEAST_JITTER = 10.0, 1e-6


@dataclass(frozen=True)
class Problem:
    """The data of one run, before any model: what all methods share."""

    table: Table
    split: Split
    scaler: Standardiser
    train: Regression
    test: Regression


@dataclass
class Results:
    """What a run has found out so far: a run that fails keeps what it had."""

    scores: dict[str, float] = field(default_factory=dict)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    clock: Any = None
    prediction_seconds: float | None = None
    points: Any = None
    posterior: dict[str, np.ndarray] | None = None
    parameters: dict[str, np.ndarray] | None = None
    retries: list[dict[str, Any]] = field(default_factory=list)

    def seconds(self) -> dict[str, float]:
        """Seconds of tracing, training and prediction, as far as the run came."""
        known = (
            {}
            if self.clock is None
            else {"tracing": self.clock.tracing_seconds, "training": self.clock.training_seconds}
        )
        return known if self.prediction_seconds is None else known | {"prediction": self.prediction_seconds}


def execute(cfg: Any) -> Outcome:
    """Carry out the run that a composed configuration describes; raises for nothing but an interruption."""
    try:
        config = configuration.resolve(cfg)
        table = registry.load(config["dataset"])
        directory = directory_of(config, table)
        with records.lock(directory):
            finished = _finished(directory, config)
            return finished if finished is not None else _carry_out(config, table, directory)
    except Refused as refusal:
        return Outcome("refused", None, f"dgpbench: {refusal}")


def directory_of(config: dict[str, Any], table: Table) -> Path:
    """The run's identity: where its record lies."""
    return identity.identity_directory(
        config["results_dir"],
        task=config["task"]["name"],
        dataset=table.name,
        method=config["method"]["name"],
        num_layers=config["method"]["num_layers"],
        protocol=config["protocol"]["name"],
        budget=config["budget"]["name"],
        split=config["split"],
        seed=config["seed"],
        overrides=configuration.changed_settings(config),
    )


def pose(config: dict[str, Any], table: Table) -> Problem:
    """Split and standardise; the training rows alone decide how.

    :raises Refused: where the method cannot be fitted to so few, or so many, rows
    """
    split = make_split(table, config["task"], config["split"], config["dataset"])
    smallest = min_deviation(config["task"], config["dataset"])
    scaler = Standardiser.fit(table.X[split.train], table.y[split.train], table.feature_names, smallest)
    train = scaler.transform(table.X[split.train], table.y[split.train])
    test = scaler.transform(table.X[split.test], table.y[split.test])
    _check_size(config, len(train.X))
    memory.check(config, len(train.X), train.X.shape[1], len(test.X))
    return Problem(table, split, scaler, train, test)


def _check_size(config: dict[str, Any], num_rows: int) -> None:
    method = config["method"]
    wanted, most = method.get("num_inducing", 0), method.get("max_rows")
    if wanted > num_rows:
        raise Refused(
            f"method.num_inducing={wanted} is more than the {num_rows} training rows; use method.num_inducing={num_rows} or fewer"
        )
    if most is not None and num_rows > most:
        raise Refused(
            f"{method['name']} takes at most {most} training rows (method.max_rows) and this split has {num_rows}; "
            "sgpr, fitc and sgp take any number"
        )


def _carry_out(config: dict[str, Any], table: Table, directory: Path) -> Outcome:
    """Fit, predict, score and write the record, however the run ends."""
    problem = pose(config, table)
    started, results = datetime.now(UTC), Results()
    status, reason, details = "done", None, None
    minutes = config["timeout_minutes"]
    hung = lambda stack: _write(config, problem, directory, results, started, ("timeout", watchdog.HUNG, stack))  # noqa: E731
    try:
        with watchdog.limited(None if minutes is None else 60 * minutes, hung):
            _fit_and_score(config, problem, directory, results)
    except KeyboardInterrupt:
        _write(config, problem, directory, results, started, ("interrupted", "the run was interrupted", None))
        raise
    except (TimedOut, Diverged) as ended:
        status, reason = ("timeout" if isinstance(ended, TimedOut) else "diverged"), str(ended)
    except Refused:
        raise
    except Exception as problem_met:  # a method can fail in any way, and the record says in which
        status, reason, details = "failed", f"{type(problem_met).__name__}: {problem_met}", traceback.format_exc()
    record = _write(config, problem, directory, results, started, (status, reason, details))
    words = summary.of_run(record, directory)
    return Outcome(status, str(directory), words + _drawn(directory) if status == "done" and config["plot"] else words)


def _drawn(directory: Path) -> str:
    """Draw the run's picture; nothing, or why there is none: the record is written, and a picture can be had later."""
    from dgpbench.report.run_figure import save_run_figure

    try:
        save_run_figure(directory)
    except Exception as problem:  # matplotlib, fonts, a disk that is full
        return f"\nno picture ({type(problem).__name__}: {problem}); `dgpbench show {directory} --plot` tries again"
    return ""


def _write(
    config: dict[str, Any],
    problem: Problem,
    directory: Path,
    results: Results,
    started: datetime,
    ended: tuple[str, str | None, str | None],
) -> dict[str, Any]:
    """Write the record of a run that ended with (status, reason, traceback)."""
    import pandas as pd

    status, reason, details = ended
    finished = datetime.now(UTC)
    clock = results.clock
    settings = recorded_config(config)
    record = {
        "status": status,
        "reason": reason,
        "traceback": details,
        "identity": _identity(config, problem.table),
        "scores": results.scores,
        "seconds": results.seconds() | {"total": (finished - started).total_seconds()},
        "iterations": clock.trace[-1].iteration if clock and clock.trace else 0,
        "notes": [results.diagnostics, *results.retries],
        "config": settings,
        "config_hash": identity.config_hash(settings),
        "data": _describe(problem),
        "git": provenance.git_state(),
        "versions": provenance.versions(),
        "host": provenance.host(config["num_threads"]),
        "started": started.isoformat(timespec="seconds"),
        "finished": finished.isoformat(timespec="seconds"),
    }
    trace = pd.DataFrame(clock.trace) if clock and clock.trace else None
    records.write_run(directory, record, results.points, trace, results.posterior, results.parameters)
    if clock is not None and status not in ("interrupted", "timeout"):  # these two go on where they stopped
        clock.checkpoints.clear()
    return record


def _identity(config: dict[str, Any], table: Table) -> dict[str, Any]:
    named = {group: config[group]["name"] for group in ("task", "method", "protocol", "budget")}
    changed = configuration.changed_settings(config)
    own = {"dataset": table.name, "num_layers": config["method"]["num_layers"], "overrides": changed}
    return named | own | {"split": config["split"], "seed": config["seed"]}


def _describe(problem: Problem) -> dict[str, Any]:
    """The data that were used: sizes, digests, files and what was dropped."""
    table = problem.table
    return {
        "name": table.name,
        "n": table.num_rows,
        "d": table.X.shape[1],
        "n_train": len(problem.split.train),
        "n_test": len(problem.split.test),
        "dropped": list(problem.scaler.dropped),
        "scale_y": problem.scaler.scale_y,
        "digest_xy": table.digest_xy,
        "digest_xy_ordered": table.digest_xy_ordered,
        "verified": table.verified,
        # No paths: they are this machine's, and the hashes say which file it was.
        "files": [
            {"origin": file.origin, "sha256": file.sha256, "pinned_sha256": file.pinned_sha256}
            for file in table.sources
        ],
    }


def _fit_and_score(config: dict[str, Any], problem: Problem, directory: Path, results: Results) -> None:
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
    from dgpbench.methods.choices import Choices
    from dgpbench.training.checkpoints import Checkpoints, interval
    from dgpbench.training.clock import Clock

    module, _, function = config["method"]["_target_"].rpartition(".")
    fit = getattr(import_module(module), function)
    minutes, precision = config["timeout_minutes"], config["precision"]
    with progress(f"{config['method']['name']} on {problem.table.name}", shown=config["progress"]) as report:
        limit = None if minutes is None else 60 * minutes
        # The key holds the jitter: an attempt never goes on from the checkpoint of another.
        kept = Checkpoints(directory / "checkpoint", identity.config_hash(recorded_config(config)), interval())
        results.clock = Clock(config["training"].get("max_seconds"), limit, report, kept, started=begin)
        choices = Choices(config["method"], config["training"], config["prediction"], _initial(config["init_from"]))
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
    return Regression(data.X.astype(precision), data.Y.astype(precision))


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


def _finished(directory: Path, config: dict[str, Any]) -> Outcome | None:
    """The outcome of a run that needs no work, or None for one that is still to do.

    :raises Refused: where the record at this identity was made with other settings
    """
    record = records.read_if_present(directory)
    if record is None or record["status"] != "done":
        return None
    if record["config_hash"] != identity.config_hash(recorded_config(config)):
        raise Refused(
            f"{directory} holds a record made with other settings, so it is neither re-used nor overwritten; "
            "move it away, or choose another results_dir="
        )
    return Outcome("skipped", str(directory), f"{directory} is done already, so nothing was run")


def recorded_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a configuration that says what was computed: the record keeps it, and its hash."""
    kept = {key: value for key, value in config.items() if key not in configuration.EXTERNAL}
    kept["dataset"] = {
        key: value for key, value in config["dataset"].items() if key in ("name", "kind", "target", "seed", "num_rows")
    }
    for group in ("protocol", "budget"):
        kept[group] = config[group]["name"]
    kept["method"] = {
        key: value for key, value in config["method"].items() if key not in ("title", "citation", "optimisers")
    }
    return kept
