"""Records: files that are whole or absent, and damage that is found."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from one_record import CONFIG, POINTS, TRACE, directory_of, forge, record_of

from dgpbench.errors import UserError
from dgpbench.runs import store


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = directory_of(tmp_path)
    store.write_run(directory, record_of(), POINTS, TRACE, {"mean_1": np.arange(3.0)})
    return directory


# Writing and reading


def test_a_run_reads_back_as_it_was_written(run):
    record = store.read_record(run)
    assert record["scores"] == {"tll": -2.4}
    assert record["schema"] == store.SCHEMA
    assert sorted(record["files"]) == ["points.parquet", "posterior.npz", "trace.parquet"]
    pd.testing.assert_frame_equal(pd.read_parquet(run / "points.parquet"), POINTS)
    np.testing.assert_array_equal(store.read_arrays(run / store.POSTERIOR)["mean_1"], np.arange(3.0))
    assert store.verify_run(run) == []
    assert sorted(os.listdir(run)) == ["points.parquet", "posterior.npz", "record.json", "trace.parquet"]


def test_a_second_writing_leaves_nothing_of_the_first(run):
    store.write_run(run, record_of(status="failed", reason="ValueError: no"))
    assert os.listdir(run) == ["record.json"]
    assert store.verify_run(run) == []


@pytest.mark.parametrize("last", range(1, 5))
def test_a_crash_between_any_two_moves_leaves_no_record(run, monkeypatch, last):
    moved, replace = [], os.replace

    def crashing(source, target):
        moved.append(target)
        if len(moved) == last:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", crashing)
    with pytest.raises(KeyboardInterrupt):
        store.write_run(run, record_of(scores={"tll": 1.0}), POINTS, TRACE, {"mean_1": np.zeros(2)})
    assert store.read_if_present(run) is None
    assert not list(run.glob(".partial-*"))


def test_a_killed_writing_is_cleared_away_by_the_next(run):
    (run / ".partial-abc").mkdir()
    (run / ".partial-abc" / "record.json").write_text("{")
    store.write_run(run, record_of())
    assert os.listdir(run) == ["record.json"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_cannot_be_written_keeps_the_older_record(run, monkeypatch, code):
    def full(handle):
        raise OSError(code, os.strerror(code))

    before = (run / "record.json").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=rf"{os.strerror(code)}; [\d,]+ MiB free there.*results_dir="):
        store.write_run(run, record_of(scores={"tll": 9.0}), POINTS)
    assert (run / "record.json").read_bytes() == before
    assert store.verify_run(run) == []
    assert not list(run.glob(".partial-*"))


def test_another_error_of_the_disk_is_not_disguised(run, monkeypatch):
    def broken(handle):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="input/output"):
        store.write_run(run, record_of())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float64("nan"), np.array([1.0, -np.inf])])
@pytest.mark.parametrize("key", ["scores", "seconds", "data", "host"])
def test_a_number_that_is_not_finite_is_refused(tmp_path, key, bad):
    with pytest.raises(ValueError, match=f"the record's {key} holds"):
        store.write_run(directory_of(tmp_path), record_of(**{key: {"x": bad}}))
    assert not list(tmp_path.rglob("record.json"))


def test_not_a_number_becomes_null_in_notes_and_a_word_in_config_alone(tmp_path):
    nan = float("nan")
    store.write_run(
        directory_of(tmp_path), record_of(notes=[{"trace": nan}], config=CONFIG | {"lr": nan, "limit": -np.inf})
    )
    record = store.read_record(directory_of(tmp_path))
    assert record["notes"] == [{"trace": None}]
    assert record["config"] == CONFIG | {"lr": "nan", "limit": "-inf"}


def test_numpy_values_paths_and_tuples_are_written_as_plain_json(tmp_path):
    notes = [np.float32(0.5), np.arange(2), (1, 2), Path("a"), True, np.bool_(False), None]
    store.write_run(directory_of(tmp_path), record_of(notes=[{"own": notes}]))
    read = store.read_record(directory_of(tmp_path))["notes"]
    assert read == [{"own": [0.5, [0, 1], [1, 2], "a", True, False, None]}]


def test_a_record_without_a_field_or_with_an_unknown_status_is_refused(tmp_path):
    incomplete = record_of()
    del incomplete["host"]
    with pytest.raises(ValueError, match="lacks host"):
        store.write_run(tmp_path, incomplete)
    with pytest.raises(ValueError, match="its status is 'fine', not one of done, failed"):
        store.write_run(tmp_path, record_of(status="fine"))


def test_a_posterior_that_would_be_pickled_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mean_1 is not"):
        store.write_run(tmp_path, record_of(), posterior={"mean_1": np.array([{}])})


# Damage


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_record_is_named_and_counts_as_missing(run, share):
    whole = (run / "record.json").read_bytes()
    (run / "record.json").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"record\.json is truncated or damaged"):
        store.read_record(run)
    assert store.read_if_present(run) is None
    assert "truncated" in store.verify_run(run)[0]


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": 1}', '{"schema": "x"}', "3", "\x00\x01", '{"schema": NaN}'])
def test_json_that_is_not_a_record_is_refused(tmp_path, text):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(ValueError, match=r"record\.json"):
        store.read_record(tmp_path)


def test_a_record_of_a_later_schema_is_refused(run):
    record = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(record | {"schema": 99}))
    with pytest.raises(ValueError, match="later dgpbench"):
        store.read_record(run)


@pytest.mark.parametrize("name", ["points.parquet", "trace.parquet", "posterior.npz"])
def test_a_truncated_changed_or_missing_file_is_found(run, name):
    whole = (run / name).read_bytes()
    (run / name).write_bytes(whole[:-1])
    assert "bytes long instead of" in store.verify_run(run)[0]
    (run / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "does not match the digest" in store.verify_run(run)[0]
    (run / name).unlink()
    assert "is missing" in store.verify_run(run)[0]


def test_a_file_from_elsewhere_and_a_record_in_the_wrong_place_are_found(run, tmp_path):
    record = store.read_record(run)
    other = directory_of(tmp_path, split=1)
    other.mkdir(parents=True)
    (other / "record.json").write_text(json.dumps(record))
    forge(other / "record.json", lambda record: record.update(files={}))
    (other / "points.parquet").write_bytes(b"")
    problems = " ".join(store.verify_run(other))
    assert "not mentioned in its record" in problems
    assert "another run" in problems


def test_a_record_with_a_mangled_identity_is_a_problem(run):
    record = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(record | {"identity": {"task": "x"}}))
    assert "not as dgpbench writes it" in store.verify_run(run)[0]


def test_all_records_are_found_and_a_damaged_one_stops_nothing(tmp_path):
    for split in range(3):
        store.write_run(directory_of(tmp_path, split=split), record_of())
    (directory_of(tmp_path, split=1) / "record.json").write_text("{")
    (directory_of(tmp_path) / "checkpoints").mkdir()
    found = list(store.find_records(tmp_path))
    assert [path.parent.name for path, _ in found] == ["split0-seed0", "split1-seed0", "split2-seed0"]
    assert [isinstance(record, ValueError) for _, record in found] == [False, True, False]


def test_a_missing_results_folder_has_no_records(tmp_path):
    assert list(store.find_records(tmp_path / "nowhere")) == []


def test_records_import_neither_tensorflow_nor_numpy_nor_pandas():
    heavy = ("tensorflow", "numpy", "pandas", "scipy")
    code = f"import sys, dgpbench.runs.store; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
