"""Entry points for tests: a method's ``fit`` and ``predict`` on arrays, and the command line in this process.

Tests that use these alone survive changes of the code behind them. No other test file passes settings to a method.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from dgpbench.cli import main
from dgpbench.data.standardise import Regression
from dgpbench.methods.interface import FitSettings, Seeds, fit_function
from dgpbench.runs import store
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.training.checkpoints import Checkpoints
from dgpbench.training.monitor import Monitor, Scored

QUIET = ("progress=false", "plot=false")


def first_of(values: Sequence[Any]) -> list[Any]:
    """Return the cases, all but the first marked as `full`."""
    return some_of(values, values[0])


def some_of(values: Sequence[Any], *quick: Any) -> list[Any]:
    """Return the cases, those not among the quick ones marked as `full`."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.full) for value in values]


SEEDS = Seeds(initial=1, holdout=2, batches=3, samples=4, prediction=5)


@dataclass(frozen=True)
class Fitted:
    """A fitted method.

    :param predictor: with ``predict(X, seed)``
    :param trace: rows of (iteration, seconds, elbo, validation_tll); ``elbo`` is the mean objective since the last row
    """

    predictor: Any
    trace: list

    def predict(self, X: np.ndarray, seed: int = SEEDS.prediction):
        """Return the predictive mixture at the inputs X [N, D], in the units of the training rows."""
        return self.predictor.predict(X, seed)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Values of all parameters by path, as in a run's ``parameters.npz`` and in ``initial``."""
        from gpflow.utilities import read_values

        return read_values(self.predictor.model)


def fit(
    X: np.ndarray,
    y: np.ndarray,
    *overrides: str,
    seeds: Seeds = SEEDS,
    initial: dict[str, np.ndarray] | None = None,
    checkpoints: Checkpoints | None = None,
) -> Fitted:
    """Fit a method to the rows X [N, D], y [N], with settings as on the command line (``method=star`` ...).

    Nothing is standardised: the method sees X and y as they are.

    :param initial: a fitted method's parameters to start from
    """
    train = Regression(np.asarray(X, float), np.asarray(y, float).reshape(-1, 1))
    run = resolve_overrides([*overrides, *QUIET])
    sized = run.sized(train.X.shape, initial)
    monitor = Monitor(sized.training.max_seconds, checkpoints=checkpoints or Checkpoints())
    with threadpool_limits(1):  # as a run has it: threads of OpenMP that share a core wait for each other
        predictor = fit_function(run.card.family)(train, sized, seeds, monitor)
    return Fitted(predictor, monitor.trace)


def settings(train: Regression, *overrides: str, initial: dict[str, np.ndarray] | None = None) -> FitSettings:
    """Return the settings of a fit to training rows of this shape, with overrides as on the command line."""
    return resolve_overrides([*overrides, *QUIET]).sized(train.X.shape, initial)


@dataclass(frozen=True)
class Run:
    """A finished run's files."""

    directory: Path

    @property
    def record(self) -> dict:
        return json.loads((self.directory / "record.json").read_text())

    @property
    def scores(self) -> dict[str, float]:
        return self.record["scores"]

    @property
    def points(self) -> pd.DataFrame:
        return pd.read_parquet(self.directory / "points.parquet")

    @property
    def trace(self) -> pd.DataFrame:
        return pd.read_parquet(self.directory / "trace.parquet")

    @property
    def posterior(self) -> dict[str, np.ndarray]:
        return dict(np.load(self.directory / "posterior.npz"))


def run(folder: Path, *overrides: str, status: str = "done") -> Run:
    """Call ``dgpbench run OVERRIDES`` with ``results_dir=folder`` and return its one run."""
    code = command("run", *overrides, *QUIET, f"results_dir={folder}")
    assert code == {"done": 0, "interrupted": 130}.get(status, 1)
    (path,) = Path(folder).rglob(store.RECORD)
    left = Run(path.parent)
    assert left.record["status"] == status, left.record["reason"]
    return left


@dataclass(frozen=True)
class Identity:
    """Identity of a run: its directory below the results, and the hash of its settings."""

    directory: Path
    hash: str


def identity(*overrides: str) -> Identity:
    """Return the identity of the run with these settings, without running it."""
    from dgpbench.data import datasets

    described = resolve_overrides([*overrides])
    described = described.with_dataset_name(datasets.load(described.dataset).name)
    return Identity(described.directory.relative_to(described.limits.results_dir), described.config_hash)


def command(*arguments: str) -> int:
    """Call ``dgpbench ARGUMENTS`` in this process and return the exit code."""
    return main(list(arguments))


def write_table(path: Path, X: np.ndarray, y: np.ndarray) -> tuple[str, ...]:
    """Write a csv file with columns x0, x1, ... and y, and return the overrides that select it."""
    frame = pd.DataFrame({f"x{index}": column for index, column in enumerate(np.asarray(X).T)} | {"y": y})
    frame.to_csv(path, index=False)
    return "dataset=csv", f"dataset.path={path}", "dataset.target=y"


def without_training(monkeypatch) -> None:
    """Replace every fit by made-up results; everything around the method is unchanged.

    Data sets that need a download are replaced by small random tables.
    """
    from dgpbench.data import datasets

    loaded = datasets.load
    stand_ins: dict[str, Any] = {}  # a table's digests take time, and are its own

    def load(spec: dict) -> Any:
        if spec["kind"] not in ("uci", "airline"):
            return loaded(spec)
        if spec["name"] not in stand_ins:
            stand_ins[spec["name"]] = _stand_in(spec)
        return stand_ins[spec["name"]]

    monkeypatch.setattr(datasets, "load", load)
    monkeypatch.setattr("dgpbench.runs.execute.fit_and_score", _made_up)


def _stand_in(spec: dict) -> Any:
    from dgpbench.data.table import Table

    rows = np.random.default_rng(0).normal(size=((spec.get("fixed_train_rows") or 250) + 50, 2))
    return Table(spec["name"], rows[:, :1], rows[:, 1], ("x",), spec["target"])


def _made_up(run: Any, problem: Any, log: Monitor) -> Any:
    from dgpbench.predictive import posterior_file
    from dgpbench.predictive.mixture import GaussianMixture
    from dgpbench.predictive.scores import all_scores, per_row, points_table
    from dgpbench.runs.outcomes import Result

    M, L, draws = 4, run.method.num_layers, np.random.default_rng(run.split)
    log.tracing_seconds, log.training_seconds, log.prediction_seconds = 2.0, 3.0, 1.0
    log.started -= 6.0  # the whole run took them too
    if getattr(run.training, "trace_test", False):
        log.test = lambda predict: Scored(-2.0, 3.0)
    for row in range(1, 21):  # the objective is largest in the middle, not at the end
        log.record(10 * row, -100.0 + 50.0 * (row == 10) + row, None, 200, problem)
    targets = problem.targets
    mean = targets.mean() + 0.5 * (targets - targets.mean()) + draws.normal(0, 0.1 * targets.std(), (3, *targets.shape))
    mixture = GaussianMixture(mean, np.full(mean.shape, targets.var()))
    posterior = {f"diagonal_{layer}": np.eye(M)[None] for layer in range(1, L + 1)}
    posterior |= {f"samples_{layer}": draws.normal(size=(30, M)) for layer in range(1, L + 1)}
    posterior |= posterior_file.of_draws(np.arange(3.0), draws.normal(size=(50, 3)), [draws.normal(size=(50, 3, 2))])
    rows = per_row(mixture, targets)
    kept = points_table(rows, problem.test.X, problem.train.X, problem.split.test)
    return Result({"num_parameters": 7}, all_scores(rows), kept, posterior, {"noise": np.ones(1)})
