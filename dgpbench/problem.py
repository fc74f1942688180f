"""The data of one run, before any model: table, split, scales and standardised rows."""

from dataclasses import dataclass
from typing import Any

from dgpbench import memory
from dgpbench.datasets.scaling import Regression, Standardiser
from dgpbench.datasets.table import Table
from dgpbench.datasets.tasks import Split, make_split, min_deviation
from dgpbench.errors import Refused


@dataclass(frozen=True)
class Problem:
    """The data of one run, before any model: what all methods share."""

    table: Table
    split: Split
    scaler: Standardiser
    train: Regression
    test: Regression


def pose(config: dict[str, Any], table: Table) -> Problem:
    """Split and standardise; the training rows alone decide how.

    :raises Refused: where the method cannot be fitted to so few, or so many, rows
    """
    split = make_split(table, config["task"], config["split"], config["dataset"])
    smallest = min_deviation(config["task"], config["dataset"])
    scaler = Standardiser.fit(table.X[split.train], table.y[split.train], table.feature_names, smallest)
    train = scaler.transform(table.X[split.train], table.y[split.train])
    test = scaler.transform(table.X[split.test], table.y[split.test])
    check_sizes(config, len(train.X), train.X.shape[1], len(test.X))
    return Problem(table, split, scaler, train, test)


def check_sizes(config: dict[str, Any], num_rows: int, num_features: int, num_test_rows: int) -> None:
    """Whether the method can be fitted to so many training rows, and whether that fits in memory.

    :raises Refused: with what would work
    """
    method = config["method"]
    wanted, most = method.get("num_inducing", 0), method.get("max_rows")
    if wanted > num_rows:
        raise Refused(
            f"method.num_inducing={wanted} is more than the {num_rows} training rows; "
            f"use method.num_inducing={num_rows} or fewer"
        )
    if most is not None and num_rows > most:
        raise Refused(
            f"{method['name']} takes at most {most} training rows (method.max_rows) and this split has {num_rows}; "
            "sgpr, fitc and sgp take any number"
        )
    memory.check(config, num_rows, num_features, num_test_rows)
