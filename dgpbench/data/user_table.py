"""A user's table: a file by its ending, or a frame in memory, and one column to predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.config.settings import build, declared, did_you_mean
from dgpbench.data.cell_messages import cut, either, shown
from dgpbench.data.cells import TableSettings
from dgpbench.data.download import sha256_of
from dgpbench.data.encoding import Schema, UserColumns, check_names, typed
from dgpbench.data.table import SourceFile, Table
from dgpbench.data.table_files import read_frame, stem
from dgpbench.errors import UserError
from dgpbench.system.progress import counted

if TYPE_CHECKING:
    import pandas as pd

FEWEST_COUNTED = 10  # with fewer rows, whole numbers from 1 may be anything


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one file."""

    path: Path
    columns: "pd.DataFrame"  # features and target, typed
    num_left_out: int  # because of a missing value


def load(spec: Mapping[str, Any]) -> Table:
    """Load the table of a file, followed by the rows of a file of test rows, if given.

    Its name is the file's stem and the first 8 digits of its digest, so that different tables never share results.
    """
    settings = settings_of(spec)
    if settings.path is None or settings.target is None:
        raise UserError(
            "dataset=csv needs dataset.path=FILE and dataset.target=COLUMN; Hydra requires quotes inside the shell's "
            "for values with commas, = or brackets, as in 'dataset.path=\"a,b.csv\"'"
        )
    path = Path(settings.path).expanduser()
    frame, questions = read_frame(path, settings)
    target = str(settings.target)
    _check_known([target], frame, "dataset.target")
    if target in map(str, settings.drop):
        raise UserError(f"dataset.drop names {target}, which is dataset.target: remove it from one of them")
    check_columns(frame, settings)
    frame = frame.drop(columns=list(map(str, settings.drop)))
    if len(frame.columns) < 2:
        raise UserError(f"{path} has no column beside the target {target!r}: a regression needs at least one feature")
    read = [(path, frame, questions)]
    if settings.test_path is not None:
        test, names = Path(settings.test_path).expanduser(), list(frame.columns)
        test_frame, _ = read_frame(test, settings, "dataset.test_path=", names)
        check_names(names, list(test_frame.columns), f"dataset.test_path={test}")
        read.append((test, test_frame[names], []))
    del frame
    schema = Schema.of(_stacked([each for _, each, _ in read]).drop(columns=target), settings, str(path))
    files = []
    while read:  # a raw frame is released when its columns are typed
        file, frame, questions = read.pop(0)
        columns = typed(frame, schema, settings, str(file), target=target, questions=questions)
        kept = columns.notna().all(axis=1) if schema.missing == "drop" else columns[target].notna()
        files.append(Rows(file, columns if kept.all() else columns[kept], int((~kept).sum())))
    y, num_left_out = files[0].columns[target].to_numpy(), files[0].num_left_out
    _check_num_rows(str(path), len(y), num_left_out, " below its header")
    if y.min() == y.max():
        raise UserError(f"the target {target!r} of {path} is {y[0]:g} in every row: there is nothing to predict")
    _check_features(files[0].columns, target, path, settings)
    for rows in files[1:]:
        if not len(rows.columns):
            raise UserError(f"{rows.path} has no rows with a value of {target!r}: there are no test rows")
    tables = [_table([rows], schema, target) for rows in files]
    name = "-".join(f"{stem(each.path)}-{table.digest_xy[:8]}" for each, table in zip(files, tables, strict=True))
    if len(files) == 1:
        return replace(tables[0], name=name)
    return replace(_table(files, schema, target), name=name, fixed_train_rows=tables[0].num_rows)


def of_frame(frame: "pd.DataFrame", y: np.ndarray, target: str, settings: TableSettings) -> Table:
    """Return the table of features [N, K] and targets y [N] in memory.

    :raises UserError: for cells that the settings do not convert to numbers, and for fewer than 2 rows
    """
    schema = Schema.of(frame, settings)
    columns = typed(frame, schema, settings)
    kept = columns.notna().all(axis=1).to_numpy() if schema.missing == "drop" else np.full(len(y), True)
    num_left_out = int((~kept).sum())
    _check_num_rows("the table", len(y) - num_left_out, num_left_out)
    table = _of_columns(columns[kept].reset_index(drop=True), y[kept], schema, target)
    return replace(table, name="table", num_left_out=num_left_out)


def settings_of(spec: Mapping[str, Any]) -> TableSettings:
    """Return the settings in a data set's configuration."""
    return build(TableSettings, "dataset", {key: spec[key] for key in declared(TableSettings) if key in spec})


def reading_of(spec: Mapping[str, Any]) -> TableSettings:
    """Return how a model of this data set reads files of new rows, without the paths of files."""
    return replace(settings_of(spec), path=None, test_path=None) if spec["kind"] == "csv" else TableSettings.DEFAULT


def _table(files: Sequence[Rows], schema: Schema, target: str) -> Table:
    columns = _stacked([each.columns for each in files])
    table = _of_columns(columns.drop(columns=target), columns[target].to_numpy(), schema, target)
    sources = tuple(SourceFile(each.path.name, str(each.path.absolute()), sha256_of(each.path)) for each in files)
    return replace(table, sources=sources, num_left_out=sum(each.num_left_out for each in files))


def _of_columns(features: "pd.DataFrame", y: np.ndarray, schema: Schema, target: str) -> Table:
    """Return numbers without gaps as they are; other columns typed, to be encoded on the training rows."""
    raw, names = UserColumns(features, schema), tuple(features.columns)
    if set(schema.kinds.values()) == {"number"} and features.notna().all(axis=None):
        plain = replace(raw, plain=True) if schema.missing == "impute" else None  # for gaps in new rows
        return Table("", features.to_numpy(), y, names, target, verified="own", raw=plain)
    return Table("", np.full(features.shape, np.nan), y, names, target, verified="own", raw=raw)


def _stacked(frames: "Sequence[pd.DataFrame]") -> "pd.DataFrame":
    import pandas as pd

    full = [each for each in frames if len(each)] or frames[:1]
    return full[0].reset_index(drop=True) if len(full) == 1 else pd.concat(full, ignore_index=True)


def _check_num_rows(table: str, num_rows: int, num_left_out: int, below: str = "") -> None:
    if num_rows < 2:
        rest = f", and {num_left_out:,} left out because of missing values" if num_left_out else ""
        raise UserError(f"{table} has {counted(num_rows, 'row')}{below}{rest}: a regression needs at least 2")


def check_columns(frame: "pd.DataFrame", settings: TableSettings) -> None:
    """Refuse settings that name columns which the table lacks."""
    for key in ("drop", "keep", "categorical", "dates"):
        names = getattr(settings, key)
        _check_known([] if names is None or isinstance(names, str) else names, frame, f"dataset.{key}")


def _check_known(names: Sequence[Any], frame: "pd.DataFrame", key: str) -> None:
    for name in map(str, names):
        if name not in frame.columns:
            columns = ", ".join(cut(each) for each in frame.columns[:30])
            hint = did_you_mean(name, frame.columns)
            raise UserError(f"{key}={cut(name)} is not a column; available: {columns}{hint}")


def _check_features(columns: "pd.DataFrame", target: str, path: Path, settings: TableSettings) -> None:
    """Refuse undecided features that number the rows or copy the target; a table's only feature may number them."""
    settled = {target, *map(str, settings.keep or [])}
    numbers = [name for name in columns.columns if name not in settled and columns[name].dtype == np.float64]
    copies = [name for name in numbers if np.array_equal(columns[name], columns[target])]
    counting = []
    for name in numbers if len(columns) >= FEWEST_COUNTED and len(columns.columns) > 2 else ():
        values = columns[name].to_numpy()
        first = values.min()
        if first in (0, 1) and name not in copies and np.array_equal(np.sort(values), first + np.arange(len(values))):
            counting.append(name)
    found = {f"equals the target {target!r} in every row": copies, "numbers the rows, like an index": counting}
    questions = [
        f"{shown(names)} of {path} {what}: {either(names, settings)}" for what, names in found.items() if names
    ]
    if questions:
        raise UserError("; ".join(questions))
