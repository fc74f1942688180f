"""Rows of a text file as raw cells: compressed or not, with any separator, without interpreting a cell."""

import bz2
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dgpbench.data.cell_messages import cut
from dgpbench.data.cells import SEPARATORS, TableSettings
from dgpbench.errors import UserError
from dgpbench.system.progress import counted
from dgpbench.system.provenance import available

if TYPE_CHECKING:
    import pandas as pd

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNNAMED = "Unnamed: "  # of a column without a name, as in pandas
BLOCK, LONGEST = 2**23, 2**24  # characters read at once, and of the longest line
BLANKS = SEPARATORS["blanks"]


def separator_of(header: str) -> str:
    """Return the most frequent of comma, semicolon, tab and bar in a header row, outside quotes; else blanks."""
    bare = re.sub(r'"[^"]*"', "x", header).strip()
    best = max(",;\t|", key=bare.count)
    if bare.count(best):
        return best
    return r"\s+" if re.search(r"\s", bare) else ","


def header_of(first: Sequence[Any], settings: TableSettings) -> list[str]:
    """Return the columns' names in the first row of a file, or their numbers if it is not a header."""
    if settings.header is False:
        return [str(number) for number in range(1, len(first) + 1)]
    names = ["" if name is None else str(name).strip() for name in first]
    return [name or f"{UNNAMED}{index}" for index, name in enumerate(names)]


def whole_text(path: Path, settings: TableSettings) -> "tuple[pd.DataFrame, list[str]]":
    """Return all rows and the columns' names.

    :raises UserError: for a file that is unreadable or too large for memory
    """
    import pyarrow as pa

    free, held = available(), []
    with text_tables(path, settings) as (names, tables):
        for table in tables:
            held.append(table)
            if (free := free - table.nbytes) < 0:
                raise UserError(f"{path} unpacks to more than the free memory: use fewer rows")
    return frame_of_texts(pa.concat_tables(held), 0), names


def frame_of_texts(table: Any, start: int) -> "pd.DataFrame":
    """Return columns of texts with the row numbers as index."""
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype).set_axis(pd.RangeIndex(start, start + len(table)), axis=0)


@contextmanager
def text_tables(path: Path, settings: TableSettings) -> "Iterator[tuple[list[str], Iterator[Any]]]":
    """Yield the names of a text's columns, and its rows as successive tables of texts; the first may be empty."""
    with _opened(path, settings) as file:
        number, first = 1, file.readline(LONGEST)
        if marked := re.fullmatch(r'"?sep=(.)"?\s*', first):  # as Excel writes it
            number, first = number + 1, file.readline(LONGEST)
        while first and not first.strip():
            number, first = number + 1, file.readline(LONGEST)
        _check_lines(path, first, number)
        if not first.strip():
            raise UserError(f"{path} is not a table with a header row: it is empty")
        separator = SEPARATORS.get(settings.separator or "", settings.separator)
        separator = separator or (marked[1] if marked else separator_of(first))
        if (len(separator) > 1 and separator != BLANKS) or separator in '"\r\n':
            known = ", ".join(SEPARATORS)
            raise UserError(f"dataset.separator={cut(separator)} cannot be used; it takes a character, or {known}")
        rows = _Rows(path, file, separator, number - 1)
        (rows.header,) = rows.parse(first)
        names = header_of(rows.header, settings)
        yield names, chain([rows.table([rows.header][: settings.header is False])], rows.tables())


class _Rows:
    """Rows of a text below its header; ``line`` lines have been read."""

    def __init__(self, path: Path, file: IO[str], separator: str, line: int) -> None:
        self.path, self.file, self.separator, self.line = path, file, separator, line
        self.mark = " " if separator == BLANKS else separator
        self.header: Sequence[str] = ()
        self.blank = 0  # blank lines after the last row: rows, unless they end the file

    def tables(self) -> Iterator[Any]:
        """Yield successive tables of texts."""
        import pyarrow as pa

        while block := self.file.read(BLOCK):
            block += self.file.readline(LONGEST)
            _check_lines(self.path, block, self.line + 1)
            blank = block[0] in "\r\n" or any(each in block for each in ("\n\n", "\n\r", "\r\r"))
            plain = not blank and not self.blank and '"' not in block
            quick = len(self.separator) == 1 and self.separator.isascii()  # pyarrow takes no other separators
            if plain and quick and len(self.header) > 1:
                try:
                    yield self._quickly(block)
                    continue
                except pa.ArrowInvalid:  # rows of different lengths
                    pass
            yield self.table(self._with_blank_rows(self.parse(block)))

    def _quickly(self, block: str) -> Any:
        """Return the table of lines without quotes, if all have the header's length."""
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
        """Return rows as a table."""
        import pyarrow as pa

        columns = list(zip(*rows, strict=True)) or [()] * len(self.header)
        return pa.table({str(at): pa.array(cells, pa.large_string()) for at, cells in enumerate(columns)})

    def parse(self, block: str) -> list[list[str]]:
        """Return the rows that begin in some lines, or the header; a quoted cell may end behind them.

        :raises UserError: where quotes do not enclose cells
        """
        lines = list(io.StringIO(block, newline=""))
        source: Iterator[str] = chain(lines, iter(lambda: self.file.readline(LONGEST), ""))
        if self.separator == BLANKS:
            source = (" ".join(line.split(None)) if '"' not in line else line.strip() for line in source)
        reader = csv.reader(source, strict=True, delimiter=self.mark, skipinitialspace=True)
        rows: list[list[str]] = []
        before, width = 0, len(self.header)
        try:
            while before < len(lines) and (row := next(reader, None)) is not None:
                if reader.line_num > before + 1 and width:
                    self._check_cells(row, self.line + before + 1)
                before = reader.line_num
                rows.append(row)
                if width and len(row) != width and (len(row) > 1 or any(map(str.strip, row))):
                    problem = wrong_length(f"line {self.line + before:,}", row, self.header)
                    raise UserError(f"{self.path} is not a table with a header row: {problem}")
        except csv.Error as error:
            raise UserError(
                f"{self.path} is not a table with a header row: line {self.line + reader.line_num:,} has a quotation "
                f"mark that does not enclose a cell ({error}): double it within quotes, or remove it"
            ) from error
        self.line += before
        return rows

    def _check_cells(self, row: Sequence[str], line: int) -> None:
        if any("\n" in cell and cell.count(self.mark) >= len(self.header) - 1 for cell in row):
            raise UserError(
                f"{self.path} is not a table with a header row: a quotation mark in line {line:,} makes one cell of "
                "several rows: close the quotes, or remove it"
            )

    def _with_blank_rows(self, rows: Sequence[list[str]]) -> list[list[str]]:
        """Replace blank lines by rows without values, except at the end."""
        filled: list[list[str]] = []
        for row in rows:
            if not any(map(str.strip, row)) and len(row) < 2:
                self.blank += 1
                continue
            filled += [[""] * len(self.header)] * self.blank + [row]
            self.blank = 0
        return filled


def wrong_length(where: str, row: Sequence[Any], header: Sequence[Any]) -> str:
    """Describe a row that is longer or shorter than the header, and the probable cause."""
    titled = len(header) == 1 or str(header[0]).startswith("#")
    advice = "delete titles and comments above the header, " if titled else ""
    if len(row) < len(header):
        advice += "delete lines that are not rows, and complete those that are"
    elif len(row) == len(header) + 1:
        advice += "name the first column where R's write.table left that out, or quote separators in cells"
    else:
        advice += "quote separators in cells, or set dataset.separator"
    cells = counted(len(row), "cell")
    return f"{where} has {cells} ({cut(', '.join(map(str, row[:4])))}), its header {len(header):,}: {advice}"


def _check_lines(path: Path, text: str, number: int) -> None:
    """Refuse lines that are too long, and NUL characters."""
    if len(text) >= LONGEST and max(map(len, text.splitlines())) >= LONGEST - 1:
        raise UserError(f"{path} has a line of more than {LONGEST:,} characters: it is not a table of rows")
    before, nul, _ = text.partition("\0")
    if nul:
        raise UserError(
            f"{path} holds a NUL character in line {number + before.count(chr(10)):,}: it is damaged, or has another "
            "encoding, such as dataset.encoding=utf-16-le"
        )


@contextmanager
def _opened(path: Path, settings: TableSettings) -> Iterator[IO[str]]:
    """Open a text; turn errors of decoding and unpacking into a UserError."""
    opener = OPENERS.get(path.suffix.lower(), open)
    try:
        file = opener(path, "rt", encoding=settings.encoding or "utf-8-sig", newline="")
    except LookupError:
        encoding = f"dataset.encoding={cut(settings.encoding)}"
        raise UserError(f"{encoding} is not a text encoding known to Python, such as latin-1") from None
    try:
        with file:
            yield file
    except UnicodeError as error:
        with opener(path, "rb") as start:
            wide = start.read(2) in (b"\xff\xfe", b"\xfe\xff")
        advice = "dataset.encoding=utf-16" if wide else "dataset.encoding=latin-1, or the one it was written in,"
        encoding = f"{settings.encoding or 'UTF-8'} ({cut(error, 100)})"
        raise UserError(f"{path} is not a text in {encoding}: {advice} may read it") from error
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"{path} is not a complete compressed text: {cut(error, 100)}") from error
