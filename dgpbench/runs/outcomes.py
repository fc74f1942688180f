"""Outcomes of runs: the record of how a run ended, and the exit code of several runs."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dgpbench.config.canonical import plain
from dgpbench.methods.plugins import packages_of
from dgpbench.runs import store
from dgpbench.runs.problem import Problem
from dgpbench.runs.record import RUN
from dgpbench.runs.resolve import Run
from dgpbench.system import provenance
from dgpbench.training.monitor import Monitor

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

_VARIABLE = "DGPBENCH_OUTCOMES"  # environment variable, which launchers pass to their workers
EXIT_CODES = {
    **dict.fromkeys(("done", "skipped"), 0),
    **dict.fromkeys(("failed", "diverged", "timeout", "blocked"), 1),
    "refused": 2,
    "interrupted": 130,
}


# Records --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """Result of a run; empty if it did not finish."""

    diagnostics: dict[str, Any] = field(default_factory=dict)  # what the method reports about its fit
    scores: dict[str, float] = field(default_factory=dict)
    points: "pd.DataFrame | None" = None  # one row for each test row
    posterior: "dict[str, np.ndarray] | None" = None
    parameters: "dict[str, np.ndarray] | None" = None
    model: dict[str, Any] | None = None  # ``Description.to_json``: with the parameters, enough to predict new rows
    start: dict[str, str] | None = None  # with a warm start, name of that run and sha256 of its parameters


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    status: str  # one of ``record.STATUSES``
    reason: str | None = None  # one sentence, for every status but done
    traceback: str | None = None


def write(
    run: Run, problem: Problem, log: Monitor, started: datetime, result: Result, ending: Ending
) -> dict[str, Any]:
    """Write the files of a run, and return its record."""
    import pandas as pd

    record = compose(run, problem, log, started, result, ending)
    trace = pd.DataFrame(log.trace) if log.trace else None
    if trace is not None and log.test is None:
        trace = trace.drop(columns=["test_tll", "test_rmse"])
    store.write_run(run.directory, record, result.points, trace, result.posterior, result.parameters)
    if ending.status not in ("interrupted", "timeout"):  # these two can be resumed
        log.checkpoints.clear()
    return record


def compose(
    run: Run, problem: Problem, log: Monitor, started: datetime, result: Result, ending: Ending
) -> dict[str, Any]:
    """Return the record of a run, with what is known so far if it did not finish."""
    num_parameters = plain(result.diagnostics, str).get("num_parameters")  # which a plug-in may use for anything
    return {
        **asdict(ending),
        "identity": asdict(run.identity),
        "objective": run.objective,
        "scores": result.scores,
        "seconds": log.seconds() | {"total": time.perf_counter() - log.started + log.earlier_seconds},
        "iterations": log.trace[-1].iteration if log.trace else 0,
        "num_parameters": num_parameters if RUN["num_parameters"].holds(num_parameters) else None,
        "notes": [result.diagnostics, *log.retries],
        "config": run.config,
        "config_hash": run.config_hash,
        **({} if result.start is None else {"start": result.start}),
        "model": result.model,
        "data": problem.described_split(),
        "git": provenance.git_state(),
        "versions": provenance.versions(packages_of(run.method.name)),
        "host": provenance.host(run.limits.num_threads),
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


# Several runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Outcome of one run."""

    status: str  # a key of ``EXIT_CODES``
    directory: str | None  # of its record, if it has one
    message: str  # one sentence for the user


@contextmanager
def collecting() -> Iterator[Path]:
    """Create a file to which ``add`` writes in this process and its children, so that every launcher shares it."""
    with TemporaryDirectory(prefix="dgpbench-") as folder:
        path = Path(folder) / "outcomes.jsonl"
        os.environ[_VARIABLE] = str(path)
        try:
            yield path
        finally:
            del os.environ[_VARIABLE]


def add(outcome: Outcome) -> None:
    """Append an outcome, as one short write, which is atomic."""
    if _VARIABLE in os.environ:
        with open(os.environ[_VARIABLE], "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


def read(path: Path) -> list[Outcome]:
    """Read the outcomes collected so far."""
    if not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def exit_code(outcomes: list[Outcome]) -> int:
    """Return the largest exit code: 0 if all runs are done or skipped."""
    return max((EXIT_CODES[outcome.status] for outcome in outcomes), default=0)


def summary(outcomes: list[Outcome]) -> str:
    """Return '3 done, 1 skipped'."""
    counts = Counter(outcome.status for outcome in outcomes)
    return ", ".join(f"{counts[status]:,} {status}" for status in EXIT_CODES if counts[status])
