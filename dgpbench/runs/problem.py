"""Data of one run, before any model, and the description of a model that is fitted to them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from dgpbench.config.settings import build, declared, recorded, typed
from dgpbench.data import target_transform
from dgpbench.data.cells import TableSettings
from dgpbench.data.encoding import ColumnEncoder
from dgpbench.data.splits import Split, make_split, min_deviation
from dgpbench.data.standardise import Regression, Standardiser
from dgpbench.data.table import Table
from dgpbench.data.user_table import reading_of
from dgpbench.errors import UserError
from dgpbench.methods.interface import (
    OUTSIDE,
    FitSettings,
    Predictor,
    Seeds,
    families,
    restore_function,
    settings_class,
)
from dgpbench.methods.settings import ROWS, Sizes
from dgpbench.runs.fit import prepare_libraries
from dgpbench.runs.resolve import Limits, PredictionSettings, Run
from dgpbench.system.provenance import available, processors
from dgpbench.training.settings import OPTIMISERS

COLUMN_KINDS = {"number", "flag", "date", "category"}
FORMAT = 1  # of the plain data; this version may not understand a later one


@dataclass(frozen=True, eq=False)
class Description:
    """A fitted method without its arrays, as typed values and as plain data in a record or a saved model."""

    family: str
    settings: FitSettings  # settings of the fit, every size a number
    num_threads: int  # of predictions; changing it changes the last bits of the results
    seed: int  # of predictions
    target: str
    reading: TableSettings  # how files of new rows are read: like that of the training rows
    encoder: ColumnEncoder
    scaler: Standardiser

    def predictor(self, arrays: Mapping[str, np.ndarray]) -> Predictor:
        """Build the predictor from arrays of ``Predictor.parameters``.

        Its normals are the same for every row, so that the prediction of a row does not depend on other rows.
        """
        self.start()
        return restore_function(self.family)(replace(self.settings, common_normals=True), arrays)

    def start(self) -> None:
        """Set threads and precision; other models in the process may have other ones."""
        prepare_libraries(self.settings.method.name, self.num_threads, self.settings.precision)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        settings = self.settings
        return {
            "format": FORMAT,
            "family": self.family,
            "method": recorded(settings.method),
            "training": recorded(settings.training),
            "num_samples": settings.num_samples,
            "precision": settings.precision,
            "num_threads": self.num_threads,
            "seed": self.seed,
            "target": self.target,
            "reading": recorded(self.reading),
            "columns": asdict(self.encoder),
            "scaler": self.scaler.to_json(),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Build a description from the plain data of ``to_json``; values are checked like those of a command line.

        :raises ValueError: for a later format, or data that ``to_json`` cannot have returned
        :raises UserError: if a setting is unknown or out of its range
        """
        if typed(int, plain["format"], "format") > FORMAT:
            raise ValueError(f"it has format {plain['format']}, of a later dgpbench; this one reads up to {FORMAT}")
        family, chosen, trained = plain["family"], dict(plain["method"]), dict(plain["training"])
        optimiser = trained.pop("optimiser")
        if family not in families() and not typed(str, family, "family").startswith(OUTSIDE):
            raise ValueError(f"unknown family {family}")
        name = typed(str, chosen.pop("name"), "method.name")
        if chosen.get("blocks_file") is not None:
            raise ValueError("method.blocks_file names a file, and a model holds its blocks itself")
        method = build(settings_class(family), "method", chosen, name=name)
        training = build(OPTIMISERS[optimiser], "training", trained, optimiser=optimiser)
        prediction = build(PredictionSettings, "prediction", {"num_samples": plain["num_samples"]})
        precision = declared(Run)["precision"].read("precision", plain["precision"])
        threads = declared(Limits)["num_threads"].read("num_threads", plain["num_threads"])
        encoder = typed(ColumnEncoder, plain["columns"], "columns")
        kinds = {column.name: column.kind for column in encoder.columns}
        if kinds != encoder.schema.kinds or len(kinds) != len(encoder.columns) or not {*kinds.values()} <= COLUMN_KINDS:
            raise ValueError("columns.columns and columns.schema.kinds differ in their columns, or have unknown kinds")
        return cls(
            family=family,
            settings=FitSettings(method, training, prediction.num_samples, precision),
            num_threads=min(threads, processors()),
            seed=declared(Run)["seed"].read("seed", plain["seed"]),
            target=typed(str, plain["target"], "target"),
            reading=replace(build(TableSettings, "dataset", plain["reading"]), path=None, test_path=None),
            encoder=encoder,
            scaler=Standardiser.from_json(plain["scaler"], encoder.feature_names),
        )

    def check_arrays(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Check that arrays of these shapes can belong to the method, and that predictions fit in memory.

        :raises ValueError: if not
        :raises UserError: if the method cannot be fitted to so many, or so few, rows
        """
        method, features = self.settings.method, len(self.scaler.kept)
        for name, expected in method.shapes(features).items():
            shape = shapes.get(name, ())
            if len(shape) != len(expected) or any(
                size not in (actual, None) for actual, size in zip(shape, expected, strict=True)
            ):
                raise ValueError(f"the array {name} has shape {shape}; its settings require {expected}")
        rows = shapes.get(ROWS, (0,))[0]
        if rows:
            method.check_rows(rows)
        sizes = Sizes(rows, features, 1, itemsize=8)
        need = sum(method.memory(sizes, self.settings.training, self.settings.num_samples).values())
        if need > available():
            raise ValueError(f"predictions need at least {need / 2**30:,.1f} GiB of memory, more than is free")


@dataclass(frozen=True)
class Problem:
    """A split and its standardised rows; the training rows alone determine the encoder and the scales."""

    table: Table
    split: Split
    encoder: ColumnEncoder
    scaler: Standardiser
    train: Regression
    test: Regression

    @cached_property
    def num_repeated(self) -> int:
        """Number of test rows of a user's own table that are also training rows, features and target equal."""
        return self.table.num_repeated(self.split.test, self.split.train) if self.table.verified == "own" else 0

    @property
    def targets(self) -> np.ndarray:
        """y of the test rows in original units, [N*, 1]."""
        return self.table.y[self.split.test][:, None]

    def describe(self, run: Run, settings: FitSettings, seeds: Seeds) -> Description:
        """Return everything, besides the parameters, that predictions of new rows need."""
        return Description(
            family=run.card.family,
            settings=settings,
            num_threads=run.limits.num_threads,
            seed=seeds.prediction,
            target=self.table.target_name,
            reading=reading_of(run.dataset),
            encoder=self.encoder,
            scaler=self.scaler,
        )

    def described_data(self) -> dict[str, Any]:
        """Describe the data of a fit: sizes, digests, files and dropped columns."""
        table, encoder, scaler = self.table, self.encoder, self.scaler
        own = {"columns": encoder.describe(), "left_out": table.num_left_out}
        if scaler.warp is not None:
            own["target"] = {"column": table.target_name, **target_transform.to_json(scaler.warp)}
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
            # No paths: they belong to this machine, and the hashes identify the files.
            "files": [
                {"origin": file.origin, "sha256": file.sha256, "pinned_sha256": file.pinned_sha256}
                for file in table.sources
            ],
        }

    def described_split(self) -> dict[str, Any]:
        """Describe the data of one split, with its sizes and the number of test rows that are also training rows."""
        sizes = {"n_train": len(self.split.train), "n_test": len(self.split.test)}
        repeated = {"n_repeated": self.num_repeated} if self.num_repeated else {}
        return self.described_data() | sizes | repeated


def prepare(run: Run, table: Table, split: Split | None = None) -> Problem:
    """Split, encode and standardise; only the training rows determine the encoding and the scales.

    :param split: in place of the run's own
    :raises UserError: if the method does not support this number of rows, the run does not fit in memory, or the test
        rows are the training rows
    """
    if split is None:
        split = make_split(table, run.task, run.split, run.dataset)
    X, encoder = table.encoded(split.train)
    smallest, transform = min_deviation(run.task, run.dataset), reading_of(run.dataset).target_transform
    scaler = Standardiser.fit(X[split.train], table.y[split.train], encoder.feature_names, smallest, transform)
    target_transform.transformed(table.y, scaler.warp)  # refuses rows that a fit holds out too, before it trains
    train = scaler.transform(X[split.train], table.y[split.train])
    test = scaler.transform(X[split.test], table.y[split.test])
    check_sizes(run, len(train.X), train.X.shape[1], len(test.X))
    problem = Problem(table, split, encoder, scaler, train, test)
    copied = table.fixed_train_rows and problem.num_repeated == len(split.test)
    if copied and table.num_repeated(split.train, split.test) == len(split.train):
        raise UserError(
            f"dataset.test_path={table.sources[-1].origin} is a copy of the training file: use different rows for "
            "testing, or omit dataset.test_path and use task=interpolation"
        )
    return problem


def check_sizes(run: Run, num_rows: int, num_features: int, num_test_rows: int) -> None:
    """Check that the method supports so many training rows and that the run fits in memory.

    The memory that the settings imply is a lower bound, so no run that fits is refused.

    :raises UserError: with the settings to change
    """
    run.method.check_installed()
    run.method.check_rows(num_rows)
    sizes = Sizes(num_rows, num_features, num_test_rows, itemsize=4 if run.precision == "float32" else 8)
    sized = run.sized((num_rows, num_features))
    needs = sized.method.memory(sizes, sized.training, sized.num_samples)
    need, free = sum(needs.values()), available()
    if need > free:
        raise UserError(
            f"this run needs at least {need / 2**30:,.1f} GiB of memory and {free / 2**30:,.1f} GiB are free; "
            f"most of it is for {max(needs, key=lambda name: needs[name])}"
        )
