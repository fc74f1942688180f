"""Command line: errors exit with code 2 and one sentence, and nothing is lost."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import fit_once
import pytest
from one_record import forge

from dgpbench.cli import main
from dgpbench.commands.doctor import NOT_LISTED
from dgpbench.config import groups
from dgpbench.methods.plugins import offers
from dgpbench.runs import store

SMOKE = ["budget=smoke", "progress=false", "plot=false"]


def sentence(capsys) -> str:
    """Return standard error after checking that it is one line."""
    text = capsys.readouterr().err.strip()
    assert text.startswith("dgpbench: ")
    assert "\n" not in text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "method=stra"], "did you mean star?"),
        (["run", "dataset=bostn"], "did you mean boston?"),
        (["run", "protocol=lindinger"], "lindinger2020"),
        (["run", "method.num_layers=0"], "at least 1"),
        (["run", "method.num_layers=2.5"], "whole number"),
        (["run", "method.num_layer=2"], "did you mean method.num_layers?"),
        (["run", "training.learning_rate=nan"], "above 0"),
        (["run", "training.learning_rate=-1"], "above 0"),
        (["run", "method.kernel=rbf"], "squared_exponential"),
        (["run", "+new=1"], "unknown setting 'new'"),
        (["run", "+method.foo=1"], "unknown setting 'method.foo'"),
        (["run", "++training.batch_size=1"], "adds or removes"),
        (["run", "~method"], "adds or removes"),
        (["run", "path=table.csv"], "dataset.path=FILE"),
        (["run", "method=gpr", "method.width=2"], "has no setting 'method.width'"),
        (["run", "method=gpr", "optimiser=adam"], "use optimiser=lbfgs"),
        (["run", "method=sgp", "method.num_layers=2"], "one layer"),
        (["run", "split=0,1"], "--multirun"),
        (["run", "method=star,stra", "--multirun"], "did you mean star?"),
        (["run", "method.num_layers=2,0", "--multirun"], "at least 1"),
        (["run", "dataset.path=a=b"], "needs quotes inside"),
        (["run", "--mutlirun"], "no flag"),
        (["run", "split=-1"], "at least 0"),
        (["run", "task.train_fraction=1"], "above 0 and below 1"),
        (["run", "method=aep", "method.propagation=joint"], "match_moments, sample"),
        (["run", "method=sod", "method.propagation=sample"], "joint, diagonal"),
        (["run", "method=fully_factorised", "method.structure=star"], "has no setting 'method.structure'"),
        (["run", "method=star", "method.blocks=[{layers: [2, 1], gps: all}]"], "method.structure=custom"),
        (["run", "dataset=csv"], "dataset.path"),
        (["run", "task=fixed", *SMOKE], "boston"),
        (["run", "task=classic", "split=20", *SMOKE], "19"),
        (["run", "method.num_inducing=456", *SMOKE], "455 training rows"),
        (["run", "-\n=0"], "no flag -\\n=0;"),
        (["run", "method=gpr", "method.max_rows=10", *SMOKE], "at most 10"),
        (["run", "method=custom", "method.blocks=[{layers: [1, 2], gps: all}]", *SMOKE], "method.blocks"),
        (["run", "method="], "unknown method ''; available: aep, aepmcm, arrow, bayesian_ridge, catboost, chain"),
        (["run", "method=mc_dropuot"], "did you mean mc_dropout?"),
        (["cite", "mc_dropuot"], "did you mean mc_dropout?"),
        *(
            ([command], "the following arguments are required: ITEM; ")
            for command in ("plan", "reproduce", "table", "compare", "figure")
        ),
        (["results", "trace"], "the following arguments are required: ITEM; "),
        (["check-method"], "the following arguments are required: METHOD; "),
        (["fit"], "the following arguments are required: --output; "),
        (["lst"], "did you mean list?"),
        (["list", "method"], "did you mean methods?"),
        (["run", "--dry-run"], "`dgpbench validate` with the same arguments"),
        (["run", "dataset=houses.csv"], "dataset=csv dataset.path=houses.csv dataset.target=COLUMN"),
        (
            ["run", "dataset=boston", "dataset.path=x.csv"],
            "use dataset=csv dataset.path=FILE dataset.target=COLUMN for a table of your own",
        ),
        (["show", "nowhere"], "is not a run"),
        (["data", "fetch", "bostn"], "did you mean boston?"),
        (["list", "methods", "extra"], "see `dgpbench list --help`"),
        (["plan", "lindinger2020_table1", "seed="], "seed takes a whole number of at least 0"),
        (["table", "lindinger2020_table1", "seed=1.5"], "seed takes a whole number of at least 0"),
        (["reproduce", "lindinger2020_table1", "seed=-1"], "seed takes a whole number of at least 0"),
        (["plan", "lindinger2020_table1", "results_dir=a,b"], "names several values where one is needed"),
        (["check-method", "star,mf"], "names several values where one is needed"),
        (["fit", "dataset=boston,energy", "--output", "model"], "names several values where one is needed"),
        (["results", "redo", "split.foo=3"], "unknown setting 'split.foo'"),
        (["results", "redo", "+method=mf"], "settings can only be changed"),
        (["table", "all", "--output", "tables.md"], "--output tables.md must be a folder"),
        (["figure", "all", "--output", "figures.PDF"], "--output figures.PDF must be a folder"),
        (["run", "--multirun", "split=0,1", "--cfg", "job"], "--multirun and --cfg cannot be used together"),
        (["run", "hydra.run.dir=/proc/x", *SMOKE], "Hydra's folder cannot be written"),
        (["run", "dataset.seed=3"], "has no setting 'dataset.seed'; it has none"),
        (["run", "dataset=step", "dataset.sed=3"], "it has seed, num_rows; did you mean seed?"),
    ],
)
def test_an_impossible_run_is_refused(arguments, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert expected in sentence(capsys)
    assert not list(tmp_path.rglob(store.RECORD))


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("a,b\n1,2\n2,3\n3,4\n", "price", "price"),
        ("a,b\n1,2\nred,3\n3,4\n", "b", "red"),
        ("a,b\n1,2\n,3\n3,4\n", "b", "a"),
        ("a,b\n1,2\n2,2\n3,2\n", "b", "b"),
    ],
)
def test_run_refuses_an_unusable_table(text, target, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(text)
    assert main(["run", "dataset=csv", "dataset.path=table.csv", f"dataset.target={target}", *SMOKE]) == 2
    assert expected in sentence(capsys)


def test_no_network_is_a_clean_error_that_names_the_mirror(tmp_path, monkeypatch, capsys):
    import requests

    def refuse(*_, **__):
        raise requests.ConnectionError("no network in this test")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requests.Session, "request", refuse)
    monkeypatch.setenv("DGPBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DGPBENCH_MIRROR", raising=False)
    assert main(["run", "dataset=yacht", *SMOKE]) == 2
    text = sentence(capsys)
    for part in ("https://archive.ics.uci.edu", "DGPBENCH_MIRROR", "dgpbench data import", "boston", "diabetes"):
        assert part in text


@pytest.mark.full
def test_a_full_disk_is_a_clean_error_and_leaves_no_record(tmp_path, monkeypatch, capsys):
    import errno

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store.os, "fsync", full)
    assert main(["run", "method=mf", *SMOKE]) == 2
    assert "cannot be written" in sentence(capsys)
    assert not list(tmp_path.rglob(store.RECORD))


@pytest.mark.full
def test_a_user_table_runs_and_two_tables_never_share_a_directory(tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for seed in (0, 1):
        rows = rng.normal(size=(60, 3))
        np.savetxt(tmp_path / "my table.csv", rows, delimiter=",", header="a,b,c", comments="")
        arguments = ["dataset=csv", "'dataset.path=\"my table.csv\"'".strip("'"), "dataset.target=c", f"seed={seed}"]
        assert main(["run", "method=mf", *arguments, *SMOKE]) == 0
    assert len({path.parts[-5] for path in tmp_path.rglob(store.RECORD)}) == 2


@pytest.mark.full
def test_a_sweep_leaves_a_record_for_each_run_and_nothing_beside_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sweep = ["run", "method=mf,star", "dataset=boston", "split=range(2)", "--multirun", *SMOKE]
    assert main(sweep) == 0
    assert len(list(tmp_path.rglob(store.RECORD))) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob(store.RECORD)}
    capsys.readouterr()
    assert main(sweep) == 0
    assert "4 skipped" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob(store.RECORD)}


def test_a_method_that_raises_leaves_a_failed_record_with_its_traceback(tmp_path, monkeypatch, capsys):

    from dgpbench.methods import structured

    def broken(*_):
        raise ZeroDivisionError("deliberately broken")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(structured, "build_prior", broken)
    assert main(["run", "method=mf", *SMOKE]) == 1
    record = store.read_record(next(tmp_path.rglob(store.RECORD)))
    assert record["status"] == "failed"
    assert "deliberately broken" in record["reason"]
    assert "Traceback" in record["traceback"]
    assert record["scores"] == {}


@pytest.mark.full
def test_a_diverging_run_is_recorded_as_diverged_without_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "method=mf", "training.learning_rate=1e300", *SMOKE]) == 1
    record = store.read_record(next(tmp_path.rglob(store.RECORD)))
    assert record["status"] == "diverged"
    assert record["scores"] == {}


@pytest.mark.full
def test_a_record_of_other_settings_is_not_reused_nor_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "method=mf", *SMOKE]) == 0
    path = next(tmp_path.rglob(store.RECORD))
    forge(path, lambda record: record.update(config_hash="0" * 64))
    capsys.readouterr()
    assert main(["run", "method=mf", *SMOKE]) == 2
    assert "other settings" in sentence(capsys)
    assert json.loads(path.read_text())["config_hash"] == "0" * 64


def test_a_changed_record_is_replaced_with_a_message(tmp_path, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    run = fit_once.run(tmp_path, "method=mf", "dataset=diabetes")
    path = run.directory / store.RECORD
    whole = store.read_record(path)
    path.write_text(path.read_text().replace('"rmse": ', '"rmse": 1'))
    capsys.readouterr()
    assert fit_once.command("run", "method=mf", "dataset=diabetes", f"results_dir={tmp_path}", *fit_once.QUIET) == 0
    message = capsys.readouterr().err
    assert f"{path} was changed after it was written" in message
    assert "the run starts again" in message
    assert store.read_record(path)["scores"] == whole["scores"]


@pytest.mark.full
def test_the_test_rows_reach_no_fitted_value(tmp_path, monkeypatch):
    """Change one test row's target: the posterior must not move."""
    import numpy as np

    from dgpbench.runs import problem as problem_module

    monkeypatch.chdir(tmp_path)
    original = problem_module.make_split
    chosen = {}

    def spoiled(table, *rest):
        split = original(table, *rest)
        if chosen.get("spoil"):
            table.y[split.test] += 1000.0
            table.X[split.test] *= -3.0
        return split

    monkeypatch.setattr(problem_module, "make_split", spoiled)
    posteriors = []
    for spoil in (False, True):
        chosen["spoil"] = spoil
        assert main(["run", "method=star", f"results_dir={tmp_path / str(spoil)}", *SMOKE]) == 0
        posteriors.append(store.read_arrays(next((tmp_path / str(spoil)).rglob(store.POSTERIOR))))
    for name, values in posteriors[0].items():
        np.testing.assert_array_equal(values, posteriors[1][name])


def test_cfg_job_prints_the_configuration_and_runs_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "method=mf", "--cfg", "job"]) == 0
    assert "num_inducing" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_help_of_run_names_every_group_and_setting(capsys):
    from dgpbench.config.groups import GROUPS
    from dgpbench.runs.resolve import keys

    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name}=" in text for name in (*GROUPS, *keys()))


def test_help_of_run_has_the_default_of_every_setting(capsys):
    from dgpbench.runs.resolve import documented

    assert main(["run", "--help"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if re.match(r"  [a-z_.0-9]+= .*\(", line)]
    lacking = [line for line in lines if not re.search(r"; default [^()]+\)", line)]
    assert (len(lines), lacking) == (len(documented()), [])
    text = "\n".join(lines)
    assert re.search(r"method.num_layers= .*; default 3; 1 of exact, sparse\)", text)
    assert re.search(r"method.num_inducing= .*; default 128\)", text)
    assert re.search(r"training.natgrad_gamma= .*; default 0.005\)", text)
    assert re.search(r"dataset.missing= .*; default refuse\)", text)


@pytest.mark.parametrize("words", [(), ("data",), ("results",), ("bench",)])
def test_a_command_without_anything_to_do_prints_its_help(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(list(words))
    message = capsys.readouterr()
    assert (end.value.code or 0, message.err) == (0, "")
    assert message.out.startswith(f"usage: {' '.join(['dgpbench', *words])} [-h]")


@pytest.mark.parametrize("command", ["", "fit", "predict", "reproduce", "table", "check-method", "results redo"])
def test_the_flag_for_plug_ins_is_among_a_commands_options(command, capsys):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    assert re.search(r"^  --plugin FILE +load methods from a Python file", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("command", ["run", "validate"])
def test_the_flag_for_plug_ins_is_in_the_help_of(command, capsys):
    assert main([command, "--help"]) == 0
    assert "--plugin FILE loads methods from a Python file" in capsys.readouterr().out


@pytest.mark.parametrize("group", ["methods", "datasets", "tasks", "protocols", "budgets"])
def test_lists_are_printed_as_json_too(group, capsys):
    assert main(["list", group, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) >= 1


def entries_of(text: str) -> list[dict[str, str]]:
    """The BibTeX entries of a text, field by field; every line of an entry has to be one that BibTeX takes."""
    entries = re.findall(r"^@(article|book|inproceedings|mastersthesis|misc)\{(\w+),\n(.*?)^\}$", text, re.M | re.S)
    found = []
    for kind, key, body in entries:
        fields = {}
        for line in body.splitlines():
            name, value = re.fullmatch(r"  ([a-z]+) = \{(.+)\},", line).groups()
            assert value.count("{") == value.count("}")
            assert not re.search(r"(?<!\\)[&%#_$]", value) or name in ("doi", "url"), value
            fields[name] = value
        found.append({"kind": kind, "key": key, **fields})
    return found


CITED = sorted({*groups.names("method"), *offers("method"), *groups.names("dataset")} - {"csv"})


@pytest.mark.parametrize("name", CITED)
def test_every_method_and_data_set_is_cited_with_bibtex(name, capsys):
    assert main(["cite", name]) == 0
    message = capsys.readouterr().out
    assert message.count("\n@") == len(entries_of(message)) >= 1
    for entry in entries_of(message):
        assert {"title", "author", "year"} <= set(entry)
        assert {"booktitle", "journal", "school", "publisher", "howpublished"} & set(entry)
        assert re.fullmatch(r"\d{4}", entry["year"])
    assert "confirmable" not in message


def test_an_ampersand_is_escaped_in_bibtex_alone(capsys):
    assert main(["cite", "kin8nm"]) == 0
    text, _, entries = capsys.readouterr().out.partition("\n@")
    assert "IEEE Robotics & Automation Magazine" in text
    assert r"IEEE Robotics \& Automation Magazine" in entries


def test_a_plug_in_with_a_citation_of_its_own_has_bibtex_too(tmp_path, capsys):
    code = (
        "from dgpbench.plugins import Method\nM = Method('cited', print, title='Ours', citation='Doe (2024), Ours')\n"
    )
    (tmp_path / "cited.py").write_text(code)
    assert main(["cite", "cited", "--plugin", str(tmp_path / "cited.py")]) == 0
    (entry,) = entries_of(capsys.readouterr().out)
    assert entry == {"kind": "misc", "key": "cited", "title": "{Ours}", "note": "Doe (2024), Ours"}


def test_an_entry_has_the_names_and_the_doi_of_its_paper(capsys):
    assert main(["cite", "mf"]) == 0
    message = capsys.readouterr().out
    assert "Salimbeni & Deisenroth (2017), Doubly stochastic" in message
    assert "author = {Salimbeni, Hugh and Deisenroth, Marc Peter}" in message
    assert "doi = {10.48550/arXiv.1705.08933}" in message


def test_the_list_of_methods_has_the_citations_that_cite_has(capsys):
    assert main(["list", "methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"mf", "mc_dropout", "gpytorch_dgp"} <= {each["name"] for each in listed}
    for each in listed:
        assert main(["cite", each["name"]]) == 0
        message = capsys.readouterr().out
        assert message.startswith(f"{each['name']}: {each['title']}\n{each['citation']}"), each


def test_one_is_not_a_plural(capsys):
    assert main(["list", "datasets"]) == 0
    listed = capsys.readouterr().out
    assert "; 1 feature\n" in listed
    assert "; 8 features\n" in listed
    assert " 1 features" not in listed


@pytest.mark.parametrize(
    ("flag", "expected"), [("--resolve", "add --cfg job"), ("--shell-completion", "`dgpbench completion SHELL`")]
)
def test_flags_of_hydra_without_effect_are_refused(flag, expected, capsys):
    assert main(["run", flag]) == 2
    assert expected in sentence(capsys)


def test_a_method_is_not_checked_under_the_name_of_another(capsys):
    assert main(["check-method", "mf", "method=bayesian_ridge"]) == 2
    assert "name one method" in sentence(capsys)


def test_a_folder_without_records_is_not_verified(tmp_path, capsys):
    assert main(["results", "verify", str(tmp_path)]) == 2
    assert "neither runs/ nor records/" in sentence(capsys)


def test_an_unknown_budget_is_not_exported(capsys):
    assert main(["results", "export", "budget=latop"]) == 2
    assert "did you mean laptop?" in sentence(capsys)


@pytest.mark.parametrize("arguments", [["results", "verify", ""], ["report", "results_dir="], ["show", ""]])
def test_an_empty_path_is_not_the_current_folder(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert "must not be empty" in sentence(capsys)


def test_a_folder_that_was_removed_is_a_clean_error(tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["validate", "dataset=boston"]) == 2
    assert "current folder" in sentence(capsys)


def test_light_commands_import_no_tensorflow_and_no_hydra():
    code = (
        "import sys; from dgpbench.cli import main; import dgpbench.report\n"
        "main(['list', 'methods']); main(['list', 'datasets'])\n"
        "assert not {'tensorflow', 'hydra', 'pandas', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]


@pytest.mark.full
def test_show_prints_scores_and_draws_the_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "method=mf", *SMOKE]) == 0
    directory = next(tmp_path.rglob(store.RECORD)).parent
    capsys.readouterr()
    assert main(["show", str(directory), "--plot"]) == 0
    assert "rmse" in capsys.readouterr().out
    assert (directory / "figure.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.full
def test_a_run_ends_with_seconds_that_sum_up_and_its_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "method=mf", "budget=smoke", "progress=false"]) == 0
    *_, seconds, _, picture = capsys.readouterr().out.splitlines()
    assert (tmp_path / picture.removeprefix("picture: ")).samefile(next(tmp_path.rglob("figure.png")))
    *parts, total = (float(number) for number in re.findall(r"([\d.]+) s\b", seconds))
    assert len(parts) == 4
    assert sum(parts) == pytest.approx(total, abs=1e-9)


def test_doctor_finds_the_environment_of_the_tests_in_order(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "tensorflow" in text
    assert "BAD" not in text


def test_doctor_lists_what_each_extra_adds_and_how_to_get_it(capsys):
    with Path(__file__).parents[2].joinpath("pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert main(["doctor"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    extra ")]
    shown = [line.split() for line in lines]
    names = {
        (extra, re.split("[=<>]", text)[0]) for extra in extras if extra not in NOT_LISTED for text in extras[extra]
    }
    assert {(words[1], words[2]) for words in shown} == names
    absent = [line for line in lines if " not installed; " in line]
    assert absent
    # The command works outside a checkout too: pip finds the installed package and adds what the extra needs.
    assert all(line.endswith(f"; pip install 'dgpbench[{line.split()[1]}]'") for line in absent)


def test_a_finished_run_and_show_print_scores_in_the_same_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "method=gpr", "dataset=boston", "budget=smoke", "progress=false", "plot=false"]
    scores = []
    for command in (
        arguments,
        arguments,
        ["show", "results/runs/interpolation/boston/gpr-L1/lindinger2020-smoke/split0-seed0"],
    ):
        assert main(command) == 0
        text = capsys.readouterr().out
        scores.append(
            [line for line in text.splitlines() if line.endswith(("is better", "nearer to 0.5", "nearer to 0.95"))]
        )
    assert scores[0][0].split()[0] == "tll"
    assert scores[0] == scores[1] == scores[2]
    assert "(as expected)" in text
