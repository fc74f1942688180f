"""What a run's record says: built from what the run has found out, however it ended."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench import config as configuration
from dgpbench import identity, provenance, records
from dgpbench.datasets.table import Table
from dgpbench.problem import Problem


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


def write(
    config: dict[str, Any],
    problem: Problem,
    directory: Path,
    results: Results,
    started: datetime,
    ended: tuple[str, str | None, str | None],
) -> dict[str, Any]:
    """Write the record of a run that ended with (status, reason, traceback)."""
    import pandas as pd

    record, clock = compose(config, problem, results, started, ended), results.clock
    trace = pd.DataFrame(clock.trace) if clock and clock.trace else None
    records.write_run(directory, record, results.points, trace, results.posterior, results.parameters)
    if clock is not None and ended[0] not in ("interrupted", "timeout"):  # these two go on where they stopped
        clock.checkpoints.clear()
    return record


def compose(
    config: dict[str, Any],
    problem: Problem,
    results: Results,
    started: datetime,
    ended: tuple[str, str | None, str | None],
) -> dict[str, Any]:
    """The record of a run that ended with (status, reason, traceback)."""
    status, reason, details = ended
    finished = datetime.now(UTC)
    clock = results.clock
    total = (finished - started).total_seconds() + (clock.earlier_seconds if clock else 0.0)
    settings = recorded_config(config)
    return {
        "status": status,
        "reason": reason,
        "traceback": details,
        "identity": _identity(config, problem.table),
        "objective": config["method"]["objective"],
        "scores": results.scores,
        "seconds": results.seconds() | {"total": total},
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


def recorded_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a configuration that says what was computed: the record keeps it, and its hash."""
    kept = {key: value for key, value in config.items() if key not in configuration.EXTERNAL}
    kept["dataset"] = {
        key: value for key, value in config["dataset"].items() if key in ("name", "kind", "target", "seed", "num_rows")
    }
    for group in ("protocol", "budget"):
        kept[group] = config[group]["name"]
    kept["method"] = {
        key: value
        for key, value in config["method"].items()
        if key not in ("title", "citation", "objective", "optimisers", "precisions")
    }
    return kept
