"""One run, from a configuration to a record: the flow of the house, as a list of calls.

    cfg -> Table -> Split -> Standardiser -> Regression -> fit -> GaussianMixture -> metrics -> record

A method sees standardised training rows only; metrics see a mixture and targets, never a model.
"""

import traceback
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dgpbench import config as configuration
from dgpbench import identity, last_resort, leaks, recording, records, summary, watchdog
from dgpbench.datasets import registry
from dgpbench.datasets.table import Table
from dgpbench.errors import Diverged, Refused, TimedOut
from dgpbench.fitting import fit_and_score
from dgpbench.outcomes import Outcome
from dgpbench.problem import pose


def execute(cfg: Any) -> Outcome:
    """Carry out the run that a composed configuration describes; raises for nothing but an interruption."""
    try:
        config = configuration.resolve(cfg)
        table = registry.load(config["dataset"])
        directory = directory_of(config, table)
        with records.lock(directory):
            finished = _finished(directory, config)
            if finished is not None:
                return finished
            with leaks.let_go():
                return _carry_out(config, table, directory)
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


def _carry_out(config: dict[str, Any], table: Table, directory: Path) -> Outcome:
    """Fit, predict, score and write the record, however the run ends."""
    problem = pose(config, table)
    started, results = datetime.now(UTC), recording.Results()
    status, reason, details = "done", None, None
    minutes = config["timeout_minutes"]
    write = partial(recording.write, config, problem, directory, results, started)
    try:
        limit = None if minutes is None else 60 * minutes
        hung = partial(recording.compose, config, problem, results, started, ("timeout", watchdog.HUNG, None))
        with (
            last_resort.standing_by(limit, directory, hung),
            watchdog.limited(limit, lambda stack: write(("timeout", watchdog.HUNG, stack))),
        ):
            fit_and_score(config, problem, directory, results)
    except KeyboardInterrupt:
        write(("interrupted", "the run was interrupted", None))
        raise
    except (TimedOut, Diverged) as ended:
        status, reason = ("timeout" if isinstance(ended, TimedOut) else "diverged"), str(ended)
    except Refused:
        raise
    except Exception as problem_met:  # a method can fail in any way, and the record says in which
        status, reason, details = "failed", f"{type(problem_met).__name__}: {problem_met}", traceback.format_exc()
    record = write((status, reason, details))
    words = summary.of_run(record, directory)
    return Outcome(status, str(directory), words + _drawn(directory) if status == "done" and config["plot"] else words)


def _finished(directory: Path, config: dict[str, Any]) -> Outcome | None:
    """The outcome of a run that needs no work, or None for one that is still to do.

    :raises Refused: where the record at this identity was made with other settings
    """
    record = records.read_if_present(directory)
    if record is None or record["status"] != "done":
        return None
    if record["config_hash"] != identity.config_hash(recording.recorded_config(config)):
        raise Refused(
            f"{directory} holds a record made with other settings, so it is neither re-used nor overwritten; "
            "move it away, or choose another results_dir="
        )
    return Outcome("skipped", str(directory), f"{directory} is done already, so nothing was run")


def _drawn(directory: Path) -> str:
    """Draw the run's picture; nothing, or why there is none: the record is written, and a picture can be had later."""
    from dgpbench.report.run_figure import save_run_figure

    try:
        save_run_figure(directory)
    except Exception as problem:  # matplotlib, fonts, a disk that is full
        return f"\nno picture ({type(problem).__name__}: {problem}); `dgpbench show {directory} --plot` tries again"
    return ""
