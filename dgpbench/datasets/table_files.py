"""A table's file as a frame of raw cells: text, parquet or a workbook by its ending."""

import base64
import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dgpbench.datasets.cell_messages import cut, either, shown
from dgpbench.datasets.cells import NUMBER, frame_of
from dgpbench.datasets.table_settings import SEPARATORS, TableSettings
from dgpbench.errors import Refused
from dgpbench.system.memory import available

if TYPE_CHECKING:
    import pandas as pd

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
WORKBOOKS = (".xlsx", ".xlsm", ".xls")
PARQUET = (".parquet", ".pq")
UNNAMED = "Unnamed: "  # the name of a column that has none, as pandas has it
BLOCK, LONGEST = 2**23, 2**24  # characters read at once, and those of the longest line
BLANKS = SEPARATORS["blanks"]
INDEX = "__index_level_"  # of columns that parquet keeps for an index without a name
SPARSE = 10_000_000  # cells of a sheet that may be empty for each that is not
# The first bytes of files, what they are, and the endings by which they are read.
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
    """The columns of a file by their names, and what has to be asked about them, as clauses about the file.

    A name that is repeated gets ``.1``, ``.2``, ... behind it.

    :param key: how the user named the file
    :param taken: the columns that are used, so that nothing is asked about others; None where all are
    :raises Refused: for a file that cannot be read
    """
    with _refusing_unreadable(path, key):
        _check_file(path)
        if path.suffix.lower() in PARQUET:
            frame, names, stored = _parquet(path)
        elif path.suffix.lower() in WORKBOOKS:
            frame, names, stored = *_workbook(path, settings), []
        else:
            frame, names, stored = *_whole_text(path, settings), []
    unique, questions = _named(path, names, settings, taken)
    settled = {*map(str, settings.drop), *map(str, settings.keep or ())}
    if taken is None and (index := [name for name in stored if name not in settled]):
        words = f"has an index stored beside its columns, read as {shown(index)}: {either(index, settings)}"
        questions.append(words)
    return frame.set_axis(unique, axis=1), questions


def parts(path: Path, settings: TableSettings, taken: Sequence[str], rows_at_once: int) -> "Iterator[pd.DataFrame]":
    """The rows of a file in successive frames, their index counting from 0 at the first; text is never held whole.

    :param taken: the columns that are used, so that nothing is asked about others
    :raises Refused: as ``read_frame``
    """
    import pyarrow as pa

    if path.suffix.lower() in (*PARQUET, *WORKBOOKS):
        frame, _ = read_frame(path, settings, "", taken)
        yield from (frame.iloc[start : start + rows_at_once] for start in range(0, len(frame), rows_at_once))
        return
    with _refusing_unreadable(path, ""):
        _check_file(path)
        with _text(path, settings) as (names, tables):
            unique, _ = _named(path, names, settings, taken)
            held, start = next(tables), 0
            for more in chain(tables, [None]):
                while len(held) >= rows_at_once or (more is None and len(held)):
                    frame = _frame(held.slice(0, rows_at_once), start)
                    yield frame.set_axis(unique, axis=1)
                    held, start = held.slice(rows_at_once), start + len(frame)
                held = held if more is None else pa.concat_tables([held, more])


def stem(path: Path) -> str:
    """The file's name without its endings, fit for the name of a folder."""
    name = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.stem).strip("._-")[:60] or "table"


def separator_of(header: str) -> str:
    """The commonest of comma, semicolon, tab and bar in a header row, outside quotes; else runs of blanks."""
    bare = re.sub(r'"[^"]*"', "x", header).strip()
    best = max(",;\t|", key=bare.count)
    if bare.count(best):
        return best
    return r"\s+" if re.search(r"\s", bare) else ","


# The names of columns -----------------------------------------------------------------------------------------------


def _named(
    path: Path, names: Sequence[str], settings: TableSettings, taken: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """Names of which each is there once, and clauses with what has to be asked about them.

    :raises Refused: where rows would not be what they are taken for
    """
    if settings.header is None and len(names) and all(re.fullmatch(NUMBER, name) for name in names):
        row = ", ".join(cut(name) for name in names[:3]) + (", ..." if len(names) > 3 else "")
        raise Refused(
            f"the first row of {path} holds numbers alone ({row}), so it seems to have no header: dataset.header=false "
            "counts it as data and calls the columns 1, 2, ..., dataset.header=true takes it for their names"
        )
    unique = _unique(names)
    if taken is not None:
        repeated = {name for name, each in zip(names, unique, strict=True) if each != name and each not in taken}
        if twice := [name for name in taken if name in repeated]:
            raise Refused(f"{path} has {names.count(twice[0])} columns named {twice[0]!r}: give each its own name")
        return unique, []
    settled = {*map(str, settings.drop), *map(str, settings.keep or ())}
    open_ = [(name, each) for name, each in zip(names, unique, strict=True) if each not in settled]
    questions = []
    unnamed = [each for _, each in open_ if each.startswith(UNNAMED)]
    if len(unnamed) == len(names) - 1 > 1:
        title = next(cut(name) for name in names if not name.startswith(UNNAMED))
        raise Refused(f"{path} names one column of {len(names)}, {title!r}: delete titles above the header")
    if unnamed:
        questions.append(f"has columns without a name, read as {shown(unnamed)}: {either(unnamed, settings)}")
    if twice := [each for name, each in open_ if each != name]:
        first = next(name for name, each in open_ if each == twice[0])
        questions.append(
            f"has more than one column {cut(first)!r}; the later are read as {shown(twice)}: {either(twice, settings)}"
        )
    return unique, questions


def _unique(names: Sequence[str]) -> list[str]:
    """Names with .1, .2, ... behind those that are repeated."""
    taken: dict[str, None] = {}
    for name in names:
        others = (f"{name}.{number}" for number in count(1))
        taken[name if name not in taken else next(other for other in others if other not in {*taken, *names})] = None
    return list(taken)


def _header(first: Sequence[Any], settings: TableSettings) -> list[str]:
    """The columns' names in the first row of a file, or their numbers where it is no header."""
    if settings.header is False:
        return [str(number) for number in range(1, len(first) + 1)]
    names = ["" if name is None else str(name).strip() for name in first]
    return [name or f"{UNNAMED}{index}" for index, name in enumerate(names)]


# Text ---------------------------------------------------------------------------------------------------------------


def _whole_text(path: Path, settings: TableSettings) -> "tuple[pd.DataFrame, list[str]]":
    import pyarrow as pa

    free, held = available(), []
    with _text(path, settings) as (names, tables):
        for table in tables:
            held.append(table)
            if (free := free - table.nbytes) < 0:
                raise Refused(f"{path} unpacks to more than the memory that is free: take fewer rows")
    return _frame(pa.concat_tables(held), 0), names


def _frame(table: Any, start: int) -> "pd.DataFrame":
    """Columns of texts, with the numbers of their rows as index."""
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype).set_axis(pd.RangeIndex(start, start + len(table)), axis=0)


@contextmanager
def _text(path: Path, settings: TableSettings) -> "Iterator[tuple[list[str], Iterator[Any]]]":
    """The names of a text's columns, and its rows as successive tables of texts, the first perhaps without rows."""
    with _refusing_damaged(path, settings), _opened(path, settings.encoding) as file:
        number, first = 1, file.readline(LONGEST)
        if marked := re.fullmatch(r'"?sep=(.)"?\s*', first):  # as Excel writes it
            number, first = number + 1, file.readline(LONGEST)
        while settings.header is not False and first and not first.strip():
            number, first = number + 1, file.readline(LONGEST)
        _check_lines(path, first, number)
        if not first.strip():
            raise Refused(f"{path} is no table with a header row: it is empty")
        given = SEPARATORS.get(settings.separator or "", settings.separator)
        separator = given or (marked[1] if marked else separator_of(first))
        if len(separator) > 1 and separator != BLANKS:
            known = ", ".join(SEPARATORS)
            raise Refused(f"dataset.separator={cut(separator)} cannot be used; it takes a character, or {known}")
        rows = _Rows(path, file, separator, number - 1)
        (header,) = rows.of(first, 1)
        names = _header(header, settings)
        rows.header = header
        yield names, chain([rows.table([header][: settings.header is False])], rows.tables())


class _Rows:
    """The rows of a text below its header.

    :param line: how many lines have been read
    """

    def __init__(self, path: Path, file: IO[str], separator: str, line: int) -> None:
        self.path, self.file, self.separator, self.line = path, file, separator, line
        self.header: Sequence[str] = ()
        self.blank = 0  # blank lines behind the last row: rows, unless they end the file

    def tables(self) -> Iterator[Any]:
        """Successive tables of texts."""
        import pyarrow as pa

        while block := self.file.read(BLOCK):
            block += self.file.readline(LONGEST)
            _check_lines(self.path, block, self.line + 1)
            blank = block[0] in "\r\n" or any(each in block for each in ("\n\n", "\n\r", "\r\r"))
            plain = not blank and not self.blank and '"' not in block
            if plain and len(self.separator) == 1 and len(self.header) > 1:
                try:
                    yield self._quickly(block)
                    continue
                except pa.ArrowInvalid:  # rows of another length
                    pass
            yield self.table(self._filled(self.of(block)))

    def _quickly(self, block: str) -> Any:
        """The table of lines without quotes that are rows of the header's length."""
        import pyarrow as pa
        from pyarrow import csv as quick

        names, data = [str(number) for number in range(len(self.header))], block.encode()
        table = quick.read_csv(
            pa.BufferReader(data),
            quick.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            quick.ParseOptions(delimiter=self.separator, quote_char=False, ignore_empty_lines=False),
            quick.ConvertOptions(column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False),
        )
        self.line += len(table)
        return table

    def table(self, rows: Sequence[Sequence[str]]) -> Any:
        """Rows as a table."""
        import pyarrow as pa

        columns = list(zip(*rows, strict=True)) or [()] * len(self.header)
        return pa.table({str(at): pa.array(cells, pa.large_string()) for at, cells in enumerate(columns)})

    def of(self, block: str, most: int | None = None) -> list[list[str]]:
        """The rows that begin in some lines; a quoted cell may end behind them.

        :raises Refused: where quotes do not enclose cells
        """
        lines = list(io.StringIO(block, newline=""))
        source: Iterator[str] = chain(lines, iter(lambda: self.file.readline(LONGEST), ""))
        if self.separator == BLANKS:
            source = (" ".join(line.split(None)) if '"' not in line else line.strip() for line in source)
        mark = " " if self.separator == BLANKS else self.separator
        reader = csv.reader(source, strict=True, delimiter=mark, skipinitialspace=True)
        rows: list[list[str]] = []
        before = 0
        try:
            while before < len(lines) and (row := next(reader, None)) is not None:
                if reader.line_num > before + 1 and self.header:
                    self._check_lines_of(row, before)
                before = reader.line_num
                rows.append(row)
                if self.header and len(row) != len(self.header) and (len(row) > 1 or any(map(str.strip, row))):
                    where = f"line {self.line + before:,}"
                    raise Refused(f"{self.path} is no table with a header row: {_of_lengths(where, row, self.header)}")
        except csv.Error as error:
            raise Refused(
                f"{self.path} is no table with a header row: line {self.line + reader.line_num:,} has a quotation mark "
                f"that does not enclose a cell ({error}): double it within quotes, or take it out"
            ) from error
        self.line += before
        return rows

    def _check_lines_of(self, row: Sequence[str], line: int) -> None:
        """Refuse a cell of several lines that are most likely rows."""
        mark = " " if self.separator == BLANKS else self.separator
        if any("\n" in cell and cell.count(mark) >= len(self.header) - 1 for cell in row):
            raise Refused(
                f"{self.path} is no table with a header row: a quotation mark in line {self.line + line + 1:,} makes "
                "one cell of several rows: close the quotes, or take it out"
            )

    def _filled(self, rows: Sequence[list[str]]) -> list[list[str]]:
        """Blank lines as rows without values, but for those at the end."""
        width, filled = len(self.header), []
        for row in rows:
            if not any(map(str.strip, row)) and len(row) < 2:
                self.blank += 1
                continue
            filled += [[""] * width] * self.blank + [row]
            self.blank = 0
        return filled


def _of_lengths(where: str, row: Sequence[Any], header: Sequence[Any]) -> str:
    """A row that is longer or shorter than the header, and what may be the cause."""
    title = (
        ""
        if len(header) > 1 and not str(header[0]).startswith("#")
        else "delete titles and comments above the header, "
    )
    if len(row) < len(header):
        advice = f"{title}delete lines that are no rows, and complete those that are"
    elif len(row) == len(header) + 1:
        advice = f"{title}name the first column where R's write.table left that out, or quote separators in cells"
    else:
        advice = f"{title}quote separators in cells, or say what they are by dataset.separator"
    cells = f"{len(row):,} cell{'s' * (len(row) != 1)}"
    return f"{where} has {cells} ({cut(', '.join(map(str, row[:4])))}), its header {len(header):,}: {advice}"


def _check_lines(path: Path, text: str, number: int) -> None:
    """Refuse lines that are too long, and NUL characters."""
    if len(text) >= LONGEST and max(map(len, text.splitlines())) >= LONGEST - 1:
        raise Refused(f"{path} has a line of more than {LONGEST:,} characters: it is no table of rows")
    before, nul, _ = text.partition("\0")
    if nul:
        raise Refused(
            f"{path} holds a NUL character in line {number + before.count(chr(10)):,}: it is damaged, or of another "
            "encoding, such as dataset.encoding=utf-16-le"
        )


def _opened(path: Path, encoding: str | None) -> IO[str]:
    opener = OPENERS.get(path.suffix.lower(), open)
    try:
        return opener(path, "rt", encoding=encoding or "utf-8-sig", newline="")
    except LookupError:
        raise Refused(
            f"dataset.encoding={cut(encoding)} is no encoding of texts that Python knows, such as latin-1"
        ) from None


@contextmanager
def _refusing_damaged(path: Path, settings: TableSettings) -> Iterator[None]:
    """Turn what is raised while a text is decoded or unpacked into a sentence."""
    try:
        yield
    except UnicodeError as error:
        with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            wide = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
        advice = "dataset.encoding=utf-16" if wide else "dataset.encoding=latin-1, or the one it was written in,"
        said = f"{settings.encoding or 'UTF-8'} ({cut(error, 100)})"
        raise Refused(f"{path} is no text in {said}: {advice} may read it") from error
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise Refused(f"{path} is no whole packed text: {cut(error, 100)}") from error


@contextmanager
def _refusing_unreadable(path: Path, key: str) -> Iterator[None]:
    """Say which file cannot be read, or which package would read it."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{key}{path} cannot be read: {error.strerror or cut(error, 100)}") from error
    except ImportError as error:
        raise Refused(f"{path} needs the package {error.name}: pip install {error.name}") from error


def _check_file(path: Path) -> None:
    """Refuse folders, files that could not be held in memory, and files that are not what their ending says."""
    if path.is_dir():
        raise Refused(f"{path} is a folder: name one file")
    if path.exists() and not path.is_file():
        raise Refused(f"{path} is no regular file")
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
                raise Refused(f"{path} {'holds' if ending != suffix else 'is'} {what}")


def _check_size(path: Path, size: int) -> None:
    """Refuse what could not be held in memory: a number takes about as much there as in text."""
    if size > (free := available()):
        raise Refused(
            f"{path} is {size / 2**30:,.1f} GiB large, with {free / 2**30:,.1f} GiB of memory free: take fewer rows"
        )


# Parquet and workbooks --------------------------------------------------------------------------------------------


def _parquet(path: Path) -> "tuple[pd.DataFrame, list[str], list[str]]":
    """A parquet file's columns, their names, and those of its index; a plain range is none."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        facts = parquet.read_metadata(path)
        _check_size(path, 8 * facts.num_rows * facts.num_columns)
        table = parquet.read_table(path, use_threads=False)
        metadata = table.schema.pandas_metadata or {}
        index = [
            name for name in metadata.get("index_columns", ()) if isinstance(name, str) and name in table.column_names
        ]
        frame = frame_of(table)
        stored = base64.b64decode((facts.metadata or {}).get(b"ARROW:schema", b""))
        for field in pa.ipc.read_schema(pa.py_buffer(stored)) if stored else ():
            if pa.types.is_dictionary(field.type) and field.name in frame.columns:  # read as what its entries are
                frame[field.name] = frame[field.name].astype("category")
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise Refused(f"{path} is no parquet file: {cut(error, 100)}") from error
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
    except (OSError, ImportError, MemoryError, Refused):
        raise
    except Exception as error:  # the packages for the two formats have exceptions of their own
        raise Refused(f"{path} is no workbook: {cut(error, 100)}") from error
    above = 0
    while settings.header is not False and above < len(rows) and not rows[above]:
        above += 1
    if above == len(rows):
        raise Refused(f"sheet {sheet!r} of {path} is empty")
    header = rows[above]
    rows = rows[above + (settings.header is not False) :]
    for number, row in enumerate(rows, above + 1 + (settings.header is not False)):
        if len(row) > len(header):
            raise Refused(f"sheet {cut(sheet)!r} of {path} is no table: {_of_lengths(f'row {number:,}', row, header)}")
        row += [None] * (len(header) - len(row))
    frame = pd.DataFrame(rows, columns=range(len(header)), dtype=object)
    return frame, _header(header, settings)


def _sheet_rows(path: Path, settings: TableSettings) -> tuple[str, list[list[Any]]]:
    """A sheet's name and its rows, each to its last cell with a value."""
    import openpyxl

    with zipfile.ZipFile(path) as packed:
        _check_size(path, 2 * sum(each.file_size for each in packed.infolist()))
    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    with closing(book):
        sheet = _sheet(path, [each.title for each in book.worksheets], settings.sheet)
        cells = book[sheet]
        cells.reset_dimensions()  # which may be wrong, or name the last cell of all
        rows, filled, width = [], 0, 0
        for row in cells.iter_rows(values_only=True):
            last = max((at for at, value in enumerate(row, 1) if value not in (None, "")), default=0)
            rows.append(list(row[:last]))
            filled, width = filled + last - row[:last].count(None), max(width, last)
            if len(rows) * width > SPARSE + 100 * filled:
                raise Refused(
                    f"sheet {cut(sheet)!r} of {path} reaches to row {len(rows):,} and column {width:,}, most of its "
                    "cells being empty: delete what lies outside the table"
                )
    while rows and not rows[-1]:
        rows.pop()
    return sheet, rows


def _sheet(path: Path, sheets: Sequence[Any], given: str | None) -> str:
    if given is None and len(sheets) == 1:
        return str(sheets[0])
    if given in sheets:
        return str(given)
    said = "" if given is None else f" and none is called {given!r}"
    names = ", ".join(cut(name) for name in sheets[:20])
    raise Refused(f"{path} holds the sheets {names}{said}: choose one with dataset.sheet=NAME")
