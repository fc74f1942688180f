"""Records to one frame: every run a row, damaged ones named and left out, and no TensorFlow anywhere near."""

import shutil
import subprocess
import sys

import pytest
from toys import write_toy

from dgpbench.report.collect import collect

IMPORT_ALL = """
import pkgutil, sys
import dgpbench.cli, dgpbench.experiments.plan, dgpbench.report
for module in pkgutil.walk_packages(dgpbench.report.__path__, "dgpbench.report."):
    __import__(module.name)
for name in ("plan", "reproduce", "table", "compare", "check", "cite", "results"):
    __import__(f"dgpbench.commands.{name}")
sys.exit("tensorflow" in sys.modules)
"""


def test_each_run_is_a_row_with_identity_scores_and_seconds(results, toy):
    toy({"tll": -2.0}, method="mf", split=3, overrides={"training.learning_rate": 0.1})
    toy(status="diverged", method="star", split=1)
    frame = collect(results).set_index("method")
    assert frame.loc["mf", ["split", "tll", "status"]].tolist() == [3, -2.0, "done"]
    assert frame.loc["mf", "overrides"] == {"training.learning_rate": 0.1}
    assert frame.loc["star", "status"] == "diverged"
    assert frame["seconds_total"].tolist() == [12.0, 12.0]


def test_a_folder_without_records_is_an_empty_frame(results):
    assert collect(results).empty


@pytest.mark.parametrize("text", ["", '{"schema": 1, "sta', "[]", '{"schema": 1}', "\x00\x01"])
def test_a_damaged_record_is_named_and_skipped(results, toy, caplog, text):
    toy(split=0)
    (toy(split=1) / "record.json").write_text(text)
    frame = collect(results)
    assert frame["split"].tolist() == [0]
    assert "split1-seed0" in caplog.text
    assert len(frame.attrs["problems"]) == 1


def test_a_run_in_a_directory_that_was_copied_is_named_and_not_counted(results, toy, caplog):
    path = toy({"tll": -2.0}, split=0)
    shutil.copytree(path, path.with_name("split0-seed0.old"))
    frame = collect(results)
    assert frame["split"].tolist() == [0]
    assert "split0-seed0.old holds the record of another run" in caplog.text


def test_a_record_without_an_identity_is_skipped(results, toy):
    path = toy(split=1) / "record.json"
    path.write_text(path.read_text().replace('"identity": {', '"identity": 3, "other": {'))
    assert collect(results).empty


def test_every_one_of_many_records_is_a_row_with_its_own_score(results):
    for split in range(60):
        write_toy(results, {"tll": -0.5 * split}, split=split)
    frame = collect(results)
    assert dict(zip(frame["split"], frame["tll"], strict=True)) == {split: -0.5 * split for split in range(60)}


@pytest.mark.full
def test_reports_and_commands_leave_tensorflow_alone():
    assert subprocess.run([sys.executable, "-c", IMPORT_ALL], check=False).returncode == 0
