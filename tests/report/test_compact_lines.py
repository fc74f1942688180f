"""Damaged compact lines, references to lines, and reruns of their runs."""

import json
import os
import shlex
import shutil
from pathlib import Path

import fit_once
import pytest
from compact_files import GIVEN, SMALL, STAR, edit, edit_shared, export, first_run, lines_of, signed
from one_record import forge
from toys import write_toy

# Verifying ------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_records_that_are_whole_are_verified(exported, fresh, capsys):
    for results in (exported, fresh):
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
def test_invalid_lines_are_found(exported, tmp_path, capsys, message):
    shutil.copytree(exported, tmp_path / "copy")
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
    "damaged: 1e999 is too large": lambda line: line.update(scores={"tll": "TO BE 1e999"}),
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
    "1e999 is too large for a number": lambda line: line["config"].update(x="TO BE 1e999"),
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
def test_a_run_that_is_repeated_has_the_same_bits(exported, fresh, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    own = next(iter(sorted(exported.rglob("record.json")))).parent
    file = sorted(fresh.glob("records/*.jsonl"))[-1]
    number = len(file.read_text().splitlines()) - file.read_text().count('"kind":"pair"')
    settings = (*STAR, f"results_dir={fresh}")
    for words in (
        (str(own),),
        (f"{file}:{number}",),
        settings,
        ("--random", f"results_dir={fresh}"),
        ("--all", "split=0", f"results_dir={fresh}"),
    ):
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


def test_a_run_whose_start_is_elsewhere_is_not_drawn(tmp_path, capsys):
    write_toy(tmp_path, overrides={"init_from": "runs/interpolation/boston/mf-L2/lindinger2020/split0-seed0"})
    assert fit_once.command("results", "redo", "--random", f"results_dir={tmp_path}") == 2
    shown = capsys.readouterr().err
    assert f"1 run left out, since the start is not in {tmp_path}" in shown
    assert "no run that is done" in shown


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
