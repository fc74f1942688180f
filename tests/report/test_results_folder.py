"""The folder of ``results_dir``: a file is refused, and a folder that cannot contain results is reported."""

import json
import shutil
from pathlib import Path

import fit_once
import pytest
from toys import write_toy

import dgpbench
from dgpbench.errors import UserError
from dgpbench.system.progress import in_words

ITEM = ("lindinger2020_table1", "dataset=boston", "method=star", "split=0")
READING = {
    "table": ("table", *ITEM, "results_dir={}"),
    "table all": ("table", "all", "dataset=boston", "results_dir={}"),
    "compare": ("compare", *ITEM, "results_dir={}"),
    "figure": ("figure", *ITEM, "results_dir={}"),
    "figure all": ("figure", "all", "dataset=boston", "results_dir={}"),
    "report": ("report", "{}"),
    "trace": ("results", "trace", *ITEM, "results_dir={}"),
    "verify": ("results", "verify", "{}"),
    "redo": ("results", "redo", "--random", "results_dir={}"),
}
OTHERS = {
    "plan": ("plan", *ITEM, "results_dir={}"),
    "run": ("run", "method=star", "dataset=boston", "budget=smoke", "results_dir={}"),
    "reproduce": ("reproduce", *ITEM, "budget=smoke", "results_dir={}"),
    "export": ("results", "export", "results_dir={}"),
    "import": ("results", "import", "some", "results_dir={}"),
}


def call(words, folder: Path) -> int:
    return fit_once.command(*(word.format(folder) for word in words))


@pytest.fixture
def some(tmp_path, monkeypatch) -> Path:
    """A results folder with one run; the current folder is the one above it."""
    monkeypatch.chdir(tmp_path)
    write_toy(tmp_path / "some")
    return tmp_path / "some"


@pytest.mark.parametrize("name", [*READING, *OTHERS])
def test_a_file_as_results_folder_is_refused(some, tmp_path, monkeypatch, capsys, name):
    fit_once.without_training(monkeypatch)
    (tmp_path / "file").write_text("text")
    assert call((READING | OTHERS)[name], tmp_path / "file") == 2
    message = capsys.readouterr()
    assert f"{tmp_path / 'file'} is a file; results_dir= names a folder" in message.err
    assert len(message.err.splitlines()) == 1
    assert message.out == ""
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.full
@pytest.mark.parametrize("name", READING)
def test_a_folder_that_cannot_hold_results_is_reported(some, tmp_path, capsys, name):
    shutil.copytree(some / "runs", tmp_path / "copied")
    (tmp_path / "else" / "records").mkdir(parents=True)
    for folder, message in {
        tmp_path
        / "typo": "does not exist; set results_dir= to the folder that contains runs/ or records/, or fill it with "
        "`dgpbench results import FOLDER`",
        some / "runs": "is the folder runs/ of results; results_dir= names the folder that holds it",
        tmp_path / "else" / "records": "is the folder records/ of results; results_dir= names the folder that holds it",
        tmp_path / "copied": "holds runs itself; results_dir= names a folder that holds them below runs/",
    }.items():
        call(READING[name], folder)
        assert capsys.readouterr().err.count(f"{folder} {message}") == 1
    assert not (tmp_path / "typo").exists()


@pytest.mark.full
@pytest.mark.parametrize("name", ["table", "compare", "figure", "report", "trace", "verify"])
def test_a_folder_with_results_is_read_without_a_message(some, capsys, name):
    assert call(READING[name], some) == 0
    assert "results_dir=" not in capsys.readouterr().err


@pytest.mark.full
def test_a_missing_results_folder_is_planned_and_created(tmp_path, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    assert call(OTHERS["plan"], tmp_path / "new") == 0
    assert call(OTHERS["run"], tmp_path / "new") == 0
    assert call(OTHERS["reproduce"], tmp_path / "newer") == 0
    assert "is not there" not in capsys.readouterr().err
    assert len([*tmp_path.rglob("record.json")]) == 3


def test_load_results_requires_an_existing_folder(some, tmp_path):
    assert len(dgpbench.load_results(some)) == 1
    with pytest.raises(UserError, match="typo does not exist"):
        dgpbench.load_results(tmp_path / "typo")
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match="file is a file"):
        dgpbench.load_results(str(tmp_path / "file"))


def test_a_plan_as_json_has_the_lower_bound_that_the_text_has(some, monkeypatch, capsys):
    words = ("plan", "lindinger2020_table1", "dataset=boston", "method=star", "budget=laptop", "results_dir={}")
    monkeypatch.setattr("dgpbench.benchmarks.cost.least_seconds", lambda *given: 10.0)
    assert call(words, some) == 0
    text = capsys.readouterr().out
    assert call((*words, "--json"), some) == 0
    made = json.loads(capsys.readouterr().out)
    runs = made["counts"]["missing"]
    assert made["seconds_left"] is None
    assert made["seconds_left_at_least"] == 0.5 * 10.0 * runs
    assert f"between {in_words(5.0 * runs)} and" in text
    for depth in (2, 3):
        write_toy(
            some, num_layers=depth, split=5, budget="laptop", record={"seconds": {"training": 1.0, "total": 30.0}}
        )
    assert call((*words, "--json"), some) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["seconds_left"] == 30.0 * made["counts"]["missing"]
    assert made["seconds_left_at_least"] is None
