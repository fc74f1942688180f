"""Every figure function and every layout, from toy frames and toy records; warnings are errors."""

import re
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import entry_points
from itertools import product
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from toy_frames import FIGURES, points, toy_posterior
from toys import toy_points, toy_trace, write_toy

from dgpbench.benchmarks.timing import parse
from dgpbench.cli import main
from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments import items
from dgpbench.methods.plugins import GROUP
from dgpbench.report import cells
from dgpbench.report.collect import collect
from dgpbench.report.figures import calibration, item_figures, posterior, timing
from dgpbench.report.figures.page import Panel, page, save
from dgpbench.report.figures.style import COLOURS, axis_label, house_style, label, look
from dgpbench.report.statistics import compared

pytestmark = pytest.mark.filterwarnings("error")
UNIT = re.compile(r"\(.+\)")
DPI = 150  # of dgpbench.mplstyle


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_labels_and_units(name):
    draw, frame = FIGURES[name]
    with house_style():
        ax = Figure(figsize=(5, 3)).subplots()
        draw(frame(), ax)
        ax.figure.savefig("/dev/null", format="png")
    labels = [ax.get_xlabel()] if name == "critical_difference" else [ax.get_xlabel(), ax.get_ylabel()]
    named = name in ("score_bars", "improvement", "block_correlations")  # their other axis holds names
    assert all(labels)
    assert all(UNIT.search(text) for text in labels[: 1 if named else 2]), labels


def test_a_figure_function_leaves_its_frame_as_it_was():
    for draw, make in FIGURES.values():
        frame = make()
        before = frame.copy(deep=True)
        draw(frame, Figure().subplots())
        pd.testing.assert_frame_equal(frame, before)


@pytest.mark.full
@pytest.mark.parametrize("name", FIGURES)
def test_texts_of_a_page_do_not_overlap(name):
    draw, make = FIGURES[name]
    size = (6.0, 3.1) if name == "critical_difference" else (4.2, 3.1)
    figure = page(
        "A title that is as long as titles are", [Panel("left", draw, make(), size), Panel("right", draw, make(), size)]
    )
    assert not overlapping(figure)


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Return the pairs of overlapping titles, axis labels, tick labels and shared legends."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [figure._suptitle, *(text for ax in figure.axes for text in _texts(ax))]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts if text.get_text()]
    boxes += [("legend", legend.get_window_extent(renderer)) for legend in figure.legends]
    meeting = [(a, b) for k, (a, one) in enumerate(boxes) for b, other in boxes[k + 1 :] if _meet(one, other)]
    outside = [(text, "the edge") for text, box in boxes if box.x0 < -1 or box.x1 > figure.bbox.x1 + 1 or box.y0 < -1]
    return meeting + outside


def _texts(ax):
    yield from (ax.xaxis.label, ax.yaxis.label, ax.title)
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick, place in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=False):
            if low <= place <= high:  # matplotlib keeps labels of ticks that it does not draw
                yield tick


def _meet(one, other) -> bool:
    """Return whether two boxes overlap by more than a pixel."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return width > 1 and height > 1


def test_panels_share_one_legend_below_where_they_name_the_same():
    draw, make = FIGURES["elbo_against_seconds"]
    figure = page("title", [Panel("", draw, make()), Panel("", draw, make())])
    assert len(figure.legends) == 1
    assert all(ax.get_legend() is None for ax in figure.axes)


def test_panels_with_the_same_methods_name_them_once_a_row():
    draw, make = FIGURES["score_bars"]
    other = make().iloc[1:]
    figure = page("title", [Panel("", draw, frame) for frame in (make(), make(), other, make())], columns=3)
    shown = [[text.get_text() for text in ax.get_yticklabels() if text.get_visible()] for ax in figure.axes[:4]]
    assert [len(names) for names in shown] == [len(make()), 0, len(other), len(make())]
    assert [bool(ax.get_ylabel()) for ax in figure.axes[:4]] == [True, False, True, True]


def test_colours_differ_between_the_methods_of_a_table():
    for methods in (["sgp", "sghmc", "mf", "star"], ["mf", "star", "fc", "fc_mc"], ["mf", "aep", "aepmcm"],
                    ["sod", "sod_random", "sghmc", "mf", "mf_fixed_z", "sgp"],
                    ["aepmcm_r10", "aepmcm_r20", "mf_r10", "mf_r20", "aep"]):  # fmt: skip
        assert len({look(method, 3).colour for method in methods}) == len(methods), methods


@pytest.mark.parametrize("name", groups.names("experiment"))
def test_no_two_columns_of_an_item_look_alike(name):
    guests = set(groups.added("method")) - set(entry_points(group=GROUP).names)  # of other tests
    wanted = cells.wanted(items.load(name))[["series", "num_layers"]].itertuples(index=False)
    columns = list(dict.fromkeys(column for column in wanted if column.series not in guests))
    looks = {column: (look(*column).colour, look(*column).marker) for column in columns}
    assert len(set(looks.values())) == len(columns), looks


def test_a_legend_of_many_methods_leaves_room_for_the_panel():
    def draw(frame, ax):
        for name in frame["name"]:
            ax.plot([0, 1], [0, 1], label=name)

    figure = page("title", [Panel("", draw, pd.DataFrame({"name": [f"a method of many, {n}" for n in range(22)]}))])
    FigureCanvasAgg(figure).draw()
    (ax,) = figure.axes
    assert ax.get_window_extent().height / figure.dpi > 1.8


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_a_plug_in_has_the_look_of_no_listed_method(depth):
    listed = {look(method, layers).marker for method in COLOURS for layers in range(1, 6)}
    assert {look(f"my_method_{number}", depth).marker for number in range(9)}.isdisjoint(listed)


def test_a_dollar_in_a_name_is_not_mathematics():
    assert label("a$b$c", 2) == r"a\$b\$c L2"


# Numbers behind the figures -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["mf", "star", "fc"])
def test_covariance_and_precision_are_inverse_to_each_other(structure):
    arrays = toy_posterior(structure)
    product = posterior.covariance_matrix(arrays).to_numpy() @ posterior.precision_matrix(arrays).to_numpy()
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-8)


def test_covariance_has_the_zero_blocks_of_its_structure():
    S = posterior.covariance_matrix(toy_posterior("star", num_layers=3, width=3, M=6))
    stripe, other = S.loc[(2, 1), (1, 1)], S.loc[(2, 1), (1, 2)]
    assert (np.abs(stripe.to_numpy()) > 0).all()
    assert (other.to_numpy() == 0).all()


def test_covariance_is_that_of_the_trained_posterior():
    M, arrays = 2, {"diagonal_1": np.array([np.diag([2.0, 3.0])]), "diagonal_2": np.array([np.diag([1.0, 1.0])]),
                    "coupling_2_1": np.array([[[0.5, 0.0], [0.0, 0.0]]]), "pairs_2_1": np.array([[0, 0]])}  # fmt: skip
    expected = [[4, 0, 1, 0], [0, 9, 0, 0], [1, 0, 1.25, 0], [0, 0, 0, 1]]
    S = posterior.covariance_matrix(arrays)
    np.testing.assert_allclose(S, expected)
    assert S.index.tolist() == [(layer, 1, m + 1) for layer in (1, 2) for m in range(M)]


def test_correlations_are_those_of_each_kind_of_block():
    """Three layers of 2, 2 and 1 GPs with M = 1: C C^T has deviations and correlations written by hand."""
    R = np.eye(5)
    for row, column, value in ((0, 1, 0.1), (2, 3, 0.3), (0, 2, 0.2), (1, 3, 0.2), (0, 3, 0.05), (0, 4, 0.4)):
        R[row, column] = R[column, row] = value
    C, first = np.diag([1.0, 2.0, 0.5, 3.0, 4.0]) @ np.linalg.cholesky(R), [0, 2, 4]
    arrays = {f"diagonal_{layer + 1}": C[range(start, end), range(start, end)].reshape(-1, 1, 1)
              for layer, (start, end) in enumerate(((0, 2), (2, 4), (4, 5)))}  # fmt: skip
    for layer, earlier in ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1)):
        pairs = [(t, s) for t in range(2 if layer < 2 else 1) for s in range(2) if layer > earlier or t > s]
        blocks = [C[first[layer] + t, first[earlier] + s] for t, s in pairs]
        arrays[f"coupling_{layer + 1}_{earlier + 1}"] = np.reshape(blocks, (-1, 1, 1))
        arrays[f"pairs_{layer + 1}_{earlier + 1}"] = np.array(pairs)
    found = posterior.correlations(arrays).set_index("block")["correlation"]
    expected = {"stripes": 0.2, "arrow": np.sqrt(0.4**2 / 4), "across layers, else": np.sqrt(0.05**2 / 2),
                "within a layer": np.sqrt((0.1**2 + 0.3**2) / 2)}  # fmt: skip
    assert found.to_dict() == pytest.approx(expected)
    assert list(posterior.correlations(toy_posterior("mf"))["block"]) == ["one GP"]
    assert list(posterior.correlations(toy_posterior("star"))["block"]) == ["one GP", "stripes", "arrow"]


def test_a_posterior_without_blocks_is_refused():
    with pytest.raises(UserError, match="no blocks"):
        posterior.covariance_matrix({"samples_1": np.zeros((3, 1, 2))})


def test_median_filter_by_hand():
    rows = pd.DataFrame({"x": [3.0, 1.0, 2.0, 5.0, 4.0], "y": [30.0, 10.0, 99.0, 50.0, 40.0]})
    found = calibration.median_filtered(rows, "x", "y", share=0.6)
    assert found["x"].tolist() == [2.0, 3.0, 4.0]
    assert found["y"].tolist() == [30.0, 40.0, 40.0]  # of (10, 99, 30), (99, 30, 40), (30, 40, 50)


def test_a_calibrated_prediction_lies_on_y_equals_x():
    calibrated = points([("star", 3)], 20000)
    z = (calibrated["y"] - calibrated["mean"]) / np.sqrt(calibrated["variance"])
    calibrated["y"] = calibrated["mean"] + z / 1.5 * np.sqrt(
        calibrated["variance"]
    )  # points() makes them 1.5 times too sure
    curve = calibration.error_along_variance(calibrated)
    assert np.median(curve["squared_error"] / curve["variance"]) == pytest.approx(1, abs=0.06)


def test_normality_refuses_too_few_samples_and_finds_the_skewed_one():
    from toy_frames import samples

    with pytest.raises(UserError, match="20 samples"):
        posterior.normality_tests(samples().head(10))
    tests = posterior.normality_tests(samples())
    assert tests.loc[tests["p_value"] < posterior.LEVEL, "output"].tolist() == ["1.0"]


def test_timings_along_a_size_keep_the_others_fixed():
    from toy_frames import bench

    assert sorted(set(timing.along(bench(), "tau")["value"])) == [2, 5, 8, 16]


def test_timings_of_a_width_that_follows_the_inputs_are_drawn_against_m_alone(results):
    for M in (64, 128):
        settings = {"method.width": "inputs", "method.num_inducing": M}
        given = {"settings": settings, "iterations": 10, "seconds": {"training": 1.0, "total": 2.0}}
        write_toy(results, method="mf", num_layers=3, overrides={"method.num_inducing": M}, record=given)
    runs = collect(results).assign(series="mf")
    panels = timing.seconds_per_step(items.load("lindinger2020_figs7"), runs)
    assert [panel.title for panel in panels] == ["against M", "against L"]
    assert panels[0].frame[["value", "ms_per_step"]].values.tolist() == [[64, 100.0], [128, 100.0]]


def test_the_hint_to_time_steps_is_a_command_that_runs(tmp_path):
    with pytest.raises(UserError) as refusal:
        timing.timings(pd.DataFrame(), tmp_path, ["mf", "fc", "fc_ng"])
    given = re.search(r"`dgpbench bench steps (.*) --output", str(refusal.value)).group(1)
    assert {cell.method for cell in parse(given.split()).cells} == {"mf", "fc"}


def test_the_number_of_parameters_is_not_in_seconds():
    assert axis_label("num_parameters") == "trainable parameters (count)"
    assert axis_label("seconds_training") == "seconds training (s)"


# From records to files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Records that give every layout something to draw; no test changes them."""
    results, rng = tmp_path_factory.mktemp("filled") / "results", np.random.default_rng(0)
    methods = [
        ("sgp", 1),
        ("mf", 2),
        ("mf", 3),
        ("star", 2),
        ("star", 3),
        ("fc", 3),
        *(("sghmc", L) for L in (1, 2, 3)),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        for dataset, split, (k, (method, L)) in product(("boston", "energy", "concrete"), range(2), enumerate(methods)):
            score = {"tll": -3 + 0.1 * k + 0.05 * rng.normal(), "rmse": 3.0, "nlpp": 3.0}
            arrays = {"samples_1": rng.normal(size=(40, 1, 6))} if method == "sghmc" else toy_posterior(method, L)
            files = {"points": toy_points(-1.0, 60, split), "trace": toy_trace(-100 + k), "posterior": arrays}
            write_toy(results, score, method=method, num_layers=L, dataset=dataset, split=split, **files)
    return results


def item_of(name: str, results: Path, *given: str) -> items.Item:
    return items.load(name, [*given, f"results_dir={results}"])


SPLITS = ("split=range(2)", "dataset=boston,energy,concrete")


@pytest.mark.full
@pytest.mark.parametrize(("name", "given"), [
    ("lindinger2020_table1", SPLITS),
    ("lindinger2020_figs5", SPLITS),
    ("lindinger2020_figs8", ("method.num_layers=3", "dataset=boston,energy")),
])  # fmt: skip
def test_items_render_at_their_size_with_ink_in_every_panel(name, given, filled, tmp_path):
    item = item_of(name, filled, *given)
    for key, figure in item_figures.figures(item, collect(filled)).items():
        picture = matplotlib.image.imread(save(figure, tmp_path / f"{key}.png"))[..., :3].mean(axis=2)
        height, width = picture.shape
        np.testing.assert_allclose([width, height], figure.get_size_inches() * DPI, atol=1)
        for ax in [each for each in figure.axes if each.axison]:
            box = ax.get_position()
            rows, columns = (np.array([low, high]) for low, high in ((1 - box.y1, 1 - box.y0), (box.x0, box.x1)))
            panel = picture[slice(*(rows * height).astype(int)), slice(*(columns * width).astype(int))]
            assert panel.std() > 0.01, f"an empty panel of {key}"


DATASETS = ["boston", "energy", "concrete"]
TITLES = {  # of the panels that each layout makes of a table's runs on three data sets
    "elbo_against_seconds": DATASETS,
    "training_curves": [name for name in DATASETS for _ in ("elbo", "validation_tll")],
    "elbo_boxes": DATASETS,
    "seconds_per_step": ["against M", "against L", "against tau"],
    "calibration_study": [name for name in DATASETS for _ in ("distance", "variance")],
    "reliability_curves": DATASETS,
    "score_beside_seconds": DATASETS,
    "score_bars": DATASETS,
}


@pytest.mark.parametrize(
    "name", sorted(set(item_figures.KINDS) - {
        "predictive_samples", "predictive_histograms", "layer_histograms",
        "normality", "covariance", "block_correlations", "score_against_seconds",
    })
)  # fmt: skip
def test_every_layout_has_its_panels_for_the_runs_of_a_table(name, filled):
    item = item_of("lindinger2020_table1", filled, *SPLITS)
    panels = item_figures.KINDS[name](item, cells.done_runs(item, collect(filled)))
    assert [panel.title for panel in panels] == TITLES[name]
    drawn = page(name, panels)
    assert [ax.get_title() for ax in drawn.axes if ax.axison] == TITLES[name]


def test_normality_and_covariance_read_the_posterior(filled):
    frame = collect(filled)
    sampled = item_of("lindinger2020_table1", filled, "method=sghmc", "method.num_layers=1", *SPLITS)
    blocks = item_of("lindinger2020_table1", filled, "method=star", *SPLITS)
    assert len(posterior.normality(sampled, cells.done_runs(sampled, frame))) == 2 * 3
    assert len(posterior.covariance(blocks, cells.done_runs(blocks, frame))) == 2 * 3
    assert [panel.title for panel in posterior.block_correlations(blocks, cells.done_runs(blocks, frame))] == [
        f"{name}, L = {layers}" for layers in (2, 3) for name in DATASETS
    ]


def test_every_figure_that_an_item_names_has_a_layout():
    from dgpbench.config import groups

    named = {items.load(name).figure for name in groups.names("experiment")} - {None}
    assert named <= set(item_figures.KINDS)


@pytest.mark.parametrize("changed", [{"figure": "score_bar"}, {"options": {"also": ["score_bar"]}}])
def test_an_unknown_kind_of_figure_in_an_items_file_is_named(filled, changed):
    item = replace(item_of("lindinger2020_table1", filled, *SPLITS), **changed)
    with pytest.raises(UserError, match="figure 'score_bar' of lindinger2020_table1 is unknown; available: calib"):
        item_figures.figures(item, collect(filled))


def test_ranks_are_of_complete_cells_and_name_what_is_left_out(filled):
    frame = collect(filled)
    whole = item_figures.figures(item_of("lindinger2020_table1", filled, *SPLITS), frame)
    assert set(whole) == {"score_bars", "ranks_tll", "improvement_tll"}
    lacking = frame.drop(frame.index[(frame["method"] == "star") & (frame["split"] == 1)][0])
    made = item_figures.figures(item_of("lindinger2020_table1", filled, *SPLITS), lacking)
    assert "Left out" in made["improvement_tll"].get_supxlabel()


def test_the_curves_of_calibration_are_of_complete_cells(filled):
    frame = collect(filled)
    item = item_of("lindinger2020_table1", filled, *SPLITS, "dataset=boston")
    lacking = frame[~((frame["method"] == "star") & (frame["num_layers"] == 3) & (frame["split"] == 1))]
    for given, wanted in ((frame, True), (lacking, False)):
        (panel,) = calibration.reliability_curves(item, cells.done_runs(item, given))
        assert (("star", 3) in set(zip(panel.frame["method"], panel.frame["num_layers"], strict=True))) == wanted
        assert ("star", 2) in set(zip(panel.frame["method"], panel.frame["num_layers"], strict=True))


def test_a_curve_of_timings_is_of_one_session_and_one_machine(tmp_path):
    """mf was timed twice at M = 128; star at two sizes here and at one more on another machine."""
    head = "code,method,data,M,L,tau,B,R,precision,threads,ms_per_step,cpu\n"
    row = "dgpbench,{},protein,{},3,5,512,5,float64,1,{},{}\n"
    first = [
        ("mf", 128, 10.0, "here"),
        ("star", 64, 5.0, "here"),
        ("star", 128, 20.0, "here"),
        ("star", 256, 900.0, "there"),
    ]
    for name, found in {"a": first, "b": [("mf", 128, 30.0, "here"), ("mf", 256, 90.0, "here")]}.items():
        (tmp_path / f"{name}.csv").write_text(head + "".join(row.format(*each) for each in found))
    rows = timing.timings(pd.DataFrame(), tmp_path, ["mf", "star"])
    assert sorted(rows[["method", "M", "ms_per_step"]].itertuples(index=False, name=None)) == [
        ("mf", 128, 30.0),
        ("mf", 256, 90.0),
        ("star", 64, 5.0),
        ("star", 128, 20.0),
    ]


def test_a_curve_of_timings_is_of_one_device(tmp_path):
    head = "code,method,data,M,L,tau,B,R,precision,threads,ms_per_step{}\n"
    row = "dgpbench,mf,protein,{},3,5,512,5,float64,1,{}{}\n"
    rows = [(64, 10.0, ",cpu"), (128, 20.0, ",cpu"), (256, 40.0, ",cpu"), (128, 2.0, ",gpu")]
    (tmp_path / "new.csv").write_text(head.format(",device") + "".join(row.format(*each) for each in rows))
    assert list(timing.timings(pd.DataFrame(), tmp_path, ["mf"])["ms_per_step"]) == [10.0, 20.0, 40.0]
    (tmp_path / "new.csv").write_text(head.format("") + "".join(row.format(*each[:2], "") for each in rows[:3]))
    (tmp_path / "star.csv").write_text(
        head.format(",device") + row.format(64, 1.0, ",cpu").replace("mf", "star") * 9
    )  # a table from before devices is of processors
    assert len(timing.timings(pd.DataFrame(), tmp_path, ["mf", "star"])) == 12


def test_a_figure_of_one_split_is_labelled_and_marks_no_difference(filled):
    made = item_figures.figures(item_of("lindinger2020_table1", filled, *SPLITS, "split=1"), collect(filled))
    assert set(made) == {"score_bars", "ranks_tll"}
    assert all("split=1" in figure.get_suptitle() for figure in made.values())


@pytest.mark.parametrize(("column", "value"), [("method", "star"), ("split", 1)])
def test_a_method_or_split_missing_everywhere_is_not_compared(column, value, filled):
    frame = collect(filled)
    item = item_of("lindinger2020_table1", filled, *SPLITS)
    done = cells.done_runs(item, frame[frame[column] != value])
    if column == "split":
        with pytest.raises(UserError, match="no two methods have all splits"):
            compared(item, done, "tll")
    else:
        found = compared(item, done, "tll")
        assert not any("STAR" in name for name in found.losses)
        assert "Left out, since ranks and tests need complete cells: STAR L2 (0/2 on" in found.about


def test_one_more_method_without_a_data_set_is_counted_in_the_singular(results):
    methods = [("sgp", 1), *(("sghmc", L) for L in (1, 2, 3)), ("mf", 2), ("mf", 3), ("star", 2), ("star", 3)]
    for dataset, (method, L) in product(("boston", "energy", "concrete", "power"), methods):
        if dataset != "boston" or method in ("mf", "star"):
            write_toy(results, method=method, num_layers=L, dataset=dataset)
    item = item_of("lindinger2020_table1", results, "split=0", "dataset=boston,energy,concrete,power")
    about = compared(item, cells.done_runs(item, collect(results)), "tll").about
    assert "complete cells: boston (SGP L1 0/1, SGHMC L1 0/1, SGHMC L2 0/1, 1 more method)." in about


def test_the_title_counts_missing_runs(filled):
    figure = item_figures.figures(item_of("lindinger2020_figs5", filled, "dataset=boston"), collect(filled))[
        "elbo_boxes"
    ]
    assert "4 of 20 runs" in figure.get_suptitle()


def test_a_wrong_call_of_a_figure_is_refused(filled, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    for arguments, words in [
        (["figure", "nothing"], "unknown item 'nothing'"),
        (["figure", "lindinger2020_fig3"], "no run of lindinger2020_fig3"),
        (
            ["figure", "lindinger2020_fig3", "budget=laptop"],
            "`dgpbench reproduce lindinger2020_fig3 budget=laptop` makes",
        ),
        (["figure", "lindinger2020_figs5", "--output", "x.gif"], "must end in"),
        (["figure", "lindinger2020_figs5", "--format", "png", "--output", "x.pdf"], "disagree"),
    ]:
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_command_writes_each_format_twice_alike(kind, filled):
    call = [
        "figure",
        "lindinger2020_figs5",
        "dataset=boston",
        "--format",
        kind,
        "split=range(2)",
        f"results_dir={filled}",
    ]
    assert main(call) == 0
    path = filled / "figures" / f"lindinger2020_figs5.{kind}"
    first = path.read_bytes()
    assert main(call) == 0
    assert path.read_bytes() == first


@pytest.mark.full
def test_drawing_imports_neither_tensorflow_nor_pyplot(filled, tmp_path):
    code = (
        "import sys; from dgpbench.cli import main; import dgpbench.report.html; "
        f"call = ['figure', 'lindinger2020_figs5', 'dataset=boston', 'results_dir={filled}', '--output', 'a.svg']; "
        "assert main(call) == 0; assert not {'tensorflow', 'matplotlib.pyplot'}.intersection(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=120)
