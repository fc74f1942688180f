"""The data of one run, before any model: table, split, scales and standardised rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dgpbench.data.encoding import ColumnEncoder
from dgpbench.data.splits import Split, make_split, min_deviation
from dgpbench.data.standardise import Found, Regression, Standardiser
from dgpbench.data.table import Table
from dgpbench.data.user_table import reading_of
from dgpbench.errors import UserError
from dgpbench.predictive.scores import Predicted
from dgpbench.runs import memory
from dgpbench.runs.resolve import Run


@dataclass(frozen=True)
class Problem:
    """What all methods share on one split.

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

    def restore(self, found: Found) -> Predicted:
        """Predictions in the original units of y."""
        return self.scaler.restore(found)


def prepare(run: Run, table: Table) -> Problem:
    """Split and standardise; the training rows alone decide how.

    :raises UserError: where the method cannot be fitted to so few, or so many, rows, or the test rows are the training
        rows
    """
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
            f"dataset.test_path={table.sources[-1].origin} is a copy of the training file: scores on training rows are "
            "no test; name a file of other rows, or leave dataset.test_path out and use task=interpolation"
        )
    return problem


def check_sizes(run: Run, num_rows: int, num_features: int, num_test_rows: int) -> None:
    """Whether the method can be fitted here to so many training rows, and whether that fits in memory.

    :raises UserError: with what would work
    """
    run.method.check_installed()
    run.method.check_rows(num_rows)
    memory.check(run, num_rows, num_features, num_test_rows)
