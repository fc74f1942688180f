"""The data of one run, before any model: table, split, scales and standardised rows."""

from dataclasses import dataclass

import numpy as np

from dgpbench.datasets.columns import ColumnEncoder
from dgpbench.datasets.own_csv import reading_of
from dgpbench.datasets.scaling import Found, Regression, Standardiser
from dgpbench.datasets.table import Table
from dgpbench.datasets.tasks import Split, make_split, min_deviation
from dgpbench.predictions.points import Predicted
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

    @property
    def targets(self) -> np.ndarray:
        """y of the test rows in original units, [N*, 1]."""
        return self.table.y[self.split.test][:, None]

    def restore(self, found: Found) -> Predicted:
        """Predictions in the original units of y."""
        return self.scaler.restore(found)


def prepare(run: Run, table: Table) -> Problem:
    """Split and standardise; the training rows alone decide how.

    :raises Refused: where the method cannot be fitted to so few, or so many, rows
    """
    split = make_split(table, run.task, run.split, run.dataset)
    X, encoder = table.encoded(split.train)
    smallest, transform = min_deviation(run.task, run.dataset), reading_of(run.dataset).target_transform
    scaler = Standardiser.fit(X[split.train], table.y[split.train], encoder.feature_names, smallest, transform)
    train = scaler.transform(X[split.train], table.y[split.train])
    test = scaler.transform(X[split.test], table.y[split.test])
    check_sizes(run, len(train.X), train.X.shape[1], len(test.X))
    return Problem(table, split, encoder, scaler, train, test)


def check_sizes(run: Run, num_rows: int, num_features: int, num_test_rows: int) -> None:
    """Whether the method can be fitted here to so many training rows, and whether that fits in memory.

    :raises Refused: with what would work
    """
    run.method.check_installed()
    run.method.check_rows(num_rows)
    memory.check(run, num_rows, num_features, num_test_rows)
