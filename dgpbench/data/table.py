"""A table in its original units, and digests that identify copies of one table in different formats."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dgpbench.data.encoding import ColumnEncoder, UserColumns


@dataclass(frozen=True)
class SourceFile:
    """One file that a table was read from."""

    origin: str  # URL or package of the file, or the name of a user's file
    path: str
    sha256: str  # of the file at that path
    pinned_sha256: str | None = None  # the one published for this origin, if any; another is recorded, not refused


@dataclass(frozen=True, eq=False)
class Table:
    """Inputs and target of one data set, rows in the order of the file."""

    name: str  # the table's identity in results
    X: np.ndarray  # [N, D] float64, original units
    y: np.ndarray  # [N] float64, original units
    feature_names: tuple[str, ...]
    target_name: str
    sources: tuple[SourceFile, ...] = ()
    verified: str = "unverified"  # "digest", "member sha256", "unverified", "synthetic" or "own"
    raw: UserColumns | None = None  # to be encoded; X is then NaN throughout, unless all are numbers without gaps
    num_left_out: int = 0  # rows of the file left out because of a missing value
    fixed_train_rows: int | None = None  # number of training rows, the first, of a table with its own test rows

    def __post_init__(self) -> None:
        for name in ("X", "y"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1] or self.X.shape[1] != len(self.feature_names):
            sizes = f"X {self.X.shape}, y {self.y.shape} and {len(self.feature_names)} names"
            raise ValueError(f"{self.name}: {sizes} do not fit together")

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.y)

    def encoded(self, train: np.ndarray) -> tuple[np.ndarray, ColumnEncoder]:
        """Encode all rows as numbers [N, D] with an encoder fitted on the rows ``train`` only; return both."""
        if self.raw is None:
            return self.X, ColumnEncoder.of_numbers(self.feature_names)
        encoder = ColumnEncoder.fit(self.raw.rows.iloc[train], self.raw.schema)
        return self.X if self.raw.plain else encoder.encode(self.raw.rows), encoder

    @cached_property
    def order(self) -> np.ndarray:
        """[N] row numbers that sort the rows of [X | y] ascending, column 0 most significant."""
        return np.lexsort(self._xy.T[::-1])  # which takes its most significant key last

    @cached_property
    def digest_xy(self) -> str:
        """Digest of the rows of [X | y] in any order: the identity of the table's content."""
        return digest_ordered(self._xy[self.order])

    @cached_property
    def digest_xy_ordered(self) -> str:
        """Digest of the rows in their order, which published row numbers refer to."""
        return digest_ordered(self._xy)

    def num_repeated(self, rows: np.ndarray, among: np.ndarray) -> int:
        """Count the ``rows`` that equal a row ``among`` others in every feature and the target."""
        import pandas as pd

        hashes = pd.util.hash_pandas_object(pd.DataFrame(self._xy), index=False).to_numpy()
        return int(np.isin(hashes[rows], hashes[among]).sum())

    @property
    def _xy(self) -> np.ndarray:
        # Raw cells by their kind: a setting that changes how a column is read changes the table's identity.
        cells = self.X if self.raw is None or self.raw.plain else self.raw.digits()
        # Adding zero turns -0.0 into 0.0, which compare equal.
        return np.ascontiguousarray(np.column_stack([cells, self.y]) + 0.0, dtype="<f8")


def digest_ordered(A: np.ndarray) -> str:
    """Return the sha256 of the bytes of A, row by row."""
    return hashlib.sha256(np.ascontiguousarray(A).data).hexdigest()
