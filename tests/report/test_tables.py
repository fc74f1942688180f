"""Tables from toy records: their text, and cells that must stay empty."""

import numpy as np
import pandas as pd
import pytest
import toys
from toys import of_tables5, spread_over, toy_points, toy_trace, write_toy

from dgpbench.errors import UserError
from dgpbench.experiments.items import load
from dgpbench.experiments.plan import plan_of
from dgpbench.report.cells import cells, setting_in
from dgpbench.report.collect import collect
from dgpbench.report.tables import render, table

TABLE1 = "lindinger2020_table1"
GOLDEN = """\
## Lindinger et al. (2020), Table 1: interpolation

### tll

| method   |           boston |   energy |
|:---------|-----------------:|---------:|
| sgp L1   |     -2.58 (0.10) |     0/10 |
| mf L2    | **-2.43 (0.05)** |     0/10 |
| mf L3    |     -2.90 (0.06) |     0/10 |
| star L2  |             7/10 |     0/10 |
| star L3  | **-2.70 (0.05)** |     0/10 |

- Mean (standard error) over splits.
- tll: nats, higher is better.
- Bold: better than or as good as sgp, that is, a mean at least as good or standard errors that overlap. \
This is the paper's rule.
- Records: protocol lindinger2020, budget paper.
- Narrowed by dataset=boston,energy method=sgp,mf,star.
- 6 of 10 cells are incomplete: they show done/wanted splits, and no mean.
- 2 runs failed, diverged or timed out, and no mean counts them.
"""


def fill(results, mean, stderr, splits=10, metric="tll", **identity):
    for split, value in enumerate(spread_over(mean, stderr, splits)):
        write_toy(results, {metric: value}, split=split, **identity)


def text(results, item, *given, form="md"):
    return render(table(item, [*given, f"results_dir={results}"]), form)


def cell(results, *given, item=TABLE1) -> pd.Series:
    found = cells(load(item, given), collect(results))
    assert len(found) == 1
    return found.iloc[0]


@pytest.fixture
def boston(results):
    """Table 1's row of boston: one complete column worse than sgp, an incomplete one better than all."""
    fill(results, -2.58, 0.10, method="sgp", num_layers=1)
    fill(results, -2.43, 0.05, method="mf", num_layers=2)
    fill(results, -2.90, 0.06, method="mf", num_layers=3)
    fill(results, -1.00, 0.05, method="star", num_layers=2, splits=7)
    fill(results, -2.70, 0.05, method="star", num_layers=3)
    write_toy(results, status="failed", method="star", num_layers=2, split=7)
    write_toy(results, status="timeout", method="star", num_layers=2, split=8)
    write_toy(results, status="interrupted", method="star", num_layers=2, split=9)
    return results


def test_golden_markdown(boston):
    assert text(boston, TABLE1, "dataset=boston,energy", "method=sgp,mf,star") == GOLDEN


def test_the_longer_of_data_sets_and_methods_runs_down_the_page(boston):
    heading = text(boston, TABLE1, "dataset=boston,energy", "method=sgp", "method.num_layers=1").splitlines()[4]
    assert heading == "| data set   |       sgp L1 |"


def test_a_table_of_missing_runs_names_the_budget_that_has_them(results):
    fill(results, -2.5, 0.1, method="sgp", num_layers=1, budget="laptop", splits=3)
    write_toy(results, method="sgp", num_layers=1)
    given = ("dataset=boston", "method=sgp")
    assert "- More of its runs are done at other budgets: 3 at budget=laptop.\n" in text(results, TABLE1, *given)
    assert "other budgets" not in text(results, TABLE1, *given, "budget=laptop")
    assert "other budgets" not in text(results, TABLE1, "dataset=energy", "method=sgp")


def test_a_failed_run_is_counted_once_for_several_metrics(results):
    who = {"method": "sgp", "num_layers": 1, "budget": "laptop"}
    write_toy(results, {"tll": -2.5, "crps": 1.0, "rmse": 3.0}, split=0, **who)
    write_toy(results, status="diverged", split=1, **who)
    message = text(results, "dgpbench_uci", "dataset=boston", "method=sgp")
    assert "- 1 run failed, diverged or timed out, and no mean counts them." in message
    assert message.count("1/10") == 3


def test_all_formats_have_the_same_content(boston):
    given = ("dataset=boston", "method=sgp,mf")
    assert r"\textbf{-2.43 (0.05)}" in text(boston, TABLE1, *given, form="tex")
    assert "<b>-2.43 (0.05)</b>" in text(boston, TABLE1, *given, form="html")
    lines = text(boston, TABLE1, *given, form="csv").splitlines()
    assert lines[0].startswith("metric,dataset,method,num_layers,mean,stderr,count,wanted,failed,mark")
    assert len(lines) == 4


def test_underscores_are_escaped_in_tex(results):
    write_toy(results, method="sgp", num_layers=1, dataset="wine_red")
    made = text(results, TABLE1, "dataset=wine_red", "method=sgp", "split=0", form="tex")
    assert r"wine\_red" in made


def test_an_incomplete_cell_has_no_mean_in_the_csv(boston):
    (line,) = text(boston, TABLE1, "dataset=boston", "method=star", "method.num_layers=2", form="csv").splitlines()[1:]
    assert line.startswith("tll,boston,star,2,,,7,10,2,,")


@pytest.mark.parametrize(
    "other",
    [
        {"budget": "smoke"},
        {"protocol": "jain2021"},
        {"seed": 1},
        {"task": "extrapolation"},
        {"overrides": {"training.learning_rate": 0.1}},
    ],
)
def test_other_runs_never_share_a_cell(results, other):
    fill(results, -2.5, 0.1, splits=2)
    fill(results, 99.0, 0.1, splits=2, **other)
    found = cell(results, "dataset=boston", "method=star", "method.num_layers=3", "split=range(2)")
    assert found["count"] == 2
    assert found["mean"] == pytest.approx(-2.5)


def test_a_run_with_other_settings_enters_no_mean(results, monkeypatch):
    """An edited file of conf/ leaves records of earlier settings; the others have the current settings."""
    wanted = {each.run.split: each.run for each in plan_of(load(TABLE1, ["dataset=boston", "method=sgp"]))}
    edited = {3: {"learning_rate": 0.5}}
    monkeypatch.setattr(
        toys,
        "_config",
        lambda who, _: (
            wanted[who["split"]].config
            | {"training": wanted[who["split"]].config["training"] | edited.get(who["split"], {})}
        ),
    )
    fill(results, -2.5, 0.1, method="sgp", num_layers=1)
    found = cell(results, "dataset=boston", "method=sgp")
    assert (found["count"], found["failed"], found["wanted"]) == (9, 0, 10)
    made = text(results, TABLE1, "dataset=boston", "method=sgp")
    assert "9/10" in made
    assert "- 1 run was made with other settings, and no mean counts them." in made


def test_a_cell_without_the_score_is_incomplete_until_all_runs_are_done(results):
    for split in range(2):
        write_toy(results, {"crps": 1.0}, split=split, method="sgp", num_layers=1)
    assert "0/10" in text(results, TABLE1, "dataset=boston", "method=sgp")
    for split in range(2, 10):
        write_toy(results, {"crps": 1.0}, split=split, method="sgp", num_layers=1)
    assert "none" in text(results, TABLE1, "dataset=boston", "method=sgp")


def test_an_extra_setting_selects_its_own_runs(results):
    fill(results, -2.5, 0.1, splits=2)
    fill(results, -1.0, 0.1, splits=2, overrides={"training.learning_rate": 0.1})
    narrowed = ("dataset=boston", "method=star", "method.num_layers=3", "split=range(2)")
    assert cell(results, *narrowed, "training.learning_rate=1e-1")["mean"] == pytest.approx(-1.0)


@pytest.mark.parametrize("default", ["training.average_last=0", "method.covariance_rate=1"])
def test_a_later_settings_default_selects_the_runs_without_it(results, default):
    fill(results, -2.5, 0.1, splits=2)
    fill(results, -1.0, 0.1, splits=2, overrides={default.split("=")[0]: 0.5})
    narrowed = ("dataset=boston", "method=star", "method.num_layers=3", "split=range(2)")
    assert cell(results, *narrowed, default)["mean"] == pytest.approx(-2.5)


def test_a_default_does_not_apply_to_methods_without_the_setting(results):
    write_toy(results, method="sghmc", num_layers=2)
    config = collect(results).iloc[0]["config"]
    assert setting_in(config, "method.covariance_rate") is None


def test_a_failed_split_is_counted_and_not_averaged(results):
    fill(results, -2.5, 0.1, splits=2)
    write_toy(results, {"tll": 50.0}, status="diverged", split=2)
    found = cell(results, "dataset=boston", "method=star", "method.num_layers=3", "split=range(3)")
    assert (found["count"], found["failed"], found["wanted"]) == (2, 1, 3)
    assert found["mean"] == pytest.approx(-2.5)


def test_a_single_split_has_no_standard_error(results):
    write_toy(results, {"tll": -2.5})
    given = ("dataset=boston", "method=star", "method.num_layers=3", "split=0")
    assert np.isnan(cell(results, *given)["stderr"])
    assert " -2.50 |" in text(results, TABLE1, *given)


def test_one_split_is_neither_as_good_as_another_nor_better(results):
    write_toy(results, {"tll": -2.5}, method="sgp", num_layers=1)
    write_toy(results, {"tll": -2.4})
    assert "**" not in text(results, TABLE1, "dataset=boston", "method=sgp,star", "split=0")


def test_best_mean_marks_the_lowest_nlpp_of_a_complete_row(results):
    for method, value in (("sod", 2.5), ("mf", 2.4), ("sghmc", 2.6)):
        fill(results, value, 0.1, splits=5, metric="nlpp", method=method, protocol="jain2021")
    given = ("dataset=boston", "method=sod,mf,sghmc", "method.num_layers=3")
    assert "**2.400 (0.100)**" in text(results, "jain2021_table1", *given)
    write_toy(results, status="failed", method="sghmc", protocol="jain2021", split=4)
    incomplete = text(results, "jain2021_table1", *given)
    assert "4/5" in incomplete
    assert "**" not in incomplete


def test_table_s3_marks_as_good_in_both_and_underlines_better_in_one(results):
    values = {  # extrapolation, interpolation; sgp is at -3.1 in both
        ("sgp", 1): (-3.1, -3.1),
        ("mf", 2): (-3.1, -9.0),
        ("mf", 3): (-3.1, -3.1),
        ("star", 3): (-3.1, -3.0),
    }
    for (method, layers), means in values.items():
        for task, mean in zip(("extrapolation", "interpolation"), means, strict=True):
            fill(results, mean, 0.01, task=task, method=method, num_layers=layers)
    made = text(results, "lindinger2020_tables3", "dataset=boston", "method=sgp,mf,star")
    cells = [line.split("|")[2].strip() for line in made.splitlines() if line.startswith("| ")][1:]
    assert cells == ["-3.10 (0.01)", "-3.10 (0.01)", "**-3.10 (0.01)**", "0/10", "<u>**-3.10 (0.01)**</u>"]


def test_win_frequencies_are_paired_by_split(results):
    for split in range(10):
        wins = np.where(np.arange(20) < 12 + split % 2, 1.0, -1.0)
        identity = {"task": "extrapolation", "split": split}
        write_toy(results, method="star", points=toy_points(wins, seed=split), **identity)
        write_toy(results, method="mf", points=toy_points(0.0, seed=split), **identity)
    found = cell(results, "dataset=boston", "method=star,mf", item="lindinger2020_table2")
    assert found["method"] == "star_vs_mf"
    assert found["mean"] == pytest.approx(12.5 / 20)
    assert found["count"] == 10
    assert "**0.62 (0.01)**" in text(results, "lindinger2020_table2", "dataset=boston", "method=star,mf")


def test_elbo_comes_from_the_end_of_the_trace(results):
    for method, value in (("mf", -510.0), ("fc", -246.0)):
        for split in range(10):
            trace = toy_trace(value + split)
            write_toy(results, method=method, split=split, overrides=of_tables5(method, split), trace=trace)
    made = text(results, "lindinger2020_tables5", "dataset=boston")
    assert "mf_ng L3" in made
    assert "**-24" in made


def test_a_figure_item_cannot_be_rendered_as_a_table(results):
    with pytest.raises(UserError, match="dgpbench figure lindinger2020_fig1"):
        text(results, "lindinger2020_fig1")
