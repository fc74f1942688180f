"""Training and test rows of each task.

Random splits are drawn over the sorted rows, from a seed that depends on the table's digest: copies of one table in any
order of rows give the same training and test rows, and every method gets the same split.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from dgpbench.config.settings import setting
from dgpbench.data.standardise import varies
from dgpbench.data.table import Table
from dgpbench.errors import UserError
from dgpbench.seeds import seed_for

Rows = tuple[np.ndarray, np.ndarray]
# For extrapolation, the papers drop features with at most this raw deviation (docs/methods.md, "Tasks").
PAPERS_MIN_DEVIATION = 1e-3
CLASSIC_FRACTION = 0.9
SHUFFLED_STATE, SHUFFLED_SPLITS, SHUFFLED_TEST = 2**31 - 1, 20, 0.1
FIRST_TUNING_SPLIT = 10


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a table, in the order of its file."""

    train: np.ndarray  # [N_train] int64
    test: np.ndarray  # [N_test] int64, the other rows


@dataclass(frozen=True)
class TaskSettings:
    """Settings of a task without settings."""

    name: str  # a key of ``TASKS``


@dataclass(frozen=True)
class InterpolationSettings(TaskSettings):
    """Settings of random splits."""

    train_fraction: float = setting("fraction of training rows", above=0, below=1)


@dataclass(frozen=True)
class FoldsSettings(TaskSettings):
    """Settings of k folds."""

    num_folds: int = setting("number of folds", low=2)


def make_split(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Split:
    """Return one split.

    :param spec: the data set's configuration, with its kind and published splits
    :raises UserError: when the split does not exist
    """
    if not isinstance(split, int) or split < 0:
        raise UserError(f"split must be a whole number from 0, not {split}")
    if table.num_rows < 2:
        raise UserError(f"{table.name} has {table.num_rows} row: a split needs at least 2")
    train, test = TASKS[task.name].rows(table, task, split, spec)
    return Split(np.asarray(train, dtype=np.int64), np.asarray(test, dtype=np.int64))


def min_deviation(task: TaskSettings, spec: Mapping[str, Any]) -> float:
    """Return the raw standard deviation that a feature must exceed, for ``Standardiser.fit``.

    The papers' threshold applies to extrapolation on their tables only; a user's table may have any units.
    """
    return PAPERS_MIN_DEVIATION if task.name == "extrapolation" and spec["kind"] != "csv" else 0.0


def is_evaluation_split(identity: Mapping[str, Any], dataset: Mapping[str, Any]) -> bool:
    """Return False for the splits on which the settings of ``protocol=lindinger2020 budget=laptop`` were tuned.

    These are the random splits from 10 of the shipped data sets; a mean that includes them is too optimistic.
    """
    random = identity["task"] in ("interpolation", "extrapolation") and dataset.get("kind") != "csv"
    return not (random and identity["protocol"].startswith("lindinger2020") and identity["split"] >= FIRST_TUNING_SPLIT)


def interpolation(table: Table, task: InterpolationSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """Train on a random fraction of the rows; the permutation does not depend on it, so training sets are nested."""
    rows = table.order[_generator("interpolation", table, split=split).permutation(table.num_rows)]
    num_train = min(max(round(task.train_fraction * table.num_rows), 1), table.num_rows - 1)
    return rows[:num_train], rows[num_train:]


def extrapolation(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """Test on the lower half along a random direction w ~ N(0, I) of the standardised inputs.

    Lindinger et al. (2020), Sec. 4; docs/methods.md, "Tasks".
    """
    # Sorted, so that the means and deviations of every copy have the same bits.
    X = table.encoded(np.arange(table.num_rows))[0][table.order]
    with np.errstate(over="ignore"):
        deviation = X.std(axis=0)
    kept = varies(X) & (deviation > min_deviation(task, spec))
    if not (kept.any() and np.isfinite(deviation).all()):
        raise UserError(f"no feature of {table.name} varies enough, within float64's range, to extrapolate along")
    X = (X[:, kept] - X[:, kept].mean(axis=0)) / deviation[kept]
    w = _generator("extrapolation", table, split=split).standard_normal(X.shape[1])
    along = (X * w).sum(axis=1)  # a BLAS product might give equal rows different bits; then their order decides
    rows = table.order[np.argsort(along, kind="stable")]
    return rows[table.num_rows // 2 :], rows[: table.num_rows // 2]


def classic(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """Return the splits of Hernandez-Lobato & Adams (2015), one permutation of their random stream per split."""
    published = spec.get("classic")
    if not published:
        raise UserError(f"{table.name} has no published splits: use task=interpolation or task=folds")
    _check_range(split, published["num_splits"], table)
    _check_order(table, spec)
    rows = classic_permutations(table.num_rows, split + 1)[-1]
    num_train = round(CLASSIC_FRACTION * table.num_rows)
    return rows[:num_train], rows[num_train:]


def classic_permutations(num_rows: int, num_splits: int) -> list[np.ndarray]:
    """Return the first permutations [N] of the random stream of the published splits."""
    generator = np.random.RandomState(1)
    return [generator.permutation(num_rows) for _ in range(num_splits)]


def shuffled(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """Return the splits of Ortega et al. (2023): scikit-learn's ``train_test_split``, one random state per split."""
    if not spec.get("digest_xy_ordered"):
        raise UserError(f"{table.name} has no published order of rows: use task=interpolation or task=folds")
    _check_range(split, SHUFFLED_SPLITS, table)
    _check_order(table, spec)
    rows = np.random.RandomState(SHUFFLED_STATE + split).permutation(table.num_rows)
    num_test = ceil(SHUFFLED_TEST * table.num_rows)
    return rows[num_test:], rows[:num_test]


def folds(table: Table, task: FoldsSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """Test on one fold of k; all k share one permutation, so that every row is in exactly one test set."""
    num_folds = task.num_folds
    if num_folds > table.num_rows:
        raise UserError(f"task.num_folds must be at most the {table.num_rows:,} rows of {table.name}, not {num_folds}")
    _check_range(split, num_folds, table)
    rows = table.order[_generator("folds", table).permutation(table.num_rows)]
    parts = np.array_split(rows, num_folds)
    return np.concatenate(parts[:split] + parts[split + 1 :]), parts[split]


def fixed(table: Table, task: TaskSettings, split: int, spec: Mapping[str, Any]) -> Rows:
    """Train on the first rows of the file, as its donor requires, or on the rows of dataset.path."""
    num_train = table.fixed_train_rows or spec.get("fixed_train_rows")
    if not num_train:
        raise UserError(f"{table.name} has no fixed split: use task=interpolation, or set dataset.test_path")
    _check_range(split, 1, table)
    if num_train >= table.num_rows:
        raise UserError(
            f"the fixed split of {table.name} trains on {num_train:,} rows, but this copy has {table.num_rows:,}"
        )
    return np.arange(num_train), np.arange(num_train, table.num_rows)


@dataclass(frozen=True)
class Task:
    """Function that draws a task's rows, and its settings."""

    rows: Callable[..., Rows]
    settings: type[TaskSettings] = TaskSettings


TASKS = {
    "interpolation": Task(interpolation, InterpolationSettings),
    "extrapolation": Task(extrapolation),
    "classic": Task(classic),
    "shuffled": Task(shuffled),
    "folds": Task(folds, FoldsSettings),
    "fixed": Task(fixed),
}


def _check_range(split: int, num_splits: int, table: Table) -> None:
    if split >= num_splits:
        raise UserError(f"split must be between 0 and {num_splits - 1} for this task on {table.name}, not {split}")


def _check_order(table: Table, spec: Mapping[str, Any]) -> None:
    if table.digest_xy_ordered != spec["digest_xy_ordered"]:
        raise UserError(
            f"this copy of {table.name} does not have its rows in the order of the published splits "
            f"(digest {table.digest_xy_ordered} instead of {spec['digest_xy_ordered']}): use task=interpolation"
        )


def _generator(task: str, table: Table, **axes: object) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed_for("split", task=task, table=table.digest_xy, **axes)))
