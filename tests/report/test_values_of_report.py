"""The numbers of the HTML report, read from the page that ``dgpbench report`` writes and computed again here."""

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pages import Seen, cells_in, data_in, runs_in, scores_in
from scipy.stats import binom, chi2
from toys import spread_over, write_toy

from dgpbench.cli import main
from dgpbench.experiments import items
from dgpbench.report import html, html_grids
from dgpbench.report.collect import collect
from dgpbench.report.compare import comparison
from dgpbench.report.html_grids import Grid
from dgpbench.report.published import of_item

TLL = {("sgp", 1): (-2.0, -3.5, -3.1), ("mf", 2): (-2.2, -2.1, -2.9), ("star", 3): (-1.0, -1.5, -2.75)}


def text_of(results: Path) -> str:
    """The report."""
    output = results.parent / "report.html"
    assert main(["report", str(results), "--output", str(output)]) == 0
    return output.read_text()


def page_of(results: Path) -> dict[str, list[list[Seen]]]:
    """The tables of the report."""
    return cells_in(text_of(results))


def row_of(rows: list[list[Seen]], **wanted: str) -> dict[str, Seen]:
    """The one row with these texts, by heading."""
    heading, *rest = ([cell.text for cell in rows[0]], *rows[1:])
    found = [dict(zip(heading, row, strict=True)) for row in rest]
    (only,) = [row for row in found if all(row[key].text == text for key, text in wanted.items())]
    return only


def mean_and_error(values) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((each - mean) ** 2 for each in values) / (len(values) - 1) / len(values))


@pytest.fixture
def three_methods(results) -> Path:
    for (method, layers), scores in TLL.items():
        for split, score in enumerate(scores):
            seconds = {"tracing": 50.0, "training": 10.0 * (split + 1) ** 2, "prediction": 1.0, "total": 200.0 + split}
            given = {"tll": score, "rmse": 3 + 0.01 * split}
            write_toy(results, given, method=method, num_layers=layers, split=split, record={"seconds": seconds})
    return results


def test_the_leaderboard_has_the_mean_and_error_of_every_method(three_methods):
    page = text_of(three_methods)
    found, groups = scores_in(page, "tll"), data_in(page)["groups"].values()
    for (method, layers), scores in TLL.items():
        mean, error = mean_and_error(scores)
        assert found[f"{method} L{layers}", "boston"] == f"{mean:.3f} ({error:.3f})"
        (group,) = [each for each in groups if each["method"] == f"{method} L{layers}"]
        assert group["scores"]["tll"][:2] == pytest.approx([mean, -mean])  # a loss, for the ranks
        assert group["seconds"] == 201.0  # the median of 200, 201 and 202
    assert set(scores_in(page, "rmse").values()) == {"3.010 (0.006)"}  # of 3.00, 3.01 and 3.02: 0.01 / sqrt(3)


def test_the_page_has_the_critical_values_of_demsar(three_methods):
    data = data_in(text_of(three_methods))
    assert data["friedman"]["3"] == pytest.approx(chi2.isf(0.05, 2))
    assert data["nemenyi"]["3"] == pytest.approx(2.343 * math.sqrt(3 * 4 / 6), abs=2e-3)  # Table 5, on one data set


def test_a_report_of_one_run_counts_it_in_the_singular(results):
    write_toy(results, method="sgp", num_layers=1)
    assert "<p>1 run: 1 done." in text_of(results)


def test_a_miss_just_beyond_two_standard_errors_is_not_rounded_to_two(results):
    mean = -2.43 - 2.02 * math.hypot(0.05, 0.05)  # the paper: -2.43 (0.05)
    for split, score in enumerate(spread_over(mean, 0.05, 10)):
        write_toy(results, {"tll": score}, method="mf", num_layers=2, split=split)
    frame = html_grids.with_groups(collect(results))
    made = comparison("lindinger2020_table1", ["dataset=boston", "method=mf", "method.num_layers=2"], frame)
    (row,) = html_grids.comparison_grid(made).rows
    assert [cell.text for cell in row[-2:]] == ["-2.02", "worse"]
    assert "2.02 combined standard errors apart (worse)" in made.largest_miss


def test_one_published_number_without_a_run_is_counted_in_the_singular(results):
    write_toy(results, method="mf", num_layers=2)
    made = comparison("lindinger2020_table1", ["dataset=boston", "method=mf"], html_grids.with_groups(collect(results)))
    assert html_grids.comparison_grid(made).notes[-1] == "1 published number without a run is not listed."


def test_the_leaderboard_has_no_mean_if_a_run_failed_or_lacks_the_score(three_methods):
    write_toy(three_methods, {"rmse": 4.0, "tll": -9.0}, status="diverged", method="sgp", num_layers=1, split=3)
    write_toy(three_methods, {"rmse": 4.0}, method="mf", num_layers=2, split=3)  # made before there was this score
    page = text_of(three_methods)
    mean, error = mean_and_error([3.0, 3.01, 3.02, 4.0])
    assert scores_in(page, "tll") == {
        ("sgp L1", "boston"): "3/4",
        ("mf L2", "boston"): "3/4",
        ("star L3", "boston"): "3/4",
    }
    assert scores_in(page, "rmse")["mf L2", "boston"] == f"{mean:.3f} ({error:.3f})"
    assert scores_in(page, "rmse")["sgp L1", "boston"] == "3/4"


def test_the_leaderboard_compares_methods_on_the_splits_that_most_have(three_methods):
    write_toy(three_methods, {"tll": -50.0, "rmse": 9.0}, method="sgp", num_layers=1, split=3)
    assert scores_in(text_of(three_methods), "rmse")["sgp L1", "boston"] == "3.010 (0.006)"


def test_splits_that_settings_were_tuned_on_are_not_on_the_leaderboard(three_methods):
    for dataset in ("boston", "energy"):
        write_toy(three_methods, {"tll": -50.0, "rmse": 9.0}, dataset=dataset, method="sgp", num_layers=1, split=11)
    page = text_of(three_methods)
    assert {dataset for _, dataset in scores_in(page, "rmse")} == {"boston"}
    assert sum(run["split"] == 11 for run in runs_in(page)) == 2


def test_the_loss_of_a_coverage_is_its_distance_from_the_nominal_one(results):
    for split, coverage in enumerate((0.85, 0.97)):
        write_toy(results, {"coverage_95": coverage}, split=split)
    (group,) = data_in(text_of(results))["groups"].values()
    assert group["scores"]["coverage_95"][:2] == pytest.approx([0.91, 0.06])  # of 0.10 and 0.02


def test_a_table_and_its_comparison_agree_on_ten_splits(results):
    printed, ours, error = -2.43, -2.31, 0.12
    for split, value in enumerate(spread_over(ours, error, 10)):
        write_toy(results, {"tll": value}, split=split)
    found = page_of(results)
    cell = row_of(found["tll"], method="star L3")["boston"]
    assert cell.text == "-2.31 (0.12)"
    assert float(cell.order) == pytest.approx(ours)
    row = row_of(found["Ours and published"], **{"data set": "boston", "method": "star L3"})
    shown = {name: cell.text for name, cell in row.items()}
    assert shown["ours"] == "-2.31 (0.12)"
    assert shown["published"] == "-2.43 (0.05)"
    assert shown["difference"] == "0.12"
    assert shown["in s.e."] == f"{(ours - printed) / math.hypot(error, 0.05):.1f}"  # 0.12 / 0.13: 0.9
    assert shown["verdict"] == "within"


def finding_of(results: Path, item: str) -> str:
    """Return the first sentence of an item's section in the report."""
    output = results.parent / "report.html"
    assert main(["report", str(results), "--output", str(output)]) == 0
    (section,) = re.findall(rf'<section id="{item}-paper">.*?</section>', output.read_text(), flags=re.DOTALL)
    before, _, rest = section.partition('<p class="finding">')
    assert "<table" not in before  # it comes first
    return rest.partition("</p>")[0]


@pytest.mark.full
def test_an_items_page_starts_with_agreement_and_the_largest_difference(results):
    # (data set, method, layers): in combined standard errors, ours of 0.1 beside the published one
    shifts = {
        ("boston", "star", 3): 1.0,
        ("boston", "mf", 2): -1.5,
        ("energy", "mf", 2): 2.5,
        ("concrete", "mf", 3): -4.0,
    }
    for (dataset, method, layers), errors in shifts.items():
        printed = of_item("lindinger2020_table1")["tll", dataset, method, layers]
        mean = printed.value + errors * math.hypot(0.1, printed.stderr)
        for split, value in enumerate(spread_over(mean, 0.1, 10)):
            write_toy(results, {"tll": value}, dataset=dataset, method=method, num_layers=layers, split=split)
    write_toy(results, {"tll": -20.0}, dataset="naval", method="mf", num_layers=2)  # one of ten splits: not redone
    printed = of_item("lindinger2020_table1")["tll", "concrete", "mf", 3]
    ours = printed.value - 4 * math.hypot(0.1, printed.stderr)
    assert finding_of(results, "lindinger2020_table1") == (
        "4 of 64 published cells are redone. "
        "tll: 2 of 4 judged cells (50 %) within two combined standard errors, 1 better, 1 worse; 60 left out. "
        f"The largest miss is mf L3 on concrete: tll {ours:.2f} (0.10), published {printed.text}, "
        "4.0 combined standard errors apart (worse)."
    )


@pytest.mark.full
def test_an_items_page_states_that_nothing_is_done_or_that_all_agrees(results):
    write_toy(results, {"tll": -2.43})
    assert finding_of(results, "lindinger2020_table1") == "0 of 64 published cells are redone."
    for split, value in enumerate(spread_over(-2.43, 0.1, 10)):
        write_toy(results, {"tll": value}, split=split)
    assert finding_of(results, "lindinger2020_table1").endswith(
        "tll: 1 of 1 judged cells (100 %) within two combined standard errors, 0 better, 0 worse; 63 left out. "
        "No cell disagrees."
    )


def test_an_items_page_explains_numbers_without_standard_errors(results):
    for method in ("aepmcm", "mf"):
        write_toy(results, {"rmse": 3.0, "tll": -2.0}, dataset="bimodal", protocol="hernandez2018", method=method)
    assert finding_of(results, "hernandez2018_table521") == (
        "4 of 4 published cells are redone, 4 not judged (no published spread)."
    )


def test_too_few_seconds_are_not_judged_for_that_reason(results, capsys):
    seconds = {"tracing": 1.0, "training": 9.0, "prediction": 1.0, "total": 99.0}
    write_toy(results, {"rmse": 9.0, "tll": -3.0}, task="fixed", dataset="year", method="aep",
              protocol="hernandez2018", record={"seconds": seconds, "iterations": 100})  # fmt: skip
    assert finding_of(results, "hernandez2018_table531") == (
        "3 of 15 published cells are redone, 1 not judged (too few cells), 2 not judged (no published spread)."
    )
    assert main(["compare", "hernandez2018_table531", f"results_dir={results}"]) == 0
    assert "- The paper prints no spreads.\n" in capsys.readouterr().out


@pytest.mark.full
def test_an_items_page_names_all_seconds_that_disagree(results):
    ratios = {"aepmcm_r10": 2.0, "aepmcm_r20": 3.1, "mf_r10": 2.0, "mf_r20": 1.2, "aep": 2.0}
    for series, ratio in ratios.items():
        method, _, draws = series.partition("_r")
        training = 100 * ratio * of_item("hernandez2018_table531")["seconds_per_step", "year", series, 3].value
        seconds = {"tracing": 1.0, "training": training, "prediction": 1.0, "total": 99.0}
        overrides = {"training.num_samples": int(draws)} if draws else {}
        write_toy(results, {"rmse": 9.0, "tll": -3.0}, task="fixed", dataset="year", method=method, overrides=overrides,
                  protocol="hernandez2018", record={"seconds": seconds, "iterations": 100})  # fmt: skip
    assert finding_of(results, "hernandez2018_table531") == (
        "15 of 15 published cells are redone, 10 not judged (no published spread). "
        "seconds_per_step: 3 of 5 judged cells (60 %) of similar relative cost, 1 faster, 1 slower; 0 left out. "
        "The misses are aepmcm_r20 L3 on year (slower), mf_r20 L3 on year (faster)."
    )


@pytest.mark.full
def test_the_list_of_runs_has_each_runs_whole_time(three_methods):
    runs = {(run["method"], run["split"]): run for run in runs_in(text_of(three_methods))}
    for split in range(3):
        run = runs["mf L2", split]
        assert (run["seconds"], run["status"]) == (200 + split, "done")


# Statistics -----------------------------------------------------------------------------------------------------------


def statistics_of(results: Path, *given: str) -> dict[str, Grid]:
    """The grids of Table 1, narrowed, by their captions."""
    narrowed = [*given, f"results_dir={results}"]
    frame = html_grids.with_groups(collect(results))
    section = html.item_section(items.load("lindinger2020_table1", narrowed), frame)
    return {grid.caption: grid for grid in section.grids}


def texts(grid: Grid) -> list[list[str]]:
    return [[cell.text for cell in row] for row in grid.rows]


def write_scores(results: Path, table: dict[str, list[tuple[float, ...]]], methods) -> None:
    """tll by data set, split and method."""
    for dataset, splits in table.items():
        for split, scores in enumerate(splits):
            for (method, layers), score in zip(methods, scores, strict=True):
                write_toy(results, {"tll": score}, method=method, num_layers=layers, dataset=dataset, split=split)


def test_ranks_are_of_means_over_splits_and_friedman_over_data_sets(results):
    table = {  # sgp, mf L2, mf L3; the single splits of energy would rank otherwise than their means
        "boston": [(-3.0, -2.5, -2.0), (-3.1, -2.6, -2.1)],
        "energy": [(-3.0, -2.9, -2.0), (-2.5, -2.0, -2.2)],
        "concrete": [(-3.0, -2.0, -2.4), (-3.0, -2.0, -1.9)],
    }
    write_scores(results, table, (("sgp", 1), ("mf", 2), ("mf", 3)))
    found = statistics_of(results, "dataset=boston,energy,concrete", "method=sgp,mf", "split=range(2)")
    ranks = found["Mean ranks, tll (1 is best)"]
    assert texts(ranks) == [["MF L3", "1.33"], ["MF L2", "1.67"], ["SGP L1", "3.00"]]
    # 12 / (N k (k + 1)) times the sum of squared rank sums 4, 5, 9, less 3 N (k + 1); chi-squared with k - 1 degrees.
    statistic = 12 / (3 * 3 * 4) * (4**2 + 5**2 + 9**2) - 3 * 3 * 4
    difference = 2.343 * math.sqrt(3 * 4 / (6 * 3))  # q of Demsar's Table 5
    about, note = ranks.notes
    assert about == "Data sets: boston, energy, concrete."
    assert (
        f"over 3 data sets (means over splits): chi-squared {statistic:.2f}, p = {chi2.sf(statistic, 2):.2g}." in note
    )
    assert f"further apart than {difference:.2f} differ at level 0.05" in note
    improvement = found["Probability of improvement, tll"]
    # MF L3 has the larger density on 2 of 2, 1 of 2 and 1 of 2 splits; resampled, on 2 + Binomial(4, 1/2) of 6.
    assert binom.cdf(0, 4, 0.5) > 0.05
    assert texts(improvement) == [
        ["MF L3", "MF L2", "0.67", "0.33", "1.00"],
        ["MF L3", "SGP L1", "1.00", "1.00", "1.00"],
    ]


def signed_rank_p(differences: np.ndarray) -> float:
    """Two-sided p-value of the signed-rank sum, over all 2^n signs."""
    ranks = np.argsort(np.argsort(np.abs(differences))) + 1
    half = ranks.sum() / 2
    seen = abs(ranks[differences > 0].sum() - half)
    signs = np.array(list(product((0, 1), repeat=len(ranks))))
    return float(np.mean(np.abs(signs @ ranks - half) >= seen))


def test_pairs_are_tested_by_signed_ranks_over_eight_data_sets(results):
    names = items.load("lindinger2020_table1").sweeps[0].values["dataset"]
    gains = np.array([0.15, 0.2, -0.1, 0.4, 0.5, 0.6, 0.7, -0.05])  # of mf L3 over mf L2
    write_scores(results, {name: [(-3.0, -3.0 + gain)] for name, gain in zip(names, gains, strict=True)},
                 (("mf", 2), ("mf", 3)))  # fmt: skip
    pairs = statistics_of(results, "method=mf", "split=0")["Pairs, tll"]
    p = signed_rank_p(gains)
    assert p == 10 / 256  # ranks 1 and 2 are lost: five of the 256 sums of ranks are 3 or less, and five as large
    # A loss is a density with its sign turned: mf L2's less mf L3's is the gain.
    assert texts(pairs) == [["MF L2", "MF L3", f"{np.median(gains):.3f}", f"{p:.3f}", f"{p:.3f}", "differ"]]


def test_holm_multiplies_the_least_p_value_by_the_number_of_pairs(results):
    names = items.load("lindinger2020_table1").sweeps[0].values["dataset"][:6]
    steps = np.arange(1, 7) / 10
    scores = np.column_stack(
        [-4 + 0 * steps, -4 + steps, -4 + steps + np.array([0.01, -0.02, 0.03, -0.04, 0.05, -0.06])]
    )
    write_scores(results, {name: [tuple(row)] for name, row in zip(names, scores, strict=True)},
                 (("sgp", 1), ("mf", 2), ("mf", 3)))  # fmt: skip
    rows = texts(statistics_of(results, f"dataset={','.join(names)}", "method=sgp,mf", "split=0")["Pairs, tll"])
    p = [signed_rank_p(scores[:, b] - scores[:, a]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert p[:2] == [2 / 64, 2 / 64]
    holm = [3 * 2 / 64, 3 * 2 / 64, max(6 / 64, p[2])]  # the second is no less than the first; the last by one
    assert [row[3:] for row in rows] == [
        [f"{a:.3f}", f"{b:.3f}", "cannot be distinguished with 6 data sets"] for a, b in zip(p, holm, strict=True)
    ]


@pytest.mark.full
def test_an_item_is_shown_once_for_each_budget(results):
    for budget, score in (("paper", -2.5), ("laptop", -2.6)):
        write_toy(results, {"tll": score}, dataset="boston", method="gpr", num_layers=1, budget=budget)
    output = results.parent / "report.html"
    assert main(["report", str(results), "--output", str(output)]) == 0
    sections = re.findall(r'<section id="([^"]*)">(.*?)</section>', output.read_text(), flags=re.DOTALL)
    assert len({name for name, _ in sections}) == len(sections)
    texts = dict(sections)
    assert "budget laptop" in texts["dgpbench_uci-laptop"]
    assert "budget paper" in texts["dgpbench_uci-paper"]
