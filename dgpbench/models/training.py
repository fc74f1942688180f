"""Fitting a model to all rows of a table, and scoring such a fit on a part that was held out."""

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.data.splits import InterpolationSettings, make_split
from dgpbench.data.standardise import Regression, Standardiser
from dgpbench.data.table import Table
from dgpbench.data.user_table import reading_of
from dgpbench.methods.interface import restore_function
from dgpbench.methods.plugins import packages_of
from dgpbench.methods.settings import DeepSettings, SparseSettings
from dgpbench.models.model import CHOICES, Model
from dgpbench.predictive.scores import all_scores, per_row
from dgpbench.runs import fitting
from dgpbench.runs.description import Description, described_data
from dgpbench.runs.problem import check_sizes
from dgpbench.runs.resolve import Run
from dgpbench.runs.run import seeds_of
from dgpbench.system import provenance, tf_session
from dgpbench.system.progress import progress
from dgpbench.training.checkpoints import Checkpoints
from dgpbench.training.early_stopping import hold_out
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import AdamSettings, OwnSettings

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class HeldOut:
    """Scores of rows that a fit has not seen.

    :param num_repeated: held-out rows that are also training rows
    :param scores: by metric, in original units
    :param points: targets and predictions of the rows, as a run's ``points.parquet``
    """

    num_train: int
    num_test: int
    num_repeated: int
    scores: dict[str, float]
    points: "pd.DataFrame"


def fit(
    run: Run,
    table: Table,
    rows: np.ndarray | None = None,
    *,
    checkpoints: Checkpoints | None = None,
    named: bool = True,
) -> Model:
    """A model of all rows of a table, or of some.

    :param run: its method, settings, seed and threads; what it says of data, task and split plays no part
    :param rows: numbers of the rows that train, all by default
    :param checkpoints: where an interrupted fit goes on from
    :param named: whether the columns' names are the user's
    :raises UserError: where the method cannot be fitted to the table
    :raises Diverged: where the fit diverges
    """
    if isinstance(run.training, OwnSettings):
        restore_function(run.card.family)  # refuses a plug-in whose models cannot be saved
    rows = np.arange(table.num_rows) if rows is None else rows
    X, encoder = table.encoded(rows)
    reading = reading_of(run.dataset)
    scaler = Standardiser.fit(X[rows], table.y[rows], encoder.feature_names, target_transform=reading.target_transform)
    train = scaler.transform(X[rows], table.y[rows])
    run = with_fewer_inducing_points(run, train)
    check_sizes(run, len(train.X), train.X.shape[1], 0)
    fitting.prepare_libraries(run.method.name, run.limits.num_threads, run.precision)
    seeds = seeds_of(run, table)
    log = Monitor(run.training.max_seconds, checkpoints=checkpoints or Checkpoints())
    title = f"{run.card.name} on {table.name}"
    with (
        tf_session.releasing_graphs(),
        progress(title, objective=run.card.objective, shown=run.limits.progress) as log.report,
    ):
        done = fitting.fit(run, train, seeds, log)
        arrays, notes = done.predictor.parameters(), [done.predictor.diagnostics, *log.retries]
    log.checkpoints.clear()
    description = Description(
        family=run.card.family,
        settings=done.settings,
        num_threads=run.limits.num_threads,
        seed=seeds.prediction,
        target=table.target_name,
        reading=reading,
        encoder=encoder,
        scaler=scaler,
    )
    about = _about(run, described_data(table, encoder, scaler), log, notes)
    model = Model(description, arrays, about | {"num_train": len(rows), "named": named})
    if isinstance(run.training, OwnSettings):
        model.predict(X[rows[:1]])  # refuses a plug-in that predicts no densities, before anything is saved
    return model


def held_out_scores(run: Run, table: Table, share: float, checkpoints: Checkpoints | None = None) -> HeldOut:
    """Scores on a random share of the rows of a fit to the others.

    :param share: of the rows that are held out, between 0 and 1
    """
    import pandas as pd

    task = InterpolationSettings("interpolation", train_fraction=1 - share)
    split = make_split(table, task, run.split, run.dataset)
    model = fit(run, table, split.train, checkpoints=checkpoints)
    X, _ = table.encoded(split.train)
    rows = per_row(model.predict(X[split.test]), table.y[split.test][:, None])
    scores = all_scores(rows)
    repeated = table.num_repeated(split.test, split.train)
    frame = pd.DataFrame({name: column[:, 0] for name, column in rows.items()})
    return HeldOut(len(split.train), len(split.test), repeated, scores, frame)


def with_fewer_inducing_points(run: Run, train: Regression) -> Run:
    """With no more inducing points than rows that are fitted to, unless their number was the user's own wish."""
    if not isinstance(run.method, DeepSettings | SparseSettings) or "method.num_inducing" in run.changed:
        return run
    rows = train
    if isinstance(run.training, AdamSettings):
        rows, _ = hold_out(train, run.training.for_rows(len(train.X)), 0)
    return replace(run, method=replace(run.method, num_inducing=min(run.method.num_inducing, len(rows.X))))


def _about(run: Run, data: dict[str, Any], log: Monitor, notes: list[Any]) -> dict[str, Any]:
    """Where a model comes from, for the record that is kept with it."""
    who = asdict(run.identity)
    return {
        "choices": {key: who[key] for key in CHOICES},
        "data": data,
        "config": run.config,
        "config_hash": run.config_hash,
        "scores": {},
        "iterations": log.trace[-1].iteration if log.trace else 0,
        "seconds": log.seconds(),
        "notes": notes,
        "versions": provenance.versions(packages_of(run.method.name)),
        "git": provenance.git_state(),
        "host": provenance.host(run.limits.num_threads),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
