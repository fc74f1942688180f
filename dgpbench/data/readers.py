"""One small function per file format: bytes in, a float64 array of every column in the order of the file out.

Text is parsed to the nearest float64, so that equal tables have equal bits whatever file they came in. Nothing here
unpickles. A file that is not what it should be raises whatever its parser raises; the caller names the file.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np

from dgpbench.data.text_files import separator_of


def whitespace(file: BinaryIO) -> np.ndarray:
    """Numbers between runs of blanks, no header; empty lines are skipped."""
    return np.loadtxt(file, dtype=np.float64, ndmin=2)


def statlib(file: BinaryIO, header_lines: int, num_columns: int) -> np.ndarray:
    """StatLib's form: a preamble, then records that run over several lines."""
    lines = file.read().decode("ascii").splitlines()[header_lines:]
    return np.array(" ".join(lines).split(), dtype=np.float64).reshape(-1, num_columns)


def csv(file: BinaryIO, separator: str = ",", header: bool = True) -> np.ndarray:
    """Separated values, header names quoted or not, blanks after the separators or not."""
    import pandas as pd

    table = pd.read_csv(
        file,
        sep=separator,
        header=0 if header else None,
        skipinitialspace=True,
        index_col=False,
        float_precision="round_trip",  # pandas' faster parser may miss the nearest float64 by one bit
    )
    return table.to_numpy(dtype=np.float64)


def excel(file: BinaryIO, sheet: str | int = 0, engine: str = "openpyxl") -> np.ndarray:
    """One sheet of a workbook with a header row; empty rows and columns, which re-saved copies carry, are dropped.

    :param engine: openpyxl for .xlsx, xlrd for .xls
    """
    import pandas as pd

    table = pd.read_excel(file, sheet_name=sheet, engine=engine)
    return table.dropna(axis=0, how="all").dropna(axis=1, how="all").to_numpy(dtype=np.float64)


def arff(file: BinaryIO) -> np.ndarray:
    """Weka's attribute-relation format, numeric attributes."""
    import io

    from scipy.io.arff import loadarff

    records, _ = loadarff(io.TextIOWrapper(file, encoding="utf-8"))
    return np.array(records.tolist(), dtype=np.float64)


ENGINES = {b"PK\x03\x04": "openpyxl", b"\xd0\xcf\x11\xe0": "xlrd"}  # by the first bytes of a workbook
READERS: dict[str, Callable[..., np.ndarray]] = {
    "whitespace": whitespace,
    "statlib": statlib,
    "csv": csv,
    "excel": excel,
    "arff": arff,
}


def read(file: BinaryIO, reader: Mapping[str, Any]) -> np.ndarray:
    """Read with the reader that ``format`` names and the options beside it, or as a copy that a spreadsheet saved."""
    options = dict(reader)
    published = READERS[options.pop("format")]
    try:
        return published(file, **options)
    except Exception:  # each parser has its own
        file.seek(0)
        with suppress(Exception):
            return saved_again(file)
        raise


def saved_again(file: BinaryIO) -> np.ndarray:
    """A workbook, or text with any separator, with a header or without; the digest of the content decides."""
    first = file.readline()
    file.seek(0)
    if first[:4] in ENGINES:
        return excel(file, engine=ENGINES[first[:4]])
    line = first.decode("utf-8-sig")
    return csv(file, separator_of(line), header=line.strip(' "')[:1] not in "+-.0123456789")
