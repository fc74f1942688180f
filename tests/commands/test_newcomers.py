"""Regression tests of first use: names, refusals, digits and paths, through the command line."""

import contextlib
import io
import json
import re
import subprocess
from pathlib import Path

import fit_once
import numpy as np
import pandas as pd
import pytest
from one_record import forge

from dgpbench.config.overrides import argument, parse

QUICK = ("budget=smoke", "training.max_iterations=2", "method.num_inducing=4", "prediction.num_samples=2")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Overrides of a data set of 40 rows with a small target: its scores need more than four decimals."""
    draws = np.random.default_rng(0)
    X = draws.normal(size=(40, 2))
    path = tmp_path_factory.mktemp("data") / "small.csv"
    return fit_once.write_table(path, X, 2e-4 * (X[:, 0] + 0.3 * draws.normal(size=40)))


# The objective's name -------------------------------------------------------------------------------------------------

OBJECTIVES = {
    "mf": "ELBO",
    "sod": "ELBO",
    "sghmc": "log joint",
    "aep": "EP energy",
    "gpr": "log marginal likelihood",
    "sgpr": "collapsed ELBO",
    "fitc": "FITC log marginal likelihood",
}


@pytest.mark.full
@pytest.mark.parametrize(("method", "words"), OBJECTIVES.items())
def test_a_record_calls_a_familys_objective_by_its_name(method, words, monkeypatch, tmp_path):
    fit_once.without_training(monkeypatch)
    assert fit_once.run(tmp_path, f"method={method}", "dataset=diabetes", "budget=smoke").record["objective"] == words


def test_the_name_of_the_objective_does_not_enter_the_digest(monkeypatch, tmp_path):
    """Records from before it was named stay valid: neither the hash's settings nor the directory know it."""
    fit_once.without_training(monkeypatch)
    run = fit_once.run(tmp_path, "method=gpr", "dataset=diabetes", "budget=smoke")
    assert "objective" not in run.record["config"]["method"]
    assert run.directory.name == "split0-seed0"


def test_a_picture_names_the_objective(monkeypatch, tmp_path):
    fit_once.without_training(monkeypatch)
    run = fit_once.run(tmp_path, "method=sghmc", "dataset=diabetes", "budget=smoke")
    assert fit_once.command("show", str(run.directory), "--plot", "--output", str(tmp_path / "picture.svg")) == 0
    assert ">log joint (nats, standardised y)<" in (tmp_path / "picture.svg").read_text()


@pytest.mark.full
def test_a_figure_of_training_names_what_its_methods_maximise(monkeypatch, tmp_path):
    fit_once.without_training(monkeypatch)
    given = ("jain2021_fig11", "method=mf", "budget=smoke", f"results_dir={tmp_path}")
    assert fit_once.command("reproduce", *given, "progress=false") == 0
    assert fit_once.command("figure", *given, "--output", str(tmp_path / "picture.svg")) == 0
    assert ">ELBO (nats, standardised y)<" in (tmp_path / "picture.svg").read_text()


# One real run: what is shown while it trains, what it prints and what it writes ---------------------------------------


@pytest.fixture(scope="module")
def sghmc(table, tmp_path_factory):
    """A run of sghmc with its progress on standard error: (its record's text, stdout, stderr)."""
    folder, out, err = tmp_path_factory.mktemp("sghmc"), io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert fit_once.command("run", "method=sghmc", *table, *QUICK, "plot=false", f"results_dir={folder}") == 0
    (record,) = folder.rglob("record.json")
    return record.read_text(), out.getvalue(), err.getvalue()


@pytest.mark.full
def test_progress_calls_the_objective_by_its_name(sghmc):
    assert re.search(r"iteration \d+/\d+  log joint -?\d+\.\d\d  ", sghmc[2])
    assert "ELBO" not in sghmc[2]


@pytest.mark.full
def test_scores_are_printed_with_three_significant_digits(sghmc):
    record, out, _ = sghmc
    rmse = json.loads(record)["scores"]["rmse"]
    assert 1e-5 < rmse < 1e-3
    (printed,) = re.findall(r"^  rmse +(\S+) ", out, re.MULTILINE)
    assert float(printed) == pytest.approx(rmse, rel=0.005)
    assert len(printed.lstrip("0.")) >= 3


def test_a_record_holds_no_path_of_this_machine_to_the_data(sghmc, table):
    path = next(text.partition("=")[2] for text in table if text.startswith("dataset.path="))
    assert json.loads(sghmc[0])["data"]["files"][0]["origin"] == "small.csv"
    assert path.rpartition("/")[0] not in sghmc[0]


def test_a_file_of_a_mirror_is_recorded_by_its_address(monkeypatch, tmp_path):
    from dgpbench.data import datasets

    url = "https://example.org/data/small.csv"
    spec = {"name": "small", "kind": "uci", "columns": ["a", "y"], "target": "y", "digest_xy": None}
    spec["sources"] = [{"url": url, "reader": {"format": "csv"}}]
    (tmp_path / "mirror" / "example.org" / "data").mkdir(parents=True)
    (tmp_path / "mirror" / "example.org" / "data" / "small.csv").write_text("a,y\n1,2\n3,5\n")
    monkeypatch.setenv("DGPBENCH_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("DGPBENCH_CACHE", str(tmp_path / "cache"))
    assert datasets.load(spec).sources[0].origin == url


@pytest.mark.full
def test_a_table_shows_three_significant_digits_of_a_score_in_units_of_y(monkeypatch, tmp_path, capsys):
    fit_once.without_training(monkeypatch)
    given = ("hernandez2018_table511", "method=mf", "method.num_layers=2", "dataset=naval", "split=0,1", "budget=smoke")
    given = (*given, f"results_dir={tmp_path}")
    assert fit_once.command("reproduce", *given, "progress=false") == 0
    for path in tmp_path.rglob("record.json"):  # naval's scores are far smaller than those of made-up runs
        forge(path, lambda r: r["scores"].update(rmse={0: 0.000113, 1: 0.000117}[r["identity"]["split"]]))
    for command in ("table", "compare"):
        capsys.readouterr()
        assert fit_once.command(command, *given) == 0
        assert "0.000115 (0.000002)" in capsys.readouterr().out


# Refusals -------------------------------------------------------------------------------------------------------------


def refused(capsys, *arguments: str) -> str:
    """The one sentence of a command that is refused."""
    capsys.readouterr()
    assert fit_once.command(*arguments) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("dgpbench: ")
    return sentence


def written(tmp_path, text: str) -> str:
    (tmp_path / "own.csv").write_text(text)
    return f"dataset.path={tmp_path / 'own.csv'}"


WRONG_DATA = {
    "a file that is not there": (None, "y", "cannot be read"),
    "no target named": ("a,y\n1,2\n3,5\n", None, "needs dataset.path=FILE and dataset.target=COLUMN"),
    "a target that is not a column": ("a,b\n1,2\n3,5\n", "y", "dataset.target=y is not a column"),
    "a column of texts": ("a,y\n1,2\nx,5\n", "y", "holds text in 1 cell (row 2 of 'a': 'x')"),
}


@pytest.mark.parametrize("case", WRONG_DATA)
def test_validate_refuses_data_with_the_message_of_run(case, tmp_path, capsys):
    text, target, words = WRONG_DATA[case]
    path = written(tmp_path, text) if text else f"dataset.path={tmp_path / 'none.csv'}"
    given = ("dataset=csv", path, *([f"dataset.target={target}"] if target else []), f"results_dir={tmp_path}")
    sentence = refused(capsys, "validate", *given)
    assert words in sentence
    assert refused(capsys, "run", *given) == sentence


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["dataset=boston", "method=star", "method.num_inducing=456"], "more than the 455 training rows"),
        (["dataset=boston", "method=gpr", "method.max_rows=454"], "takes at most 454 training rows"),
        (["dataset=boston", "task=folds", "split=10"], "split must be between 0 and 9"),
    ],
)
def test_validate_refuses_a_split_that_run_refuses(given, words, tmp_path, capsys):
    sentence = refused(capsys, "validate", *given)
    assert words in sentence
    assert refused(capsys, "run", *given, f"results_dir={tmp_path}") == sentence


def test_validate_knows_the_size_of_a_data_set_before_its_download(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DGPBENCH_CACHE", str(tmp_path))
    monkeypatch.delenv("DGPBENCH_MIRROR", raising=False)
    assert "this split has 463,715" in refused(capsys, "validate", "dataset=year", "task=fixed", "method=gpr")
    assert "this split has 463,810" in refused(capsys, "validate", "dataset=year", "method=gpr")  # 0.9 of 515,345
    assert fit_once.command("validate", "dataset=year", "task=fixed", "method=star") == 0
    assert "year" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_validate_checks_every_value_of_a_sweep(tmp_path, capsys):
    path = written(tmp_path, "a,y\n" + "\n".join(f"{row},{row * row}" for row in range(20)))
    given = ("dataset=csv", path, "dataset.target=y", "method=sgpr", "method.num_inducing=4,18", "--multirun")
    assert fit_once.command("validate", *given) == 0
    assert "19" in refused(capsys, "validate", *given[:-2], "method.num_inducing=4,19", "--multirun")


def test_train_fraction_is_below_one_in_help_and_validation(capsys):
    assert fit_once.command("run", "--help") == 0
    assert re.search(r"task\.train_fraction=.*above 0 and below 1; default 0.9\)", capsys.readouterr().out)
    assert "above 0 and below 1" in refused(capsys, "validate", "task.train_fraction=1")
    assert fit_once.command("validate", "task.train_fraction=0.99") == 0


@pytest.mark.parametrize("inside", ["file", "file/below", "dangling/below"])
def test_an_impossible_results_folder_is_a_clean_error(inside, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "dangling")  # to itself
    given = ("dataset=diabetes", "method=gpr", "budget=smoke", f"results_dir={tmp_path / inside}")
    sentence = refused(capsys, "run", *given)
    assert str(tmp_path / inside) in sentence
    assert "results_dir=" in sentence


def test_reproducing_into_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    given = ("lindinger2020_figs6", "budget=smoke", f"results_dir={tmp_path / 'file'}")
    assert fit_once.command("reproduce", *given) == 2
    assert "is a file; results_dir= names a folder" in capsys.readouterr().err


# Lost rows and wrong messages -----------------------------------------------------------------------------------------


@pytest.mark.full
def test_predictions_never_replace_the_table_that_they_are_of(table, tmp_path, capsys):
    path = next(word.partition("=")[2] for word in table if word.startswith("dataset.path="))
    model = str(tmp_path / "model")
    assert fit_once.command("fit", "method=gpr", *table, "--output", model, "progress=false", "--holdout", "0") == 0
    before = Path(path).read_bytes()
    assert fit_once.command("predict", model, path, "--output", path) == 2
    assert "is the table that is read" in capsys.readouterr().err
    assert Path(path).read_bytes() == before


def test_splits_that_an_item_does_not_have_are_refused(capsys):
    assert fit_once.command("table", "lindinger2020_table1", "split=range(20)") == 2
    assert "has no split 10, 11," in capsys.readouterr().err


def test_a_trace_without_runs_names_where_runs_exist(tmp_path, capsys):
    given = (f"results_dir={tmp_path}", "dataset=boston", "method=star")
    assert fit_once.command("results", "trace", "lindinger2020_table1", *given) == 2
    assert "dataset=boston method=star at budget=paper has a record" in capsys.readouterr().err


def test_the_suffix_of_a_file_determines_the_format_of_a_table(tmp_path, capsys):
    words = ("table", "lindinger2020_table1", f"results_dir={tmp_path}", "--output", str(tmp_path / "x.tex"))
    assert fit_once.command(*words) == 0
    assert "\\begin{tabular}" in (tmp_path / "x.tex").read_text()
    assert fit_once.command(*words, "--format", "md") == 2
    assert "disagree" in capsys.readouterr().err


def test_the_target_is_not_left_out(table, capsys):
    target = next(word.partition("=")[2] for word in table if word.startswith("dataset.target="))
    assert fit_once.command("validate", "method=gpr", *table, f"dataset.drop=[{target}]") == 2
    assert f"dataset.drop names {target}, which is dataset.target" in capsys.readouterr().err


COPIES = {
    "the file itself": ("train.csv", lambda frame, path: None),
    "a link": ("link.csv", lambda frame, path: path.symlink_to(path.with_name("train.csv"))),
    "its bytes": ("copy.csv", lambda frame, path: path.write_bytes(path.with_name("train.csv").read_bytes())),
    "another order": (
        "shuffled.csv",
        lambda frame, path: frame.sample(frac=1, random_state=0).to_csv(path, index=False),
    ),
    "another order of columns": ("columns.csv", lambda frame, path: frame[["y", "b", "a"]].to_csv(path, index=False)),
    "another separator": ("semicolons.csv", lambda frame, path: frame.to_csv(path, index=False, sep=";")),
    "another format": ("copy.parquet", lambda frame, path: frame.to_parquet(path, index=False)),
    "every row twice": ("twice.csv", lambda frame, path: pd.concat([frame, frame]).to_csv(path, index=False)),
}


def own_rows(tmp_path, rows: int = 30):
    """A table with a category and a number, and the overrides that name it."""
    draws = np.random.default_rng(3)
    frame = pd.DataFrame({"a": draws.normal(size=rows), "b": list("xyz") * (rows // 3), "y": draws.normal(size=rows)})
    frame.to_csv(tmp_path / "train.csv", index=False)
    given = ("dataset=csv", f"dataset.path={tmp_path / 'train.csv'}", "dataset.target=y", "dataset.categorical=[b]")
    return frame, ("method=bayesian_ridge", *given, f"results_dir={tmp_path / 'results'}")


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_copy_of_the_training_file_is_not_a_test_file(command, copy, tmp_path, capsys):
    frame, words = own_rows(tmp_path)
    name, write = COPIES[copy]
    write(frame, tmp_path / name)
    sentence = refused(capsys, command, *words, f"dataset.test_path={tmp_path / name}")
    assert f"dataset.test_path={name} is a copy of the training file" in sentence


@pytest.mark.full
def test_test_rows_that_are_also_training_rows_are_counted(tmp_path, capsys):
    frame, words = own_rows(tmp_path)
    other = frame.assign(y=frame["y"] + 1)  # equal features alone are another row
    pd.concat([frame[:7], other[:13]]).to_csv(tmp_path / "test.csv", index=False)
    words = (*words, f"dataset.test_path={tmp_path / 'test.csv'}")
    for command in ("validate", "run"):
        assert fit_once.command(command, *words) == 0
        assert "7 of 20 test rows are also among the training rows" in capsys.readouterr().out
    (record,) = (tmp_path / "results").rglob("record.json")
    assert json.loads(record.read_text())["data"]["n_repeated"] == 7
    assert fit_once.command("show", str(record.parent)) == 0
    assert "7 of 20 test rows are also among the training rows" in capsys.readouterr().out


@pytest.mark.full
def test_duplicates_that_a_random_split_leaks_are_counted(tmp_path, capsys):
    frame, words = own_rows(tmp_path)
    pd.concat([frame, frame]).to_csv(tmp_path / "train.csv", index=False)
    assert fit_once.command("validate", *words) == 0
    counts = [re.search(r"(\d+) of 6 test rows are also", capsys.readouterr().out)]
    assert fit_once.command("fit", "method=sgp", *QUICK, *words[1:-1], "--output", str(tmp_path / "model")) == 0
    counts.append(re.search(r"(\d+) of 6 test rows are also", capsys.readouterr().out))
    assert all(counts)
    assert all(2 <= int(count[1]) <= 6 for count in counts)


def test_duplicates_are_not_mentioned_if_there_are_none(tmp_path, capsys):
    assert fit_once.command("validate", *own_rows(tmp_path)[1]) == 0
    assert "also among" not in capsys.readouterr().out


@pytest.mark.parametrize("swept", ["range(0)", "range(0,1,0)", "interval(0,1)"])
@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_sweep_that_is_not_a_list_of_values_is_refused(command, swept, tmp_path, capsys):
    given = ["method=sgp", "dataset=boston", f"split={swept}", "-m", f"results_dir={tmp_path}"]
    assert fit_once.command(command, *given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"dgpbench: split={swept} ")
    assert "split=range(10) stands for 0 to 9" in line


def test_an_invalid_combination_of_a_sweep_is_refused_before_any_run(tmp_path, capsys):
    """One layer of mf is possible, and two; two of sgp are not."""
    given = ["method=mf,sgp", "method.num_layers=1,2", "dataset=boston", *QUICK[:1], f"results_dir={tmp_path}", "-m"]
    for command in ("validate", "run"):
        assert fit_once.command(command, *given) == 2
        assert "num_layers=2" in capsys.readouterr().err
    assert not list(tmp_path.rglob("record.json"))


def test_a_text_with_a_nul_character_is_refused(table, tmp_path, capsys):
    """pandas would end the number there: 0.6 for 0.640422."""
    (path,) = [word.partition("=")[2] for word in table if word.startswith("dataset.path=")]
    text = Path(path).read_text()
    place = text.index("\n", text.index("\n") + 1) - 5
    (tmp_path / "nul.csv").write_text(text[:place] + "\0" + text[place:])
    given = [f"dataset.path={tmp_path}/nul.csv" if word.startswith("dataset.path=") else word for word in table]
    assert fit_once.command("validate", *given, "method=sgp") == 2
    assert "holds a NUL character in line 2" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["base64", "no-such"])
def test_an_encoding_that_is_not_of_texts_is_refused(encoding, table, capsys):
    assert fit_once.command("validate", *table, "method=sgp", f"dataset.encoding={encoding}") == 2
    assert f"dataset.encoding={encoding} is not a text encoding" in capsys.readouterr().err


# Quotes, digits, locks ------------------------------------------------------------------------------------------------

UNQUOTED = {
    "a target": ("dataset.target=größe", "größe"),
    "a target in another script": ("dataset.target=価格", "価格"),
    "a target with a comma": ("dataset.target=größe, m", "größe, m"),
    "a target in half a pair of quotes": ('dataset.target="größe', "größe"),
    "a target with an apostrophe": ("dataset.target=l'été", "l'été"),
    "one of a list": ("dataset.drop=[größe,b]", ["größe", "b"]),
    "one of a list, with a blank": ("dataset.drop=[b, größe in m]", ["b", "größe in m"]),
    "a file with an equals sign": ("dataset.path=é=1.csv", "é=1.csv"),
}


@pytest.mark.parametrize("case", UNQUOTED)
def test_advice_on_quotes_works_when_a_shell_follows_it(case, capsys):
    text, meant = UNQUOTED[case]
    sentence = refused(capsys, "validate", "dataset=csv", text)
    assert "characters beyond ASCII needs quotes inside the shell's" in sentence
    advice = sentence.partition(", as in ")[2]
    (word,) = subprocess.run(["bash", "-c", f"printf %s {advice}"], capture_output=True, text=True).stdout.splitlines()
    (override,) = parse([word])
    assert override.value() == meant if isinstance(meant, list) else str(override.value()).strip('"') == meant


def test_a_command_that_is_printed_quotes_what_is_not_ascii():
    for text in ("größe", "back\\", "two\\\\", 'a \\"quoted\\" word', "a\\b c"):
        assert parse([argument("dataset.target", text)])[0].value() == text


def test_numbers_of_a_thousand_and_more_have_one_spelling(tmp_path, capsys):
    draws = np.random.default_rng(0)
    X = draws.normal(size=(7373, 2))
    given = fit_once.write_table(tmp_path / "t.csv", X, X[:, 0] + draws.normal(size=7373))
    quick = ("method=sgp", *QUICK, "training.max_iterations=1500")
    assert fit_once.command("validate", *quick, *given) == 0
    assert (
        fit_once.command("run", "method=bayesian_ridge", *given, "plot=false", f"results_dir={tmp_path}/results") == 0
    )
    (directory,) = [path.parent for path in tmp_path.rglob("record.json")]
    assert fit_once.command("show", str(directory)) == 0
    printed = capsys.readouterr()
    lines = [line for line in (printed.out + printed.err).splitlines() if "record:" not in line]
    assert "7,373" in printed.out
    assert [line for line in lines if re.search(r"(?<![\w.,/=-])\d{4,}(?![\w.])", line)] == []


def test_locks_can_be_held_by_all_who_can_write_to_the_results(monkeypatch, tmp_path):
    fit_once.without_training(monkeypatch)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2775)
    words = ("method=gpr", "dataset=diabetes", "budget=smoke")
    fit_once.run(tmp_path / "shared", *words)
    assert fit_once.command("results", "export", f"results_dir={tmp_path / 'shared'}") == 0
    locks = tmp_path / "shared" / ".locks"
    assert locks.stat().st_mode & 0o7777 == 0o2775
    modes = {path.stat().st_mode & 0o777 for path in locks.iterdir()}
    assert (len(list(locks.iterdir())), modes) == (2, {0o664})


def test_a_check_of_the_pages_announces_its_duration(monkeypatch, capsys):
    from scripts.docs.__main__ import main

    monkeypatch.setattr("scripts.docs.pages.update", lambda folder, *, check: [])
    assert main(["--check"]) == 0
    printed = capsys.readouterr()
    assert "about a minute" in printed.err
    assert printed.out == "README.md and docs/ are current\n"
