"""The user's own table: a file by its ending, or a frame in memory, and one column to predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.config.settings import build, declared
from dgpbench.data.archives import sha256_of
from dgpbench.data.cell_messages import cut, either, shown
from dgpbench.data.encoding import Schema, UserColumns, check_names, typed
from dgpbench.data.table import SourceFile, Table
from dgpbench.data.table_files import read_frame, stem
from dgpbench.data.table_settings import TableSettings
from dgpbench.errors import UserError

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

    :param columns: features and target, typed
    :param num_left_out: for want of a value
    """

    path: Path
    columns: "pd.DataFrame"
    num_left_out: int


def load(spec: Mapping[str, Any]) -> Table:
    """The table of a file, named by its stem and the first 8 digits of its digest, so that no two share results.

    The rows of a file of test rows stand behind its own; the name then says both files' digests.
    """
    settings = settings_of(spec)
    if settings.path is None or settings.target is None:
        raise UserError(HOW)
    _check_marks(settings)
    path = Path(settings.path).expanduser()
    frame, questions = read_frame(path, settings)
    target = _known([settings.target], frame, "dataset.target")[0]
    if target in map(str, settings.drop):
        raise UserError(f"dataset.drop names {target}, which is dataset.target: leave it out of one of them")
    for key in ("drop", "keep", "categorical", "dates"):
        names = getattr(settings, key)
        _known([] if names is None or isinstance(names, str) else names, frame, f"dataset.{key}")
    frame = frame.drop(columns=list(map(str, settings.drop)))
    if len(frame.columns) < 2:
        raise UserError(f"{path} holds no column beside the target {target!r}: a regression needs at least one feature")
    read = [(path, frame, questions), *_test_frame(frame, settings)]
    del frame
    schema = Schema.of(_stacked([each for _, each, _ in read]).drop(columns=target), settings, str(path))
    files = [_rows(read.pop(0), schema, target, settings) for _ in range(len(read))]
    _check_target(files[0], target)
    _check_features(files[0].columns, target, path, settings)
    return _table(files, schema, target)


def _test_frame(train: "pd.DataFrame", settings: TableSettings) -> "list[tuple[Path, pd.DataFrame, list[str]]]":
    """The file of test rows, where there is one, with the columns of the training rows."""
    if settings.test_path is None:
        return []
    path, key = Path(settings.test_path).expanduser(), "dataset.test_path="
    frame, _ = read_frame(path, settings, key, list(train.columns))
    check_names(train.columns, list(frame.columns), f"{key}{path}")
    return [(path, frame[list(train.columns)], [])]


def _rows(read: "tuple[Path, pd.DataFrame, list[str]]", schema: Schema, target: str, settings: TableSettings) -> Rows:
    """The rows that have a value where one is needed."""
    path, frame, questions = read
    columns = typed(frame, schema, settings, str(path), target=target, questions=questions)
    kept = columns.notna().all(axis=1) if schema.missing == "drop" else columns[target].notna()
    return Rows(path, columns if kept.all() else columns[kept], int((~kept).sum()))


def _table(files: Sequence[Rows], schema: Schema, target: str) -> Table:
    """The rows of one file, or of two, the second of which tests."""
    for test in files[1:]:
        if not len(test.columns):
            raise UserError(f"{test.path} holds no rows with a value of {target!r}: there is nothing to test on")
    tables = [_of_rows([each], schema, target) for each in files]
    name = "-".join(f"{stem(each.path)}-{table.digest_xy[:8]}" for each, table in zip(files, tables, strict=True))
    if len(files) == 1:
        return replace(tables[0], name=name)
    return replace(_of_rows(files, schema, target), name=name, fixed_train_rows=tables[0].num_rows)


def of_frame(frame: "pd.DataFrame", y: np.ndarray, target: str, settings: TableSettings) -> Table:
    """Features [N, K] and targets y [N] in memory as a table; ``settings`` say what becomes of text, dates and gaps.

    :raises UserError: for cells that the settings do not make numbers of
    """
    _check_marks(settings)
    schema = Schema.of(frame, settings)
    columns = typed(frame, schema, settings)
    kept = columns.notna().all(axis=1).to_numpy() if schema.missing == "drop" else np.full(len(y), True)
    table = _of_columns(columns[kept].reset_index(drop=True), y[kept], schema, target)
    return replace(table, name="table", num_left_out=int((~kept).sum()))


def settings_of(spec: Mapping[str, Any]) -> TableSettings:
    """The settings in a data set's configuration."""
    return build(TableSettings, "dataset", {key: spec[key] for key in declared(TableSettings) if key in spec})


def reading_of(spec: Mapping[str, Any]) -> TableSettings:
    """How files of new rows are read that a model of this data set predicts; it names no file."""
    return replace(settings_of(spec), path=None, test_path=None) if spec["kind"] == "csv" else TableSettings.DEFAULT


def _check_marks(settings: TableSettings) -> None:
    """Refuse one mark for decimals and thousands."""
    if settings.decimal == settings.thousands:
        other = "comma" if settings.decimal == "point" else "point"
        raise UserError(
            f"dataset.decimal={settings.decimal} and dataset.thousands={settings.thousands} are the same mark: "
            f"dataset.decimal={other} goes with it"
        )


def _of_rows(files: Sequence[Rows], schema: Schema, target: str) -> Table:
    """Numbers without a gap as they are; anything else as typed, for an encoder of the training rows."""
    columns = _stacked([each.columns for each in files])
    table = _of_columns(columns.drop(columns=target), columns[target].to_numpy(), schema, target)
    sources = tuple(SourceFile(each.path.name, str(each.path.absolute()), sha256_of(each.path)) for each in files)
    return replace(table, sources=sources, num_left_out=sum(each.num_left_out for each in files))


def _of_columns(features: "pd.DataFrame", y: np.ndarray, schema: Schema, target: str) -> Table:
    """A table of features as their kinds have them."""
    raw, names = UserColumns(features, schema), tuple(features.columns)
    if set(schema.kinds.values()) == {"number"} and features.notna().all(axis=None):
        ready = replace(raw, plain=True) if schema.missing == "impute" else None  # for gaps in rows to come
        return Table("", features.to_numpy(), y, names, target, verified="own", raw=ready)
    return Table("", np.full(features.shape, np.nan), y, names, target, verified="own", raw=raw)


def _stacked(frames: "Sequence[pd.DataFrame]") -> "pd.DataFrame":
    """The rows of all, numbered anew."""
    import pandas as pd

    full = [each for each in frames if len(each)] or frames[:1]
    return full[0].reset_index(drop=True) if len(full) == 1 else pd.concat(full, ignore_index=True)


def _known(names: Sequence[Any], frame: "pd.DataFrame", key: str) -> list[str]:
    """Names of columns that there are, as texts."""
    for name in (texts := list(map(str, names))):
        if name not in frame.columns:
            meant = "".join(f"; did you mean {close!r}?" for close in get_close_matches(name, list(frame.columns), n=1))
            there = ", ".join(cut(each) for each in frame.columns[:30])
            raise UserError(f"{key}={cut(name)} names no column; there are {there}{meant}")
    return texts


def _check_features(columns: "pd.DataFrame", target: str, path: Path, settings: TableSettings) -> None:
    """Ask about features that count the rows or copy the target; a table's only feature is what it is."""
    settled = {target, *map(str, settings.keep or [])}
    numbers = [name for name in columns.columns if name not in settled and columns[name].dtype == np.float64]
    copies = [name for name in numbers if np.array_equal(columns[name], columns[target])]
    counting = [name for name in numbers if name not in copies and _counts(columns[name].to_numpy())]
    questions = [f"{shown(copies)} of {path} equals the target {target!r} in every row"] if copies else []
    if counting and len(columns.columns) > 2:
        questions.append(f"{shown(counting)} of {path} counts the rows, as an index does")
    if questions:
        raise UserError(
            "; ".join(
                f"{question}: {either(names, settings)}"
                for question, names in zip(questions, [copies, counting] if copies else [counting], strict=False)
            )
        )


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
        raise UserError(f"{path} holds {held}: a regression needs at least 2")
    if y.min() == y.max():
        raise UserError(f"the target {target!r} of {path} is {y[0]:g} in every row: there is nothing to predict")
