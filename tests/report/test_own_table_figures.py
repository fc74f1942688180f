"""The figures of dgpbench_uci, read back from their axes: coverage of all rows together, and cost beside score."""

import numpy as np
import pandas as pd
import pytest
from test_values_of_figures import lines, panels
from toys import write_toy

from dgpbench.cli import main

SPLITS = 3


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def write(
    results, method: str, num_layers: int, seconds: float, tll: float | None, crps: float, pit: list[list[float]]
):
    for split in range(SPLITS):
        points = pd.DataFrame(
            {"row": np.arange(len(pit[split])), "y": 0.0, "log_density": (tll or 0.0) + split, "pit": pit[split]}
        )
        write_toy(
            results,
            {"crps": crps, "rmse": 1.0} | ({} if tll is None else {"tll": tll + split}),
            points=points,
            record={"seconds": {"training": 1.0, "total": seconds + (20, 1, 0)[split]}},
            method=method,
            num_layers=num_layers,
            split=split,
            budget="laptop",
        )


@pytest.fixture
def three(results):
    """sgp is fast, star slow and better, mf slower than star and worse; splits of star have one, two and four rows."""
    write(results, "sgp", 1, 10, -3.0, 2.0, [[0.5], [0.5], [0.5]])
    write(results, "star", 3, 40, -2.0, 1.5, [[0.5], [0.01, 0.99], [0.5, 0.5, 0.5, 0.01]])
    write(results, "mf", 2, 90, -2.5, 1.4, [[0.5], [0.5], [0.5]])
    return ("dataset=boston", "method=sgp,mf,star", "split=range(3)", "method.num_layers=1,2,3")


@pytest.mark.parametrize("compact", [False, True])
def test_coverage_counts_every_row_once(compact, three, results, drawn):
    if compact:
        assert main(["results", "export", f"results_dir={results}"]) == 0
        (results / "runs").rename(results / "elsewhere")
    _, *more = drawn("dgpbench_uci", *three)
    curves = lines(
        panels(next(page for page in more if "boston" in panels(page) and "STAR L3" in _curves(page)))["boston"]
    )
    nominal, observed = curves["STAR L3"]
    np.testing.assert_allclose(nominal, np.arange(1, 20) / 20)
    np.testing.assert_allclose(observed[:-1], 4 / 7)  # three of seven rows lie in the tails


def _curves(page) -> dict:
    (ax, *_) = page.axes
    return lines(ax) if "coverage" in ax.get_xlabel() else {}


def test_marks_are_mean_scores_at_median_seconds_and_the_line_joins_what_is_not_beaten(three, drawn):
    *_, page = [each for each in drawn("dgpbench_uci", *three) if each.axes[0].get_xlabel() == "time of a run (s)"]
    tll, crps, *_ = page.axes
    marks = {line.get_label(): line.get_xydata()[0] for line in tll.lines if not line.get_label().startswith("_")}
    np.testing.assert_allclose(marks["SGP L1"], [11, -2])
    np.testing.assert_allclose(marks["STAR L3"], [41, -1])
    np.testing.assert_allclose(marks["MF L2"], [91, -1.5])
    front = {ax: np.transpose(lines(ax)["not beaten in both"]) for ax in (tll, crps)}
    np.testing.assert_allclose(front[tll], [[11, -2], [41, -1]])
    np.testing.assert_allclose(front[crps], [[11, 2], [41, 1.5], [91, 1.4]])


def test_a_score_far_off_is_an_arrow_with_its_value_at_the_edge(results, drawn):
    """Means of -3.1 to -2.9, and one of -140, which would flatten them: both figures show the others."""
    middle = [[0.5], [0.5], [0.5]]
    write(results, "ngboost", 1, 5, -141.0, 2.0, middle)
    for num, method in enumerate(("sgpr", "sgp", "mf", "star", "sod")):
        write(results, method, 1 if method.startswith("sgp") else 2, 10 + num, -4.1 + 0.05 * num, 2.0, middle)
    given = ("dataset=boston", "method=ngboost,sgpr,sgp,mf,star,sod", "split=range(3)", "method.num_layers=1,2")
    pages = drawn("dgpbench_uci", *given)
    bars = pages[0].axes[0]
    (cost,) = [page.axes[0] for page in pages if page.axes[0].get_xlabel() == "time of a run (s)"]
    for ax, limits, text in ((bars, bars.get_xlim(), "← -140"), (cost, cost.get_ylim(), "↓ -140")):
        assert -4 < limits[0] < -3.1  # with the standard errors of the others
        assert -2.9 < limits[1] < -2
        assert [note.get_text() for note in ax.texts] == [text]
    (arrow,) = bars.texts
    assert arrow.xy == (0, 0)  # at the low edge, on the line of the first method


def test_nothing_is_far_off_among_scores_of_one_size(three, drawn):
    for page in drawn("dgpbench_uci", *three):
        assert not [note for ax in page.axes for note in ax.texts if note.get_text()[:1] in "←↓↑"]


def test_methods_without_a_score_are_left_out_of_its_ranks_alone(results, drawn):
    middle = [[0.5], [0.5], [0.5]]
    write(results, "sgp", 1, 10, -3.0, 2.0, middle)
    write(results, "ngboost", 1, 10, -2.0, 1.5, middle)
    write(results, "gradient_boosting_quantiles", 1, 5, None, 1.3, middle)
    given = ("dataset=boston", "method=gradient_boosting_quantiles,ngboost,sgp", "split=range(3)")
    titles = {page.get_suptitle().split("\n")[1]: page for page in drawn("dgpbench_uci", *given)}
    shown = {
        title.split(", ")[1]: {text.get_text() for text in page.axes[0].get_yticklabels()}
        for title, page in titles.items()
        if title.startswith("best mean rank")
    }
    assert shown["tll"] == {"NGBoost beats SGP L1"}
    assert shown["crps"] == {
        "boosting (quantiles) beats NGBoost",
        "boosting (quantiles) beats SGP L1",
    }


def test_a_score_that_predictions_do_not_have_is_in_no_other_file(results, capsys):
    """A compact record has every score of its run: a table sends nobody to look for more."""
    write(results, "gradient_boosting_quantiles", 1, 5, None, 1.3, [[0.5], [0.5], [0.5]])
    assert main(["results", "export", f"results_dir={results}"]) == 0
    (results / "runs").rename(results / "elsewhere")
    given = ("dataset=boston", "method=gradient_boosting_quantiles", "split=range(3)", f"results_dir={results}")
    capsys.readouterr()
    assert main(["table", "dgpbench_uci", *given]) == 0
    printed = capsys.readouterr().out
    assert "1.300 (0.000)" in printed
    assert "need files" not in printed


def test_every_panel_lists_all_methods_and_the_first_of_a_row_names_them(results, drawn):
    """An exact GP is not asked of kin8nm: its line is empty there, and the other methods stay on theirs."""
    for dataset in ("boston", "kin8nm"):
        for split in range(2):
            scores = {"tll": -2.0, "rmse": 1.0}  # of which the page of panels shows the first
            write_toy(results, scores, dataset=dataset, method="mf", num_layers=2, split=split, budget="laptop")
    given = ("dataset=boston,kin8nm", "method=gpr,mf", "method.num_layers=1,2", "split=range(2)")
    boston, kin8nm = drawn("dgpbench_uci", *given)[0].axes
    assert [text.get_text() for text in boston.get_yticklabels()] == ["GPR L1", "MF L2"]
    assert not kin8nm.get_yticklabels()
    assert [container[0].get_ydata()[0] for ax in (boston, kin8nm) for container in ax.containers] == [1, 1]
