"""Compact records: one line per run with the content of its files, counted like the run, and never lost."""

import hashlib
import io
import json
import os
import platform
import shlex
import shutil
from pathlib import Path

import fit_once
import numpy as np
import pandas as pd
import pytest
from one_record import forge
from toys import toy_points, toy_trace, write_toy

from dgpbench.config.canonical import digest
from dgpbench.runs.record import as_text

GIVEN = ("dataset=boston", "split=range(2)", "budget=smoke")
SPELT = {"sort_keys": True, "separators": (",", ":")}
SMALL = {
    "lindinger2020_table1": ("method=sgp,star", "method.num_layers=1,3"),
    "lindinger2020_table2": (),
    "lindinger2020_tables5": (),
}
STAR = ("method=star", "method.num_layers=3", "dataset=boston", "budget=smoke")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Runs of three items without training, and their compact records."""
    folder = tmp_path_factory.mktemp("made") / "results"
    with pytest.MonkeyPatch.context() as patch:
        fit_once.without_training(patch)
        for item, narrowed in SMALL.items():
            assert (
                fit_once.command("reproduce", item, *narrowed, *GIVEN, f"results_dir={folder}", "progress=false") == 0
            )
    assert fit_once.command("results", "export", f"results_dir={folder}") == 0
    return folder


@pytest.fixture
def fresh(made, tmp_path) -> Path:
    """A fresh clone: the compact records alone."""
    shutil.copytree(made / "records", tmp_path / "fresh" / "records")
    return tmp_path / "fresh"


def lines_of(results: Path, kind: str = "run") -> list[dict]:
    texts = [text for path in sorted(results.glob("records/[!.]*.jsonl")) for text in path.read_text().splitlines()]
    return [line for line in map(json.loads, texts) if line["kind"] == kind]


def bytes_of(results: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in results.glob("records/[!.]*")}


def first_run(results: Path) -> tuple[Path, int]:
    """The first file, and the number of its first run line."""
    path = sorted(results.glob("records/*.jsonl"))[0]
    return path, 1 + next(i for i, text in enumerate(path.open()) if json.loads(text)["kind"] == "run")


def edit(results: Path, change) -> str:
    """Change the first run line; FILE:LINE."""
    path, number = first_run(results)
    rewrite(path, number, change)
    return f"{path}:{number}"


def edit_shared(results: Path, change) -> str:
    """Change the shared part of the first run; return FILE:LINE."""
    path, number = first_run(results)
    lines = list(map(json.loads, path.read_text().splitlines()))
    (shared,) = [i for i, line in enumerate(lines, 1) if line.get("id") == lines[number - 1]["shared"]]
    rewrite(path, shared, change)
    return f"{path}:{shared}"


def rewrite(path: Path, number: int, change) -> None:
    """Change a line as whoever knows the format would: with the digest of the new content."""
    lines = list(map(json.loads, path.read_text().splitlines()))
    line = lines[number - 1]
    change(line)
    if line.get("kind") == "shared" and isinstance(line.get("id"), str):
        before, line["id"] = line["id"], digest(as_text({k: v for k, v in line.items() if k not in ("id", "kind")}))
        for each in lines:
            if each.get("shared") == before:
                each["shared"] = line["id"]
    path.write_text("".join(signed(each) for each in lines))


def signed(line: dict) -> str:
    """Return a line with an updated digest, if it had one."""
    new = {"digest": digest(json.dumps({k: v for k, v in line.items() if k != "digest"}, **SPELT))}
    return json.dumps(line | (new if "digest" in line else {}), **SPELT) + "\n"


def export(results: Path, *words: str) -> int:
    return fit_once.command("results", "export", *words, f"results_dir={results}")


# What counts ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("item", sorted(SMALL))
@pytest.mark.parametrize("command", ["table", "compare"])
def test_a_fresh_clone_prints_what_the_runs_own_files_give(made, fresh, capsys, item, command):
    printed = []
    for results in (made, fresh):
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
def test_the_second_machine_runs_what_the_first_one_lacks(made, tmp_path, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    second = tmp_path / "second"
    assert fit_once.command("results", "import", str(made), f"results_dir={second}") == 0
    assert bytes_of(second) == bytes_of(made)
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
    assert 'href="records/lindinger2020_table1-paper.jsonl"' in page
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


def test_a_line_names_no_folder_and_no_host(made, tmp_path):
    text = b"".join(bytes_of(made).values()).decode()
    for word in (str(made), os.fspath(Path.cwd()), f'"{platform.node()}"'):
        assert word not in text
    write_toy(tmp_path, status="failed")
    path = next(tmp_path.rglob("record.json"))
    forge(path, lambda record: record.update(reason=f"OSError: {tmp_path}/sub/x.csv: 3/4 of it is gone"))
    assert export(tmp_path) == 0
    assert lines_of(tmp_path)[0]["reason"] == "OSError: x.csv: 3/4 of it is gone"


def test_a_run_that_began_in_a_folder_of_this_machine_stays_there(tmp_path, capsys):
    write_toy(tmp_path, split=0)
    write_toy(tmp_path, split=1, overrides={"init_from": "/somewhere/results/runs/a"})
    assert export(tmp_path) == 1
    assert "/somewhere/results/runs/a" in capsys.readouterr().err
    assert [line["identity"]["split"] for line in lines_of(tmp_path)] == [0]


def test_lines_are_sorted_by_identity_and_short(made, tmp_path):
    for split in (10, 2, 0):
        write_toy(tmp_path, split=split)
    assert export(tmp_path) == 0
    assert [line["identity"]["split"] for line in lines_of(tmp_path)] == [0, 2, 10]
    sizes = [len(json.dumps(line, separators=(",", ":"))) for line in lines_of(made)]
    assert max(sizes) < 1900
    assert len(lines_of(made, "shared")) < len(sizes)


def test_a_run_of_several_items_stands_in_the_file_of_the_largest(made):
    keys = [json.dumps(line["identity"], sort_keys=True) for line in lines_of(made)]
    assert len(keys) == len(set(keys)) == len(list(made.rglob("record.json")))
    whole = {line["identity"]["task"]: set() for line in lines_of(made)}
    for path in made.glob("records/*"):
        for line in map(json.loads, path.read_text().splitlines()):
            if line["kind"] == "run":
                whole[line["identity"]["task"]].add(path.name)
    assert whole["extrapolation"] == {"lindinger2020_tables3-smoke.jsonl"}  # Table 2 is a part of it


def test_a_line_and_what_it_shares_are_the_record(made):
    """Data, versions, machine and code of every run are those of its raw record."""
    from dgpbench.runs import compact_records

    raw = {json.dumps(each["identity"], sort_keys=True): each for each in map(read, made.rglob("record.json"))}
    found = [line.record for path in made.glob("records/*.jsonl") for line in compact_records.decode(path).runs]
    assert len(found) == len(raw)
    for record in found:
        expected = raw[json.dumps(record["identity"], sort_keys=True)]
        for key in ("config", "versions", "git", "scores"):
            assert record[key] == expected[key]
        assert record["data"].items() <= expected["data"].items()
        assert {"scale_y", "n_train", "digest_xy"} <= set(record["data"])
        assert not {"shared", "format", "kind"} & set(record)


def read(path: Path) -> dict:
    return json.loads(path.read_text())


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
def test_a_file_that_is_not_jsonl_is_not_imported(made, tmp_path, capsys, name):
    file = next(made.rglob(name))
    assert fit_once.command("results", "import", str(file), f"results_dir={tmp_path}") == 2
    message = capsys.readouterr().err
    assert f"{file} cannot be imported; name a folder with runs/, a .jsonl file or a folder of them" in message
    assert len(message.splitlines()) == 1
    assert bytes_of(tmp_path) == {}


# Verifying ------------------------------------------------------------------------------------------------------------


def test_records_that_are_whole_are_verified(made, fresh, capsys):
    for results in (made, fresh):
        assert fit_once.command("results", "verify", str(results)) == 0
    assert "0 problems" in capsys.readouterr().out


def _swap(results: Path) -> None:
    path, number = first_run(results)
    texts = path.read_text().splitlines()
    texts[number - 1], texts[number] = texts[number], texts[number - 1]
    path.write_text("\n".join(texts) + "\n")


BREAKS = {
    "another hash": lambda results: edit(results, lambda line: line.update(config_hash="0" * 64)),
    "not sorted": _swap,
    "bins": lambda results: edit(results, lambda line: line["pit_counts"].__setitem__(0, 10**6)),
    "an earlier dgpbench": lambda results: edit(results, lambda line: line.update(format=1)),
    "a later dgpbench": lambda results: edit(results, lambda line: line.update(format=99)),
    "does not have before it": lambda results: edit(results, lambda line: line.update(shared="0" * 16)),
    "lacks scores": lambda results: edit(results, lambda line: line.pop("scores")),
    "other scores": lambda results: edit(results, lambda line: line["scores"].update(tll=1.5, nlpp=-1.5)),
    "another sha256": lambda results: edit(results, lambda line: line["files"].update({"points.parquet": "0" * 64})),
}


@pytest.mark.parametrize("message", sorted(BREAKS))
def test_invalid_lines_are_found(made, tmp_path, capsys, message):
    shutil.copytree(made, tmp_path / "copy")
    BREAKS[message](tmp_path / "copy")
    assert fit_once.command("results", "verify", str(tmp_path / "copy")) == 1
    assert message in capsys.readouterr().out


OF_A_RUN = {
    "its format is '2'": lambda line: line.update(format="2"),
    "its format is None": lambda line: line.update(format=None),
    "is not a compact record": lambda line: line.update(kind=["run"]),
    "its shared is ['a']": lambda line: line.update(shared=["a"]),
    "its scores is [1]": lambda line: line.update(scores=[1]),
    "its scores is {'tll': '0'}": lambda line: line.update(scores={"tll": "0"}),
    "its scores is {'tll': 1000": lambda line: line.update(scores={"tll": 10**400}),
    "its scores is {'tll': None}": lambda line: line.update(scores={"tll": None}),
    "its scores is {'tll': inf}": lambda line: line.update(scores={"tll": "TO BE 1e999"}),
    "its scores lack tll": lambda line: line["scores"].pop("tll"),
    "it is done and has no scores": lambda line: line.update(scores={}),
    "NaN is not JSON": lambda line: line["scores"].update(tll=float("nan")),
    "Infinity is not JSON": lambda line: line["scores"].update(tll=float("inf")),
    "its status is 'finished', not one of done": lambda line: line.update(status="finished"),
    "its status is None": lambda line: line.update(status=None),
    "its seconds is None": lambda line: line.update(seconds=None),
    "its seconds is {'total': '1'}": lambda line: line.update(seconds={"total": "1"}),
    "its seconds is {'training': 1.0}": lambda line: line.update(seconds={"training": 1.0}),
    "its files is None": lambda line: line.update(files=None),
    "its finished is None": lambda line: line.update(finished=None),
    "its pit_counts is 'x'": lambda line: line.update(pit_counts="x"),
    "its pit_counts is [1, 2]": lambda line: line.update(pit_counts=[1, 2]),
    "its coverage_counts is [True": lambda line: line.update(coverage_counts=[True] * 19),
    "it has one of pit_counts and coverage_counts": lambda line: line.update(pit_counts=None),
    "its identity is []": lambda line: line.update(identity=[]),
    "its identity.split is '0'": lambda line: line["identity"].update(split="0"),
    "its identity.seed is False": lambda line: line["identity"].update(seed=False),
    "its identity.dataset is '../../x'": lambda line: line["identity"].update(dataset="../../x"),
    "its identity has unknown keys: colour": lambda line: line["identity"].update(colour="red"),
    "it lacks identity.task": lambda line: line["identity"].pop("task"),
    "it lacks files, finished": lambda line: [line.pop("files"), line.pop("finished")],
    "nested more than 50 levels": lambda line: line.update(notes="TO BE DEEP"),
    "surrogates not allowed": lambda line: line.update(reason="\ud800"),
}
OF_WHAT_IS_SHARED = {
    "its id is []": lambda line: line.update(id=[]),
    "its config is None": lambda line: line.update(config=None),
    "its data is []": lambda line: line.update(data=[]),
    "it lacks config.method": lambda line: line["config"].pop("method"),
    "its config.method is None": lambda line: line["config"].update(method=None),
    "it lacks config.method.name": lambda line: line["config"]["method"].pop("name"),
    "its data.n_test is '9'": lambda line: line["data"].update(n_test="9"),
    "its host.threads is '1'": lambda line: line["host"].update(threads="1"),
    "its git is 'abc'": lambda line: line.update(git="abc"),
    "its versions is {'python': 3}": lambda line: line.update(versions={"python": 3}),
}


@pytest.mark.full
@pytest.mark.parametrize("message", [*OF_A_RUN, *OF_WHAT_IS_SHARED])
def test_a_damaged_line_is_named_and_left_out(fresh, tmp_path, capsys, message):
    shared = message in OF_WHAT_IS_SHARED
    runs = first_run(fresh)[0].read_text().count('"kind":"run"')
    lost = 2 if shared else 1
    source = edit_shared(fresh, OF_WHAT_IS_SHARED[message]) if shared else edit(fresh, OF_A_RUN[message])
    file = Path(source.rpartition(":")[0])
    deep, huge = f"{'[' * 5000}{']' * 5000}", "1e999"  # json.dumps writes neither
    file.write_text(file.read_text().replace('"TO BE DEEP"', deep).replace('"TO BE 1e999"', huge))
    item = ("lindinger2020_table1", *SMALL["lindinger2020_table1"], *GIVEN, f"results_dir={fresh}")
    assert fit_once.command("results", "verify", str(fresh)) == 1
    (sentence,) = [text for text in capsys.readouterr().out.splitlines() if message in text]
    assert sentence.startswith(f"{source} ")
    assert len(sentence) < 300
    assert fit_once.command("plan", *item, "--json") == 0
    shown = capsys.readouterr()
    assert message in shown.err
    assert json.loads(shown.out)["counts"]["missing"] == lost
    assert fit_once.command("table", *item) == 0
    assert capsys.readouterr().err.count(message) == 1
    assert fit_once.command("results", "import", str(file), f"results_dir={tmp_path / 'new'}") == 1
    assert message in capsys.readouterr().err
    assert len(lines_of(tmp_path / "new")) == runs - lost


def test_runs_with_a_damaged_shared_line_are_named_together(fresh, capsys):
    source = edit_shared(fresh, lambda line: line.update(config=None))
    assert fit_once.command("results", "verify", str(fresh)) == 1
    message = capsys.readouterr().out
    assert f"{source} is left out with all runs that share it: 2" in message
    assert message.splitlines()[-1].endswith("2 problems")


def test_a_file_that_is_a_folder_or_cannot_be_read_stops_nothing(fresh, monkeypatch, capsys):
    (fresh / "records" / "folder.jsonl").mkdir()
    (fresh / "records" / "gone.jsonl").symlink_to(fresh / "nowhere")
    assert fit_once.command("results", "verify", str(fresh)) == 0
    (file, *_) = sorted(fresh.glob("records/l*.jsonl"))
    read = Path.read_text

    def forbidden(path, *given, **named):
        if path == file:
            raise PermissionError(13, "Permission denied")
        return read(path, *given, **named)

    monkeypatch.setattr(Path, "read_text", forbidden)
    os.utime(file)
    assert fit_once.command("results", "verify", str(fresh)) == 1
    assert f"{file} cannot be read: Permission denied" in capsys.readouterr().out


def test_an_unknown_score_replaces_nothing(fresh, capsys):
    source = edit(fresh, lambda line: line["scores"].update(dataset=3.0, of_tomorrow=4.0))
    assert fit_once.command("show", source) == 0
    given = (*SMALL["lindinger2020_table1"], *GIVEN, f"results_dir={fresh}")
    capsys.readouterr()
    assert fit_once.command("table", "lindinger2020_table1", *given) == 0
    shown = capsys.readouterr().out
    assert "/2" not in shown  # every cell has both of its splits


def test_a_run_with_an_edited_record_is_not_exported(tmp_path, capsys):
    write_toy(tmp_path, split=0)
    path = write_toy(tmp_path, split=1) / "record.json"
    forge(path, lambda record: record.update(seconds={"total": "12"}))
    assert export(tmp_path) == 1
    assert "its seconds is {'total': '12'}" in capsys.readouterr().err
    assert [line["identity"]["split"] for line in lines_of(tmp_path)] == [0]


# Naming a line --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelt", ["./fresh/records/{}:{}", "fresh//records/{}:0{}", "fresh/../fresh/records/{}:{}"])
def test_a_line_is_found_however_it_is_spelt(fresh, tmp_path, monkeypatch, capsys, spelt):
    monkeypatch.chdir(tmp_path)
    fit_once.without_training(monkeypatch)
    file, number = first_run(fresh)
    given = spelt.format(file.name, number)
    assert fit_once.command("show", given) == 0
    assert f"{file.name}:{number}\n" in capsys.readouterr().out
    assert fit_once.command("results", "redo", given) == 0
    assert "the scores agree bit for bit" in capsys.readouterr().out


def test_a_line_that_is_not_a_run_is_distinguished_from_a_damaged_one(fresh, capsys):
    file, number = first_run(fresh)
    for command in (("show",), ("results", "redo")):
        assert fit_once.command(*command, f"{file}:1") == 2
        message = capsys.readouterr().err
        assert f'{file}:1 is not a run; the lines with "kind":"run" are, such as {file}:{number}' in message
    edit(fresh, lambda line: line.update(seconds=None))
    assert fit_once.command("show", f"{file}:{number}") == 2
    assert "its seconds is None" in capsys.readouterr().err
    file.write_text("\n")
    assert fit_once.command("show", f"{file}:1") == 2
    assert "is truncated or damaged" in capsys.readouterr().err
    assert fit_once.command("show", f"{file}:9") == 2
    assert "the file holds none" in capsys.readouterr().err


# Tracing and repeating ------------------------------------------------------------------------------------------------


def test_each_number_leads_to_its_runs_and_to_the_command_that_repeats_one(fresh, capsys):
    given = (*SMALL["lindinger2020_table1"], *GIVEN, f"results_dir={fresh}")
    assert fit_once.command("results", "trace", "lindinger2020_table1", *given, "method=star") == 0
    message = capsys.readouterr().out
    stars = [line for line in lines_of(fresh) if line["identity"]["method"] == "star"]
    stars = [line for line in stars if line["identity"]["task"] == "interpolation"]
    assert len(stars) == 2
    for line in stars:
        assert f"split {line['identity']['split']}: {line['scores']['tll']:.6g}" in message
        assert line["config_hash"] in message
    commands = [shlex.split(text.split("again: ")[1]) for text in message.splitlines() if "again: " in text]
    hashes = {fit_once.identity(*command[2:]).hash for command in commands}
    assert hashes == {line["config_hash"] for line in stars}
    sources = [text.split("record: ")[1] for text in message.splitlines() if "record: " in text]
    for source in sources:
        file, _, number = source.rpartition(":")
        assert json.loads(Path(file).read_text().splitlines()[int(number) - 1])["config_hash"] in message


def test_a_direct_comparison_leads_to_both_of_its_runs(fresh, capsys):
    assert fit_once.command("results", "trace", "lindinger2020_table2", *GIVEN, f"results_dir={fresh}") == 0
    message = capsys.readouterr().out
    (first, *_) = [line for line in lines_of(fresh, "pair") if line["second"]["method"] == "mf"]
    assert f"split {first['first']['split']}: {first['win_frequency']:.6g}" in message
    assert {"method=star", "method=mf", "method=sghmc"} <= set(message.split())


def test_a_comparison_of_a_rerun_run_is_dropped(fresh):
    """The settings of the new run are the same, its scores are not."""
    from dgpbench.experiments.items import load
    from dgpbench.report.cells import cells
    from dgpbench.report.collect import collect

    name = ("lindinger2020_table2", [*GIVEN, f"results_dir={fresh}"])
    before = cells(load(*name), collect(fresh))
    assert before["count"].sum() > 0
    for path in fresh.glob("records/*.jsonl"):
        found = [json.loads(line) for line in path.read_text().splitlines()]
        for line in found:
            if line["kind"] == "run" and line["identity"]["method"] == "star" and "tll" in line["scores"]:
                line["scores"]["tll"] += 1e-6
                line["scores"]["nlpp"] -= 1e-6
        path.write_text("".join(map(signed, found)))
    after = cells(load(*name), collect(fresh))
    assert after["count"].sum() == 0
    assert after["unknown"].sum() > 0


@pytest.mark.full
def test_a_run_that_is_repeated_has_the_same_bits(made, fresh, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    own = next(iter(sorted(made.rglob("record.json")))).parent
    file = sorted(fresh.glob("records/*.jsonl"))[-1]
    number = len(file.read_text().splitlines()) - file.read_text().count('"kind":"pair"')
    settings = (*STAR, f"results_dir={fresh}")
    for words in ((str(own),), (f"{file}:{number}",), settings, ("--random", f"results_dir={fresh}")):
        assert fit_once.command("results", "redo", *words) == 0
        assert "the scores agree bit for bit" in capsys.readouterr().out
    assert not (fresh / "runs").exists()


@pytest.mark.parametrize(
    ("moved", "cpu", "code", "message"),
    [
        (0.019, "another", 0, "agree within their bounds, not to the bit"),
        (0.021, "another", 1, "the scores DIFFER: nlpp, tll;"),
        (1e-9, None, 1, "processor, versions and threads are the same"),
    ],
)
def test_scores_must_agree_to_the_bit_or_within_the_bound(fresh, monkeypatch, capsys, moved, cpu, code, message):
    fit_once.without_training(monkeypatch)
    clean = {"commit": "0" * 40, "dirty": False}
    monkeypatch.setattr("dgpbench.system.provenance.git_state", lambda: clean)

    def change(line):
        line["scores"]["tll"] += moved
        line["scores"]["nlpp"] -= moved

    def change_shared(line):
        line["git"] = clean
        line["host"]["cpu"] = cpu or line["host"]["cpu"]

    edit_shared(fresh, change_shared)
    assert fit_once.command("results", "redo", edit(fresh, change)) == code
    shown = capsys.readouterr().out
    assert message in shown
    (row,) = [text.split() for text in shown.splitlines() if text.startswith("tll ") and text.count(".") > 1]
    assert float(row[3]) == pytest.approx(-moved, rel=0.06)


def test_a_rerun_on_other_rows_does_not_agree(fresh, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    assert fit_once.command("results", "redo", edit(fresh, lambda line: line.update(split_digest="0" * 16))) == 1
    assert "the test rows differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export",), "holds no run"),
        (("export", "dataset=boston"), "name one"),
        (("import",), "needs a folder"),
        (("import", "nothing/here"), "cannot be imported"),
        (("trace", "lindinger2020_table1"), "has a record"),
        (("redo",), "needs a run"),
        (("redo", "nothing/here"), "is not a run"),
        (("redo", "--random"), "no run that is done"),
        (("redo", "--random", "colour=red"), "does not choose"),
        (("redo", "method=star"), "has no record"),
    ],
)
def test_impossible_requests_are_clean_errors(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    assert fit_once.command("results", *words) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.strip().splitlines()) == 1
