"""The user's own table: a file by its ending, and one column to predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.config.settings import build, declared
from dgpbench.datasets.archives import sha256_of
from dgpbench.datasets.cells import check_gaps, shown, typed
from dgpbench.datasets.columns import check_names
from dgpbench.datasets.headers import either
from dgpbench.datasets.raw_columns import RawColumns
from dgpbench.datasets.schema import Schema
from dgpbench.datasets.table import SourceFile, Table
from dgpbench.datasets.table_files import read_frame, stem
from dgpbench.datasets.table_settings import TableSettings
from dgpbench.errors import Refused

if TYPE_CHECKING:
    import pandas as pd

HOW = (
    "dataset=csv needs dataset.path=FILE and dataset.target=COLUMN; Hydra wants a value with commas, = or brackets "
    "in quotes inside the shell's, as in 'dataset.path=\"a,b.csv\"'"
)
FEWEST_COUNTED = 10  # of fewer rows, whole numbers from 1 may be anything


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one file.

    :param frame: features, as they were read
    :param columns: features and target, typed
    :param num_left_out: for want of a value
    """

    path: Path
    frame: "pd.DataFrame"
    columns: "pd.DataFrame"
    num_left_out: int


def load(spec: Mapping[str, Any]) -> Table:
    """The table of a file, named by its stem and the first 8 digits of its digest, so that no two share results.

    The rows of a file of test rows stand behind its own; the name then says both files' digests.
    """
    settings = settings_of(spec)
    if settings.path is None or settings.target is None:
        raise Refused(HOW)
    path = Path(settings.path).expanduser()
    frame = read_frame(path, settings)
    target = _known(settings.target, frame, "dataset.target")
    if target in map(str, settings.drop):
        raise Refused(f"dataset.drop names {target}, which is dataset.target: leave it out of one of them")
    frame = _without(frame, settings)
    if len(frame.columns) < 2:
        raise Refused(f"{path} holds no column beside the target {target!r}: a regression needs at least one feature")
    read = [(path, frame), *_test_frame(frame, settings)]
    schema = _schema(_stacked([each for _, each in read]).drop(columns=target), settings)
    files = [_rows(each, schema, target, where) for where, each in read]
    _check_target(files[0], target)
    _check_features(files[0].columns, target, path, settings)
    return _table(files, schema, target)


def _test_frame(train: "pd.DataFrame", settings: TableSettings) -> "list[tuple[Path, pd.DataFrame]]":
    """The file of test rows, where there is one, with the columns of the training rows."""
    if settings.test_path is None:
        return []
    path, key = Path(settings.test_path).expanduser(), "dataset.test_path="
    frame = read_frame(path, settings, key)
    check_names(train.columns, list(frame.columns), f"{key}{path}")
    return [(path, frame[list(train.columns)])]


def _rows(frame: "pd.DataFrame", schema: Schema, target: str, path: Path) -> Rows:
    """The rows that have a value where one is needed."""
    columns = _columns(frame, schema, target, path)
    kept = columns.notna().all(axis=1) if schema.missing == "drop" else columns[target].notna()
    return Rows(path, frame.drop(columns=target)[kept], columns[kept], int((~kept).sum()))


def _table(files: Sequence[Rows], schema: Schema, target: str) -> Table:
    """The rows of one file, or of two, the second of which tests."""
    for test in files[1:]:
        if not len(test.columns):
            raise Refused(f"{test.path} holds no rows with a value of {target!r}: there is nothing to test on")
    tables = [_of_rows([each], schema, target) for each in files]
    name = "-".join(f"{stem(each.path)}-{table.digest_xy[:8]}" for each, table in zip(files, tables, strict=True))
    if len(files) == 1:
        return replace(tables[0], name=name)
    return replace(_of_rows(files, schema, target), name=name, fixed_train_rows=tables[0].num_rows)


def of_frame(frame: "pd.DataFrame", y: np.ndarray, target: str, settings: TableSettings) -> Table:
    """Features [N, K] and targets y [N] in memory as a table; ``settings`` say what becomes of text, dates and gaps.

    :raises Refused: for cells that the settings do not make numbers of
    """
    schema = _schema(frame, settings)
    columns = typed(frame, schema.kinds, schema.date_format)
    if schema.missing == "refuse":
        check_gaps(columns)
    kept = columns.notna().all(axis=1).to_numpy() if schema.missing == "drop" else np.full(len(y), True)
    frame, columns = (each[kept].reset_index(drop=True) for each in (frame, columns))
    table = _of_columns(frame, columns, y[kept], schema, target)
    return replace(table, name="table", num_left_out=int((~kept).sum()))


def settings_of(spec: Mapping[str, Any]) -> TableSettings:
    """The settings in a data set's configuration."""
    return build(TableSettings, "dataset", {key: spec[key] for key in declared(TableSettings) if key in spec})


def reading_of(spec: Mapping[str, Any]) -> TableSettings:
    """How files of new rows are read that a model of this data set predicts; it names no file."""
    if spec["kind"] != "csv":
        return TableSettings(path=None, target=None, separator=None, drop=[])
    return replace(settings_of(spec), path=None, test_path=None)


def _schema(features: "pd.DataFrame", settings: TableSettings) -> Schema:
    categorical = _named(settings.categorical, features, "dataset.categorical")
    dates = _named(settings.dates, features, "dataset.dates")
    return Schema.of(features, settings.missing, categorical, dates, settings.date_format)


def _named(names: str | list, frame: "pd.DataFrame", key: str) -> str | list[str]:
    """A word as it is, and a list as the names of columns."""
    return names if isinstance(names, str) else [_known(str(name), frame, key) for name in names]


def _columns(frame: "pd.DataFrame", schema: Schema, target: str, path: Path) -> "pd.DataFrame":
    """Features and target, typed; gaps are left where a setting says what to do with them."""
    numbers = f"{target!r} is the target, and a regression predicts numbers"
    columns = typed(frame, schema.kinds, schema.date_format, str(path))
    columns[target] = typed(frame, {target: "number"}, where=str(path), otherwise=numbers)[target]
    if schema.missing == "refuse":
        check_gaps(columns, str(path))
    return columns


def _of_rows(files: Sequence[Rows], schema: Schema, target: str) -> Table:
    """Numbers without a gap as they are; anything else as it was read, for an encoder of the training rows."""
    columns = _stacked([each.columns for each in files])
    table = _of_columns(_stacked([each.frame for each in files]), columns, columns[target].to_numpy(), schema, target)
    sources = tuple(SourceFile(each.path.name, str(each.path.absolute()), sha256_of(each.path)) for each in files)
    return replace(table, sources=sources, num_left_out=sum(each.num_left_out for each in files))


def _of_columns(frame: "pd.DataFrame", columns: "pd.DataFrame", y: np.ndarray, schema: Schema, target: str) -> Table:
    """A table of features as they were read and as their kinds have them."""
    raw, names = RawColumns(frame, schema), tuple(frame.columns)
    features = columns[list(names)]
    if set(schema.kinds.values()) == {"number"} and features.notna().all(axis=None):
        ready = replace(raw, plain=True) if schema.missing == "impute" else None  # for gaps in rows to come
        return Table("", features.to_numpy(), y, names, target, verified="own", raw=ready)
    return Table("", np.full(features.shape, np.nan), y, names, target, verified="own", raw=raw)


def _stacked(frames: "Sequence[pd.DataFrame]") -> "pd.DataFrame":
    """The rows of all, numbered anew."""
    import pandas as pd

    full = [each for each in frames if len(each)] or frames[:1]
    return full[0].reset_index(drop=True) if len(full) == 1 else pd.concat(full, ignore_index=True)


def _without(frame: "pd.DataFrame", settings: TableSettings) -> "pd.DataFrame":
    return frame.drop(columns=_named(settings.drop, frame, "dataset.drop"))


def _known(name: str, frame: "pd.DataFrame", key: str) -> str:
    if name in frame.columns:
        return name
    meant = "".join(f"; did you mean {close!r}?" for close in get_close_matches(name, list(frame.columns), n=1))
    raise Refused(f"{key}={name} names no column; there are {', '.join(frame.columns[:30])}{meant}")


def _check_features(columns: "pd.DataFrame", target: str, path: Path, settings: TableSettings) -> None:
    """Ask about features that count the rows or copy the target; a table's only feature is what it is."""
    settled = {target, *_named(settings.keep or [], columns, "dataset.keep")}
    numbers = [name for name in columns.columns if name not in settled and columns[name].dtype == np.float64]
    if copies := [name for name in numbers if np.array_equal(columns[name], columns[target])]:
        raise Refused(f"{shown(copies)} of {path} equals the target {target!r} in every row: {either(copies)}")
    if len(columns.columns) > 2 and (counting := [name for name in numbers if _counts(columns[name].to_numpy())]):
        raise Refused(f"{shown(counting)} of {path} counts the rows, as an index does: {either(counting)}")


def _counts(values: np.ndarray) -> bool:
    """Whether they are the whole numbers from 0 or from 1, in some order."""
    return len(values) >= FEWEST_COUNTED and bool(
        values.min() in (0, 1) and np.array_equal(np.sort(values), values.min() + np.arange(len(values)))
    )


def _check_target(rows: Rows, target: str) -> None:
    y, path, num_left_out = rows.columns[target].to_numpy(), rows.path, rows.num_left_out
    if len(y) < 2:
        held = f"{len(y):,} row{'s' * (len(y) != 1)} below its header"
        held += f", with {num_left_out:,} left out for want of a value" if num_left_out else ""
        raise Refused(f"{path} holds {held}: a regression needs at least 2")
    if y.min() == y.max():
        raise Refused(f"the target {target!r} of {path} is {y[0]:g} in every row: there is nothing to predict")
