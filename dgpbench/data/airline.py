"""US flights of January to April 2008 (ASA Data Expo 2009), as in Hensman, Fusi & Lawrence (2013), UAI, Sec. 4.3.

The records do not hold the age of the plane; it is joined from the Data Expo's second file. How the papers reached
2,082,007 rows is not known: every complete row is taken, and their number is what it is.
"""

import bz2
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dgpbench.data.archives import opened
from dgpbench.data.download import Copy, Damaged, Part, damage_when_unreadable, obtain
from dgpbench.data.flights import TARGET, flight_table
from dgpbench.data.sources import sources_of
from dgpbench.data.table import SourceFile, Table

if TYPE_CHECKING:
    import pandas as pd

# The name of each field in the Data Expo's files, and ours.
FIELDS = {
    "Month": "month",
    "DayofMonth": "day",
    "DayOfWeek": "day_of_week",
    "DepTime": "dep_time",
    "ArrTime": "arr_time",
    "AirTime": "air_time",
    "Distance": "distance",
    "ArrDelay": TARGET,
    "TailNum": "tailnum",
}
CHUNK_ROWS = 500_000


def load(spec: Mapping[str, Any]) -> Table:
    """The complete rows of the months that the configuration names."""
    records, planes = parts(spec)
    built, planes_file = obtain(f"{spec['name']} (planes)", planes.sources, read_planes)
    flights, flights_file = obtain(spec["name"], records.sources, lambda copy: read_flights(copy, spec["last_month"]))
    return flight_table(spec["name"], flights, built, spec["year"], (flights_file, planes_file))


def parts(spec: Mapping[str, Any]) -> list[Part]:
    """The flights' file and the planes' file."""
    return [
        Part(sources_of(spec["sources"]), lambda copy: read_flights(copy, spec["last_month"]), recognisable=False),
        Part(sources_of(spec["planes"]), read_planes, recognisable=False),
    ]


def read_flights(copy: Copy, last_month: int) -> "tuple[pd.DataFrame, SourceFile]":
    """The complete records up to a month, read in chunks: the whole year is 7 million rows."""
    import pandas as pd

    with damage_when_unreadable(), opened(copy.path) as compressed, bz2.open(compressed) as file:
        chunks = pd.read_csv(file, usecols=list(FIELDS), chunksize=CHUNK_ROWS, dtype={"TailNum": str})
        kept = [chunk[chunk["Month"] <= last_month].dropna() for chunk in chunks]
        flights = pd.concat(kept, ignore_index=True).rename(columns=FIELDS)
        if flights.empty:
            raise Damaged(f"holds no complete flight of the months 1 to {last_month}")
    return flights, copy.file


def read_planes(copy: Copy) -> "tuple[pd.DataFrame, SourceFile]":
    """Tail number and year of building; planes without one, written as a gap, None or 0000, are left out."""
    import pandas as pd

    with damage_when_unreadable(), opened(copy.path) as file:
        planes = pd.read_csv(file, usecols=["tailnum", "year"], dtype=str)
        planes["year"] = pd.to_numeric(planes["year"], errors="coerce")
        planes = planes[planes["year"] > 0]
        if planes.empty:
            raise Damaged("holds no plane with a year of building")
    return planes, copy.file
