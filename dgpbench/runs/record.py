"""What a run's record says: made from what the run has found out, however it ended."""

import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.data import target_transforms
from dgpbench.data.encoding import ColumnEncoder
from dgpbench.data.scaling import Standardiser
from dgpbench.data.table import Table
from dgpbench.plugins.method import packages_of
from dgpbench.runs import store
from dgpbench.runs.problem import Problem
from dgpbench.runs.resolve import Run
from dgpbench.system import provenance
from dgpbench.training.log import TrainingLog

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """What a run that came to its end has found out.

    :param diagnostics: what the method says about its fit
    :param points: one row for each test row
    :param model: ``Description.to_json``, with which and the parameters new rows can be predicted
    :param start: the run that this one started from, and the sha256 of its parameters
    """

    diagnostics: dict[str, Any]
    scores: dict[str, float]
    points: "pd.DataFrame"
    posterior: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]
    model: dict[str, Any] | None = None
    start: dict[str, str] | None = None


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    :param status: one of ``fields.STATUSES``
    :param reason: one sentence, for every status but done
    """

    status: str
    reason: str | None = None
    traceback: str | None = None


def write(
    run: Run, problem: Problem, log: TrainingLog, started: datetime, result: Result | None, ending: Ending
) -> dict[str, Any]:
    """Write the record of a run and the files beside it; what is written."""
    import pandas as pd

    record = compose(run, problem, log, started, result, ending)
    trace = None
    if log.trace:
        trace = pd.DataFrame(log.trace)
        trace = trace if log.test is not None else trace.drop(columns=["test_tll", "test_rmse"])
    found = (None, None, None) if result is None else (result.points, result.posterior, result.parameters)
    points, posterior, parameters = found
    store.write_run(run.directory, record, points, trace, posterior, parameters)
    if ending.status not in ("interrupted", "timeout"):  # these two go on where they stopped
        log.checkpoints.clear()
    return record


def compose(
    run: Run, problem: Problem, log: TrainingLog, started: datetime, result: Result | None, ending: Ending
) -> dict[str, Any]:
    """The record of a run; of one that did not finish, with what was known when it ended."""
    return {
        "status": ending.status,
        "reason": ending.reason,
        "traceback": ending.traceback,
        "identity": asdict(run.identity),
        "objective": run.card.objective,
        "scores": {} if result is None else result.scores,
        "seconds": log.seconds() | {"total": time.perf_counter() - log.started + log.earlier_seconds},
        "iterations": log.trace[-1].iteration if log.trace else 0,
        "notes": [{} if result is None else result.diagnostics, *log.retries],
        "config": run.config,
        "config_hash": run.config_hash,
        **({} if result is None or result.start is None else {"start": result.start}),
        "model": None if result is None else result.model,
        "data": described_problem(problem),
        "git": provenance.git_state(),
        "versions": provenance.versions(packages_of(run.method.name)),
        "host": provenance.host(run.limits.num_threads),
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def described_problem(problem: Problem) -> dict[str, Any]:
    """The data of one split: ``described_data``, the sizes, and the number of test rows that are also training rows."""
    sizes = {"n_train": len(problem.split.train), "n_test": len(problem.split.test)}
    repeated = {"n_repeated": problem.num_repeated} if problem.num_repeated else {}
    return described_data(problem.table, problem.encoder, problem.scaler) | sizes | repeated


def described_data(table: Table, encoder: ColumnEncoder, scaler: Standardiser) -> dict[str, Any]:
    """The data that were used: sizes, digests, files and what was dropped."""
    own = {"columns": encoder.describe(), "left_out": table.num_left_out}
    if scaler.warp is not None:
        own["target"] = {"column": table.target_name, **target_transforms.to_json(scaler.warp)}
    return (own if table.verified == "own" else {}) | {
        "name": table.name,
        "n": table.num_rows,
        "d": len(encoder.feature_names),
        "features": list(encoder.feature_names),
        "dropped": list(scaler.dropped),
        "scale_y": scaler.scale_y,
        "digest_xy": table.digest_xy,
        "digest_xy_ordered": table.digest_xy_ordered,
        "verified": table.verified,
        # No paths: they are this machine's, and the hashes say which file it was.
        "files": [
            {"origin": file.origin, "sha256": file.sha256, "pinned_sha256": file.pinned_sha256}
            for file in table.sources
        ],
    }
