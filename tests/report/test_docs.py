"""Generated parts of README.md and docs/ match the compact records, and all other text is unchanged."""

import re
import shutil
from pathlib import Path

import fit_once
import numpy as np
import pytest
from doc_pages import BOSTON, COST, PAGES, PICTURES, ROOT, docs, part, rows, snapshot, study, write_pages
from toys import spread_over, toy_points, write_toy

from scripts.docs.results import item_names


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A checkout with compact records of two tables and both studies, some cells missing, and its pages written."""
    folder = tmp_path_factory.mktemp("checkout")
    results = folder / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        for (method, num_layers), (mean, stderr) in BOSTON.items():
            for split, tll in enumerate(spread_over(mean, stderr, 10)):
                who = {"method": method, "num_layers": num_layers, "budget": "laptop", "split": split}
                write_toy(results, {"tll": tll}, **who, **COST)
        energy = {"dataset": "energy", "method": "sgp", "num_layers": 1, "budget": "laptop"}
        for split in range(7):
            write_toy(results, {"tll": -0.75}, split=split, **energy, **COST)
        write_toy(results, status="timeout", split=7, **energy)
        for split in range(10):  # star has the larger density on 12 of 20 rows
            for method, density in {"star": np.repeat([1.0, -1.0], [12, 8]), "mf": np.zeros(20)}.items():
                points, scores = toy_points(density, seed=split), {"tll": float(np.mean(density))}
                write_toy(results, scores, task="extrapolation", method=method, split=split, points=points, **COST)
        for budget, values in {"paper": (-2.50, -2.60, -0.80), "laptop": (-2.45, -2.61, -0.90)}.items():
            for tll, dataset, split in zip(values, ("boston", "boston", "energy"), (10, 11, 10), strict=True):
                study(results, tll, budget, split, dataset=dataset)
        for budget, tll in {"paper": -3.0, "laptop": -2.7}.items():
            study(results, tll, budget, 11, dataset="energy", task="extrapolation", method="star", num_layers=3)
        longer = {"precision": "mixed", "training.learning_rate": 0.04}
        study(results, -2.40, "laptop", 10, overrides=longer)
        study(results, -2.66, "laptop", 11, overrides=longer)
        study(results, -2.30, "laptop", 10, overrides=longer | {"training.beta_2": 0.9, "training.batch_size": 100})
        study(results, -0.88, "laptop", 10, dataset="energy", overrides={})
        study(results, -2.00, "laptop", 12, overrides=longer)  # no run of the study's settings is on its split
        kept = {"precision": "mixed", "training.early_stopping": False}
        for tll, split in ((-2.58, 10), (-2.72, 12)):
            study(results, tll, "paper", split, overrides=kept)
        study(results, -2.70, "paper", 12)  # not a run of the study's own table, but of its settings
        for split, tll in enumerate(spread_over(-2.52, 0.06, 10)):
            study(results, tll, "paper", split, num_layers=3)
        for split in range(3):
            study(results, -0.74, "paper", split, dataset="energy", num_layers=3)
        study(results, spread_over(-2.52, 0.06, 10)[0] - 0.01, "paper", 0, num_layers=3, overrides={})
        assert fit_once.command("results", "export", f"results_dir={results}") == 0
    shutil.rmtree(results / "runs")
    write_pages(folder)
    assert docs(str(folder)) == 0
    return folder


# The repository's own -------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_committed_pages_are_what_the_committed_records_give():
    assert docs("--check", str(ROOT)) == 0


def test_every_item_with_published_numbers_has_a_page():
    pages = {name: (ROOT / f"docs/results/{name}.md").read_text() for name in item_names()}
    assert [name for name, text in pages.items() if f"make docs`: {name} -->" not in text] == []


def test_the_findings_of_an_item_are_short():
    """Generated parts, titles and commands do not count."""
    for path in (ROOT / "docs/results").glob("*_*.md"):
        other = r"^<!-- made by.*?^<!-- end of .*?-->|^```.*?^```|^# .*?$"
        text = re.sub(other, "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert len(re.findall(r"\S*\w\S*", text)) <= 150, path.name


# Pages ----------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_without_records_each_part_is_one_line(tmp_path):
    write_pages(tmp_path)
    assert docs(str(tmp_path)) == 0
    for names in PAGES.values():
        for name in names:
            text = part(tmp_path, name)
            assert len(text.splitlines()) == 1
            assert text.startswith(("No run of ", "The picture needs runs"))
    assert not list(tmp_path.rglob("*.png"))
    assert docs("--check", str(tmp_path)) == 0


@pytest.mark.full
def test_text_outside_the_markers_is_kept_and_a_second_run_changes_nothing(made, capsys):
    for page in PAGES:
        text = (made / page).read_text()
        assert text.startswith(f"# {page}\n\nWords before.\n\n<!-- made")
        assert text.endswith("-->\n\nWords after.\n")
    before = snapshot(made)
    capsys.readouterr()
    assert docs(str(made)) == 0
    assert "written" not in capsys.readouterr().out
    assert snapshot(made) == before


@pytest.mark.full
def test_a_check_names_what_is_not_current_and_writes_nothing(made, tmp_path, capsys):
    shutil.copytree(made, tmp_path / "copy")
    page = tmp_path / "copy/docs/results/lindinger2020_table1.md"
    page.write_text(page.read_text().replace("-2.20 ±", "-2.21 ±"))
    (tmp_path / "copy" / PICTURES[0]).unlink()
    before = page.read_bytes()
    capsys.readouterr()
    assert docs("--check", str(tmp_path / "copy")) == 1
    message = capsys.readouterr().err
    assert "docs/results/lindinger2020_table1.md is not what results/records gives" in message
    assert f"{PICTURES[0]} is not" in message
    assert "README.md is not" not in message
    assert page.read_bytes() == before


@pytest.mark.full
def test_a_picture_of_other_numbers_is_not_current(made, tmp_path, capsys):
    shutil.copytree(made, tmp_path / "copy")
    shutil.copy(made / PICTURES[0], tmp_path / "copy" / PICTURES[1])
    assert docs("--check", str(tmp_path / "copy")) == 1
    assert f"{PICTURES[1]} is not" in capsys.readouterr().err
    assert docs(str(tmp_path / "copy")) == 0
    assert snapshot(tmp_path / "copy") == snapshot(made)


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("<!-- made by `make docs`: front -->\n", "the markers of front in README.md have no partners"),
        (
            "<!-- made by `make docs`: frnt -->\n<!-- end of frnt -->\n",
            "README.md names the unknown part 'frnt'; did you mean front",
        ),
        (None, "has no README.md; name the folder of a checkout"),
    ],
)
def test_a_page_that_cannot_be_filled_is_refused(tmp_path, capsys, page, reason):
    write_pages(tmp_path)
    (tmp_path / "README.md").unlink()
    if page is not None:
        (tmp_path / "README.md").write_text(page)
    assert docs(str(tmp_path)) == 2
    assert reason in capsys.readouterr().err


def test_damaged_records_are_refused(made, tmp_path, capsys):
    shutil.copytree(made, tmp_path / "copy")
    path = next((tmp_path / "copy").rglob("lindinger2020_table1-laptop.jsonl"))
    path.write_text(path.read_text()[:-20])
    before = snapshot(tmp_path / "copy")
    assert docs(str(tmp_path / "copy")) == 2
    assert "is truncated or damaged" in capsys.readouterr().err
    assert snapshot(tmp_path / "copy") == before


# Items ----------------------------------------------------------------------------------------------------------------


def test_an_item_is_redone_beside_the_published_numbers(made):
    text = part(made, "lindinger2020_table1")
    table = rows(text)
    assert table == {
        "boston": {
            "sgp L1": "-2.58 ± 0.10 (-2.58 ± 0.10) ≈",
            "sghmc L1": "-2.75 ± 0.18 (-2.75 ± 0.18) ≈",
            "sghmc L2": "-2.51 ± 0.07 (-2.51 ± 0.07) ≈",
            "sghmc L3": "-2.53 ± 0.09 (-2.53 ± 0.09) ≈",
            "mf L2": "-2.20 ± 0.05 (-2.43 ± 0.05) ▲",
            "mf L3": "-2.48 ± 0.06 (-2.48 ± 0.06) ≈",
            "star L2": "-2.47 ± 0.08 (-2.47 ± 0.08) ≈",
            "star L3": "-2.83 ± 0.05 (-2.43 ± 0.05) ▼",
        },
        "energy": table["energy"],
    }
    assert table["energy"]["sgp L1"] == "7/10 (-0.71 ± 0.03)"
    assert table["energy"]["mf L2"].startswith("0/10 (-")


def test_an_item_reports_its_agreement_cost_and_failures(made):
    text = part(made, "lindinger2020_table1")
    assert "`budget=laptop` (a tenth of the published iterations, larger steps)" in text
    assert "splits 0 to 9" in text
    assert "8 of 64 published cells are redone. tll: 6 of 8 judged cells (75 %)" in text
    # 0.40 / sqrt(0.05^2 + 0.05^2) = 5.7
    assert "star L3 on boston: tll -2.83 (0.05), published -2.43 (0.05), 5.7 combined standard errors apart" in text
    # 87 runs of 90 s and one of 12 s on one thread
    assert f"Cost: 88 runs, {(87 * 90 + 12) / 3600:.1f} core-hours" in text
    assert "Not run: concrete, wine_red, kin8nm, power, naval, protein." in text
    assert "- sgp L1 on energy, split 7: timeout, a toy reason" in text
    assert "budget=paper" not in text


def test_a_direct_comparison_is_read_off_the_committed_pairs(made):
    text = part(made, "lindinger2020_table2")
    assert rows(text)["boston"]["star vs mf L3"].startswith("0.60 ± 0.00 (")
    assert "`budget=paper`" in text
    assert "Not run: energy, concrete, wine_red, kin8nm, power, naval, protein, star vs sghmc L3." in text


def test_published_settings_are_beside_laptop_and_the_published_numbers(made):
    text = part(made, "lindinger2020_table1_published_settings")
    assert rows(text)["boston, mf L3"] == {
        "budget=paper (published)": "-2.52 ± 0.06 (-2.48 ± 0.06) ≈",
        "budget=laptop (published)": "-2.48 ± 0.06 (-2.48 ± 0.06) ≈",
        "laptop less paper": "+0.040 ± 0.000 (10)",
        "mixed less float64": "+0.010 (1)",
    }
    assert rows(text)["energy, mf L3"]["budget=paper (published)"] == "-0.74 ± 0.00 [3] (-0.75 ± 0.02) ≈"
    assert rows(text)["energy, star L3"] == {
        "budget=paper (published)": "0/10 (-0.75 ± 0.02)",
        "budget=laptop (published)": "0/10 (-0.75 ± 0.02)",
        "laptop less paper": "",
        "mixed less float64": "",
    }
    assert "2 of 6 published cells are redone." in text
    assert "[n]: only n splits are done." in text
    assert f"Cost: 13 runs, {13 * 3960 / 3600:.1f} core-hours" in text


COUNTS = ["published", "obtainable", "redone", "agree", "better", "worse", "open", "opposite"]


def test_the_overview_has_a_line_for_each_paper_and_item(made):
    table = rows(part(made, "overview"))
    counts = {name: [int(line[key]) for key in COUNTS] for name, line in table.items()}
    assert counts["[Table 1: interpolation](lindinger2020_table1.md), laptop"] == [64, 64, 8, 6, 1, 1, 0, 0]
    # star and mf of Table S3 are 3.4 and 3.6 nats above the published scores; star has the larger density in both
    assert counts["[Table S3: extrapolation](lindinger2020_tables3.md), paper"] == [64, 64, 2, 0, 2, 0, 0, 0]
    table2 = "[Table 2: direct comparison, extrapolation](lindinger2020_table2.md), paper"
    assert counts[table2] == [16, 16, 1, 1, 0, 0, 0, 0]
    assert counts["**Lindinger et al. (2020)**"][:3] == [200, 200, 12]
    assert counts["**Jain et al. (2021)**"] == [119, 102, *[0] * 6]  # 17 values are of year
    assert counts["[Table 1: NLPP](jain2021_table1.md)"] == [119, 102, *[0] * 6]


@pytest.mark.full
def test_three_splits_count_as_redone_and_the_rest_has_its_price(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)
    who = {"method": "sgp", "num_layers": 1, "budget": "laptop", **COST}
    for split, tll in enumerate(spread_over(-2.58, 0.10, 3)):
        write_toy(tmp_path / "results", {"tll": tll}, split=split, **who)
    for split in range(2):
        write_toy(tmp_path / "results", {"tll": -0.7}, dataset="energy", split=split, **who)
    assert fit_once.command("results", "export", f"results_dir={tmp_path / 'results'}") == 0
    write_pages(tmp_path)
    index = tmp_path / "docs/results/index.md"
    index.write_text(index.read_text() + "<!-- made by `make docs`: rest -->\n<!-- end of rest -->\n")
    assert docs(str(tmp_path)) == 0
    table = rows(part(tmp_path, "lindinger2020_table1"))
    assert table["boston"]["sgp L1"] == "-2.58 ± 0.10 [3] (-2.58 ± 0.10) ≈"
    assert table["energy"]["sgp L1"] == "2/10 (-0.71 ± 0.03)"
    line = rows(part(tmp_path, "overview"))["[Table 1: interpolation](lindinger2020_table1.md), laptop"]
    assert [int(line[key]) for key in COUNTS] == [64, 64, 1, 1, 0, 0, 0, 0]
    rest = rows(index.read_text().partition("`make docs`: rest")[2])
    line = rest["[lindinger2020_table1](lindinger2020_table1.md)"]
    # 63 cells of ten splits, two of which are done. Energy's own take 90 s each; the toys' few rows predict no other.
    assert (line["not yet run"], line["runs"], line["core-hours"]) == ("63", "628", "0.2 + 620 runs")
    assert rest["[jain2021_table1](jain2021_table1.md)"]["large download"] == "17"
    assert rest["[hernandez2018_table512](hernandez2018_table512.md)"]["illegible"] == "34"


@pytest.mark.full
def test_printed_variances_are_also_read_as_deviations(tmp_path, monkeypatch):
    """The paper has 2.455 with a spread of 0.054 over 5 splits: a standard error of 0.10 or of 0.024."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
    for split, nlpp in enumerate(spread_over(2.555, 0.01, 5)):
        who = {"method": "sgp", "num_layers": 1, "protocol": "jain2021", "budget": "laptop"}
        write_toy(tmp_path / "results", {"nlpp": nlpp}, split=split, **who)
    assert fit_once.command("results", "export", f"results_dir={tmp_path / 'results'}") == 0
    write_pages(tmp_path)
    assert docs(str(tmp_path)) == 0
    text = part(tmp_path, "jain2021_table1")
    assert rows(text)["boston"]["sgp L1"] == "2.555 ± 0.010 (2.455 ± 0.1) ≈"
    assert "If the printed spreads are standard deviations: 0 agree, 0 better, 1 worse." in text


# README ---------------------------------------------------------------------------------------------------------------


def test_the_front_page_has_four_sentences_and_the_picture(made):
    text = part(made, "front")
    assert text.startswith("8 of 64 cells of Lindinger et al.'s (2020) Table 1 are redone at `budget=laptop`")
    assert "6 of 8 judged cells within two combined standard errors of the published mean, 1 better, 1 worse." in text
    assert "The largest miss is star L3 on boston" in text
    assert "Over 1 data set with every cell redone, the best mean rank is that of mf L2 (1.00);" in text
    assert "by the published means it is that of mf L2 and star L3 (1.50)." in text
    assert "At published settings in mixed precision, 1 of 1 (mf and star L3 on boston, energy, concrete), 0" in text
    assert f"]({PICTURES[0]})" in text
    assert (made / PICTURES[0]).stat().st_size > 10_000


def test_without_reproduced_cells_the_front_page_counts_runs(tmp_path):
    for split in range(2):
        write_toy(tmp_path / "results", split=split)
    assert fit_once.command("results", "export", f"results_dir={tmp_path / 'results'}") == 0
    write_pages(tmp_path)
    assert docs(str(tmp_path)) == 0
    assert part(tmp_path, "front") == "Lindinger et al.'s Table 1 is not redone yet: 2 of 640 runs are done."
    assert not (tmp_path / PICTURES[0]).exists()


def test_runs_without_a_compact_record_do_not_count(tmp_path):
    write_toy(tmp_path / "results")
    write_pages(tmp_path)
    assert docs(str(tmp_path)) == 0
    assert part(tmp_path, "overview") == "No run of a published item has been made yet."


# The study of budget=laptop -------------------------------------------------------------------------------------------


@pytest.mark.full
def test_restarted_fits_are_counted_beside_failures(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)
    retry = {"retry": 1, "jitter": 1e-5, "after": "the objective became nan"}
    for split, dataset in enumerate(("naval", "naval", "yacht", "boston")):
        notes = [{"iterations": 100}, *([retry] if dataset != "boston" else [])]
        who = {"method": "sgp", "num_layers": 1, "dataset": dataset, "budget": "laptop", "split": split}
        write_toy(tmp_path / "results", {"tll": 1.0}, record={"notes": notes}, **who)
    assert fit_once.command("results", "export", f"results_dir={tmp_path}/results") == 0
    write_pages(tmp_path)
    assert docs(str(tmp_path)) == 0
    message = "Failures: none. Restarted with a larger jitter: 3 runs (sgp L1 on naval 2, sgp L1 on yacht 1)."
    assert message in part(tmp_path, "dgpbench_uci")
    assert "Failures: none. Restarted with a larger jitter: 2 runs (" in part(tmp_path, "lindinger2020_table1")


@pytest.mark.full
def test_the_cost_of_table_1_is_ten_times_each_cells_median_run(tmp_path, monkeypatch):
    """sgp on boston: eight runs of 36 s, one of 360 s and one of 18 s, and alone 27 s; mf (L = 2) on energy: three runs
    of 72 s and none alone.
    """
    monkeypatch.setattr("os.fsync", lambda handle: None)
    sgp, mf = ("sgp", 1, "boston"), ("mf", 2, "energy")
    found = {**{(*sgp, split): 36.0 for split in range(8)}, (*sgp, 8): 360.0, (*sgp, 9): 18.0, (*sgp, 12): 27.0}
    found |= {(*mf, split): 72.0 for split in range(3)}
    for (method, num_layers, dataset, split), total in found.items():
        who = {"method": method, "num_layers": num_layers, "dataset": dataset, "budget": "laptop", "split": split}
        write_toy(tmp_path / "results", record={"seconds": {"training": 1.0, "total": total}}, **who)
    assert fit_once.command("results", "export", f"results_dir={tmp_path}/results") == 0
    write_pages(tmp_path)
    assert docs(str(tmp_path)) == 0
    text = part(tmp_path, "laptop_price")
    assert "From one run of each cell, executed alone: 0.075 core-hours for 10 of 640 runs. From the" in text
    assert "median run of each cell of the table: 0.3 core-hours for 20 of 640 runs." in text
    assert rows(text) == {
        "executed alone": {"sgp L1": "0.075", "mf L2": ""},
        "median run": {"sgp L1": "0.1", "mf L2": "0.2"},
    }
    assert "Cost: 1 run, 0.0075 core-hours" in text


def test_laptop_is_compared_with_paper_in_pairs(made):
    text = part(made, "laptop_study")
    table = rows(text)
    assert table["boston"]["mf L2"] == "+0.020 ± 0.030 (2)"  # +0.05 and -0.01
    assert table["energy"]["mf L2"] == "-0.100 (1)"
    assert table["naval"]["star L3"] == "0/2"
    assert "3 of 80 pairs are available, in 2 of 40 cells (splits 10 and 11)." in text
    assert "The mean over cells is -0.040. It is below zero in 1 of 2 cells" in text
    assert "lowest for mf L2 on energy, -0.100 (1)" in text
    assert "3.0 hours at paper and 0.3 hours at laptop; the median ratio of a pair is 10.0" in text
    # three runs of 3,960 s at each budget
    assert "`budget=laptop`. Cost: 3 runs, 3.3 core-hours" in text


def test_extrapolation_is_apart(made):
    text = part(made, "laptop_study_extrapolation")
    assert rows(text)["energy"] == {"mf L3": "0/2", "star L3": "+0.300 (1)"}
    assert "+0.300 (1)" not in part(made, "laptop_study")


def test_the_ablation_has_a_row_for_each_set_of_settings(made):
    table = rows(part(made, "laptop_ablation"))
    assert table == {
        "`precision=float64`": {
            "mf L2": "+0.020 (1)",
            "all": "+0.020 (1)",
            "lowest": "+0.020, mf L2 on energy, split 10",
        },
        "`training.learning_rate=0.04`": {
            "mf L2": "+0.000 ± 0.050 (2)",  # +0.05 and -0.05
            "all": "+0.000 ± 0.050 (2)",
            "lowest": "-0.050, mf L2 on boston, split 11",
        },
    }


def test_the_papers_budget_has_an_ablation_on_splits_with_both_runs(made):
    assert "**`laptop_study`, `budget=paper`, splits 10 and 12**" in part(made, "paper_ablation")
    assert rows(part(made, "paper_ablation")) == {
        "`training.early_stopping=false`": {
            "mf L2": "-0.050 ± 0.030 (2)",  # -0.08 and -0.02
            "all": "-0.050 ± 0.030 (2)",
            "lowest": "-0.080, mf L2 on boston, split 10",
        },
    }


def test_the_study_has_a_picture(made):
    assert "](images/laptop.png)" in part(made, "laptop_picture")
    assert (made / PICTURES[1]).stat().st_size > 10_000
