"""Comparison with the published values: every number in its cell, and correct verdicts."""

import numpy as np
import pandas as pd
import pytest
from toys import spread_over, toy_points, toy_trace, write_toy

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import load
from dgpbench.report import published
from dgpbench.report.collect import collect
from dgpbench.report.compare import comparison, render, rule_of
from dgpbench.report.tables import column_name

SCORED = (
    "lindinger2020_table1",
    "lindinger2020_tables3",
    "jain2021_table1",
    "hernandez2018_table511",
    "hernandez2018_table512",
)
TABLES = sorted({published.item_name(each) for each in published.read_published()})
MC_DROPOUT = {"task": "classic", "method": "mc_dropout", "num_layers": 1, "overrides": {"method.epochs": 4000}}


def store(results, item: str, shift: float = 0.0, keep=lambda entry: True) -> list[str]:
    """A store with the published means and standard errors, shifted by ``shift`` of the latter."""
    made = load(item)
    first = next(iter(made.sweeps))
    for entry in filter(keep, published.of_item(item).values()):
        stderr = entry.stderr or 0.0
        for split, value in enumerate(spread_over(entry.value + shift * stderr, stderr, entry.repetitions)):
            identity = {
                "dataset": entry.dataset,
                "method": entry.method,
                "num_layers": entry.num_layers,
                "split": split,
            }
            write_toy(results, {entry.metric: value}, task=first.values["task"][0], protocol=made.protocol, **identity)
    return [f"results_dir={results}"]


@pytest.mark.parametrize("item", TABLES)
def test_every_published_number_is_in_its_cell_of_the_rendered_comparison(item, results):
    shown = {}
    metric = None
    for line in render(comparison(item, [f"results_dir={results}"], collect(results)), "md").splitlines():
        if line.startswith("### "):
            metric = line[4:]
        elif line.startswith("|") and "split by split" not in metric:
            dataset, method, _, text = (part.strip() for part in line.split("|")[1:5])
            shown[metric, dataset, method] = text
    numbers = published.of_item(item)
    for (name, dataset, method, num_layers), entry in numbers.items():
        assert shown[name, dataset, column_name(method, num_layers)] == entry.text
    assert sum(dataset in groups.names("dataset") for _, dataset, _ in shown) == len(numbers)


def test_numbers_published_by_split_are_compared_by_split(results):
    """Ours is 0.1 above theirs on five of power's splits, and turned around on concrete's first three."""
    theirs = published.by_split("gal2016_classic").query("metric == 'tll'")
    power, concrete = (
        theirs[theirs["dataset"] == name].set_index("split")["published"] for name in ("power", "concrete")
    )
    ours = {"power": power[:5] + 0.1, "concrete": -concrete[:3]}
    for dataset, values in ours.items():
        for split, value in values.items():
            write_toy(results, {"tll": value, "rmse": 3.0 + value}, dataset=dataset, split=split, **MC_DROPOUT)
    text = render(comparison("gal2016_classic", [f"results_dir={results}"]), "md")
    part = text[text.index("### tll, split by split") : text.index("### rmse")]
    rows = {
        cells[1].strip(): [each.strip() for each in cells[2:5]]
        for cells in (line.split("|") for line in part.splitlines())
        if len(cells) > 4
    }
    difference = -2 * concrete[:3]
    assert rows["power"] == ["5", "+0.100 ± 0.000", "1.00"]
    assert rows["concrete"] == ["3", f"{difference.mean():+.3f} ± {difference.std() / 3**0.5:.3f}", "-1.00"]
    assert set(rows) - {"data set"} - {key for key in rows if set(key) <= set(":-")} == {"power", "concrete"}


def test_equal_splits_are_judged_by_their_differences(results):
    """0.02 above theirs on every split of power, plus or minus 0.01: within, by the spread over splits alone."""
    theirs = published.by_split("gal2016_classic").query("metric == 'tll' and dataset == 'power'")
    for split, value in theirs.set_index("split")["published"].items():
        scores = {"tll": value + (0.01 if split % 2 else 0.03), "rmse": 1.0}
        write_toy(results, scores, dataset="power", split=split, **MC_DROPOUT)
    cells = comparison("gal2016_classic", ["dataset=power", f"results_dir={results}"]).cells
    (row,) = cells[cells["metric"] == "tll"].itertuples()
    assert row.in_errors == pytest.approx(0.02 / (0.01 / 19**0.5))
    assert row.verdict == "better"


def of_mc_dropout(results, dataset: str, moved) -> None:
    """Runs with the RMSE moved from the published one of its split."""
    theirs = published.by_split("gal2016_classic").query(f"metric == 'rmse' and dataset == '{dataset}'")
    for split, value in theirs.set_index("split")["published"].items():
        scores = {"tll": -2.5, "rmse": value + moved(int(split))}
        write_toy(results, scores, dataset=dataset, split=int(split), **MC_DROPOUT)


def test_on_equal_splits_the_verdict_is_that_of_the_differences(results):
    """RMSE 0.01 and 0.02 above theirs on their two lowest splits: both are below their mean of all splits."""
    of_mc_dropout(results, "power", lambda split: 0.01 + 0.01 * (split % 2))
    theirs = published.by_split("gal2016_classic").query("metric == 'rmse' and dataset == 'power'").set_index("split")
    even, odd = (theirs["published"][theirs.index % 2 == rest].idxmin() for rest in (0, 1))
    words = ["dataset=power", f"split={even},{odd}", f"results_dir={results}"]
    made = comparison("gal2016_classic", words)
    (row,) = made.cells[made.cells["metric"] == "rmse"].itertuples()
    assert row.mean < row.published
    assert (row.verdict, row.difference, row.in_errors) == ("worse", pytest.approx(0.015), pytest.approx(3.0))
    assert "standard errors on equal splits" in made.sentence
    assert "by the mean difference on equal splits" in render(made, "md")
    one = comparison("gal2016_classic", [words[0], f"split={even}", words[2]]).cells
    assert one["in_errors"].isna().all()
    assert set(one["verdict"]) == {"one split"}


def test_a_difference_below_the_printed_digits_has_a_direction(results):
    of_mc_dropout(results, "naval", lambda split: -2e-5 - 1e-6 * (split % 2))
    cells = comparison("gal2016_classic", ["dataset=naval", f"results_dir={results}"]).cells
    (row,) = cells[cells["metric"] == "rmse"].itertuples()
    assert (row.verdict, row.difference) == ("better", pytest.approx(-2.05e-5))


@pytest.mark.parametrize("item", SCORED)
@pytest.mark.parametrize(("shift", "agree"), [(0.0, 1.0), (6.0, 0.0)])
def test_the_published_values_agree_with_themselves_and_not_when_shifted(results, item, shift, agree):
    datasets = ("boston", "protein")  # protein has spreads that are printed as 0.00
    given = store(results, item, shift, keep=lambda entry: entry.dataset in datasets)
    (share,) = comparison(item, given).shares()
    assert share.judged == sum(key[1] in datasets for key in published.of_item(item))
    assert share.agreeing == agree * share.judged


def test_seeing_half_a_standard_error_of_difference(results):
    given = store(results, "lindinger2020_table1", 0.5, keep=lambda entry: entry.dataset == "boston")
    cells = comparison("lindinger2020_table1", given).cells
    ours = cells[cells["count"] == cells["wanted"]]
    np.testing.assert_allclose(ours["in_errors"], 0.5 / np.sqrt(2), rtol=1e-6)
    assert set(ours["verdict"]) == {"within"}


def test_cells_without_a_published_spread_are_left_out_of_the_share(results):
    given = store(results, "hernandez2018_table521")
    shares = comparison("hernandez2018_table521", given).shares()
    assert [(share.judged, share.left_out) for share in shares] == [(0, 2), (0, 2)]


def test_an_incomplete_cell_is_not_judged(results):
    for split in range(7):
        write_toy(results, {"tll": -2.43}, split=split)
    given = ["dataset=boston", "method=star", "method.num_layers=3", f"results_dir={results}"]
    made = comparison("lindinger2020_table1", given)
    assert made.cells["verdict"].tolist() == ["7/10"]
    assert made.shares()[0].judged == 0
    assert "| 7/10 | -2.43 (0.05) |" in " ".join(render(made, "md").split())


def test_another_budget_is_never_compared_as_if_it_were_the_papers(results):
    write_toy(results, {"tll": -2.43}, budget="smoke")
    given = ["dataset=boston", "method=star", "method.num_layers=3", "split=0", f"results_dir={results}"]
    assert comparison("lindinger2020_table1", given).cells["count"].tolist() == [0]
    assert "Ours is budget=smoke; the published runs are of budget=paper" in render(
        comparison("lindinger2020_table1", [*given, "budget=smoke"]), "md"
    )


def paired(results, wins: dict[str, tuple[float, float]]):
    """Runs of star and mf with this mean and standard error of the share of wins, for each data set."""
    for dataset, (mean, stderr) in wins.items():
        for split, share in enumerate(spread_over(mean, stderr, 10)):
            won = np.where(np.arange(1000) < round(1000 * share), 1.0, -1.0)
            identity = {"task": "extrapolation", "dataset": dataset, "split": split}
            write_toy(results, method="star", points=toy_points(won, 1000, split), **identity)
            write_toy(results, method="mf", points=toy_points(0.0, 1000, split), **identity)


@pytest.mark.full
def test_win_frequencies_agree_on_the_winner(results):
    paired(results, {"boston": (0.55, 0.04), "energy": (0.30, 0.02), "concrete": (0.50, 0.03), "power": (0.44, 0.06)})
    given = ["dataset=boston,energy,concrete,power", "method=star,mf", f"results_dir={results}"]
    made = comparison("lindinger2020_table2", given)
    verdicts = dict(zip(made.cells["dataset"], made.cells["verdict"], strict=True))
    assert verdicts == {"boston": "same", "energy": "opposite", "concrete": "undecided", "power": "same"}
    assert (
        made.shares()[0].text
        == "win_frequency: 2 of 4 judged cells (50 %) with the same winner, 1 undecided, 1 opposite; 0 left out"
    )


def test_seconds_are_compared_after_the_machines_factor():
    published_seconds = [0.02, 0.04, 0.3]
    cells = pd.DataFrame({"mean": [0.002, 0.004, 0.09], "published": published_seconds, "count": 1, "wanted": 1})
    assert rule_of("seconds_per_step").judge(cells) == ["similar", "similar", "slower"]
    assert rule_of("seconds_per_step").judge(cells[:2]) == ["too few cells"] * 2


def test_a_ratio_of_seconds_counts_alike_in_both_directions():
    cells = pd.DataFrame({"mean": [1.0, 1.2, 3.2, 4.0], "published": 1.0, "count": 1, "wanted": 1})
    assert rule_of("seconds_per_step").judge(cells) == ["faster", "faster", "slower", "slower"]
    one = cells.assign(mean=[1.0, 1.1, 1.0, 900.0])
    assert rule_of("seconds_per_step").judge(one) == ["similar", "similar", "similar", "slower"]


def test_elbos_are_compared_by_standard_errors(results):
    for split, value in enumerate(spread_over(-510.0, 30.0, 10)):
        trace = toy_trace(0.0).assign(elbo=value)
        write_toy(results, method="mf", split=split, trace=trace, overrides={"optimiser": "natgrad_adam"})
    made = comparison("lindinger2020_tables5", ["dataset=boston", f"results_dir={results}"])
    assert made.cells["verdict"].tolist() == ["within", "0/10"]


@pytest.mark.parametrize("form", ["md", "tex", "html", "csv"])
def test_every_format_renders(results, form):
    given = store(results, "lindinger2020_table1", keep=lambda entry: entry.dataset == "boston")
    assert "-2.43" in render(comparison("lindinger2020_table1", given), form)


def test_an_item_without_numbers_is_refused():
    with pytest.raises(UserError, match="no published numbers"):
        comparison("lindinger2020_fig3", [])
