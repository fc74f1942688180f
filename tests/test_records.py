"""Records: identities that never clash, files that are whole or absent, damage that is found, locks that hold."""

import errno
import json
import multiprocessing
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dgpbench import identity, provenance, records
from dgpbench.errors import Refused

WHO = {
    "task": "interpolation",
    "dataset": "boston",
    "method": "star",
    "num_layers": 3,
    "protocol": "lindinger2020",
    "budget": "paper",
    "split": 0,
    "seed": 0,
}
POINTS = pd.DataFrame({"row": [1, 2], "log_density": [-0.5, -1.5]})
TRACE = pd.DataFrame({"iteration": [10, 20], "elbo": [-3.0, -2.0], "validation_tll": [None, None]})


def directory_of(root: Path, overrides=None, **changed) -> Path:
    return identity.identity_directory(root, **(WHO | changed), overrides=overrides or {})


def record_of(overrides=None, **changed) -> dict:
    given = {
        "status": "done",
        "reason": None,
        "traceback": None,
        "identity": WHO | {"overrides": overrides or {}},
        "scores": {"tll": -2.4},
        "seconds": {"tracing": 1.0, "training": 2.0, "prediction": 0.1, "total": 4.0},
        "iterations": 20,
        "config": {"training": {"learning_rate": 0.005}},
        "config_hash": identity.config_hash({}),
        "data": {"name": "boston"},
        "git": None,
        "versions": {},
        "host": {},
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:04+00:00",
        "notes": [],
    }
    return given | changed


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = directory_of(tmp_path)
    records.write_run(directory, record_of(), POINTS, TRACE, {"mean_1": np.arange(3.0)})
    return directory


# Identity


def test_the_directory_names_task_data_method_protocol_and_split(tmp_path):
    expected = tmp_path / "runs/interpolation/boston/star-L3/lindinger2020-paper/split0-seed0"
    assert directory_of(tmp_path) == expected
    assert directory_of(tmp_path, {"training.learning_rate": 0.01, "precision": "float32"}).name == (
        "split0-seed0+precision=float32,training.learning_rate=0.01"
    )


@given(st.permutations(["training.learning_rate", "precision", "method.width", "a"]))
def test_the_order_of_overrides_does_not_matter(names):
    values = {"training.learning_rate": 0.01, "precision": "float32", "method.width": 3, "a": None}
    assert directory_of(Path("x"), {name: values[name] for name in names}) == directory_of(Path("x"), values)


def test_both_names_and_values_of_overrides_are_in_the_identity():
    identities = [
        {},
        {"a": 1},
        {"a": 2},
        {"b": 1},
        {"a": 1, "b": 1},
        {"a": "1,b=1"},
        {"a": "x+b"},
        {"a": [1]},
        {"a": True},
    ]
    assert len({directory_of(Path("x"), overrides) for overrides in identities}) == len(identities)


@pytest.mark.parametrize("name", WHO)
def test_every_axis_is_in_the_identity(name):
    other = WHO[name] + 1 if isinstance(WHO[name], int) else "other"
    assert directory_of(Path("x"), **{name: other}) != directory_of(Path("x"))


def test_protocol_and_budget_cannot_be_mistaken_for_one_another():
    assert directory_of(Path("x"), protocol="a-b", budget="c") != directory_of(Path("x"), protocol="a", budget="b-c")


@pytest.mark.parametrize(
    ("value", "same", "text"),
    [
        (1e-3, "1e-3", "0.001"),
        (20, 20.0, "20"),
        (np.float64(0.5), 0.5, "0.5"),
        (np.int64(7), "7", "7"),
        (True, "true", "true"),
        (None, "null", "null"),
        ([1, 2.0], (1.0, 2), "[1,2]"),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, '{"a":2,"b":1}'),
        (-0.0, 0, "0"),
        ("adam", "adam", "adam"),
        (float("nan"), "nan", "nan"),
    ],
)
def test_values_have_one_canonical_form(value, same, text):
    assert identity.canonical(value) == identity.canonical(same) == text


def test_true_and_one_are_different_values():
    assert identity.canonical(True) != identity.canonical(1)


def test_sixty_overrides_stay_within_what_file_systems_take_and_stay_apart():
    many = {f"group.setting_{number}": number / 7 for number in range(60)}
    first, second = directory_of(Path("x"), many), directory_of(Path("x"), many | {"group.setting_3": 0})
    assert len(os.fsencode(first.name)) < 255
    assert len(first.name.partition("+")[2]) == 16
    assert first != second


@example("..", "..")
@example(".", "/")
@given(st.text(min_size=1, max_size=400), st.text(max_size=400))
def test_odd_characters_never_leave_the_results_folder_or_make_a_name_too_long(name, value):
    directory = directory_of(Path("results"), {name: value}, dataset=name, method=name)
    assert len(directory.parts) == 7
    assert not {"..", ".", ""} & set(directory.parts)
    assert all(len(os.fsencode(part)) < 255 and "\0" not in part for part in directory.parts)


def test_the_config_hash_does_not_depend_on_the_order_of_keys_but_on_every_value():
    assert identity.config_hash({"a": 1, "b": {"c": [1, 2]}}) == identity.config_hash({"b": {"c": (1, 2)}, "a": 1})
    assert identity.config_hash({"a": 1}) != identity.config_hash({"a": 2})


# Writing and reading


def test_a_run_reads_back_as_it_was_written(run):
    record = records.read_record(run)
    assert record["scores"] == {"tll": -2.4}
    assert record["schema"] == records.SCHEMA
    assert sorted(record["files"]) == ["points.parquet", "posterior.npz", "trace.parquet"]
    pd.testing.assert_frame_equal(pd.read_parquet(run / "points.parquet"), POINTS)
    np.testing.assert_array_equal(records.read_posterior(run)["mean_1"], np.arange(3.0))
    assert records.verify_run(run) == []
    assert sorted(os.listdir(run)) == ["points.parquet", "posterior.npz", "record.json", "trace.parquet"]


def test_a_second_writing_leaves_nothing_of_the_first(run):
    records.write_run(run, record_of(status="failed", reason="ValueError: no"))
    assert os.listdir(run) == ["record.json"]
    assert records.verify_run(run) == []


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
        records.write_run(run, record_of(scores={"tll": 1.0}), POINTS, TRACE, {"mean_1": np.zeros(2)})
    assert records.read_if_present(run) is None
    assert not list(run.glob(".partial-*"))


def test_a_killed_writing_is_cleared_away_by_the_next(run):
    (run / ".partial-abc").mkdir()
    (run / ".partial-abc" / "record.json").write_text("{")
    records.write_run(run, record_of())
    assert os.listdir(run) == ["record.json"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_cannot_be_written_is_refused_in_a_sentence_and_keeps_the_older_record(run, monkeypatch, code):
    def full(handle):
        raise OSError(code, os.strerror(code))

    before = (run / "record.json").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match=rf"{os.strerror(code)}; [\d,]+ MiB free there.*results_dir="):
        records.write_run(run, record_of(scores={"tll": 9.0}), POINTS)
    assert (run / "record.json").read_bytes() == before
    assert records.verify_run(run) == []
    assert not list(run.glob(".partial-*"))


def test_another_error_of_the_disk_is_not_disguised(run, monkeypatch):
    def broken(handle):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="input/output"):
        records.write_run(run, record_of())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float64("nan"), np.array([1.0, -np.inf])])
@pytest.mark.parametrize("key", ["scores", "seconds", "data", "host"])
def test_a_number_that_is_not_finite_is_refused(tmp_path, key, bad):
    with pytest.raises(ValueError, match=f"the record's {key} holds"):
        records.write_run(directory_of(tmp_path), record_of(**{key: {"x": bad}}))
    assert not list(tmp_path.rglob("record.json"))


def test_not_a_number_becomes_null_in_notes_and_a_word_in_config_alone(tmp_path):
    nan = float("nan")
    records.write_run(directory_of(tmp_path), record_of(notes=[{"trace": nan}], config={"lr": nan, "limit": -np.inf}))
    record = records.read_record(directory_of(tmp_path))
    assert record["notes"] == [{"trace": None}]
    assert record["config"] == {"lr": "nan", "limit": "-inf"}


def test_numpy_values_paths_and_tuples_are_written_as_plain_json(tmp_path):
    notes = [np.float32(0.5), np.arange(2), (1, 2), Path("a"), True, np.bool_(False), None]
    records.write_run(directory_of(tmp_path), record_of(notes=notes))
    assert records.read_record(directory_of(tmp_path))["notes"] == [0.5, [0, 1], [1, 2], "a", True, False, None]


def test_a_record_without_a_field_or_with_an_unknown_status_is_refused(tmp_path):
    incomplete = record_of()
    del incomplete["host"]
    with pytest.raises(ValueError, match="lacks host"):
        records.write_run(tmp_path, incomplete)
    with pytest.raises(ValueError, match="status is one of done, failed"):
        records.write_run(tmp_path, record_of(status="fine"))


def test_a_posterior_that_would_be_pickled_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mean_1 is not"):
        records.write_run(tmp_path, record_of(), posterior={"mean_1": np.array([{}])})


# Damage


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_record_is_named_and_counts_as_missing(run, share):
    whole = (run / "record.json").read_bytes()
    (run / "record.json").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"record\.json is truncated or damaged"):
        records.read_record(run)
    assert records.read_if_present(run) is None
    assert "truncated" in records.verify_run(run)[0]


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": 1}', '{"schema": "x"}', "3", "\x00\x01", '{"schema": NaN}'])
def test_json_that_is_no_record_is_refused(tmp_path, text):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(ValueError, match=r"record\.json"):
        records.read_record(tmp_path)


def test_a_record_of_a_later_schema_is_refused(run):
    record = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(record | {"schema": 99}))
    with pytest.raises(ValueError, match="later dgpbench"):
        records.read_record(run)


@pytest.mark.parametrize("name", ["points.parquet", "trace.parquet", "posterior.npz"])
def test_a_truncated_changed_or_missing_file_is_found(run, name):
    whole = (run / name).read_bytes()
    (run / name).write_bytes(whole[:-1])
    assert "bytes long instead of" in records.verify_run(run)[0]
    (run / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "other contents" in records.verify_run(run)[0]
    (run / name).unlink()
    assert "is missing" in records.verify_run(run)[0]


def test_a_file_from_elsewhere_and_a_record_in_the_wrong_place_are_found(run, tmp_path):
    record = records.read_record(run)
    other = directory_of(tmp_path, split=1)
    other.mkdir(parents=True)
    (other / "record.json").write_text(json.dumps(record | {"files": {}}))
    (other / "points.parquet").write_bytes(b"")
    problems = " ".join(records.verify_run(other))
    assert "not mentioned in its record" in problems
    assert "another run" in problems


def test_a_record_with_a_mangled_identity_is_a_problem_and_no_exception(run):
    record = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(record | {"identity": {"task": "x"}}))
    assert "not as dgpbench writes it" in records.verify_run(run)[0]


def test_all_records_are_found_and_a_damaged_one_stops_nothing(tmp_path):
    for split in range(3):
        records.write_run(directory_of(tmp_path, split=split), record_of())
    (directory_of(tmp_path, split=1) / "record.json").write_text("{")
    (directory_of(tmp_path) / "checkpoints").mkdir()
    found = list(records.find_records(tmp_path))
    assert [path.parent.name for path, _ in found] == ["split0-seed0", "split1-seed0", "split2-seed0"]
    assert [isinstance(record, ValueError) for _, record in found] == [False, True, False]


def test_a_results_folder_that_is_not_there_holds_no_records(tmp_path):
    assert list(records.find_records(tmp_path / "nowhere")) == []


# Locks


def _run_once(directory: Path, started, ran) -> None:
    started.wait()
    with records.lock(directory):
        if records.read_if_present(directory) is None:
            ran.put(os.getpid())
            records.write_run(directory, record_of())


def test_of_three_racing_processes_one_runs_and_the_others_find_its_record(tmp_path):
    context = multiprocessing.get_context("spawn")
    started, ran, directory = context.Barrier(3), context.Queue(), directory_of(tmp_path)
    racers = [context.Process(target=_run_once, args=(directory, started, ran)) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert [racer.exitcode for racer in racers] == [0, 0, 0]
    ran.get(timeout=10)
    assert ran.empty()
    assert records.read_record(directory)["status"] == "done"


def test_a_held_run_keeps_others_out_until_it_is_let_go(tmp_path):
    from filelock import Timeout

    directory = directory_of(tmp_path)
    attempt = (
        "import sys; from dgpbench import records; from filelock import Timeout\n"
        "try:\n  with records.lock(sys.argv[1], timeout=0.1): print('in')\nexcept Timeout: print('out')"
    )
    ask = lambda: subprocess.run(
        [sys.executable, "-c", attempt, directory], capture_output=True, text=True
    ).stdout.strip()
    with records.lock(directory):
        assert ask() == "out"
        with records.lock(directory_of(tmp_path, split=1)):
            pass  # another run is free
    assert ask() == "in"
    assert issubclass(Timeout, OSError)  # a held lock is not mistaken for a full disk, though it is an OSError


def test_locks_lie_beside_the_runs_and_nowhere_else(tmp_path):
    with records.lock(directory_of(tmp_path)):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".locks"]
    with pytest.raises(ValueError, match="not the directory of a run"), records.lock(tmp_path):
        pass


# Provenance


def test_the_git_state_of_a_checkout_and_of_a_package_inside_another_repository(tmp_path):
    git = lambda *arguments: subprocess.run(["git", "-C", tmp_path, *arguments], check=True, capture_output=True)
    git("init")
    (tmp_path / "dgpbench").mkdir()
    (tmp_path / "dgpbench" / "a.py").write_text("1")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-m", "a")
    clean = provenance.git_state(tmp_path)
    assert clean is not None
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    provenance.git_state.cache_clear()
    (tmp_path / "notes.txt").write_text("not code")
    assert provenance.git_state(tmp_path) == clean
    provenance.git_state.cache_clear()
    (tmp_path / "dgpbench" / "b.py").write_text("2")
    assert provenance.git_state(tmp_path) == clean | {"dirty": True}
    assert provenance.git_state(tmp_path / "dgpbench") is None


def test_versions_and_host_name_no_machine_and_no_user():
    stated = json.dumps([provenance.versions(), provenance.host(threads=1)], allow_nan=False)
    assert provenance.versions()["numpy"] == np.__version__
    assert provenance.host(threads=2)["threads"] == 2
    assert str(Path.home()) not in stated
    assert f'"{platform.node()}"' not in stated


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr(provenance, "PACKAGES", ("no-such-package-at-all",))
    assert provenance.versions()["no-such-package-at-all"] is None


def test_records_import_neither_tensorflow_nor_numpy_nor_pandas():
    heavy = ("tensorflow", "numpy", "pandas", "scipy")
    code = f"import sys, dgpbench.records; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
