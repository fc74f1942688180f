"""Digests, compared with values computed from their definition."""

import hashlib
import struct
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgpbench.data.table import Table

ROWS = arrays(
    np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0])
)


def table(A: np.ndarray) -> Table:
    return Table("t", A[:, :-1], A[:, -1], tuple("ab"), "y")


@given(ROWS)
def test_the_digest_is_sha256_of_the_sorted_rows_as_doubles(A: np.ndarray) -> None:
    # The slow, obvious version: Python sorts tuples by their first entry, then the second, and so on.
    rows = sorted(tuple(x + 0.0 for x in row) for row in A.tolist())
    slow = hashlib.sha256(b"".join(struct.pack("<3d", *row) for row in rows)).hexdigest()
    assert table(A).digest_xy == slow


@given(ROWS, st.randoms())
def test_the_digest_ignores_the_order_of_rows_and_the_sign_of_zero(A: np.ndarray, random: Random) -> None:
    rows = A.tolist()
    random.shuffle(rows)
    assert table(np.array(rows)).digest_xy == table(np.where(A == 0, -A, A)).digest_xy == table(A).digest_xy


def test_the_ordered_digest_depends_on_the_order_of_rows() -> None:
    A = np.arange(6.0).reshape(2, 3)
    assert table(A).digest_xy_ordered != table(A[::-1]).digest_xy_ordered


def test_the_digest_depends_on_the_last_bit() -> None:
    A = np.arange(6.0).reshape(2, 3)
    changed = A.copy()
    changed[1, 2] = np.nextafter(5.0, 6.0)
    assert table(A).digest_xy != table(changed).digest_xy


def test_parts_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        Table("t", np.zeros((3, 2)), np.zeros(2), ("a", "b"), "y")
