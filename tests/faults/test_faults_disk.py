"""A disk that is full or read-only: one sentence, nothing half-written, and room lets the same command go on."""

import os
import tempfile

import pytest
from fault_tools import TINY, one_sentence, the_record
from pytest_httpserver import HTTPServer

from dgpbench.cli import main
from dgpbench.data.datasets import load
from dgpbench.errors import UserError
from dgpbench.runs import store
from dgpbench.system.files import replacing


@pytest.mark.parametrize(
    ("size", "interval", "what"), [("16k", "1000", "split0-seed0"), ("32k", "0", "step-")], ids=["record", "checkpoint"]
)
def test_a_full_disk_is_a_clean_error_and_the_run_resumes_with_room(
    size, interval, what, small_disk, tiny, monkeypatch, capsys
):
    monkeypatch.setenv("DGPBENCH_CHECKPOINT_SECONDS", interval)
    disk = small_disk(f"size={size}")
    assert tiny(folder=disk) == 2
    text = one_sentence(capsys.readouterr().err)
    assert "cannot be written (No space left on device" in text
    assert what in text
    assert not list(disk.rglob(store.RECORD))
    assert not list(disk.rglob("*.partial"))
    small_disk("size=8m")
    assert tiny(folder=disk) == 0
    assert the_record(disk)["status"] == "done"


def test_a_cache_on_a_full_disk_is_a_clean_error_and_stays_empty(small_disk, monkeypatch, httpserver: HTTPServer):
    disk = small_disk("size=64k")
    monkeypatch.setenv("DGPBENCH_CACHE", str(disk))
    httpserver.expect_request("/t.csv").respond_with_data(b"a,b,y\n" + b"1,2,3\n" * 50_000)
    source = {"url": httpserver.url_for("/t.csv"), "reader": {"format": "csv"}}
    spec = {
        "name": "small",
        "kind": "uci",
        "columns": ["a", "b", "y"],
        "target": "y",
        "digest_xy": "0",
        "sources": [source],
    }
    with pytest.raises(UserError, match=r"No space left on device.*make room, or set DGPBENCH_CACHE"):
        load(spec)
    assert not [path for path in disk.rglob("*") if path.is_file()]


@pytest.fixture
def read_only(small_disk, tiny):
    """A read-only store that holds one finished run."""
    disk = small_disk("size=8m")
    assert tiny(folder=disk) == 0
    return small_disk("ro")


def test_a_run_into_a_read_only_store_is_a_clean_error(read_only, tiny, capsys):
    assert tiny("split=1", folder=read_only) == 2
    assert "Read-only file system" in one_sentence(capsys.readouterr().err.strip().splitlines()[-1])


@pytest.mark.parametrize("command", [["results", "verify"], ["show"]])
def test_a_read_only_store_can_be_read(command, read_only, capsys):
    assert main([*command, str(read_only)]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_a_picture_beside_a_read_only_record_is_a_clean_error(read_only, capsys):
    capsys.readouterr()
    assert main(["show", str(read_only), "--plot"]) == 2
    assert "Read-only file system" in one_sentence(capsys.readouterr().err)


def test_a_report_into_a_read_only_store_is_a_clean_error(read_only, capsys):
    capsys.readouterr()
    assert main(["report", str(read_only)]) == 2
    assert "Read-only file system" in one_sentence(capsys.readouterr().err)


def test_a_picture_that_cannot_be_written_does_not_lose_the_run(monkeypatch, tmp_path, capsys):
    """``plot=true`` draws after the record is written."""
    import errno

    from dgpbench.report.figures import run_figure

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_figure, "save_run_figure", full)
    assert main(["run", *(text for text in TINY if text != "plot=false"), f"results_dir={tmp_path}"]) == 0
    assert "No space left" in capsys.readouterr().out
    assert the_record(tmp_path)["status"] == "done"


def test_a_full_folder_for_temporary_files_is_named_as_such(small_disk, monkeypatch, tmp_path, capsys):
    """Into a pipe, the whole of a file is made there first; nothing of it is the output's fault."""
    disk = small_disk("size=16k")
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    (disk / "full").write_bytes(b"1" * 12_000)
    os.mkfifo(tmp_path / "pipe")
    message = f"the folder for temporary files, {disk}, is full.*set TMPDIR"
    with pytest.raises(UserError, match=message), replacing(tmp_path / "pipe") as partial:
        partial.write_bytes(b"1" * 20_000)

    def write(*_):
        with tempfile.TemporaryFile() as file:
            file.write(b"1" * 20_000)

    monkeypatch.setattr("dgpbench.cli._function", lambda command: write)
    assert main(["list", "methods"]) == 2
    assert f"the folder for temporary files, {disk}, is full" in one_sentence(capsys.readouterr().err)
