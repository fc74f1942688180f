"""Splits: disjoint, covering, the same for every honest copy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from dgpbench.data.splits import FoldsSettings, InterpolationSettings, Split, TaskSettings, make_split, min_deviation
from dgpbench.data.table import Table
from dgpbench.errors import UserError

UCI, CSV = {"kind": "uci"}, {"kind": "csv"}
INTERPOLATION = InterpolationSettings("interpolation", train_fraction=0.9)
TASKS = st.sampled_from(
    [
        INTERPOLATION,
        TaskSettings("extrapolation"),
        FoldsSettings("folds", num_folds=2),
    ]
)


def draw(num_rows: int, seed: int = 0) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).standard_normal((num_rows, 4))


def table(A: np.ndarray, name: str = "t") -> Table:
    return Table(name, A[:, :-1], A[:, -1], ("a", "b", "c"), "y")


def rows(A: np.ndarray, split: Split) -> tuple[list, list]:
    return A[split.train].tolist(), A[split.test].tolist()


@given(TASKS, st.integers(2, 60), st.integers(0, 1))
def test_train_and_test_are_disjoint_not_empty_and_cover_every_row(
    task: TaskSettings, num_rows: int, split: int
) -> None:
    drawn = make_split(table(draw(num_rows)), task, split, UCI)
    assert sorted([*drawn.train, *drawn.test]) == list(range(num_rows))
    assert len(drawn.train)
    assert len(drawn.test)
    assert drawn.train.dtype == np.int64


@given(TASKS, st.integers(3, 40), st.integers(0, 1), st.randoms())
def test_a_copy_in_another_order_trains_and_tests_on_the_same_rows(
    task: TaskSettings, num: int, split: int, random: Any
) -> None:
    A = draw(num)
    A[num // 2] = A[0]  # a duplicate
    shuffled = A.tolist()
    random.shuffle(shuffled)
    B = np.array(shuffled)
    assert rows(A, make_split(table(A), task, split, UCI)) == rows(B, make_split(table(B), task, split, UCI))


@pytest.mark.parametrize("task", [INTERPOLATION, TaskSettings("extrapolation"), FoldsSettings("folds", num_folds=10)])
def test_another_number_is_another_split(task: TaskSettings) -> None:
    A = draw(50)
    assert set(make_split(table(A), task, 0, UCI).test) != set(make_split(table(A), task, 1, UCI).test)


def test_the_split_depends_on_the_content_and_not_on_the_name() -> None:
    A, task = draw(50), INTERPOLATION
    same = make_split(table(A, "other"), task, 0, UCI)
    assert make_split(table(A), task, 0, UCI).train.tolist() == same.train.tolist()
    assert make_split(table(A + 1), task, 0, UCI).train.tolist() != same.train.tolist()


def test_interpolation_trains_on_nine_rows_of_ten() -> None:
    assert len(make_split(table(draw(506)), INTERPOLATION, 0, UCI).train) == 455


def test_a_smaller_share_trains_on_some_of_the_same_rows() -> None:
    small, large = (
        make_split(table(draw(40)), InterpolationSettings("interpolation", train_fraction=f), 0, UCI)
        for f in (0.2, 0.7)
    )
    assert len(small.train) == 8
    assert set(small.train) < set(large.train)


def test_every_row_tests_in_exactly_one_fold() -> None:
    folds = [make_split(table(draw(23)), FoldsSettings("folds", num_folds=5), k, UCI).test for k in range(5)]
    assert sorted(np.concatenate(folds)) == list(range(23))
    assert {len(fold) for fold in folds} == {4, 5}


def test_extrapolation_tests_the_lower_half_along_one_direction() -> None:
    # In one dimension the direction is a sign: the test rows are one end of the line.
    x = draw(21)[:, 0]
    line = Table("line", x[:, None], x**2, ("x",), "y")
    split = make_split(line, TaskSettings("extrapolation"), 0, UCI)
    assert len(split.test) == 10
    assert x[split.test].max() < x[split.train].min() or x[split.test].min() > x[split.train].max()


def test_extrapolation_ignores_near_constant_features_of_published_tables() -> None:
    A = draw(30)
    A[:, 1:3] *= 1e-6
    task = TaskSettings("extrapolation")
    split = make_split(table(A), task, 0, UCI)
    assert A[split.test, 0].max() < A[split.train, 0].min() or A[split.test, 0].min() > A[split.train, 0].max()
    assert (
        min_deviation(task, UCI),
        min_deviation(task, CSV),
        min_deviation(FoldsSettings("folds", num_folds=10), UCI),
    ) == (
        1e-3,
        0.0,
        0.0,
    )
    own = make_split(table(A), task, 0, CSV)
    assert A[own.test, 0].max() > A[own.train, 0].min()
    assert A[own.test, 0].min() < A[own.train, 0].max()


def test_classic_refuses_reordered_copies_and_tables_without_splits() -> None:
    A = draw(20)
    spec = {"kind": "uci", "classic": {"num_splits": 20}, "digest_xy_ordered": table(A).digest_xy_ordered}
    assert len(make_split(table(A), TaskSettings("classic"), 19, spec).train) == 18
    with pytest.raises(UserError, match="does not have its rows in the order"):
        make_split(table(A[::-1]), TaskSettings("classic"), 0, spec)
    with pytest.raises(UserError, match="no published splits"):
        make_split(table(A), TaskSettings("classic"), 0, UCI)


@pytest.mark.parametrize("num_rows", [20, 57])
def test_shuffled_splits_are_those_of_scikit_learn(num_rows) -> None:
    """Ortega et al. (2023): a tenth of the rows, rounded up; the random state is 2^31 - 1 plus the split."""
    A = draw(num_rows)
    spec = {"kind": "uci", "digest_xy_ordered": table(A).digest_xy_ordered}
    for split in (0, 19):
        train, test = train_test_split(np.arange(num_rows), test_size=0.1, random_state=2147483647 + split)
        ours = make_split(table(A), TaskSettings("shuffled"), split, spec)
        assert (ours.train.tolist(), ours.test.tolist()) == (train.tolist(), test.tolist())
    with pytest.raises(UserError, match="does not have its rows in the order"):
        make_split(table(A[::-1]), TaskSettings("shuffled"), 0, spec)
    with pytest.raises(UserError, match="no published order of rows"):
        make_split(table(A), TaskSettings("shuffled"), 0, UCI)
    with pytest.raises(UserError, match="no published order of rows"):
        make_split(table(A), TaskSettings("shuffled"), 0, {**UCI, "digest_xy_ordered": None})
    with pytest.raises(UserError, match="split must be between 0 and 19"):
        make_split(table(A), TaskSettings("shuffled"), 20, spec)


def test_fixed_trains_on_the_first_rows_of_the_file() -> None:
    split = make_split(table(draw(9)), TaskSettings("fixed"), 0, {"kind": "uci", "fixed_train_rows": 7})
    assert split.train.tolist() == list(range(7))
    assert split.test.tolist() == [7, 8]


@pytest.mark.parametrize(
    ("task", "split", "sentence"),
    [
        (INTERPOLATION, -1, "split must be a whole number from 0"),
        (FoldsSettings("folds", num_folds=5), 5, "split must be between 0 and 4"),
        (FoldsSettings("folds", num_folds=10), 0, "at most the 9 rows"),
        (TaskSettings("classic"), 20, "split must be between 0 and 19"),
        (TaskSettings("fixed"), 1, "split must be between 0 and 0"),
    ],
)
def test_a_split_that_does_not_exist_is_refused(task: TaskSettings, split: int, sentence: str) -> None:
    spec = {"kind": "uci", "classic": {"num_splits": 20}, "fixed_train_rows": 5}
    with pytest.raises(UserError, match=sentence):
        make_split(table(draw(9)), task, split, spec)


def test_a_table_without_a_feature_to_extrapolate_along_is_refused() -> None:
    with pytest.raises(UserError, match="no feature of t varies enough"):
        make_split(Table("t", np.ones((4, 1)), np.arange(4.0), ("a",), "y"), TaskSettings("extrapolation"), 0, CSV)
