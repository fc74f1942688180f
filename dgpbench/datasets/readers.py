"""One small function per file format: bytes in, a float64 array of every column in the order of the file out.

Text is parsed to the nearest float64, so that equal tables have equal bits whatever file they came in. Nothing here
unpickles. A file that is not what it should be raises whatever its parser raises; the caller names the file.
"""

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np


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


READERS: dict[str, Callable[..., np.ndarray]] = {
    "whitespace": whitespace,
    "statlib": statlib,
    "csv": csv,
    "excel": excel,
    "arff": arff,
}


def read(file: BinaryIO, reader: Mapping[str, Any]) -> np.ndarray:
    """Read with the reader that ``format`` names and the options beside it."""
    options = dict(reader)
    return READERS[options.pop("format")](file, **options)
