"""The user's own table: a text file with a header row, numbers below it, and one column to predict."""

import re
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.datasets.archives import sha256_of
from dgpbench.datasets.table import SourceFile, Table
from dgpbench.errors import Refused
from dgpbench.system.memory import available

if TYPE_CHECKING:
    import pandas as pd

HOW = (
    "dataset=csv needs dataset.path=FILE and dataset.target=COLUMN; Hydra wants a value with commas, = or brackets "
    "in quotes inside the shell's, as in 'dataset.path=\"a,b.csv\"'"
)


def load(spec: Mapping[str, Any]) -> Table:
    """The table of a file, named by its stem and the first 8 digits of its digest, so that no two share results."""
    if spec.get("path") is None or spec.get("target") is None:
        raise Refused(HOW)
    path, target = Path(str(spec["path"])).expanduser(), str(spec["target"])
    frame = _without(_frame(path, spec.get("separator")), spec.get("drop"))
    target = _known(target, frame, "dataset.target")
    features = [name for name in frame.columns if name != target]
    if not features:
        raise Refused(f"{path} holds no column beside the target {target!r}: a regression needs at least one feature")
    columns = {name: _numbers(frame[name], path) for name in [*features, target]}
    y = columns.pop(target)
    _check_target(y, target, path)
    file = SourceFile(path.name, str(path.absolute()), sha256_of(path))
    table = Table("", np.column_stack(list(columns.values())), y, tuple(features), target, (file,), "own")
    return Table(f"{stem(path)}-{table.digest_xy[:8]}", table.X, table.y, table.feature_names, target, (file,), "own")


def stem(path: Path) -> str:
    """The file's name without its ending, fit for the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", path.stem).strip("._-")[:60] or "table"


def separator_of(header: str) -> str:
    """The commonest of comma, semicolon, tab and bar in a header row, outside quotes; else runs of blanks."""
    bare = re.sub(r'"[^"]*"', "", header).strip()
    best = max(",;\t|", key=bare.count)
    if bare.count(best):
        return best
    return r"\s+" if " " in bare else ","


def _frame(path: Path, separator: str | None) -> "pd.DataFrame":
    import pandas as pd

    _check_bytes(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            separator = separator or separator_of(file.readline())
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # raised where a row is longer than the header
            frame = pd.read_csv(
                path,
                sep=separator,
                encoding="utf-8-sig",
                compression=None,
                index_col=False,
                skipinitialspace=True,
                float_precision="round_trip",
            )
    except OSError as error:
        raise Refused(f"dataset.path={path} cannot be read: {error.strerror or error}") from error
    except (ValueError, pd.errors.ParserWarning) as error:
        raise Refused(_no_table(path, separator, error)) from error
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def _check_bytes(path: Path) -> None:
    """Refuse a file that could not be held in memory: a number takes about as much there as in text."""
    size, free = path.stat().st_size if path.is_file() else 0, available()
    if size > free:
        raise Refused(
            f"{path} is {size / 2**30:,.1f} GiB large, with {free / 2**30:,.1f} GiB of memory free: take fewer rows"
        )


def _no_table(path: Path, separator: str | None, error: Exception) -> str:
    words = " ".join(str(error).split())[:160]
    return f"{path} is no table with a header row and columns separated by {separator or 'commas'!r}: {words}"


def _without(frame: "pd.DataFrame", drop: Any) -> "pd.DataFrame":
    names = [] if drop is None else [drop] if isinstance(drop, str) else drop
    return frame.drop(columns=[_known(str(name), frame, "dataset.drop") for name in names])


def _known(name: str, frame: "pd.DataFrame", key: str) -> str:
    if name in frame.columns:
        return name
    meant = "".join(f"; did you mean {close!r}?" for close in get_close_matches(name, list(frame.columns), n=1))
    raise Refused(f"{key}={name} names no column; there are {', '.join(frame.columns[:30])}{meant}")


def _numbers(column: "pd.Series", path: Path) -> np.ndarray:
    """The column as float64. Rows are counted from 1 below the header."""
    import pandas as pd

    numbers = pd.to_numeric(column.astype(str) if column.dtype == bool else column, errors="coerce")
    values = numbers.to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        return values
    row, value = bad[0] + 1, column.iloc[bad[0]]
    place = f"column {column.name!r}, row {row} of {path}"
    if isinstance(value, str) or column.dtype == bool:
        raise Refused(
            f"{place} holds the text {str(value)!r}: write numbers, or leave the column out with dataset.drop"
        )
    what = "no number (NaN)" if np.isnan(values[bad[0]]) else "an infinite number"
    raise Refused(f"{place} holds {what}: fill it in or leave the row out")


def _check_target(y: np.ndarray, target: str, path: Path) -> None:
    if len(y) < 2:
        raise Refused(f"{path} holds {len(y)} row{'s' * (len(y) != 1)} below its header: a regression needs at least 2")
    if y.min() == y.max():
        raise Refused(f"the target {target!r} of {path} is {y[0]:g} in every row: there is nothing to predict")
