"""One run, from a configuration to a record: the flow of the house, as a list of calls.

    cfg -> Table -> Split -> Standardiser -> Regression -> fit -> GaussianMixture -> metrics -> record

A method sees standardised training rows only; metrics see a mixture and targets, never a model.
"""

import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench import config as configuration
from dgpbench import records
from dgpbench.datasets import registry
from dgpbench.datasets.scaling import Regression, Standardiser
from dgpbench.datasets.table import Table
from dgpbench.datasets.tasks import Split, make_split
from dgpbench.errors import Diverged, Refused, TimedOut
from dgpbench.outcomes import Outcome
from dgpbench.progress import progress
from dgpbench.seeds import seed_for


@dataclass(frozen=True)
class Problem:
    """The data of one run, before any model: what all methods share."""

    table: Table
    split: Split
    scaler: Standardiser
    train: Regression
    test: Regression


def execute(cfg: Any) -> Outcome:
    """Carry out the run that a composed configuration describes; never raises but for an interruption."""
    try:
        config = configuration.resolve(cfg)
        table = registry.load(config["dataset"])
        directory = directory_of(config, table)
        with records.lock(directory):
            finished = _finished(directory, config)
            return finished if finished is not None else _carry_out(config, table, directory)
    except Refused as refusal:
        return Outcome("refused", None, str(refusal))


def directory_of(config: dict[str, Any], table: Table) -> Path:
    """The run's identity: where its record lies."""
    return records.identity_directory(
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


def _finished(directory: Path, config: dict[str, Any]) -> Outcome | None:
    """The outcome of a run that needs no work, or None for one that is still to do.

    :raises Refused: where the record at this identity was made with other settings
    """
    record = records.read_if_present(directory)
    if record is None or record["status"] != "done":
        return None
    if record["config_hash"] != records.config_hash(recorded_config(config)):
        raise Refused(
            f"{directory} holds a record made with other settings, so it is neither re-used nor overwritten; "
            "move it away, or choose another results_dir="
        )
    return Outcome("skipped", str(directory), f"{directory} is done already, so nothing was run")


def _carry_out(config: dict[str, Any], table: Table, directory: Path) -> Outcome:
    """Fit, predict, score and write the record, whatever happens."""
    problem = pose(config, table)
    clock_seconds: dict[str, float] = {}
    started = datetime.now(UTC)
    begin = time.perf_counter()
    draft = records.draft(config=recorded_config(config), data=describe_data(problem), started=started)
    outputs: dict[str, Any] = {}
    try:
        outputs = _fit_and_score(config, problem, directory, clock_seconds)
        status, reason, trace_back = "done", None, None
    except Refused:
        raise
    except TimedOut as late:
        status, reason, trace_back = "timeout", str(late), None
    except Diverged as diverged:
        status, reason, trace_back = "diverged", str(diverged), None
    except KeyboardInterrupt:
        status, reason, trace_back = "interrupted", "the run was interrupted", None
    except Exception as problem_met:  # a method may fail in any way; the record keeps how
        status, reason, trace_back = "failed", f"{type(problem_met).__name__}: {problem_met}", traceback.format_exc()
    print(draft, status, reason, trace_back, outputs, begin)
    return Outcome(status, str(directory), "")
