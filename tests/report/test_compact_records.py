"""Compact records: one line per run with the content of its files, counted like the run, and never lost."""

import hashlib
import io
import json
import os
import platform
import shutil
from pathlib import Path

import fit_once
import numpy as np
import pandas as pd
import pytest
from compact_files import GIVEN, SMALL, STAR, bytes_of, export, first_run, lines_of, read, signed
from one_record import forge
from toys import toy_points, toy_trace, write_toy

# What counts ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("item", sorted(SMALL))
@pytest.mark.parametrize("command", ["table", "compare"])
def test_a_fresh_clone_prints_what_the_runs_own_files_give(exported, fresh, capsys, item, command):
    printed = []
    for results in (exported, fresh):
        capsys.readouterr()
        assert fit_once.command(command, item, *SMALL[item], *GIVEN, f"results_dir={results}", "--format", "csv") == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert pd.read_csv(io.StringIO(printed[1]))["mean"].notna().all()


def test_a_value_that_is_not_in_a_line_is_missing_and_not_none(fresh, capsys):
    for path in fresh.glob("records/*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        path.write_text("".join(signed(line | ({"elbo": None} if line["kind"] == "run" else {})) for line in lines))
    assert fit_once.command("table", "lindinger2020_tables5", *GIVEN, f"results_dir={fresh}") == 0
    text = capsys.readouterr().out
    assert "0/2" in text
    assert "none" not in text
    assert "values need files of runs that are here as compact records only" in text
    assert fit_once.command("results", "trace", "lindinger2020_tables5", *GIVEN, f"results_dir={fresh}") == 0
    assert "split 0: elbo needs the run's own files" in capsys.readouterr().out
    one = ("method=mf", "dataset=boston", "split=0", "budget=smoke")
    assert fit_once.command("table", "lindinger2020_tables5", *one, f"results_dir={fresh}") == 0
    assert "1 value needs files of runs" in capsys.readouterr().out


def test_a_fresh_clone_has_nothing_to_run(fresh, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    given = ("lindinger2020_table1", *SMALL["lindinger2020_table1"], *GIVEN, f"results_dir={fresh}")
    assert fit_once.command("plan", *given, "--json") == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert (counts["done"], counts["missing"]) == (4, 0)
    assert fit_once.command("reproduce", *given, "progress=false") == 0
    capsys.readouterr()
    assert fit_once.command("run", *STAR, f"results_dir={fresh}") == 0
    assert "skipped: its record is in" in capsys.readouterr().out
    assert not (fresh / "runs").exists()


def test_a_run_with_other_settings_than_its_compact_record_is_refused(fresh, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    for line in lines_of(fresh):
        for path in fresh.glob("records/*"):
            texts = path.read_text().replace(line["config_hash"], "0" * 64).splitlines()
            path.write_text("".join(signed(json.loads(text)) for text in texts))
    assert fit_once.command("run", *STAR, f"results_dir={fresh}") == 2
    assert "made with other settings" in capsys.readouterr().err
    assert not (fresh / "runs").exists()


@pytest.mark.full
def test_the_second_machine_runs_what_the_first_one_lacks(exported, tmp_path, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    second = tmp_path / "second"
    assert fit_once.command("results", "import", str(exported), f"results_dir={second}") == 0
    assert bytes_of(second) == bytes_of(exported)
    given = ("lindinger2020_table1", "dataset=boston", "method=sgp", "split=range(3)", "budget=smoke")
    assert fit_once.command("reproduce", *given, f"results_dir={second}", "progress=false") == 0
    assert [path.parent.name for path in second.rglob("record.json")] == ["split2-seed0"]


@pytest.mark.full
def test_the_report_uses_compact_records_and_names_what_needs_raw_files(tmp_path):
    write_toy(tmp_path, {"tll": -1.625}, dataset="concrete")  # of Table 1 and of Fig. 1
    assert export(tmp_path) == 0
    shutil.rmtree(tmp_path / "runs")
    assert fit_once.command("report", str(tmp_path)) == 0
    page = (tmp_path / "report.html").read_text()
    assert "-1.625" in page
    assert '"records/lindinger2020_table1-paper.jsonl:2"' in page
    assert "have a compact record only" in page


def test_a_figure_that_needs_the_runs_files_is_refused_with_the_reason(fresh, tmp_path, capsys):
    write_toy(tmp_path, dataset="concrete")
    assert export(tmp_path) == 0
    shutil.rmtree(tmp_path / "runs")
    assert fit_once.command("figure", "lindinger2020_fig1", "method=star", f"results_dir={tmp_path}") == 2
    assert "1 of 1 runs have a compact record only" in capsys.readouterr().err
    source, number = first_run(fresh)
    assert fit_once.command("show", f"{source}:{number}") == 0
    assert fit_once.command("show", f"{source}:{number}", "--plot") == 2
    assert "needs the run's own files" in capsys.readouterr().err


# Content of a line ----------------------------------------------------------------------------------------------------


def test_a_lines_counts_are_those_of_its_points(tmp_path):
    points = toy_points(-1.0, num_rows=40).assign(row=np.arange(40)[::-1] * 3)
    path = write_toy(tmp_path, points=points, trace=toy_trace(-50.0))
    assert export(tmp_path) == 0
    (line,) = lines_of(tmp_path)
    pit = points["pit"].to_numpy()
    assert line["pit_counts"] == [int(((pit >= k / 20) & (pit < (k + 1) / 20)).sum()) for k in range(20)]
    inside = [int((abs(pit - 0.5) <= 0.025 * k).sum()) for k in range(1, 20)]
    assert line["coverage_counts"] == inside
    rows = ",".join(str(3 * k) for k in range(40))
    assert line["split_digest"] == hashlib.sha256(rows.encode()).hexdigest()[:16]
    trace = pd.read_parquet(path / "trace.parquet")["elbo"]
    assert line["elbo"] == pytest.approx(trace.iloc[-2:].mean(), abs=1e-12)
    assert line["steps_per_second"] == 100 / 10.0
    for name, stored in line["files"].items():
        assert hashlib.sha256((path / name).read_bytes()).hexdigest() == stored
    assert set(line["files"]) == {"record.json", "points.parquet", "trace.parquet"}


def test_a_line_names_no_folder_and_no_host(exported, tmp_path):
    text = b"".join(bytes_of(exported).values()).decode()
    for word in (str(exported), os.fspath(Path.cwd()), f'"{platform.node()}"'):
        assert word not in text
    write_toy(tmp_path, status="failed")
    path = next(tmp_path.rglob("record.json"))
    forge(path, lambda record: record.update(reason=f"OSError: {tmp_path}/sub/x.csv: 3/4 of it is gone"))
    assert export(tmp_path) == 0
    assert lines_of(tmp_path)[0]["reason"] == "OSError: x.csv: 3/4 of it is gone"


def test_a_record_without_its_start_time_is_exported(tmp_path):
    forge(write_toy(tmp_path) / "record.json", lambda record: record.pop("started"))
    assert export(tmp_path) == 0
    assert [line["started"] for line in lines_of(tmp_path)] == [None]


@pytest.mark.parametrize("lacking", ["row", "elbo", "a number of pit"])
def test_a_run_with_tables_of_other_columns_is_named_and_left_out(tmp_path, capsys, lacking):
    write_toy(tmp_path, split=0)
    points, trace = toy_points(-1.0), toy_trace(-50.0)
    points = points.assign(pit="x") if lacking == "a number of pit" else points.drop(columns=lacking, errors="ignore")
    scores, trace = {"tll": -1.0}, trace.drop(columns=lacking, errors="ignore")
    directory = write_toy(tmp_path, scores, split=1, points=points, trace=trace)
    assert export(tmp_path) == 1
    assert f"{directory} has other columns than dgpbench writes: " in capsys.readouterr().err
    assert [line["identity"]["split"] for line in lines_of(tmp_path)] == [0]


def test_a_run_that_began_in_a_folder_of_this_machine_stays_there(tmp_path, capsys):
    write_toy(tmp_path, split=0)
    write_toy(tmp_path, split=1, overrides={"init_from": "/somewhere/results/runs/a"})
    assert export(tmp_path) == 1
    assert "/somewhere/results/runs/a" in capsys.readouterr().err
    assert [line["identity"]["split"] for line in lines_of(tmp_path)] == [0]


def test_lines_are_sorted_by_identity_and_short(exported, tmp_path):
    for split in (10, 2, 0):
        write_toy(tmp_path, split=split)
    assert export(tmp_path) == 0
    assert [line["identity"]["split"] for line in lines_of(tmp_path)] == [0, 2, 10]
    sizes = [len(json.dumps(line, separators=(",", ":"))) for line in lines_of(exported)]
    assert max(sizes) < 1900
    assert len(lines_of(exported, "shared")) < len(sizes)


def test_a_run_of_several_items_stands_in_the_file_of_the_largest(exported):
    keys = [json.dumps(line["identity"], sort_keys=True) for line in lines_of(exported)]
    assert len(keys) == len(set(keys)) == len(list(exported.rglob("record.json")))
    whole = {line["identity"]["task"]: set() for line in lines_of(exported)}
    for path in exported.glob("records/*"):
        for line in map(json.loads, path.read_text().splitlines()):
            if line["kind"] == "run":
                whole[line["identity"]["task"]].add(path.name)
    assert whole["extrapolation"] == {"lindinger2020_tables3-smoke.jsonl"}  # Table 2 is a part of it


def test_a_line_and_what_it_shares_are_the_record(exported):
    """Data, versions, machine and code of every run are those of its raw record."""
    from dgpbench.runs import compact_records

    raw = {json.dumps(each["identity"], sort_keys=True): each for each in map(read, exported.rglob("record.json"))}
    found = [line.record for path in exported.glob("records/*.jsonl") for line in compact_records.decode(path).runs]
    assert len(found) == len(raw)
    for record in found:
        expected = raw[json.dumps(record["identity"], sort_keys=True)]
        for key in ("config", "versions", "git", "scores"):
            assert record[key] == expected[key]
        assert record["data"].items() <= expected["data"].items()
        assert {"scale_y", "n_train", "digest_xy"} <= set(record["data"])
        assert not {"shared", "format", "kind"} & set(record)


def test_runs_outside_every_item_are_exported(tmp_path):
    write_toy(tmp_path, overrides={"training.learning_rate": 0.7})
    assert export(tmp_path) == 0
    assert set(bytes_of(tmp_path)) == {"runs-paper.jsonl"}


# Joining --------------------------------------------------------------------------------------------------------------


def test_a_second_export_changes_no_byte_and_keeps_other_lines(tmp_path):
    for split in range(4):
        write_toy(tmp_path, {"tll": -split}, split=split)
    assert export(tmp_path) == 0
    before = bytes_of(tmp_path)
    for path in list(tmp_path.rglob("split[01]-seed0")):
        shutil.rmtree(path)
    assert export(tmp_path) == 0
    assert bytes_of(tmp_path) == before


@pytest.mark.full
def test_two_halves_of_two_machines_are_the_bytes_of_one(tmp_path):
    for split in range(4):
        for folder in ("whole", "left" if split % 2 else "right"):
            write_toy(tmp_path / folder, split=split, points=toy_points(-1.0 - split, seed=split))
    assert export(tmp_path / "whole") == export(tmp_path / "left") == 0
    into = f"results_dir={tmp_path / 'left'}"
    assert fit_once.command("results", "import", str(tmp_path / "right"), into) == 0
    assert bytes_of(tmp_path / "left") == bytes_of(tmp_path / "whole")
    file = next((tmp_path / "whole").glob("records/*"))
    assert fit_once.command("results", "import", str(file), str(file.parent), into) == 0
    assert bytes_of(tmp_path / "left") == bytes_of(tmp_path / "whole")


def test_different_scores_of_one_run_are_refused_by_naming_both(tmp_path, capsys):
    write_toy(tmp_path / "a", {"tll": -2.0}, split=0)
    write_toy(tmp_path / "b", {"tll": -2.0 - 1e-12}, split=0)
    write_toy(tmp_path / "b", {"tll": -3.0}, split=1)
    assert export(tmp_path / "a") == 0
    shutil.move(tmp_path / "a" / "runs", tmp_path / "aside")
    before = bytes_of(tmp_path / "a")
    assert fit_once.command("results", "import", str(tmp_path / "b"), f"results_dir={tmp_path / 'a'}") == 2
    message = capsys.readouterr().err
    assert f"{tmp_path / 'a'}/records/" in message
    assert f"{tmp_path / 'b'}/runs/" in message
    assert bytes_of(tmp_path / "a") == before
    shutil.rmtree(tmp_path / "a" / "records")
    shutil.move(tmp_path / "aside", tmp_path / "a" / "runs")  # what has not been exported counts too
    assert fit_once.command("results", "import", str(tmp_path / "b"), f"results_dir={tmp_path / 'a'}") == 2
    assert f"{tmp_path / 'a'}/runs/" in capsys.readouterr().err
    assert bytes_of(tmp_path / "a") == {}


@pytest.mark.full
def test_a_contradiction_with_a_line_is_reported_and_the_run_is_shown(tmp_path, capsys):
    write_toy(tmp_path, {"tll": -2.0})
    assert export(tmp_path) == 0
    write_toy(tmp_path, {"tll": -9.0})
    capsys.readouterr()
    assert (
        fit_once.command("table", "lindinger2020_table1", "dataset=boston", "split=0", f"results_dir={tmp_path}") == 0
    )
    shown = capsys.readouterr()
    assert "-9.00" in shown.out
    assert "hold different scores of one run (tll -9.0 and -2.0)" in shown.err
    assert fit_once.command("plan", "lindinger2020_table1", "dataset=boston", "split=0", f"results_dir={tmp_path}") == 0
    assert "1 conflict" in capsys.readouterr().out


@pytest.mark.parametrize(("first", "second"), [("failed", "done"), ("done", "failed")])
def test_a_finished_run_replaces_a_failure_and_never_the_reverse(tmp_path, first, second):
    write_toy(tmp_path / "a", status=first)
    write_toy(tmp_path / "b", status=second)
    assert export(tmp_path / "a") == 0
    assert fit_once.command("results", "import", str(tmp_path / "b"), f"results_dir={tmp_path / 'a'}") == 0
    assert [line["status"] for line in lines_of(tmp_path / "a")] == ["done"]


def test_the_next_export_finishes_one_that_was_killed(tmp_path, monkeypatch):
    for budget in ("paper", "laptop"):
        write_toy(tmp_path, budget=budget)
    replace, calls = os.replace, []

    def killed(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        replace(*given)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", killed)
        assert export(tmp_path) == 130
    assert len(lines_of(tmp_path)) == len(bytes_of(tmp_path)) == 1
    half = tmp_path / "records" / ".partial-0.jsonl"  # as SIGKILL leaves it
    half.write_text('{"kind":"ru')
    assert fit_once.command("results", "verify", str(tmp_path)) == 0
    assert export(tmp_path) == 0
    assert not half.exists()
    assert len(lines_of(tmp_path)) == len(bytes_of(tmp_path)) == 2


def test_a_file_with_a_line_that_cannot_be_read_is_never_written_over(tmp_path, capsys):
    write_toy(tmp_path, split=0)
    assert export(tmp_path) == 0
    (path,) = tmp_path.glob("records/*")
    path.write_text(f"{path.read_text()}>>>>>>> theirs\n")
    before = bytes_of(tmp_path)
    write_toy(tmp_path, split=1)
    assert export(tmp_path) == 2
    assert "truncated or damaged" in capsys.readouterr().err
    assert bytes_of(tmp_path) == before


@pytest.mark.parametrize("name", ["record.json", "points.parquet"])
def test_a_file_that_is_not_jsonl_is_not_imported(exported, tmp_path, capsys, name):
    file = next(exported.rglob(name))
    assert fit_once.command("results", "import", str(file), f"results_dir={tmp_path}") == 2
    message = capsys.readouterr().err
    assert f"{file} cannot be imported; name a folder with runs/, a .jsonl file or a folder of them" in message
    assert len(message.splitlines()) == 1
    assert bytes_of(tmp_path) == {}


def test_a_comparison_of_earlier_records_in_another_file_replaces_none(fresh, capsys):
    """Two branches may have written it to two files, one of them before a run was rerun with other settings."""
    given = ("table", "lindinger2020_table2", *GIVEN, f"results_dir={fresh}")
    assert fit_once.command(*given) == 0
    before = capsys.readouterr().out
    stale = [signed(line | {"hashes": ["0" * 64] * 2, "win_frequency": 0.0}) for line in lines_of(fresh, "pair")]
    for name in ("a.jsonl", "z.jsonl"):
        (fresh / "records" / name).write_text("".join(stale))
    assert fit_once.command(*given) == 0
    assert capsys.readouterr().out == before
