"""Toy records for tests of the report."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from one_record import WHO

from dgpbench.config.canonical import config_hash
from dgpbench.predictive.scores import all_scores, rows_from
from dgpbench.runs import store
from dgpbench.runs.identity import Identity
from dgpbench.training.settings import AdamSettings

DATA = {"n": 100, "d": 3, "n_train": 90, "n_test": 10, "scale_y": 2.0, "digest_xy": "0" * 64, "verified": "digest"}
VERSIONS = {"dgpbench": "0", "python": "3.12"}


def toy_identity(**changed: Any) -> dict[str, Any]:
    """The identity of a run, with the item ``lindinger2020_table1`` in mind."""
    return WHO | {"overrides": {}} | changed


def toy_record(
    identity: Mapping[str, Any],
    scores: Mapping[str, float],
    *,
    status: str = "done",
    seconds: Mapping[str, float] | None = None,
    iterations: int = 100,
    notes: list[Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    gpu: str | None = None,
) -> dict[str, Any]:
    """A record as run.py writes it.

    :param settings: dotted keys of the resolved configuration; the identity's overrides are among them anyway
    """
    config = _config(identity, {**(settings or {}), **identity["overrides"]})
    return {
        "status": status,
        "reason": None if status == "done" else "a toy reason",
        "traceback": None,
        "identity": dict(identity),
        "objective": "log joint" if identity["method"] == "sghmc" else "ELBO",
        "scores": dict(scores),
        "seconds": dict(seconds or {"tracing": 1.0, "training": 10.0, "prediction": 1.0, "total": 12.0}),
        "iterations": iterations,
        "notes": notes or [],
        "config": config,
        "config_hash": config_hash(config),
        "data": DATA | {"name": identity["dataset"]},
        "git": None,
        "versions": VERSIONS,
        "host": {"num_threads": 1, "gpu": gpu},
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:12+00:00",
    }


def _config(identity: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "method": {"name": identity["method"], "num_layers": identity["num_layers"], "num_inducing": 128, "width": 5},
        "dataset": {"name": identity["dataset"]},
        "task": {"name": identity["task"]},
        "protocol": identity["protocol"],
        "budget": identity["budget"],
        "split": identity["split"],
        "seed": identity["seed"],
        "training": {"optimiser": "adam", "num_samples": 5, "max_iterations": 20000},
        "prediction": {"num_samples": 100},
        "precision": "float64",
    }
    for key, value in settings.items():
        section, _, name = ("training", "", "optimiser") if key == "optimiser" else key.rpartition(".")
        (config.setdefault(section, {}) if section else config)[name] = value
    later = {each.name: each.default for each in fields(AdamSettings)}  # records lack what is at such a default
    kept = {name: value for name, value in config["training"].items() if later.get(name, MISSING) != value}
    return {**config, "training": kept}


def write_toy(
    results: Path,
    scores: Mapping[str, float] | None = None,
    *,
    status: str = "done",
    points: pd.DataFrame | None = None,
    trace: pd.DataFrame | None = None,
    posterior: Mapping[str, np.ndarray] | None = None,
    record: Mapping[str, Any] | None = None,
    **identity: Any,
) -> Path:
    """Write one toy run; ``identity`` changes ``toy_identity``, ``record`` the other arguments of ``toy_record``."""
    who = toy_identity(**identity)
    directory = Identity(**who).directory(results)
    usual = {"tll": -2.5, "nlpp": 2.5, "rmse": 3.0} if status == "done" else {}
    if scores is None and points is not None:
        scores = all_scores(rows_from(points))
    given = usual if scores is None else scores
    if "nlpp" in given:  # nlpp = -tll, if the test gives one of the two
        given = {"tll": -given["nlpp"], **given}
        given = {**given, "nlpp": -given["tll"]}
    made = toy_record(who, given, status=status, **(record or {}))
    if points is not None:
        made["data"] = made["data"] | {"n_test": len(points)}
    store.write_run(directory, made, points, trace, posterior)
    return directory


def of_tables5(method: str, split: int) -> dict[str, Any]:
    """Return the overrides of a run of Lindinger et al.'s Table S5, where fc_ng starts from the mf_ng of its split."""
    if method == "mf":
        return {"optimiser": "natgrad_adam"}
    start = f"runs/interpolation/boston/mf-L3/lindinger2020-paper/split{split}-seed0+optimiser=natgrad_adam"
    steps = {"training.max_iterations": 7000, "training.natgrad_gamma": 0.002, "training.decay_rate": 0.95}
    return {"optimiser": "natgrad_adam", "init_from": start, **steps}


def toy_points(log_density: np.ndarray | float, num_rows: int = 20, seed: int = 0) -> pd.DataFrame:
    """Return a table of points with targets and rows that depend on ``seed`` (the split) only."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=num_rows)
    mean = y + rng.normal(scale=0.3, size=num_rows)
    columns = {"row": np.arange(num_rows), "y": y, "mean": mean, "variance": rng.uniform(0.05, 0.2, num_rows)}
    density = np.broadcast_to(np.asarray(log_density, dtype=float), (num_rows,)).copy()
    return pd.DataFrame(
        columns | {"log_density": density, "pit": rng.uniform(size=num_rows), "distance": rng.uniform(size=num_rows)}
    )


def toy_trace(elbo: float = -100.0, num_rows: int = 20) -> pd.DataFrame:
    """A trace that ends at ``elbo``."""
    iteration = np.linspace(5, 100, num_rows).astype(int)
    rise = elbo - 300 * np.exp(-iteration / 25) + 300 * np.exp(-iteration[-1] / 25)
    validation = -3 + 0.005 * iteration
    return pd.DataFrame(
        {"iteration": iteration, "seconds": iteration * 0.1, "elbo": rise, "validation_tll": validation}
    )


def spread_over(mean: float, stderr: float, repetitions: int) -> np.ndarray:
    """Values of so many splits with exactly this mean and this standard error."""
    if repetitions == 1:
        return np.array([mean])
    shape = np.linspace(-1, 1, repetitions)
    return mean + shape / shape.std(ddof=1) * stderr * np.sqrt(repetitions)


def kill_or_finish(run):
    """In place of a run, for the engine's tests: ``split=0`` kills its worker, ``split=1`` raises, others are done."""
    import os
    import signal

    from dgpbench.runs.outcomes import Outcome

    if run.split == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if run.split == 1:
        raise RuntimeError("a toy error")
    return Outcome("done", None, "")
