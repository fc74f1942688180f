"""year and airline, on small files of the form that their upstream files have."""

import bz2
import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgpbench.data.datasets import import_path, load, specs
from dgpbench.data.download import sha256_of
from dgpbench.data.splits import TaskSettings, make_split
from dgpbench.errors import UserError

SONGS = "".join(
    f"{1950 + i}," + ",".join(f"{x:.5f}" for x in np.random.Generator(np.random.PCG64(i)).normal(0, 30, 90)) + "\n"
    for i in range(12)
).encode()
HEADER = (
    "Year,Month,DayofMonth,DayOfWeek,DepTime,CRSDepTime,ArrTime,CRSArrTime,UniqueCarrier,FlightNum,TailNum,"
    "ActualElapsedTime,CRSElapsedTime,AirTime,ArrDelay,DepDelay,Origin,Dest,Distance,TaxiIn,TaxiOut,Cancelled,"
    "CancellationCode,Diverted,CarrierDelay,WeatherDelay,NASDelay,SecurityDelay,LateAircraftDelay\n"
)
FLIGHTS = HEADER + (
    "2008,1,3,4,2003,1955,2211,2225,WN,335,N712SW,128,150,116,-14,8,IAD,TPA,810,4,8,0,,0,NA,NA,NA,NA,NA\n"
    "2008,1,3,4,NA,1955,NA,2225,WN,336,N712SW,NA,150,NA,NA,NA,IAD,TPA,810,NA,NA,1,A,0,NA,NA,NA,NA,NA\n"  # cancelled
    "2008,2,4,1,754,735,1002,1000,WN,3231,N772SW,128,145,113,2,19,IAD,TPA,810,5,10,0,,0,NA,NA,NA,NA,NA\n"
    "2008,3,5,3,628,620,804,750,WN,448,NOYEAR,96,90,76,14,8,IND,BWI,515,3,17,0,,0,NA,NA,NA,NA,NA\n"
    "2008,4,6,7,926,930,1054,1100,WN,1746,N000XX,88,90,78,-6,-4,IND,BWI,515,3,7,0,,0,NA,NA,NA,NA,NA\n"
    "2008,5,6,2,926,930,1054,1100,WN,1746,N712SW,88,90,78,-6,-4,IND,BWI,515,3,7,0,,0,NA,NA,NA,NA,NA\n"  # May
)
PLANES = (
    "tailnum,type,manufacturer,issue_date,model,status,aircraft_type,engine_type,year\nN050AA\n"
    "N712SW,Corporation,BOEING,05/19/1998,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,1998\n"
    "N772SW,Corporation,BOEING,05/19/2000,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,2000\n"
    "NOYEAR,Corporation,BOEING,05/19/2000,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,None\n"
    "N000XX,Corporation,BOEING,05/19/2000,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,0000\n"
)


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror directory with both data sets, in small."""
    root = tmp_path / "mirror"
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("YearPredictionMSD.txt", SONGS)
    expo = root / "stat-computing.org" / "dataexpo" / "2009"
    songs = root / "archive.ics.uci.edu" / "static" / "public" / "203"
    for folder in (expo, songs):
        folder.mkdir(parents=True)
    (songs / "yearpredictionmsd.zip").write_bytes(file.getvalue())
    (expo / "2008.csv.bz2").write_bytes(bz2.compress(FLIGHTS.encode()))
    (expo / "plane-data.csv").write_text(PLANES)
    monkeypatch.setenv("DGPBENCH_MIRROR", str(root))
    return root


def year(**more: Any) -> dict[str, Any]:
    return {**specs()["year"], **more}


def test_years_target_is_its_first_column_and_without_digest_unverified(mirrored: Path) -> None:
    table = load(year())
    assert table.X.shape == (12, 90)
    assert table.y.tolist() == list(range(1950, 1962))
    assert table.verified == "unverified"
    assert table.feature_names[0] == "timbre_avg_1"


def test_the_members_hash_vouches_for_year(mirrored: Path) -> None:
    spec = year(sources=[{**specs()["year"]["sources"][0], "member_sha256": hashlib.sha256(SONGS).hexdigest()}])
    table = load(spec)
    assert table.verified == "member sha256"
    assert table.sources[0].sha256 == sha256_of(Path(table.sources[0].path)) != table.sources[0].pinned_sha256


def test_years_fixed_split_keeps_the_order_of_the_file(mirrored: Path) -> None:
    spec = year(fixed_train_rows=9)
    assert make_split(load(spec), TaskSettings("fixed"), 0, spec).test.tolist() == [9, 10, 11]
    with pytest.raises(UserError, match="trains on 463,715 rows, but this copy has 12"):
        make_split(load(year()), TaskSettings("fixed"), 0, year())


def test_airline_keeps_complete_flights_of_known_planes_up_to_april(mirrored: Path) -> None:
    table = load(specs()["airline"])
    assert table.X.tolist() == [[1, 3, 4, 2003, 2211, 116, 810, 10], [2, 4, 1, 754, 1002, 113, 810, 8]]
    assert table.y.tolist() == [-14, 2]
    assert table.feature_names[-1] == "age"
    assert table.verified == "unverified"
    assert [Path(file.path).name for file in table.sources] == ["2008.csv.bz2", "plane-data.csv"]


def test_a_cut_off_airline_file_is_refused(mirrored: Path) -> None:
    (file,) = mirrored.rglob("2008.csv.bz2")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UserError, match="could not obtain a valid copy of airline"):
        load(specs()["airline"])


@pytest.mark.parametrize(
    ("name", "files"), [("airline", ["2008.csv.bz2", "plane-data.csv"]), ("year", ["yearpredictionmsd.zip"])]
)
def test_a_table_without_a_digest_is_imported_by_the_names_of_its_files(
    name: str, files: list[str], mirrored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DGPBENCH_MIRROR")
    for file in files:
        assert [row[:2] for row in import_path(next(mirrored.rglob(file)))] == [(name, "imported")]
    assert load(specs()[name]).num_rows > 1


def test_years_inner_text_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "YearPredictionMSD.txt").write_bytes(SONGS)
    import_path(tmp_path / "YearPredictionMSD.txt")
    assert load(year()).num_rows == 12
