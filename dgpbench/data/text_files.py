"""The rows of a text file as raw cells: packed or not, with any separator, without interpreting a cell."""

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
from dgpbench.data.table_settings import SEPARATORS, TableSettings
from dgpbench.errors import UserError
from dgpbench.system.memory import available

if TYPE_CHECKING:
    import pandas as pd

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
UNNAMED = "Unnamed: "  # the name of a column that has none, as pandas has it
BLOCK, LONGEST = 2**23, 2**24  # characters read at once, and those of the longest line
BLANKS = SEPARATORS["blanks"]


def separator_of(header: str) -> str:
    """The commonest of comma, semicolon, tab and bar in a header row, outside quotes; else runs of blanks."""
    bare = re.sub(r'"[^"]*"', "x", header).strip()
    best = max(",;\t|", key=bare.count)
    if bare.count(best):
        return best
    return r"\s+" if re.search(r"\s", bare) else ","


def header_of(first: Sequence[Any], settings: TableSettings) -> list[str]:
    """The columns' names in the first row of a file, or their numbers where it is no header."""
    if settings.header is False:
        return [str(number) for number in range(1, len(first) + 1)]
    names = ["" if name is None else str(name).strip() for name in first]
    return [name or f"{UNNAMED}{index}" for index, name in enumerate(names)]


def whole_text(path: Path, settings: TableSettings) -> "tuple[pd.DataFrame, list[str]]":
    """All rows, and the columns' names.

    :raises UserError: for a file that cannot be read, or does not fit in memory
    """
    import pyarrow as pa

    free, held = available(), []
    with text_tables(path, settings) as (names, tables):
        for table in tables:
            held.append(table)
            if (free := free - table.nbytes) < 0:
                raise UserError(f"{path} unpacks to more than the memory that is free: take fewer rows")
    return frame_of_texts(pa.concat_tables(held), 0), names


def frame_of_texts(table: Any, start: int) -> "pd.DataFrame":
    """Columns of texts, with the numbers of their rows as index."""
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype).set_axis(pd.RangeIndex(start, start + len(table)), axis=0)


@contextmanager
def text_tables(path: Path, settings: TableSettings) -> "Iterator[tuple[list[str], Iterator[Any]]]":
    """The names of a text's columns, and its rows as successive tables of texts, the first perhaps without rows."""
    with _refusing_damaged(path, settings), _opened(path, settings.encoding) as file:
        number, first = 1, file.readline(LONGEST)
        if marked := re.fullmatch(r'"?sep=(.)"?\s*', first):  # as Excel writes it
            number, first = number + 1, file.readline(LONGEST)
        while settings.header is not False and first and not first.strip():
            number, first = number + 1, file.readline(LONGEST)
        _check_lines(path, first, number)
        if not first.strip():
            raise UserError(f"{path} is no table with a header row: it is empty")
        given = SEPARATORS.get(settings.separator or "", settings.separator)
        separator = given or (marked[1] if marked else separator_of(first))
        if len(separator) > 1 and separator != BLANKS:
            known = ", ".join(SEPARATORS)
            raise UserError(f"dataset.separator={cut(separator)} cannot be used; it takes a character, or {known}")
        rows = _Rows(path, file, separator, number - 1)
        (header,) = rows.of(first, 1)
        names = header_of(header, settings)
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

        :raises UserError: where quotes do not enclose cells
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
                    raise UserError(f"{self.path} is no table with a header row: {of_lengths(where, row, self.header)}")
        except csv.Error as error:
            raise UserError(
                f"{self.path} is no table with a header row: line {self.line + reader.line_num:,} has a quotation mark "
                f"that does not enclose a cell ({error}): double it within quotes, or take it out"
            ) from error
        self.line += before
        return rows

    def _check_lines_of(self, row: Sequence[str], line: int) -> None:
        """Refuse a cell of several lines that are most likely rows."""
        mark = " " if self.separator == BLANKS else self.separator
        if any("\n" in cell and cell.count(mark) >= len(self.header) - 1 for cell in row):
            raise UserError(
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


def of_lengths(where: str, row: Sequence[Any], header: Sequence[Any]) -> str:
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
        raise UserError(f"{path} has a line of more than {LONGEST:,} characters: it is no table of rows")
    before, nul, _ = text.partition("\0")
    if nul:
        raise UserError(
            f"{path} holds a NUL character in line {number + before.count(chr(10)):,}: it is damaged, or of another "
            "encoding, such as dataset.encoding=utf-16-le"
        )


def _opened(path: Path, encoding: str | None) -> IO[str]:
    opener = OPENERS.get(path.suffix.lower(), open)
    try:
        return opener(path, "rt", encoding=encoding or "utf-8-sig", newline="")
    except LookupError:
        raise UserError(
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
        raise UserError(f"{path} is no text in {said}: {advice} may read it") from error
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"{path} is no whole packed text: {cut(error, 100)}") from error
