"""Which rows train and which test, for each task.

Random splits are drawn over the rows in the digest's sorted order, from a seed that knows the table's digest: copies of
one table in any order of rows give the same training and test rows, and every method meets the same split.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.config.settings import setting
from dgpbench.data.table import Table
from dgpbench.errors import UserError
from dgpbench.seeds import seed_for

# The papers drop features that deviate no more than this, in raw units, from their extrapolation
# (docs/methods.md, "Tasks").
PAPERS_MIN_DEVIATION = 1e-3
CLASSIC_FRACTION = 0.9
FIRST_CHOICE = 10


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a table, in the order of its file.

    :param train: [N_train] int64
    :param test: [N_test] int64, the other rows
    """

    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class TaskSettings:
    """A task that has no settings.

    :param name: a key of ``TASKS``
    """

    name: str


@dataclass(frozen=True)
class InterpolationSettings(TaskSettings):
    """Random rows."""

    train_fraction: float = setting("share of the rows that train", above=0, below=1)


@dataclass(frozen=True)
class FoldsSettings(TaskSettings):
    """k folds."""

    num_folds: int = setting("number of folds", low=2)


def make_split(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Split:
    """The split of this number.

    :param spec: the data set's configuration: its kind, its published splits
    :raises UserError: when there is no such split
    """
    if not isinstance(split, int) or split < 0:
        raise UserError(f"split is a whole number from 0, not {split}")
    if table.num_rows < 2:
        raise UserError(f"{table.name} has {table.num_rows} row: a split needs at least 2")
    train, test = TASKS[task.name].rows(table, task, split, spec)
    return Split(np.asarray(train, dtype=np.int64), np.asarray(test, dtype=np.int64))


def min_deviation(task: TaskSettings, spec: Mapping[str, Any]) -> float:
    """The raw standard deviation that a feature must exceed, for ``Standardiser.fit``.

    The papers' absolute threshold belongs to their extrapolation on their tables; a user's own may be in any units.
    """
    return PAPERS_MIN_DEVIATION if task.name == "extrapolation" and spec["kind"] != "csv" else 0.0


def is_evaluation_split(identity: Mapping[str, Any], dataset: Mapping[str, Any]) -> bool:
    """False for the splits on which the settings of ``protocol=lindinger2020`` at ``budget=laptop`` were chosen.

    These are the random splits from 10 of the shipped data sets; a mean that includes them flatters the methods.
    """
    random = identity["task"] in ("interpolation", "extrapolation") and dataset.get("kind") != "csv"
    return not (random and identity["protocol"].startswith("lindinger2020") and identity["split"] >= FIRST_CHOICE)


Rows = tuple[np.ndarray, np.ndarray]


def interpolation(table: Table, task: InterpolationSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """A random share of the rows trains. The permutation does not depend on the share: training sets are nested."""
    rows = table.order[_generator("interpolation", table, split=split).permutation(table.num_rows)]
    num_train = min(max(round(task.train_fraction * table.num_rows), 1), table.num_rows - 1)
    return rows[:num_train], rows[num_train:]


def extrapolation(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """The test set is the lower half along a random direction w ~ N(0, I) of the standardised inputs.

    Lindinger et al. (2020), Sec. 4; docs/methods.md, "Tasks".
    """
    X = table.encoded(np.arange(table.num_rows))[0][
        table.order
    ]  # sorted, so that the means and deviations of every copy have the same bits
    with np.errstate(over="ignore"):
        deviation = X.std(axis=0)
    kept = (X.max(axis=0) > X.min(axis=0)) & (deviation > min_deviation(task, spec))
    if not (kept.any() and np.isfinite(deviation).all()):
        raise UserError(f"no feature of {table.name} varies enough, within float64's range, to extrapolate along")
    X = (X[:, kept] - X[:, kept].mean(axis=0)) / deviation[kept]
    w = _generator("extrapolation", table, split=split).standard_normal(X.shape[1])
    along = (X * w).sum(axis=1)  # equal rows get equal bits, as a BLAS product does not promise: then order decides
    rows = table.order[np.argsort(along, kind="stable")]
    return rows[table.num_rows // 2 :], rows[: table.num_rows // 2]


def classic(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """The splits of Hernandez-Lobato & Adams (2015), from the stream that drew them, one permutation per split."""
    published = spec.get("classic")
    if not published:
        raise UserError(f"{table.name} has no published splits: take task=interpolation or task=folds")
    _check_range(split, published["num_splits"], table)
    if table.digest_xy_ordered != spec["digest_xy_ordered"]:
        raise UserError(
            f"this copy of {table.name} has its rows in another order than the published splits refer to "
            f"(digest {table.digest_xy_ordered} instead of {spec['digest_xy_ordered']}): take task=interpolation"
        )
    rows = classic_permutations(table.num_rows, split + 1)[-1]
    num_train = round(CLASSIC_FRACTION * table.num_rows)
    return rows[:num_train], rows[num_train:]


def classic_permutations(num_rows: int, num_splits: int) -> list[np.ndarray]:
    """The first permutations of the stream that drew the published splits, each [N]."""
    generator = np.random.RandomState(1)
    return [generator.permutation(num_rows) for _ in range(num_splits)]


def folds(table: Table, task: FoldsSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """The test set is one fold of k; one permutation serves all k, so every row is in exactly one test set."""
    num_folds = task.num_folds
    if num_folds > table.num_rows:
        raise UserError(f"task.num_folds is at most the {table.num_rows:,} rows of {table.name}, not {num_folds}")
    _check_range(split, num_folds, table)
    rows = table.order[_generator("folds", table).permutation(table.num_rows)]
    parts = np.array_split(rows, num_folds)
    return np.concatenate(parts[:split] + parts[split + 1 :]), parts[split]


def fixed(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """The first rows of the file train, as the donor asks, or those of the file beside the user's test file."""
    num_train = table.fixed_train_rows or spec.get("fixed_train_rows")
    if not num_train:
        raise UserError(
            f"{table.name} has no fixed split: take task=interpolation, or name test rows (dataset.test_path)"
        )
    _check_range(split, 1, table)
    if num_train >= table.num_rows:
        raise UserError(
            f"the fixed split of {table.name} trains on {num_train:,} rows, but this copy has {table.num_rows:,}"
        )
    return np.arange(num_train), np.arange(num_train, table.num_rows)


@dataclass(frozen=True)
class Task:
    """How a task draws its rows, and its settings."""

    rows: Callable[..., Rows]
    settings: type[TaskSettings] = TaskSettings


TASKS = {
    "interpolation": Task(interpolation, InterpolationSettings),
    "extrapolation": Task(extrapolation),
    "classic": Task(classic),
    "folds": Task(folds, FoldsSettings),
    "fixed": Task(fixed),
}


def _check_range(split: int, num_splits: int, table: Table) -> None:
    if split >= num_splits:
        raise UserError(f"split lies between 0 and {num_splits - 1} for this task on {table.name}, not {split}")


def _generator(task: str, table: Table, **axes: object) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed_for("split", task=task, table=table.digest_xy, **axes)))
