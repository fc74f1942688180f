"""Read a table's file as a frame of raw cells: text, parquet or a workbook by its ending."""

import base64
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.data.cell_messages import cut, either, shown
from dgpbench.data.cells import NUMBER, TableSettings, frame_of
from dgpbench.data.encoding import check_names
from dgpbench.data.text_files import OPENERS, UNNAMED, frame_of_texts, header_of, text_tables, whole_text, wrong_length
from dgpbench.errors import UserError
from dgpbench.system.provenance import available

if TYPE_CHECKING:
    import pandas as pd

WORKBOOKS = (".xlsx", ".xlsm", ".xls")
PARQUET = (".parquet", ".pq")
INDEX = "__index_level_"  # in names of parquet columns for an unnamed index
SPARSE = 10_000_000  # empty cells that a sheet may have at least
# First bytes of files, what they are, and the endings by which they are read.
CONTENTS: dict[bytes, tuple[str, tuple[str, ...]]] = {
    b"PK\x03\x04": ("a zip archive or workbook: unpack it, or name it .xlsx", (".xlsx", ".xlsm")),
    b"\xd0\xcf\x11\xe0": ("an old workbook: name it .xls", (".xls",)),
    b"\x1f\x8b": ("packed by gzip: name it .csv.gz", (".gz",)),
    b"BZh": ("packed by bzip2: name it .csv.bz2", (".bz2",)),
    b"\xfd7zXZ": ("packed by xz: name it .csv.xz", (".xz",)),
    b"\x28\xb5\x2f\xfd": ("packed by zstd: unpack it", ()),
    b"PAR1": ("a parquet file: name it .parquet", PARQUET),
    b"ARROW1": ("a feather or arrow file: write it as parquet or csv", ()),
    b"FEA1": ("a feather file: write it as parquet or csv", ()),
    b"ORC": ("an ORC file: write it as parquet or csv", ()),
    b"\x89HDF": ("an HDF5 file: write it as parquet or csv", ()),
    b"SQLite format 3": ("a SQLite database: write the table as csv", ()),
    b"\x93NUMPY": ("an array of NumPy: write it as csv", ()),
    b"%PDF": ("a PDF document: write its table as csv", ()),
    b"<!DOCTYPE": ("a web page: download the file itself", ()),
    b"<html": ("a web page: download the file itself", ()),
    b"<?xml": ("XML: write its table as csv", ()),
}


def read_frame(
    path: Path, settings: TableSettings, key: str = "dataset.path=", taken: Sequence[str] | None = None
) -> "tuple[pd.DataFrame, list[str]]":
    """Return the columns of a file by name, and clauses about columns for which a decision is needed.

    Repeated names get the suffixes ``.1``, ``.2``, ...

    :param key: how the user named the file
    :param taken: the columns in use, so that no decision is needed about others; None for all
    :raises UserError: for an unreadable file
    """
    with _readable(path, key):
        index: list[str] = []
        if path.suffix.lower() in PARQUET:
            frame, names, index = _parquet(path)
        elif path.suffix.lower() in WORKBOOKS:
            frame, names = _workbook(path, settings)
        else:
            frame, names = whole_text(path, settings)
    unique, questions = _named(path, names, settings, taken)
    if taken is None and (stored := [name for name in index if name not in settings.settled]):
        questions.append(f"has an index beside its columns, read as {shown(stored)}: {either(stored, settings)}")
    return frame.set_axis(unique, axis=1), questions


def parts(path: Path, settings: TableSettings, taken: Sequence[str], rows_at_once: int) -> "Iterator[pd.DataFrame]":
    """Yield the rows of a file in successive frames, indexed from 0; a text is never in memory as a whole.

    :param taken: the columns in use, so that no decision is needed about others
    :raises UserError: as ``read_frame``
    """
    import pyarrow as pa

    if path.suffix.lower() in (*PARQUET, *WORKBOOKS):
        frame, _ = read_frame(path, settings, "", taken)
        yield from (frame.iloc[start : start + rows_at_once] for start in range(0, len(frame), rows_at_once))
        return
    with _readable(path, ""), text_tables(path, settings) as (names, tables):
        unique, _ = _named(path, names, settings, taken)
        held, start = next(tables), 0
        for more in chain(tables, [None]):
            while len(held) >= rows_at_once or (more is None and len(held)):
                frame = frame_of_texts(held.slice(0, rows_at_once), start)
                yield frame.set_axis(unique, axis=1)
                held, start = held.slice(rows_at_once), start + len(frame)
            held = held if more is None else pa.concat_tables([held, more])


def stem(path: Path) -> str:
    """Return the file's name without its endings, as a valid name of a folder."""
    name = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.stem).strip("._-")[:60] or "table"


# Names of columns -----------------------------------------------------------------------------------------------


def _named(
    path: Path, names: Sequence[str], settings: TableSettings, taken: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Return unique names of columns, and clauses about those for which a decision is needed.

    :raises UserError: if the first row is not a header
    """
    if settings.header is None and len(names) and all(re.fullmatch(NUMBER, name) for name in names):
        row = ", ".join(cut(name) for name in names[:3]) + (", ..." if len(names) > 3 else "")
        raise UserError(
            f"the first row of {path} holds only numbers ({row}), so it seems to be data: dataset.header=false "
            "reads it as data and names the columns 1, 2, ..., dataset.header=true reads it as their names"
        )
    renamed: dict[str, None] = {}
    for name in names:
        others = (f"{name}.{number}" for number in count(1))
        renamed[name if name not in renamed else next(each for each in others if each not in {*renamed, *names})] = None
    unique = list(renamed)
    if taken is not None:
        repeated = {name for name, each in zip(names, unique, strict=True) if each != name and each not in taken}
        if twice := [name for name in taken if name in repeated]:
            raise UserError(f"{path} has {names.count(twice[0])} columns named {twice[0]!r}: give each its own name")
        return unique, []
    settled, questions = settings.settled, []
    undecided = [(name, each) for name, each in zip(names, unique, strict=True) if each not in settled]
    unnamed = [each for _, each in undecided if each.startswith(UNNAMED)]
    if len(unnamed) == len(names) - 1 > 1:
        title = next(cut(name) for name in names if not name.startswith(UNNAMED))
        raise UserError(f"{path} names one column of {len(names)}, {title!r}: delete titles above the header")
    if unnamed:
        questions.append(f"has columns without a name, read as {shown(unnamed)}: {either(unnamed, settings)}")
    if twice := [each for name, each in undecided if each != name]:
        first = next(name for name, each in undecided if each == twice[0])
        questions.append(
            f"has more than one column {cut(first)!r}; the later are read as {shown(twice)}: {either(twice, settings)}"
        )
    return unique, questions


@contextmanager
def _readable(path: Path, key: str) -> Iterator[None]:
    """Refuse folders, files that do not fit in memory or do not match their ending; name unreadable files."""
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder: name one file")
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a regular file")
        _check_size(path, path.stat().st_size)
        suffix = path.suffix.lower()
        heads = {}
        with open(path, "rb") as file:
            heads[suffix] = file.read(64)
        if suffix in OPENERS and heads[suffix]:
            with suppress(EOFError, lzma.LZMAError, zlib.error, OSError), OPENERS[suffix](path, "rb") as file:
                heads[""] = file.read(64)
        for ending, head in heads.items():
            for magic, (what, endings) in CONTENTS.items():
                is_it = head.startswith(magic) and (magic[:1] in b"<%S" or any(byte < 9 or byte > 126 for byte in head))
                if is_it and ending not in endings:
                    raise UserError(f"{path} {'holds' if ending != suffix else 'is'} {what}")
        yield
    except OSError as error:
        raise UserError(f"{key}{path} cannot be read: {error.strerror or cut(error, 100)}") from error
    except ImportError as error:
        raise UserError(f"{path} needs the package {error.name}: pip install {error.name}") from error


def _check_size(path: Path, size: int) -> None:
    """Refuse a file too large for memory, where a number needs about as much as in text."""
    if size > (free := available()):
        raise UserError(
            f"{path} is {size / 2**30:,.1f} GiB large, with {free / 2**30:,.1f} GiB of memory free: use fewer rows"
        )


# Parquet and workbooks --------------------------------------------------------------------------------------------


def _parquet(path: Path) -> "tuple[pd.DataFrame, list[str], list[str]]":
    """Return a parquet file's columns, their names, and the names of its index, unless it is a plain range."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        facts = parquet.read_metadata(path)
        columns = facts.schema.to_arrow_schema().names
        check_names(columns, columns, str(path))
        _check_size(path, 8 * facts.num_rows * facts.num_columns)
        table = parquet.read_table(path, use_threads=False)
        metadata = table.schema.pandas_metadata or {}
        index = [
            name for name in metadata.get("index_columns", ()) if isinstance(name, str) and name in table.column_names
        ]
        frame = frame_of(table)
        stored = base64.b64decode((facts.metadata or {}).get(b"ARROW:schema", b""))
        for field in pa.ipc.read_schema(pa.py_buffer(stored)) if stored else ():
            if pa.types.is_dictionary(field.type) and field.name in frame.columns:
                frame[field.name] = frame[field.name].astype("category")
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise UserError(f"{path} is not a parquet file: {cut(error, 100)}") from error
    if len(index) == 1 and frame[index[0]].tolist() == list(range(len(frame))):
        frame, index = frame.drop(columns=index), []
    frame = frame[[*index, *(name for name in frame.columns if name not in index)]]
    renamed = {name: ("index" if len(index) == 1 else f"level_{at}") for at, name in enumerate(index) if INDEX in name}
    names = [renamed.get(str(name), str(name).strip()) for name in frame.columns]
    return frame, names, [renamed.get(name, name.strip()) for name in index]


def _workbook(path: Path, settings: TableSettings) -> "tuple[pd.DataFrame, list[str]]":
    import pandas as pd

    try:
        if path.suffix.lower() == ".xls":
            with pd.ExcelFile(path) as book:
                sheet = _sheet(path, book.sheet_names, settings.sheet)
                cells = book.parse(sheet, header=None, dtype=object, na_filter=False)
                rows = [list(row) for row in cells.itertuples(index=False)]
        else:
            sheet, rows = _sheet_rows(path, settings)
    except (OSError, ImportError, MemoryError, UserError):
        raise
    except Exception as error:  # the packages for the two formats have exceptions of their own
        raise UserError(f"{path} is not a workbook: {cut(error, 100)}") from error
    above = next((number for number, row in enumerate(rows) if row), len(rows))
    if above == len(rows):
        raise UserError(f"sheet {sheet!r} of {path} is empty")
    header = rows[above]
    rows = rows[above + (settings.header is not False) :]
    for number, row in enumerate(rows, above + 1 + (settings.header is not False)):
        if len(row) > len(header):
            problem = wrong_length(f"row {number:,}", row, header)
            raise UserError(f"sheet {cut(sheet)!r} of {path} is not a table: {problem}")
        row += [None] * (len(header) - len(row))
    frame = pd.DataFrame(rows, columns=range(len(header)), dtype=object)
    return frame, header_of(header, settings)


def _sheet_rows(path: Path, settings: TableSettings) -> tuple[str, list[list[Any]]]:
    """Return a sheet's name and its rows, each up to its last cell with a value."""
    import openpyxl

    with zipfile.ZipFile(path) as packed:
        _check_size(path, 2 * sum(each.file_size for each in packed.infolist()))
    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    with closing(book):
        sheet = _sheet(path, [each.title for each in book.worksheets], settings.sheet)
        cells = book[sheet]
        cells.reset_dimensions()  # they may be wrong, or name the last possible cell
        rows, filled, width = [], 0, 0
        for row in cells.iter_rows(values_only=True):
            last = max((at for at, value in enumerate(row, 1) if value not in (None, "")), default=0)
            rows.append(list(row[:last]))
            filled, width = filled + last - row[:last].count(None), max(width, last)
            if len(rows) * width > SPARSE + 100 * filled:
                raise UserError(
                    f"sheet {cut(sheet)!r} of {path} reaches to row {len(rows):,} and column {width:,}, most of its "
                    "cells being empty: delete cells outside the table"
                )
    while rows and not rows[-1]:
        rows.pop()
    return sheet, rows


def _sheet(path: Path, sheets: Sequence[Any], name: str | None) -> str:
    if name is None and len(sheets) == 1:
        return str(sheets[0])
    if name in sheets:
        return str(name)
    other = "" if name is None else f", not {name!r}"
    names = ", ".join(cut(each) for each in sheets[:20])
    raise UserError(f"{path} holds the sheets {names}{other}: choose one with dataset.sheet=NAME")
