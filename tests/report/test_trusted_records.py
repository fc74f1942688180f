"""Records vouch for themselves: no changed digit, impossible number or hostile shape counts or stops a command."""

import json
import os
import random
import re
import shutil
from pathlib import Path

import fit_once
import numpy as np
import pandas as pd
import pytest
from one_record import directory_of, forge, record_of
from toys import toy_points, write_toy

import dgpbench
from dgpbench.runs import compact_records, store
from dgpbench.runs.record import digest_of

SCORES = {"tll": -2.5123456789, "nlpp": 2.5123456789, "rmse": 3.0987654321}
TABLE = ("lindinger2020_table1", "dataset=boston", "method=star", "split=range(3)")


@pytest.fixture
def three(tmp_path) -> Path:
    """Three splits of one method, raw and compact."""
    for split in range(3):
        write_toy(tmp_path, SCORES, split=split, num_layers=3)
    assert fit_once.command("results", "export", f"results_dir={tmp_path}") == 0
    return tmp_path


def file_of(results: Path) -> Path:
    (path,) = results.glob("records/*.jsonl")
    return path


def test_a_digit_changed_in_200_places_is_always_detected(three, capsys):
    """``verify`` detects every change; readers detect a change of the number itself."""
    raw, compact = next(three.rglob("split1-seed0/record.json")), file_of(three)
    draws = random.Random(0)
    for path in (raw, compact):
        whole = path.read_text()
        places = draws.sample([match.start() for match in re.finditer(r"\d", whole)], 100)
        for place in places:
            digit = draws.choice([each for each in "0123456789" if each != whole[place]])
            text = f"{whole[:place]}{digit}{whole[place + 1 :]}"
            path.write_text(text)
            if path is raw:
                found = store.verify_run(path.parent)
            else:
                found = list(compact_records.decode(path).problems)
                changed = whole[:place].count("\n") + 1
                assert any(problem.startswith(f"{path}:{changed} ") for problem in found), changed
            assert found, text[place - 30 : place + 30]
        path.write_text(whole)
    assert fit_once.command("results", "verify", str(three)) == 0


def test_a_changed_line_is_named_and_all_others_count(three, capsys):
    shutil.rmtree(three / "runs")
    path = file_of(three)
    texts = path.read_text().splitlines()
    number = next(i for i, text in enumerate(texts, 1) if '"split":1' in text)
    texts[number - 1] = texts[number - 1].replace("2.5123456789", "1.5123456789")
    path.write_text("\n".join(texts) + "\n")
    capsys.readouterr()
    assert fit_once.command("table", *TABLE, f"results_dir={three}") == 0
    shown = capsys.readouterr()
    assert f"{path}:{number} was changed after it was written" in shown.err
    assert "2/3" in shown.out


def test_lines_without_a_digest_are_read_and_an_import_adds_it(three, capsys):
    path = file_of(three)
    whole = path.read_text()
    path.write_text(re.sub(r'"digest":"[0-9a-f]{16}",', "", whole))
    shutil.rmtree(three / "runs")
    assert len(compact_records.decode(path).runs) == 3
    capsys.readouterr()
    assert fit_once.command("results", "verify", str(three)) == 1
    advice = re.search(r"`dgpbench (results import .*)` fixes it", capsys.readouterr().out).group(1)
    assert fit_once.command(*advice.split()) == 0
    assert path.read_text() == whole


IMPOSSIBLE = {
    "nlpp is -tll": {"tll": 9.9, "nlpp": 3.44},
    "coverage_95 is 1.7, not from 0 to 1": {"coverage_95": 1.7},
    "rmse is -1, and cannot be negative": {"rmse": -1},
    "crps is -0.5, and cannot be negative": {"crps": -0.5},
    "calibration_error is 3, not from 0 to 1": {"calibration_error": 3},
}


@pytest.mark.parametrize("message", IMPOSSIBLE)
def test_impossible_scores_are_refused_in_raw_and_compact_records(three, capsys, message):
    forge(next(three.rglob("split0-seed0/record.json")), lambda record: record["scores"].update(IMPOSSIBLE[message]))
    path = file_of(three)
    whole = [json.loads(text) for text in path.read_text().splitlines()]
    line = next(line for line in whole if line["kind"] == "run" and line["identity"]["split"] == 2)
    line["scores"].update(IMPOSSIBLE[message])
    line["digest"] = digest_of(line)
    path.write_text("".join(json.dumps(each, sort_keys=True, separators=(",", ":")) + "\n" for each in whole))
    assert fit_once.command("results", "verify", str(three)) == 1
    assert capsys.readouterr().out.count(message) == 2


def test_coverage_counts_must_give_the_coverages(tmp_path, capsys):
    write_toy(tmp_path, points=toy_points(-1.0, 40))
    assert fit_once.command("results", "export", f"results_dir={tmp_path}") == 0
    shutil.rmtree(tmp_path / "runs")
    path = file_of(tmp_path)
    whole = [json.loads(text) for text in path.read_text().splitlines()]
    whole[-1]["coverage_counts"][9] += 1
    whole[-1]["digest"] = digest_of(whole[-1])
    path.write_text("".join(json.dumps(each, sort_keys=True, separators=(",", ":")) + "\n" for each in whole))
    assert fit_once.command("results", "verify", str(tmp_path)) == 1
    assert "its coverage_50 is " in capsys.readouterr().out


def test_scores_that_are_not_those_of_the_points_are_not_exported(tmp_path, capsys):
    path = write_toy(tmp_path, points=toy_points(-1.0, 40))
    write_toy(tmp_path, split=1, points=toy_points(-1.0, 40))
    forge(path / "record.json", lambda record: record["scores"].update(rmse=record["scores"]["rmse"] * (1 + 1e-8)))
    assert fit_once.command("results", "export", f"results_dir={tmp_path}") == 1
    assert "rmse is " in capsys.readouterr().err
    assert file_of(tmp_path).read_text().count('"kind":"run"') == 1


def test_a_run_that_is_not_exported_is_not_compared_by_the_files_of_the_current_folder(tmp_path, monkeypatch):
    star, other, _ = (
        write_toy(tmp_path, task="extrapolation", method=method, num_layers=3, split=split, points=toy_points(-1.0, 40))
        for method, split in (("star", 0), ("star", 1), ("mf", 0))
    )
    forge(star / "record.json", lambda record: record["scores"].update(rmse=record["scores"]["rmse"] * (1 + 1e-8)))
    monkeypatch.chdir(other)
    assert fit_once.command("results", "export", f"results_dir={tmp_path}") == 1
    texts = [path.read_text() for path in (tmp_path / "records").glob("*.jsonl")]
    assert sum(text.count('"kind":"run"') for text in texts) == 2
    assert not any('"kind":"pair"' in text for text in texts)


DEEP = "[" * 200_000 + "]" * 200_000
HOSTILE = {
    "config": lambda record: record.update(config={}),
    "a text": lambda record: record["scores"].update(tll="x"),
    "half a character": lambda record: record.update(reason="\ud800"),
    "files": lambda record: record.update(files=None),
    "other files": lambda record: record["files"].update({"/dev/zero": {"bytes": 1, "sha256": "0" * 64}}),
    "negative seconds": lambda record: record["seconds"].update(total=-3576.0),
    "endless seconds": lambda record: record["seconds"].update(total="TO BE 1e999"),
    "scale": lambda record: record["data"].update(scale_y=0),
    "an endless setting": lambda record: record["config"].update(x="TO BE 1e999"),
    "notes": lambda record: record.update(notes=[None]),
    "depth": lambda record: record.update(notes="TO BE DEEP"),
    "depth that is read": lambda record: record["config"].update(x=json.loads("[" * 600 + "]" * 600)),
}
COMMANDS = [
    ("table", *TABLE),
    ("compare", *TABLE),
    ("plan", *TABLE),
    ("results", "trace", *TABLE),
    ("results", "export"),
]


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_malicious_record_is_named_and_stops_no_command(tmp_path, capsys, kind):
    for split in range(3):
        write_toy(tmp_path, SCORES, split=split)
    path = next(tmp_path.rglob("split1-seed0/record.json"))
    record = json.loads(path.read_text())
    HOSTILE[kind](record)
    record["digest"] = digest_of(record)
    path.write_text(json.dumps(record).replace('"TO BE 1e999"', "1e999").replace('"TO BE DEEP"', DEEP))
    for words in COMMANDS:
        capsys.readouterr()
        assert fit_once.command(*words, f"results_dir={tmp_path}") == (words[-1] == "export")
        assert words[0] == "plan" or str(path) in capsys.readouterr().err
    assert file_of(tmp_path).read_text().count('"kind":"run"') == 2
    assert fit_once.command("show", str(path)) == 2
    assert fit_once.command("results", "redo", str(path)) == 2
    assert fit_once.command("results", "verify", str(tmp_path)) == 1


def test_seconds_with_parts_above_the_total_are_named(three, capsys):
    path = next(three.rglob("split1-seed0/record.json"))
    forge(path, lambda record: record["seconds"].update(training=1000.0))
    assert fit_once.command("results", "verify", str(three)) == 1
    assert f"{path} contradicts itself: its seconds are" in capsys.readouterr().out


def test_a_record_behind_a_link_back_is_counted_once(three, capsys):
    capsys.readouterr()
    assert fit_once.command("results", "verify", str(three)) == 0
    before = capsys.readouterr().out
    (three / "runs" / "interpolation" / "again").symlink_to(three / "runs")
    assert fit_once.command("results", "verify", str(three)) == 0
    assert capsys.readouterr().out == before


@pytest.mark.parametrize("kind", ["pipe", "device", "forbidden", "loop", "cycle"])
def test_a_foreign_file_in_a_records_folder_stops_no_command(three, capsys, kind):
    path = next(three.rglob("split1-seed0/record.json"))
    if kind == "cycle":
        (path.parents[2] / "again").symlink_to(three / "runs")
    else:
        path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "forbidden":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    capsys.readouterr()
    assert fit_once.command("table", *TABLE, f"results_dir={three}") == 0
    assert "| -2.51 (0.00) |" in capsys.readouterr().out  # the compact record of split 1 counts
    assert fit_once.command("results", "verify", str(three)) == (kind != "cycle")


def test_a_line_with_an_unknown_budget_is_named_and_left_out(three, tmp_path, capsys):
    path = file_of(three)
    whole = [json.loads(text) for text in path.read_text().splitlines()]
    number = next(i for i, line in enumerate(whole, 1) if line["kind"] == "run")
    whole[number - 1]["identity"]["budget"] = "lunch"
    whole[number - 1]["digest"] = digest_of(whole[number - 1])
    path.write_text("".join(json.dumps(each) + "\n" for each in whole))
    assert fit_once.command("results", "import", str(path), f"results_dir={tmp_path / 'new'}") == 1
    assert f"{path}:{number} has an unknown budget, 'lunch'" in capsys.readouterr().err
    assert file_of(tmp_path / "new").read_text().count('"kind":"run"') == 2


def test_quarantine_moves_nothing_that_lies_behind_a_link(three, tmp_path_factory, capsys):
    outside = tmp_path_factory.mktemp("outside") / "boston"
    inside = three / "runs" / "interpolation" / "boston"
    shutil.move(inside, outside)
    inside.symlink_to(outside)
    (path,) = outside.rglob("split1-seed0/record.json")
    path.write_text("{")
    assert fit_once.command("results", "verify", str(three), "--quarantine") == 1
    assert "not moved: " in capsys.readouterr().out
    assert path.is_file()
    assert not (three / "quarantine").exists()


def test_locks_are_as_open_as_their_results_folder(tmp_path):
    results = tmp_path / "shared"
    results.mkdir()
    results.chmod(0o777)
    write_toy(results)
    assert fit_once.command("results", "export", f"results_dir={results}") == 0
    assert (results / ".locks").stat().st_mode & 0o777 == 0o777
    assert (results / ".locks" / "records.lock").stat().st_mode & 0o666 == 0o666


def test_results_are_a_frame_of_single_values(tmp_path):
    store.write_run(directory_of(tmp_path), record_of())
    frame = dgpbench.load_results(tmp_path)
    assert len(pd.concat([frame, frame]).drop_duplicates()) == 1
    frame.to_parquet(tmp_path / "all.parquet")
    assert pd.read_parquet(tmp_path / "all.parquet")["overrides"].tolist() == ["{}"]


def test_seconds_do_not_depend_on_the_system_clock(tmp_path, monkeypatch):
    from datetime import UTC, datetime, timedelta

    from dgpbench.runs import execute

    class Later(datetime):
        """A wall clock that is an hour ahead when the run starts."""

        @classmethod
        def now(cls, zone=None):
            return datetime.now(UTC) + timedelta(hours=1)

    fit_once.without_training(monkeypatch)
    monkeypatch.setattr(execute, "datetime", Later)
    assert fit_once.command("run", "method=sgp", "dataset=boston", "budget=smoke", f"results_dir={tmp_path}") == 0
    (path,) = tmp_path.rglob("record.json")
    assert 6 <= json.loads(path.read_text())["seconds"]["total"] < 600


def test_a_start_is_checked_against_the_digest_in_its_record(tmp_path, capsys):
    start = directory_of(tmp_path, method="mf")
    store.write_run(start, record_of(), parameters={"Z": np.arange(9.0)})
    path = start / "parameters.npz"
    path.write_bytes(path.read_bytes().replace(np.float64(3).tobytes(), np.float64(4).tobytes()))
    words = ("validate", "method=star", "dataset=boston", f"results_dir={tmp_path}", f"init_from={start}")
    assert fit_once.command(*words) == 2
    assert "has damaged parameters: " in capsys.readouterr().err


@pytest.mark.parametrize("depth", [900, 200_000])
def test_a_setting_of_many_brackets_is_a_text(three, capsys, depth):
    path = file_of(three)
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    lines[-1]["identity"]["overrides"] = {"x": "[" * depth + "]" * depth}
    lines[-1]["digest"] = digest_of(lines[-1])
    path.write_text("".join(json.dumps(each, sort_keys=True, separators=(",", ":")) + "\n" for each in lines))
    assert fit_once.command("results", "verify", str(three)) == 0
    assert "3 compact records, 0 problems" in capsys.readouterr().out


def test_a_record_with_the_hash_of_other_settings_is_found(tmp_path, capsys):
    path = write_toy(tmp_path) / "record.json"
    forge(path, lambda record: record["config"]["training"].update(learning_rate=1.0))
    assert fit_once.command("results", "verify", str(tmp_path)) == 1
    assert f"{path} contradicts itself: it has another hash than its settings" in capsys.readouterr().out
