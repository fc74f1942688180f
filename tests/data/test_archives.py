"""Archives can neither write outside nor swell."""

import zipfile
from pathlib import Path

import pytest

from dgpbench.data import download
from dgpbench.data.download import Source, opened, sha256_of, with_unpacked


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_a_member_named_to_climb_out_is_read_and_writes_nothing(tmp_path: Path) -> None:
    path = archive(tmp_path / "t.zip", {"../../evil.csv": b"1,2"})
    with opened(path, "../../evil.csv") as file:
        assert file.read() == b"1,2"
    assert list(tmp_path.iterdir()) == [path]


def test_a_member_that_swells_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "bomb.zip", {"t.csv": b"0" * 10_000_000})
    with pytest.raises(zipfile.BadZipFile, match="claims 10000000 bytes"), opened(path, "t.csv"):
        pass


def test_a_member_above_the_cap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MAX_BYTES", 3)
    with pytest.raises(zipfile.BadZipFile), opened(archive(tmp_path / "t.zip", {"t.csv": b"1234"}), "t.csv"):
        pass


def test_the_hash_of_a_member_is_that_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"1,2")
    assert sha256_of(archive(tmp_path / "t.zip", {"t.csv": b"1,2"}), "t.csv") == sha256_of(tmp_path / "t.csv")


def test_a_url_cannot_lead_out_of_its_hosts_folder() -> None:
    with pytest.raises(ValueError, match="leads out"):
        _ = Source("http://example.org/%2e%2e/%2e%2e/etc/passwd").place


def test_a_member_has_a_place_beside_its_archive() -> None:
    zipped = Source("http://example.org/a/t%20t.zip", member="in/t.csv")
    assert [str(each.place) for each in with_unpacked([zipped])] == ["example.org/a/t t.zip", "example.org/a/in/t.csv"]
