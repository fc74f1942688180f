"""Data of one run, before any model: table, split, scales and standardised rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dgpbench.data.encoding import ColumnEncoder
from dgpbench.data.splits import Split, make_split, min_deviation
from dgpbench.data.standardise import Found, Regression, Standardiser
from dgpbench.data.table import Table
from dgpbench.data.user_table import reading_of
from dgpbench.errors import UserError
from dgpbench.methods.interface import FitSettings, Seeds
from dgpbench.methods.settings import Sizes
from dgpbench.predictive.scores import Predicted
from dgpbench.runs.description import Description
from dgpbench.runs.resolve import Run
from dgpbench.system.memory import available


@dataclass(frozen=True)
class Problem:
    """A split with its standardised rows, shared by all methods.

    :param encoder: of raw columns, fitted to the training rows
    :param train: standardised training rows
    :param test: standardised test rows, by the training rows' scales
    """

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

    def restore(self, predictions: Found) -> Predicted:
        """Return predictions in the original units of y."""
        return self.scaler.restore(predictions)

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
