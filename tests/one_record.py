"""A small record and the directory of its run, for tests that write records."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dgpbench.config.canonical import config_hash
from dgpbench.runs.identity import Identity
from dgpbench.runs.record import digest_of

WHO = {
    "task": "interpolation",
    "dataset": "boston",
    "method": "star",
    "num_layers": 3,
    "protocol": "lindinger2020",
    "budget": "paper",
    "split": 0,
    "seed": 0,
}
CONFIG = {"method": {"name": "star"}, "training": {"learning_rate": 0.005}, "prediction": {}}
DATA = {"name": "boston", "n": 12, "d": 3, "n_train": 10, "n_test": 2, "digest_xy": "0" * 64, "verified": "digest"}
POINTS = pd.DataFrame({"row": [1, 2], "log_density": [-0.5, -1.5]})
TRACE = pd.DataFrame({"iteration": [10, 20], "elbo": [-3.0, -2.0], "validation_tll": [None, None]})


def directory_of(root: Path, overrides=None, **changed) -> Path:
    return Identity(**(WHO | changed), overrides=overrides or {}).directory(root)


def record_of(overrides=None, **changed) -> dict:
    given = {
        "status": "done",
        "reason": None,
        "traceback": None,
        "identity": WHO | {"overrides": overrides or {}},
        "scores": {"tll": -2.4},
        "seconds": {"tracing": 1.0, "training": 2.0, "prediction": 0.1, "total": 4.0},
        "iterations": 20,
        "config": CONFIG,
        "config_hash": config_hash(CONFIG),
        "data": DATA,
        "git": None,
        "versions": {},
        "host": {},
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:04+00:00",
        "notes": [],
    }
    return given | changed


def forge(path: Path, change: Callable[[dict], object]) -> None:
    """Change a record.json as whoever knows the format would: with the digest of the new content."""
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record | {"digest": digest_of(record)}, indent=1, sort_keys=True) + "\n")
