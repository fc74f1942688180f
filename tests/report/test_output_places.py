"""``--output``: accepted paths, and what happens to an existing file."""

import json
import os
import stat
import subprocess
import sys
import threading

import fit_once
import pytest
from toys import toy_points, write_toy

TABLE = ("table", "lindinger2020_table1", "budget=smoke")


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def timings(path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(
        "code,method,data,M,L,tau,B,R,precision,threads,ms_per_step\ndgpbench,mf,protein,64,3,5,512,5,float64,1,9.5\n"
    )


def written(capsys) -> str:
    """Return the table that is printed without --output."""
    assert fit_once.command(*TABLE) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["table.pdf", "table.xlsx", "table.png"])
def test_a_table_is_not_written_as_markdown_under_another_ending(name, tmp_path, capsys):
    (tmp_path / "results").mkdir()
    assert fit_once.command(*TABLE, "--output", name) == 2
    assert f"--output {name} does not end in .md, .tex, .csv, .html" in capsys.readouterr().err
    assert not (tmp_path / name).exists()
    assert fit_once.command(*TABLE, "--output", name, "--format", "csv") == 0
    assert (tmp_path / name).read_text().startswith("metric,dataset,")


def test_a_link_stays_and_the_file_that_it_leads_to_is_replaced(tmp_path, capsys):
    expected = written(capsys)
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "table.md").write_text("old")
    (tmp_path / "link.md").symlink_to("paper/table.md")
    assert fit_once.command(*TABLE, "--output", "link.md") == 0
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "paper" / "table.md").read_text() == expected
    assert [path.name for path in (tmp_path / "paper").iterdir()] == ["table.md"]


def test_a_pipe_stays_and_the_table_goes_into_it(tmp_path, capsys):
    expected, pipe, read = written(capsys), tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert fit_once.command(*TABLE, "--output", str(pipe)) == 0
    reader.join(10)
    assert read == [expected]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (".", "dgpbench: . is a folder, but a file is written; choose another place with --output"),
        ("", "argument --output: must not be empty"),
        ("afile/x.md", "dgpbench: afile/x.md cannot be written (File exists: "),
        ("socket", "socket is neither a file nor a pipe, and cannot be written; choose another place with --output"),
    ],
)
def test_an_impossible_output_path_is_a_clean_error(given, message, tmp_path, capsys):
    import socket

    (tmp_path / "afile").write_text("")
    (tmp_path / "results").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        before = sorted(tmp_path.iterdir())
        assert fit_once.command(*TABLE, "--output", given) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    [
        TABLE,
        ("compare", "lindinger2020_table1", "budget=smoke"),
        ("report",),
        ("bench", "steps", "methods=mf", "M=4"),
        ("figure", "lindinger2020_fig4"),
        ("show", "results", "--plot", "--json"),
    ],
)
def test_an_impossible_output_path_is_refused_with_the_flag_to_use(command, tmp_path, monkeypatch, capsys):
    from dgpbench.benchmarks import timing

    def timed(plan, say):
        raise AssertionError("hours of timing before a sentence that was known")

    monkeypatch.setattr(timing, "measure", timed)
    (tmp_path / "afile").write_text("")
    write_toy(tmp_path / "results", points=toy_points(-1.0, 9, 0))
    timings(tmp_path / "results" / "bench" / "steps.csv")
    ending = "md" if command[0] in ("table", "compare") else "png"
    assert fit_once.command(*command, "--output", f"afile/x.{ending}") == 2
    error = capsys.readouterr().err
    assert "File exists: " in error
    assert "choose another place with --output" in error
    assert "results_dir" not in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--plot", "--output", "foo.txt"), "--output foo.txt must end in .png, .pdf, .svg"),
        (("--output", "foo.png"), "--output foo.png is where --plot writes the picture; give both, or neither"),
    ],
)
def test_show_writes_a_picture_or_prints_why_not(flags, message, tmp_path, capsys):
    write_toy(tmp_path / "results", points=toy_points(-1.0, 9, 0))
    assert fit_once.command("show", "results", *flags) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("foo*"))


@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [("cite star", ""), ("list methods", ""), ("--version", ""), ("cite star", "1"), ("list methods", "1")],
)  # it fails at the end, or with PYTHONUNBUFFERED at the first line
@pytest.mark.parametrize(("stdout", "code", "message"), [("full", 2, "No space left on device"), ("closed", 0, "")])
def test_a_full_or_closed_output_is_not_a_traceback(command, stdout, code, message, unbuffered):
    """A full disk is a clean error; a reader that closes the pipe early, as ``head`` does, is not an error."""
    if stdout == "full":
        taker = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, taker = os.pipe()
        os.close(reader)
    called = [sys.executable, "-m", "dgpbench", *command.split()]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(
        called, stdout=taker, stderr=subprocess.PIPE, text=True, check=False, env=environment, timeout=100
    )
    os.close(taker)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (code, 1 if message else 0), ended.stderr
    assert message in ended.stderr


def test_a_failure_stays_one_where_nobody_reads_what_it_prints(tmp_path):
    (tmp_path / "results" / "records").mkdir(parents=True)
    (tmp_path / "results" / "records" / "duan2020_table1-paper.jsonl").write_text("no record")
    reader, taker = os.pipe()
    os.close(reader)
    called = [sys.executable, "-m", "dgpbench", "results", "verify", str(tmp_path / "results")]
    environment = os.environ | {"PYTHONUNBUFFERED": ""}  # else the command ends at its first line
    ended = subprocess.run(called, stdout=taker, check=False, env=environment, timeout=100)
    os.close(taker)
    assert ended.returncode == 1


def test_what_show_says_beside_json_is_on_standard_error(tmp_path, capsys):
    directory = write_toy(tmp_path / "results", points=toy_points(-1.0, 9, 0))
    (directory / "points.parquet").write_bytes(b"damaged")
    assert fit_once.command("show", str(directory), "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["status"] == "done"
    assert printed.err.startswith(f"damaged: {directory}")
    assert fit_once.command("show", str(directory)) == 0
    assert f"damaged: {directory}" in capsys.readouterr().out
