"""The figures of dgpbench_uci, read back from their axes: coverage of all rows together, and cost beside score."""

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from figure_axes import factor_of, lines, panels, stored
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from test_figures import overlapping
from toy_frames import FIGURES
from toys import toy_points, toy_trace, write_toy

from dgpbench.cli import main
from dgpbench.experiments import items
from dgpbench.report import cells
from dgpbench.report.collect import collect
from dgpbench.report.figures import item_figures, scores
from dgpbench.report.figures.style import COLOURS, OTHER_CURVES

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


def test_marks_are_mean_scores_at_median_seconds_with_the_pareto_line(three, drawn):
    *_, page = [each for each in drawn("dgpbench_uci", *three) if each.axes[0].get_xlabel() == "time of a run (s)"]
    tll, crps, *_ = page.axes
    marks = {line.get_label(): line.get_xydata()[0] for line in tll.lines if not line.get_label().startswith("_")}
    np.testing.assert_allclose(marks["SGP L1"], [11, -2])
    np.testing.assert_allclose(marks["STAR L3"], [41, -1])
    np.testing.assert_allclose(marks["MF L2"], [91, -1.5])
    front = {ax: np.transpose(lines(ax)["not beaten in both"]) for ax in (tll, crps)}
    np.testing.assert_allclose(front[tll], [[11, -2], [41, -1]])
    np.testing.assert_allclose(front[crps], [[11, 2], [41, 1.5], [91, 1.4]])


def test_a_figure_of_seconds_leaves_out_a_gpu_and_names_it(results, three, drawn):
    for split in range(SPLITS):
        timing = {"seconds": {"training": 1.0, "total": 2.0}, "gpu": "a card"}
        write_toy(
            results, {"tll": 0.0, "crps": 1.0}, method="mf", num_layers=3, split=split, budget="laptop", record=timing
        )
    *_, page = [each for each in drawn("dgpbench_uci", *three) if each.axes[0].get_xlabel() == "time of a run (s)"]
    assert set(lines(page.axes[0])) == {"SGP L1", "STAR L3", "MF L2", "not beaten in both"}
    assert page.get_suptitle().endswith("\nSeconds are of runs on a processor; 3 runs on a GPU are left out.")


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


@pytest.mark.full
@pytest.mark.parametrize("far", [40.0, -40.0])
def test_no_two_arrows_at_an_edge_overlap(far, results, drawn):
    """Four of eighteen scores are far off, at the same time, at nearly the same, or apart from the others."""
    middle = [[0.5], [0.5], [0.5]]
    near = [(name, 1) for name in ("gpr", "sgpr", "fitc", "sgp", "sghmc")]
    near += [(name, 2) for name in ("aepmcm", "fully_factorised", "sod", "mf", "star", "sghmc")]
    near += [(name, 3) for name in ("mf", "star", "sghmc")]
    beyond = ("ngboost", "deep_ensemble", "mc_dropout", "bayesian_ridge")
    for num, (method, layers) in enumerate(near):
        write(results, method, layers, 10 + 20 * num, -2 + 0.01 * num, 2.0, middle)
    for num, method in enumerate(beyond):
        write(results, method, 1, (30, 30, 33, 900)[num], far * (1 + num / 7), 2.0, middle)
    methods = ",".join([*beyond, *dict(near)])
    given = (f"method={methods}", "dataset=boston", "split=range(3)", "method.num_layers=1,2,3")
    page = next(page for page in drawn("dgpbench_uci", *given) if page.axes[0].get_xlabel() == "time of a run (s)")
    canvas = FigureCanvasAgg(page)
    canvas.draw()
    ax = page.axes[0]
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in ax.texts]
    assert len(boxes) == len(beyond)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    places = [line.get_xydata()[0] for line in ax.lines if line.get_label()[-2:] in ("L1", "L2", "L3")]
    assert len(places) == len(near)
    assert not any(box.contains(*ax.transData.transform(place)) for box in boxes for place in places)
    assert not overlapping(page)


def test_an_incomplete_mean_far_off_is_a_hollow_mark_with_its_count(results, drawn):
    for num, method in enumerate(("sgpr", "sgp", "fitc", "mf", "star", "sod", "aepmcm", "fully_factorised")):
        for split in range(3):
            layers = 1 if num < 3 else 2
            write_toy(results, {"tll": -3 + num / 20}, method=method, num_layers=layers, split=split, budget="laptop")
    for method, count in (("ngboost", 3), ("gpr", 2)):
        for split in range(count):
            write_toy(results, {"tll": 9.0}, method=method, num_layers=1, split=split, budget="laptop")
    given = ("dataset=boston", "method=ngboost,gpr,sgpr,sgp,fitc,mf,star,sod,aepmcm,fully_factorised", "split=range(3)")
    (page, *_) = drawn("dgpbench_uci", *given, "method.num_layers=1,2")
    (ax,) = page.axes
    edges = {line.get_ydata()[0]: line for line in ax.lines if list(line.get_xdata()) == [0.98]}
    assert [to_hex(edges[place].get_markerfacecolor()) for place in (0, 1)] == [COLOURS["ngboost"].lower(), "#ffffff"]
    assert to_hex(edges[1].get_markeredgecolor()) == COLOURS["gpr"]
    shown = [text for text in ax.texts if text.xy[0] <= 1]  # not the count beside a mark that is off the axes
    assert [text.get_text() for text in shown] == ["9 →", "9 (2/3) →"]


MEANS = [name for name, (_, make) in FIGURES.items() if {"method", "num_layers"} <= set(make())]
MEANS = [name for name in MEANS if not name.startswith("seconds_per_step")]  # a timing is of one run


@pytest.mark.parametrize("name", MEANS)
def test_incomplete_cells_are_drawn_differently_from_complete_ones(name):
    """Marks and boxes are hollow; a line has no face, and its name ends in the count."""
    draw, make = FIGURES[name]
    seen = {}
    for count in (10, 3):
        ax = Figure().subplots()
        draw(make().assign(count=count, wanted=10), ax)
        marks = [line for line in ax.lines if line.get_marker() not in ("None", "none", "", "x")]
        faces = [to_hex(line.get_markerfacecolor()) for line in marks]
        if name == "elbo_boxes":  # its marks are outliers
            faces = [to_hex(patch.get_facecolor()) for patch in ax.patches]
        named = [text for text in ax.get_legend_handles_labels()[1] if text.endswith("(3/10)")]
        named += [text.get_text() for text in ax.get_xticklabels() if "(3/10)" in text.get_text()]
        seen[count] = ("#ffffff" in faces, set(faces) <= {"#ffffff"}, bool(named or [t for t in ax.texts if t]))
    assert not seen[10][0]
    assert not seen[10][2]
    if name == "score_bars":  # its legend has a filled mark, too, and the counts stand beside the marks
        assert seen[3] == (True, False, True)
    else:
        assert seen[3][1]
        assert seen[3][2]


@pytest.fixture
def lacking(results):
    """Runs with all their files: mf has both splits, star one."""
    for method, split in (("mf", 0), ("mf", 1), ("star", 0)):
        files = {"trace": toy_trace(), "points": toy_points(0.0, 40)}
        write_toy(results, {"tll": -2.0, "rmse": 1.0}, method=method, split=split, **files)
    return results


CURVES = ("elbo_against_seconds", "training_curves", "calibration_study")


@pytest.mark.parametrize("name", CURVES)
def test_layouts_name_the_curves_of_an_incomplete_cell_by_its_count(name, lacking):
    given = ["dataset=boston", "method=mf,star", "method.num_layers=3", "split=range(2)", f"results_dir={lacking}"]
    item = items.load("lindinger2020_table1", given)
    for panel in item_figures.KINDS[name](item, cells.done_runs(item, collect(lacking))):
        ax = Figure().subplots()
        panel.draw(panel.frame, ax)
        _, names = ax.get_legend_handles_labels()
        assert "STAR L3 (1/2)" in names
        assert not [text for text in names if text.startswith("MF L3 (1/") or text.startswith("MF L3 (2/")]


def test_a_box_is_hollow_if_a_run_has_no_trace(results):
    for split in range(2):
        write_toy(results, {"tll": -2.0}, method="mf", split=split, trace=toy_trace() if split else None)
        write_toy(results, {"tll": -2.0}, method="star", split=split, trace=toy_trace())
    given = ["dataset=boston", "method=mf,star", "method.num_layers=3", "split=range(2)", f"results_dir={results}"]
    item = items.load("lindinger2020_table1", given)
    (panel,) = scores.elbo_boxes(item, cells.done_runs(item, collect(results)))
    ax = Figure().subplots()
    panel.draw(panel.frame, ax)
    assert [to_hex(box.get_facecolor()) for box in ax.patches] == ["#ffffff", COLOURS["star"].lower()]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["MF L3 (1/2)\nn = 1", "STAR L3\nn = 2"]


def test_at_most_eight_curves_of_a_panel_are_in_colour(results, drawn):
    methods = ("bayesian_ridge", "ngboost", "deep_ensemble", "mc_dropout", "gpr", "sgpr", "fitc", "sgp", "sod")
    cells = [(name, 1 if name != "sod" else 2) for name in methods]
    cells += [(name, layers) for name in ("mf", "star", "sghmc") for layers in (2, 3)]
    for place, (method, layers) in enumerate(cells):
        write(results, method, layers, 10, -2.0, 2.0, [[place / 20, 0.5]] * 3)
    given = (f"method={','.join(dict(cells))}", "dataset=boston", "split=range(3)", "method.num_layers=1,2,3")
    page = next(page for page in drawn("dgpbench_uci", *given) if "coverage" in page.axes[0].get_xlabel())
    assert list(panels(page)) == ["boston (1 of 2)", "boston (2 of 2)"]
    coloured = {}
    for title, ax in panels(page).items():
        shown = [line for line in ax.lines if to_hex(line.get_color()) not in ("#000000", "#d9d9d9")]
        shown += [line for line in ax.lines if line.get_label() == "GPR L1"]  # black, as the line of the calibrated is
        coloured[title] = {line.get_label() for line in shown}
        assert len(shown) <= 8
        assert len(ax.lines) == 1 + len(cells)  # the others in grey
        assert [text.get_text() for text in ax.get_legend().get_texts()].count(OTHER_CURVES) == 1
    counts = Counter(name for names in coloured.values() for name in names)
    assert len(counts) == len(cells)
    assert set(counts.values()) == {1}
    for method in ("MF", "STAR", "SGHMC"):
        assert any({f"{method} L2", f"{method} L3"} <= names for names in coloured.values())


def test_the_legend_names_the_pareto_line(three, drawn):
    page = next(page for page in drawn("dgpbench_uci", *three) if page.axes[0].get_xlabel() == "time of a run (s)")
    (legend,) = page.legends
    assert "not beaten in both" in [text.get_text() for text in legend.get_texts()]
    (handle,) = [line for line in legend.get_lines() if line.get_label() == "not beaten in both"]
    assert handle.get_linestyle() == "-"


def test_a_page_is_titled_by_what_it_shows(results, three, drawn):
    first, curves, cost, *_ = [
        " ".join(page.get_suptitle().split()).partition(" lindinger2020,")[0] for page in drawn("dgpbench_uci", *three)
    ]
    assert curves == f"{first}: reliability curves"
    assert cost == f"{first}: score beside seconds"
    for name in ("lindinger2020_fig1", "lindinger2020_figs8"):
        item = items.load(name, ["method=mf", "method.num_layers=3", "dataset=concrete", f"results_dir={results}"])
        write_toy(results, method="mf", dataset="concrete", posterior=stored(factor_of(0)))
        made = item_figures.figures(item, collect(results))
        assert "precision" not in made["covariance"].get_suptitle()  # which is drawn at four layers
        if "block_correlations" in made:
            title = made["block_correlations"].get_suptitle()
            assert "matrices" not in title
            assert ": block correlations\n" in title


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


def test_a_score_that_predictions_do_not_give_is_left_out(results, capsys):
    """A compact record has every score of its run, so a table does not refer to other files."""
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
    """An exact GP is not planned on kin8nm: its line is empty there, and the other methods stay on theirs."""
    for dataset in ("boston", "kin8nm"):
        for split in range(2):
            scores = {"tll": -2.0, "rmse": 1.0}  # the page of panels shows the first
            write_toy(results, scores, dataset=dataset, method="mf", num_layers=2, split=split, budget="laptop")
    given = ("dataset=boston,kin8nm", "method=gpr,mf", "method.num_layers=1,2", "split=range(2)")
    boston, kin8nm = drawn("dgpbench_uci", *given)[0].axes
    assert [text.get_text() for text in boston.get_yticklabels()] == ["GPR L1", "MF L2"]
    assert not kin8nm.get_yticklabels()
    assert [container[0].get_ydata()[0] for ax in (boston, kin8nm) for container in ax.containers] == [1, 1]
