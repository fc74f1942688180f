"""What ``dgpbench data`` does."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import TABLE, small_spec
from pytest_httpserver import HTTPServer

from dgpbench.data import datasets
from dgpbench.data.datasets import load, specs
from dgpbench.errors import UserError

URL = "http://127.0.0.1:9/folder/t.csv"


@pytest.fixture
def only_small(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A registry of one data set with an archive that no server has."""
    spec = small_spec("http://127.0.0.1:9/folder/t.zip", URL)
    spec["sources"][0]["member"] = "in/t.csv"
    monkeypatch.setattr(datasets, "specs", lambda: {"small": spec})
    return spec


def zipped(content: bytes) -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("in/t.csv", content)
    return file.getvalue()


@pytest.mark.parametrize("name", ["t.csv", "renamed by hand.txt"])
def test_an_inner_file_can_be_imported_under_any_name(name: str, tmp_path: Path, only_small: dict, cache: Path) -> None:
    (tmp_path / name).write_bytes(TABLE)
    assert [row.status for row in datasets.import_path(tmp_path / name)] == ["imported"]
    assert load(only_small).sources[0].path.startswith(str(cache))
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["t.zip", "renamed.zip"])
def test_an_archive_can_be_imported_under_any_name(name: str, tmp_path: Path, only_small: dict, cache: Path) -> None:
    (tmp_path / name).write_bytes(zipped(TABLE))
    datasets.import_path(tmp_path / name)
    assert load(only_small).sources[0].path == str(cache / "127.0.0.1:9" / "folder" / "t.zip")


def test_a_folder_is_searched_for_the_files_of_a_data_set(tmp_path: Path, only_small: dict) -> None:
    folder = tmp_path / "downloads" / "deep"
    folder.mkdir(parents=True)
    (folder / "t.csv").write_bytes(TABLE)
    (folder / "letter.txt").write_text("Dear reader, this is not a table.")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8")
    assert [row.status for row in datasets.import_path(tmp_path / "downloads")] == ["imported"]


def test_a_damaged_file_is_refused_with_its_digest(tmp_path: Path, only_small: dict, cache: Path) -> None:
    (tmp_path / "t.csv").write_bytes(TABLE.replace(b"10", b"11"))
    with pytest.raises(UserError, match=f"instead of {only_small['digest_xy']}"):
        datasets.import_path(tmp_path / "t.csv")
    assert not cache.exists()
    assert (tmp_path / "t.csv").exists()


def test_nothing_to_import_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear reader")
    with pytest.raises(UserError, match="holds no file of a data set"):
        datasets.import_path(tmp_path)
    with pytest.raises(UserError, match="nothing does not exist"):
        datasets.import_path(tmp_path / "nothing")


@pytest.mark.full
def test_official_archives_are_imported_for_both_wines_and_power(mirror: Path, tmp_path: Path) -> None:
    (wine,) = mirror.rglob("wine+quality.zip")
    assert {(row.name, row.status) for row in datasets.import_path(wine)} == {
        ("wine_red", "imported"),
        ("wine_white", "imported"),
    }
    (power,) = mirror.rglob("CCPP.zip")
    with zipfile.ZipFile(power) as archive:
        (tmp_path / "Folds5x2_pp.xlsx").write_bytes(archive.read("CCPP/Folds5x2_pp.xlsx"))
    assert [row[:2] for row in datasets.import_path(tmp_path / "Folds5x2_pp.xlsx")] == [("power", "imported")]
    assert load(specs()["power"]).verified == load(specs()["wine_white"]).verified == "digest"


def test_fetch_prints_the_source_of_each_table(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    httpserver.expect_request("/t.csv").respond_with_data(TABLE)
    good, bad = small_spec(httpserver.url_for("/t.csv")), small_spec("http://127.0.0.1:9/t.csv")
    monkeypatch.setattr(datasets, "specs", lambda: {"good": good, "bad": bad})
    rows = datasets.fetch()
    assert [row[:2] for row in rows] == [("good", "ready"), ("bad", "refused")]
    assert httpserver.url_for("/t.csv") in rows[0].detail
    assert "no connection" in rows[1].detail


def test_a_misspelt_data_set_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"unknown data set 'kin8mn'; did you mean kin8nm\?; available: "):
        datasets.fetch(["kin8mn"])


def test_verify_notices_damage_and_removes_nothing(tmp_path: Path, only_small: dict, cache: Path) -> None:
    assert datasets.verify()[0][:2] == ("small", "absent")
    (tmp_path / "t.csv").write_bytes(TABLE)
    datasets.import_path(tmp_path / "t.csv")
    assert [row.status for row in datasets.verify(["small"])] == ["ok"]
    _, _, (stored,) = datasets.where()
    stored.write_bytes(TABLE[:-5])
    assert [row.status for row in datasets.verify()] == ["damaged"]
    assert stored.exists()


def test_verify_checks_what_packages_ship_too() -> None:
    assert [row[:2] for row in datasets.verify(["boston", "step"])] == [("boston", "ok"), ("step", "ok")]


def test_where_names_the_cache_the_mirror_and_the_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGPBENCH_MIRROR", "http://127.0.0.1:9/")
    assert datasets.where() == (cache, "http://127.0.0.1:9", [])
