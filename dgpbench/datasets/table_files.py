"""A table's file as a raw frame: text, parquet or a workbook by its ending, every cell as it was read."""

import bz2
import gzip
import lzma
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dgpbench.datasets.headers import checked_names, names_of
from dgpbench.datasets.table_settings import MARKS, SEPARATORS, TableSettings
from dgpbench.errors import Refused
from dgpbench.system.memory import available

if TYPE_CHECKING:
    import pandas as pd

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
WORKBOOKS = (".xlsx", ".xlsm", ".xls")
PARQUET = (".parquet", ".pq")


def read_frame(
    path: Path, settings: TableSettings, key: str = "dataset.path=", taken: Sequence[str] | None = None
) -> "pd.DataFrame":
    """The columns of a file by their names; a name that is repeated gets ``.1``, ``.2``, ... behind it.

    :param key: how the user named the file
    :param taken: the columns that are used, so that nothing is asked about others; None where all are
    :raises Refused: for a file that cannot be read, or a header that leaves a question open
    """
    _check_bytes(path)
    read = _parquet if path.suffix.lower() in PARQUET else _workbook if path.suffix.lower() in WORKBOOKS else _text
    with _refusing_unreadable(path, key):
        frame, names = read(path, settings)
    return frame.set_axis(checked_names(path, names, settings, taken), axis=1)


def parts(path: Path, settings: TableSettings, taken: Sequence[str], rows_at_once: int) -> "Iterator[pd.DataFrame]":
    """The rows of a file in successive frames, their index counting from 0 at the first; text is never held whole.

    :param taken: the columns that are used, so that nothing is asked about others
    :raises Refused: as ``read_frame``
    """
    import pandas as pd

    if path.suffix.lower() in (*PARQUET, *WORKBOOKS):
        frame = read_frame(path, settings, "", taken)
        yield from (frame.iloc[start : start + rows_at_once] for start in range(0, len(frame), rows_at_once))
        return
    with _refusing_unreadable(path, ""), _refusing(path, settings), _opened(path, settings.encoding) as file:
        options, names = _text_options(file, settings)
        unique = checked_names(path, names, settings, taken)
        with pd.read_csv(file, chunksize=rows_at_once, **options) as frames:
            for frame in frames:
                yield frame.set_axis(unique, axis=1)


def stem(path: Path) -> str:
    """The file's name without its endings, fit for the name of a folder."""
    name = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name.stem).strip("._-")[:60] or "table"


def separator_of(header: str) -> str:
    """The commonest of comma, semicolon, tab and bar in a header row, outside quotes; else runs of blanks."""
    bare = re.sub(r'"[^"]*"', "", header).strip()
    best = max(",;\t|", key=bare.count)
    if bare.count(best):
        return best
    return r"\s+" if " " in bare else ","


def _text(path: Path, settings: TableSettings) -> "tuple[pd.DataFrame, list[str]]":
    import pandas as pd

    with _refusing(path, settings), _opened(path, settings.encoding) as file:
        options, names = _text_options(file, settings)
        return pd.read_csv(file, low_memory=False, **options), names  # one kind for the whole of a column


def _text_options(file: IO[str], settings: TableSettings) -> tuple[dict[str, Any], list[str]]:
    """What pandas is told of a text, and the names of its columns; the file is at its beginning before and after."""
    import pandas as pd

    separator = SEPARATORS.get(settings.separator or "", settings.separator) or separator_of(file.readline())
    options: dict[str, Any] = {"sep": separator, "index_col": False, "skipinitialspace": True}
    file.seek(0)
    first = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    file.seek(0)
    return options | {"float_precision": "round_trip"} | _meanings(settings), names_of(first.iloc[0], settings)


@contextmanager
def _refusing_unreadable(path: Path, key: str) -> Iterator[None]:
    """Say which file cannot be read, or which package would read it."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{key}{path} cannot be read: {error.strerror or error}") from error
    except ImportError as error:
        raise Refused(f"{path} needs the package {error.name}: pip install {error.name}") from error


@contextmanager
def _refusing(path: Path, settings: TableSettings) -> Iterator[None]:
    """Turn what is raised while a text is read into a sentence."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # raised where a row is longer than the header
            yield
    except UnicodeError as error:
        raise Refused(_undecodable(path, settings.encoding, error)) from error
    except (ValueError, EOFError, lzma.LZMAError, pd.errors.ParserWarning) as error:
        raise Refused(_no_table(path, settings.separator, error)) from error


def _meanings(settings: TableSettings) -> dict[str, Any]:
    """What pandas is told of marks, gaps and the header, in texts and workbooks alike."""
    return {
        "header": None if settings.header is False else 0,
        "decimal": MARKS[settings.decimal],
        "thousands": None if settings.thousands is None else MARKS[settings.thousands],
        "na_values": settings.na_values,
    }


def _opened(path: Path, encoding: str | None) -> IO[str]:
    opener = OPENERS.get(path.suffix.lower(), open)
    try:
        file = opener(path, "rt", encoding=encoding or "utf-8-sig", newline="")
    except LookupError:
        raise Refused(
            f"dataset.encoding={encoding} is no encoding of texts that Python knows, such as latin-1"
        ) from None
    _check_text(path, file)
    return file


def _check_text(path: Path, file: IO[str]) -> None:
    """Refuse a text with NUL in it, where pandas ends a cell without a word."""
    row = 1
    while part := file.read(2**20):
        before, nul, _ = part.partition("\0")
        row += before.count("\n")
        if nul:
            file.close()
            raise Refused(
                f"{path} holds a NUL character in line {row}: it is damaged, or of another encoding, such as "
                "dataset.encoding=utf-16-le"
            )
    file.seek(0)


def _undecodable(path: Path, encoding: str | None, error: UnicodeError) -> str:
    with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
        wide = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    advice = "dataset.encoding=utf-16" if wide else "dataset.encoding=latin-1, or the one it was written in,"
    return f"{path} is no text in {encoding or 'UTF-8'} ({error}): {advice} may read it"


def _no_table(path: Path, separator: str | None, error: Exception) -> str:
    more = "its rows have more cells than its header"
    words = more if isinstance(error, Warning) else " ".join(str(error).split())[:160]
    by = f"columns separated by {separator!r}" if separator else "columns"
    return f"{path} is no table with a header row and {by}: {words}"


def _parquet(path: Path, settings: TableSettings) -> "tuple[pd.DataFrame, list[str]]":
    import pandas as pd
    from pyarrow import ArrowException

    try:
        frame = pd.read_parquet(path)
    except (ValueError, ArrowException) as error:
        raise Refused(f"{path} is no parquet file: {' '.join(str(error).split())[:160]}") from error
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()  # an index that was stored is a column like any other
    return frame, [str(name).strip() for name in frame.columns]


def _workbook(path: Path, settings: TableSettings) -> "tuple[pd.DataFrame, list[str]]":
    import pandas as pd

    try:
        with pd.ExcelFile(path) as book:
            sheet = _sheet(path, book.sheet_names, settings.sheet)
            first = book.parse(sheet, header=None, nrows=1, dtype=str, keep_default_na=False)
            frame = book.parse(sheet, **_meanings(settings)).dropna(axis=0, how="all")
    except (OSError, ImportError, MemoryError, Refused):
        raise
    except Exception as error:  # the packages for the two formats have exceptions of their own
        raise Refused(f"{path} is no workbook: {' '.join(str(error).split())[:160]}") from error
    if first.empty:
        raise Refused(f"the first row of sheet {sheet!r} of {path} is empty: it has to name the columns")
    return frame, names_of(first.iloc[0], settings)


def _sheet(path: Path, sheets: Sequence[Any], given: str | None) -> str:
    if given is None and len(sheets) == 1:
        return str(sheets[0])
    if given in sheets:
        return str(given)
    said = "" if given is None else f" and none is called {given!r}"
    raise Refused(f"{path} holds the sheets {', '.join(map(str, sheets))}{said}: choose one with dataset.sheet=NAME")


def _check_bytes(path: Path) -> None:
    """Refuse a file that could not be held in memory: a number takes about as much there as in text."""
    size, free = path.stat().st_size if path.is_file() else 0, available()
    if size > free:
        raise Refused(
            f"{path} is {size / 2**30:,.1f} GiB large, with {free / 2**30:,.1f} GiB of memory free: take fewer rows"
        )
