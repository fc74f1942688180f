"""A table in its original units, and the digests by which copies of one table in different formats are recognised."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dgpbench.data.encoding import ColumnEncoder, UserColumns


@dataclass(frozen=True)
class SourceFile:
    """One file that a table was read from.

    :param origin: the URL or the package that the file came from, or the name of the user's own
    :param path: where the file lies
    :param sha256: of the file as it lies there
    :param pinned_sha256: the one that was published for this origin, if any; another hash is recorded, not refused
    """

    origin: str
    path: str
    sha256: str
    pinned_sha256: str | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Inputs and target of one data set, rows in the order of the file.

    :param name: identity of the table in results
    :param X: [N, D] float64, original units
    :param y: [N] float64, original units
    :param verified: "digest", "member sha256", "unverified", "synthetic" or "own"
    :param raw: typed columns, where there is more to do than to take them; unless they are numbers without
        a gap, X is NaN throughout
    :param num_left_out: rows of the file that are not in the table, having no value where one was needed
    :param fixed_train_rows: where the table brings its own test set: how many of its rows, the first, train
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_name: str
    sources: tuple[SourceFile, ...] = ()
    verified: str = "unverified"
    raw: UserColumns | None = None
    num_left_out: int = 0
    fixed_train_rows: int | None = None

    def __post_init__(self) -> None:
        for name in ("X", "y"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1] or self.X.shape[1] != len(self.feature_names):
            sizes = f"X {self.X.shape}, y {self.y.shape} and {len(self.feature_names)} names"
            raise ValueError(f"{self.name}: {sizes} do not belong together")

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.y)

    def encoded(self, train: np.ndarray) -> tuple[np.ndarray, ColumnEncoder]:
        """All rows as numbers, [N, D], and the encoder that made them of raw columns: it has seen these rows alone.

        :param train: row numbers
        """
        if self.raw is None:
            return self.X, ColumnEncoder.of_numbers(self.feature_names)
        encoder = ColumnEncoder.fit(self.raw.rows.iloc[train], self.raw.schema)
        return self.X if self.raw.plain else encoder.encode(self.raw.rows), encoder

    @cached_property
    def order(self) -> np.ndarray:
        """[N] row numbers that sort the rows of [X | y] ascending, column 0 most significant."""
        return sorted_order(self._xy)

    @cached_property
    def digest_xy(self) -> str:
        """Digest of the rows of [X | y] whatever their order: the identity of the table's content."""
        return digest_ordered(self._xy[self.order])

    @cached_property
    def digest_xy_ordered(self) -> str:
        """Digest of the rows as they stand: what published row numbers refer to."""
        return digest_ordered(self._xy)

    def num_repeated(self, rows: np.ndarray, among: np.ndarray) -> int:
        """Number of rows that equal one of the others in every feature and the target.

        :param rows: row numbers, as ``among``
        """
        import pandas as pd

        hashes = pd.util.hash_pandas_object(pd.DataFrame(self._xy), index=False).to_numpy()
        return int(np.isin(hashes[rows], hashes[among]).sum())

    @property
    def _xy(self) -> np.ndarray:
        # Raw cells as their kinds have them: a setting that reads a column otherwise makes another table.
        cells = self.X if self.raw is None or self.raw.plain else self.raw.digits()
        return canonical(np.column_stack([cells, self.y]))


def canonical(A: np.ndarray) -> np.ndarray:
    """A as contiguous little-endian float64; adding zero turns -0.0 into 0.0, which print and compare alike."""
    return np.ascontiguousarray(np.asarray(A, dtype="<f8") + 0.0)


def sorted_order(A: np.ndarray) -> np.ndarray:
    """[N] row numbers that sort the rows of A ascending; lexsort takes its most significant key last."""
    return np.lexsort(A.T[::-1])


def digest_ordered(A: np.ndarray) -> str:
    """sha256 of the bytes of A, row by row."""
    return hashlib.sha256(canonical(A).data).hexdigest()


def digest(A: np.ndarray) -> str:
    """sha256 of the bytes of A with its rows sorted, so that copies in another row order have the same digest."""
    A = canonical(A)
    return digest_ordered(A[sorted_order(A)])
