"""Values plotted by figures, read from their axes: from records through ``dgpbench figure`` to the artists.

Nothing is rendered: ``drawn`` keeps the figures that the command hands to matplotlib for saving. Expected values are
computed here from the records' content.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from figure_axes import assert_drawn, panels, trace_of
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from one_record import forge
from scipy.stats import binom, norm
from toys import toy_points, write_toy

from dgpbench.experiments import items
from dgpbench.report.collect import collect
from dgpbench.report.figures import item_figures
from dgpbench.report.figures.run_figure import save_run_figure
from dgpbench.report.figures.style import COLOURS
from dgpbench.report.published import of_item

# Predictions ----------------------------------------------------------------------------------------------------------


def running_median(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Medians of y over windows of a tenth of the rows, an odd number of them, in the order of x."""
    order = np.argsort(x)
    x, y = x[order], y[order]
    half = round(len(x) / 10) // 2
    places = range(half, len(x) - half)
    return x[half : len(x) - half], np.array([np.median(y[k - half : k + half + 1]) for k in places])


def calibration_points(seed: int, rows: int = 60) -> pd.DataFrame:
    """Rows with independent errors, variances, distances and PITs."""
    rng = np.random.default_rng(seed)
    values = {"y": rng.normal(size=rows), "mean": rng.normal(size=rows), "variance": rng.gamma(2.0, size=rows)}
    values |= {
        "distance": rng.gamma(2.0, size=rows),
        "pit": rng.beta(0.5, 2.0, rows),
        "log_density": rng.normal(size=rows),
    }
    return pd.DataFrame({"row": np.arange(rows)} | values)


@pytest.fixture
def splits_of_star(results) -> pd.DataFrame:
    """Two splits of STAR on kin8nm: their rows together."""
    parts = [calibration_points(split) for split in range(2)]
    for split, part in enumerate(parts):
        write_toy(results, task="extrapolation", dataset="kin8nm", split=split, points=part)
    return pd.concat(parts, ignore_index=True)


def test_the_calibration_study_draws_running_medians_over_all_splits(drawn, splits_of_star):
    (figure,) = drawn("lindinger2020_fig3", "method=star", "split=range(2)")
    by_distance, by_variance = figure.axes
    rows = splits_of_star
    expected = running_median(rows["distance"].to_numpy(), rows["variance"].to_numpy())
    assert_drawn(by_distance, {"STAR L3": expected})
    # The median of a squared standard normal is the squared upper quartile of a normal, 0.6745^2 = 0.455.
    squared = (rows["y"] - rows["mean"]).to_numpy() ** 2 / norm.ppf(0.75) ** 2
    x, y = running_median(rows["variance"].to_numpy(), squared)
    assert_drawn(by_variance, {"STAR L3": (x, y), "y = x": ([x[0], x[-1]], [x[0], x[-1]])}, rtol=1e-9)


def test_the_reliability_diagram_of_all_splits(splits_of_star, results):
    item = items.load("lindinger2020_fig3", ["method=star", "split=range(2)", f"results_dir={results}"])
    figure = item_figures.figures(replace(item, figure="reliability_curves"), collect(results))["reliability_curves"]
    (diagram,) = figure.axes
    pit = splits_of_star["pit"].to_numpy()
    levels = np.arange(1, 20) / 20
    inside = [np.mean((pit >= 0.5 - p / 2) & (pit <= 0.5 + p / 2)) for p in levels]
    assert_drawn(diagram, {"STAR L3": (levels, inside), "calibrated": ([0, 1], [0, 1])})
    assert "nominal" in diagram.get_xlabel()
    assert "observed" in diagram.get_ylabel()


def synthetic_run(results: Path, posterior: dict[str, np.ndarray], **identity) -> pd.DataFrame:
    """A run on the synthetic data set bimodal with the data named in its record; its points with x."""
    from dgpbench.config.groups import describe
    from dgpbench.data import datasets

    table = datasets.load(describe("dataset", "bimodal"))
    rows = np.array([17, 3, 250, 101])
    points = toy_points(np.array([-1.0, -2.0, -3.0, -4.0]), 4).assign(row=rows)
    given = {"dataset": "bimodal", "protocol": "hernandez2018", "method": "mf"} | identity
    directory = write_toy(results, points=points, posterior=posterior, **given)
    forge(directory / "record.json", lambda record: record["data"].update(digest_xy=table.digest_xy))
    return points.assign(x=np.asarray(table.X)[rows, 0])


def test_draws_of_the_predictive_distribution_lie_over_the_test_data(drawn, results):
    samples = np.arange(6.0).reshape(2, 3)
    points = synthetic_run(results, {"grid_x": np.array([-1.0, 0.0, 2.0]), "grid_samples": samples})
    (figure,) = drawn("hernandez2018_fig521", "method=mf")
    (ax,) = panels(figure).values()
    draws, data = ax.collections
    assert draws.get_label().startswith("sample ")
    np.testing.assert_allclose(draws.get_offsets(), np.column_stack([[-1, 0, 2, -1, 0, 2], samples.ravel()]))
    np.testing.assert_allclose(data.get_offsets(), points[["x", "y"]])


def test_draws_of_two_methods_have_one_axis_of_y(drawn, results):
    for scale, method in ((1.0, "mf"), (50.0, "aepmcm")):
        grid = {"grid_x": np.array([-1.0, 0.0, 2.0]), "grid_samples": scale * np.arange(6.0).reshape(2, 3)}
        synthetic_run(results, grid, method=method)
    (figure,) = drawn("hernandez2018_fig521")
    first, second = (ax.get_ylim() for ax in panels(figure).values())
    assert first == second
    assert second[1] > 250


def test_without_draws_the_band_is_two_deviations_around_the_mean(drawn, results):
    points = synthetic_run(results, {"mean_1": np.zeros((1, 2))})
    (figure,) = drawn("hernandez2018_fig521", "method=mf")
    (ax,) = panels(figure).values()
    ordered = points.sort_values("x")
    assert_drawn(ax, {"predicted mean": (ordered["x"], ordered["mean"])})
    band, dots = ax.collections
    corners = {tuple(each) for each in np.round(band.get_paths()[0].vertices, 9)}
    for sign in (-2, 2):
        edge = ordered["mean"] + sign * np.sqrt(ordered["variance"])
        assert {tuple(each) for each in np.round(np.column_stack([ordered["x"], edge]), 9)} <= corners
    np.testing.assert_allclose(dots.get_offsets(), points[["x", "y"]])
    np.testing.assert_allclose(dots.get_array(), points["log_density"])


def draws_of_two_layers(results):
    """A run that kept 4 draws of y and 2 draws of a layer of two GPs at three inputs."""
    y = np.arange(12.0).reshape(4, 3)
    layer = np.arange(12.0).reshape(2, 3, 2)
    posterior = {"draws_x": np.array([-1.0, 0.5, 2.0]), "draws_y": y, "draws_of_layer_1": layer}
    write_toy(results, dataset="step", protocol="hernandez2018", method="aepmcm", num_layers=2, posterior=posterior)
    return y, layer


def histograms(ax: Axes) -> dict[str, tuple[float, float]]:
    """Label -> the ends of the first and the last bar's range that hold values."""
    return {each.get_label(): (each.get_xy()[:, 0].min(), each.get_xy()[:, 0].max()) for each in ax.patches}


def test_draws_of_y_are_drawn_at_each_input_beside_their_gaussian(drawn, results):
    y, _ = draws_of_two_layers(results)
    (figure,) = drawn("hernandez2018_fig433", "method=aepmcm")
    for (title, ax), x, values in zip(panels(figure).items(), (-1, 0.5, 2), y.T, strict=True):
        assert title.endswith(f"x = {x:.2g}")
        assert histograms(ax) == {"y (n = 4)": pytest.approx((values.min(), values.max()))}
        (line,) = ax.lines
        grid, density = line.get_data()
        np.testing.assert_allclose(density, norm.pdf(grid, values.mean(), values.std()))


def test_draws_of_every_layer_are_drawn_at_the_middle_input(drawn, results):
    y, layer = draws_of_two_layers(results)
    (figure,) = drawn("hernandez2018_fig432")
    hidden, output = panels(figure).values()
    assert list(histograms(hidden)) == ["$f^1_1$ (n = 2)", "$f^1_2$ (n = 2)"]
    heights = [patch.get_xy() for patch in hidden.patches]
    for corners, values in zip(heights, layer[:, 1].T, strict=True):
        filled = corners[corners[:, 1] > 0, 0]
        assert filled.min() <= values.min() <= values.max() <= filled.max()
    assert histograms(output) == {"y (n = 4)": pytest.approx((y[:, 1].min(), y[:, 1].max()))}


# Scores ---------------------------------------------------------------------------------------------------------------


def error_bars(ax: Axes, published: bool = False) -> list[tuple[float, float, float, float]]:
    """x, y, and both ends of the horizontal bar of each mark of ours, or of each cross."""
    found = []
    for container in ax.containers:
        assert isinstance(container, ErrorbarContainer)
        data, _, (bars,) = container
        if (data.get_marker() == "x") != published:
            continue
        for (x, y), segment in zip(np.column_stack(data.get_data()), bars.get_segments(), strict=True):
            assert segment[0, 1] == segment[1, 1] == y
            found.append((x, y, segment[0, 0], segment[1, 0]))
    return found


def test_score_dots_are_means_with_one_standard_error_either_side(drawn, results):
    rng = np.random.default_rng(8)
    wanted = {}
    for method, layers in (("sgp", 1), ("mf", 2), ("mf", 3)):
        wanted[method, layers] = values = rng.gamma(2.0, 1.0, 10) - 4
        for split, value in enumerate(values):
            write_toy(results, {"tll": value}, method=method, num_layers=layers, split=split)
    (_, ax), *_ = panels(drawn("lindinger2020_table1", "dataset=boston", "method=sgp,mf")[0]).items()
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["SGP L1", "MF L2", "MF L3"]
    dots = error_bars(ax)
    for place, values in enumerate(wanted.values()):
        x, y, low, high = dots[place]
        error = values.std(ddof=1) / np.sqrt(10)
        assert y == place
        np.testing.assert_allclose([x, low, high], [values.mean(), values.mean() - error, values.mean() + error])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first method is on top
    assert "test log-likelihood" in ax.get_xlabel()


def test_published_values_are_crosses_with_standard_errors(drawn, results):
    for split, value in enumerate((-2.0, -3.0)):
        write_toy(results, {"tll": value}, method="sgp", num_layers=1, split=split)
        write_toy(results, {"tll": value}, split=split)
    figure = drawn("lindinger2020_table1", "dataset=boston", "method=sgp,star", "split=range(2)")[0]
    (ax,) = panels(figure).values()
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["SGP L1", "STAR L2", "STAR L3"]
    printed = [of_item("lindinger2020_table1")["tll", "boston", *key] for key in (("sgp", 1), ("star", 2), ("star", 3))]
    assert [entry.text for entry in printed] == ["-2.58 (0.10)", "-2.47 (0.08)", "-2.43 (0.05)"]
    marks = error_bars(ax, published=True)  # one that we have not run yet is there too
    numbers = [(-2.58, -2.68, -2.48), (-2.47, -2.55, -2.39), (-2.43, -2.48, -2.38)]
    np.testing.assert_allclose([(x, low, high) for x, _, low, high in marks], numbers)
    ours = error_bars(ax)
    np.testing.assert_allclose([(x, y) for x, y, _, _ in ours], [(-2.5, 0), (-2.5, 2)])
    for place, (_, y, _, _) in enumerate(marks):
        assert place < y < place + 0.5  # under ours, nearer to its own line than to the next
    colours = [to_hex(c[0].get_color()) for c in ax.containers if c[0].get_marker() == "x"]
    assert colours == [COLOURS[name].lower() for name in ("sgp", "star", "star")]
    (legend,) = figure.legends
    assert [text.get_text().split()[0] for text in legend.get_texts()] == ["ours", "published"]


def test_a_published_number_without_a_standard_error_has_no_bar(drawn, results):
    identity = {"task": "fixed", "dataset": "year", "method": "aep", "protocol": "hernandez2018"}
    write_toy(results, {"rmse": 9.5, "tll": -3.7}, **identity)
    (figure, *_) = drawn("hernandez2018_table531", "method=aep")
    printed = of_item("hernandez2018_table531")
    for ax, metric in zip(figure.axes, ("seconds_per_step", "rmse", "tll"), strict=False):
        entry = printed[metric, "year", "aep", 3]
        assert entry.stderr is None
        ((x, _, low, high),) = error_bars(ax, published=True)
        assert (x, low, high) == (entry.value,) * 3


def test_a_figure_of_a_tables_runs_shows_the_tables_published_numbers(drawn, results):
    write_toy(results, {"rmse": 3.0}, method="aep", num_layers=2, protocol="hernandez2018")
    figure = drawn("hernandez2018_fig511", "dataset=boston", "method=aep", "method.num_layers=2", "split=0")[0]
    ((x, _, low, high),) = error_bars(figure.axes[0], published=True)
    entry = of_item("hernandez2018_table511")["rmse", "boston", "aep", 2]
    np.testing.assert_allclose([x, low, high], [entry.value, entry.value - entry.stderr, entry.value + entry.stderr])


def test_a_score_that_was_not_published_has_no_mark_and_no_legend(drawn, results):
    write_toy(results, {"rmse": 3.0}, method="mf", num_layers=3, protocol="jain2021")
    figure = drawn("jain2021_fig4", "dataset=boston", "method=mf", "method.num_layers=3", "split=0")[0]
    assert error_bars(figure.axes[0], published=True) == []
    assert figure.legends == []


def test_an_incomplete_mean_is_hollow_and_shows_its_count(drawn, results):
    for split, value in enumerate((-2.0, -3.0, -2.2)):
        write_toy(results, {"tll": value}, split=split)
        write_toy(results, {"tll": value}, split=split, num_layers=2)
    write_toy(results, {"tll": -1.0}, split=3, num_layers=2)
    figure = drawn("lindinger2020_table1", "dataset=boston", "method=star", "split=range(4)")[0]
    (ax,) = panels(figure).values()
    ours = [c[0] for c in ax.containers if c[0].get_marker() != "x"]
    assert [to_hex(mark.get_markeredgecolor()) for mark in ours] == [COLOURS["star"].lower()] * 2
    assert [to_hex(mark.get_markerfacecolor()) for mark in ours] == [COLOURS["star"].lower(), "#ffffff"]
    assert [text.get_text() for text in ax.texts] == ["3/4"]
    assert ax.texts[0].xy == pytest.approx((-2.4, 1))
    (legend,) = figure.legends
    assert "incomplete: done/wanted splits" in [text.get_text() for text in legend.get_texts()]


def test_direct_comparisons_have_a_line_where_neither_side_is_better(drawn, results):
    for split in range(2):
        identity = {"task": "extrapolation", "split": split}
        wins = np.where(np.arange(20) < 12 + split, 1.0, -1.0)
        write_toy(results, method="star", points=toy_points(wins, seed=split), **identity)
        write_toy(results, method="mf", points=toy_points(0.0, seed=split), **identity)
    (figure,) = drawn("lindinger2020_table2", "dataset=boston", "method=star,mf", "split=range(2)")
    (ax,) = panels(figure).values()
    ((x, _, low, high),) = error_bars(ax)
    np.testing.assert_allclose([x, low, high], [0.625, 0.6, 0.65])  # of 0.60 and 0.65: mean and half the distance
    (line,) = [line for line in ax.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(line.get_xdata(), 0.5)


# Ranks ----------------------------------------------------------------------------------------------------------------

# tll of sgp, mf L2 and mf L3 on two splits of each of three data sets. Means over splits rank mf L3, mf L2, sgp on the
# first two data sets and mf L2, mf L3, sgp on the third.
RANKED = {
    "boston": [(-3.0, -2.5, -2.0), (-3.1, -2.6, -2.1)],
    "energy": [(-3.0, -2.9, -2.0), (-2.5, -2.0, -2.2)],
    "concrete": [(-3.0, -2.0, -2.4), (-3.0, -2.0, -1.9)],
}


@pytest.fixture
def ranked(drawn, results) -> list[Figure]:
    for dataset, splits in RANKED.items():
        for split, scores in enumerate(splits):
            for (method, layers), score in zip((("sgp", 1), ("mf", 2), ("mf", 3)), scores, strict=True):
                write_toy(results, {"tll": score}, method=method, num_layers=layers, dataset=dataset, split=split)
    return drawn("lindinger2020_table1", "dataset=boston,energy,concrete", "method=sgp,mf", "split=range(2)")


def test_the_critical_difference_diagram_shows_mean_ranks_over_data_sets(ranked):
    _, figure, _ = ranked
    (ax,) = figure.axes
    dots = [float(dot.get_offsets()[0][0]) for dot in ax.collections]
    np.testing.assert_allclose(sorted(dots), [4 / 3, 5 / 3, 3])
    assert {text.get_text().strip() for text in ax.texts} == {"MF L3 (1.33)", "MF L2 (1.67)", "SGP L1 (3.00)"}
    # Demsar's Table 5 has q = 2.343 for three methods at 0.05; the difference is q sqrt(k (k + 1) / (6 N)).
    difference = 2.343 * np.sqrt(3 * 4 / (6 * 3))
    assert f"ranks at most {difference:.2f} apart" in ax.get_xlabel()
    # 3 - 4/3 is less than 1.913: one bar joins all three.
    bars = [line.get_xdata() for line in ax.lines if line.get_linewidth() == 3]
    assert [(min(bar), max(bar)) for bar in bars] == [pytest.approx((4 / 3, 3))]
    assert "over 3 data sets" in ax.get_xlabel()
    assert ax.get_xticks().tolist() == [1, 2, 3]
    assert "Data sets: boston, energy, concrete." in " ".join(figure.get_supxlabel().split())


def test_the_probability_of_improvement_is_the_share_of_splits_won(ranked):
    *_, figure = ranked
    (ax,) = figure.axes
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["MF L3 beats SGP L1", "MF L3 beats MF L2"]  # from below: the worst method is lowest
    dots = error_bars(ax)
    assert dots[0] == (1.0, 0.0, 1.0, 1.0)
    # MF L3 beats MF L2 on 2 of 2, 1 of 2 and 1 of 2 splits. Resampled, the wins are 2 + Binomial(4, 1/2) of 6.
    assert dots[1][0] == pytest.approx(4 / 6)
    assert binom.cdf(0, 4, 0.5) > 0.05  # so that the 95 % interval reaches both ends
    np.testing.assert_allclose(dots[1][1:], [1.0, 2 / 6, 1.0])


@pytest.mark.parametrize(
    ("won", "expected"),
    [
        # Resampled wins are Binomial(8, 1/2) of 8: 0.4 % at most none, 3.5 % at most one, so 2.5 % lies at one.
        ((2, 2), (1 / 2, 1 / 8, 7 / 8)),
        # They are 4 + Binomial(4, 3/4) of 8: 0.4 % at most four, 5.1 % at most five, so 2.5 % lies at five.
        ((4, 3), (7 / 8, 5 / 8, 1.0)),
    ],
)
def test_the_interval_of_an_improvement_is_that_of_the_binomial(drawn, results, won, expected):
    for dataset, count in zip(("boston", "energy"), won, strict=True):
        for split in range(4):
            write_toy(results, {"tll": -2.0}, method="mf", num_layers=2, dataset=dataset, split=split)
            other = {"tll": -1.9 if split < count else -2.1}
            write_toy(results, other, method="mf", num_layers=3, dataset=dataset, split=split)
    *_, figure = drawn("lindinger2020_table1", "dataset=boston,energy", "method=mf", "split=range(4)")
    ((x, _, low, high),) = error_bars(figure.axes[0])
    (name,) = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert (x, low, high) == pytest.approx(expected)
    assert name == ("MF L2 beats MF L3" if won == (2, 2) else "MF L3 beats MF L2")  # a tie keeps the table's order


# One run --------------------------------------------------------------------------------------------------------------


def test_the_picture_of_a_run_shows_its_own_points_and_trace(saved, results):
    points, trace = calibration_points(1, 40), trace_of(4)
    trace.loc[::2, "validation_tll"] = np.nan
    trace.loc[3, "elbo"] = np.nan
    scores = {"tll": -2.4321, "rmse": 3.0, "crps": 0.5, "coverage_95": 0.875}
    save_run_figure(write_toy(results, scores, points=points, trace=trace))
    (figure,) = saved
    observed, histogram, training, validation = figure.axes
    # Predicted against observed, in the order of y, with two deviations either side.
    ordered = points.sort_values("y")
    data, _, (bars,) = observed.containers[0]
    np.testing.assert_allclose(data.get_data(orig=False), [ordered["y"], ordered["mean"]])
    reach = 2 * np.sqrt(ordered["variance"])
    ends = [segment[:, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, np.column_stack([ordered["mean"] - reach, ordered["mean"] + reach]))
    (diagonal,) = [line for line in observed.lines if hasattr(line, "get_slope")]
    assert diagonal.get_slope() == 1
    assert diagonal.get_xy1()[0] == diagonal.get_xy1()[1]
    # Ten bins of the PIT, and the central 95 % of Binomial(40, 1/10) as a density.
    counts = [sum((points["pit"] >= low) & (points["pit"] < low + 0.1)) for low in np.arange(10) / 10]
    np.testing.assert_allclose([bar.get_height() for bar in histogram.containers[0]], np.array(counts) / 4)
    (band,) = [patch for patch in histogram.patches if patch.get_label().startswith("95 %")]
    box = band.get_extents().transformed(histogram.transData.inverted())
    cumulative = binom.cdf(np.arange(41), 40, 0.1)
    low, high = (int(np.argmax(cumulative >= p)) for p in (0.025, 0.975))
    np.testing.assert_allclose([box.y0, box.y1], [low / 4, high / 4], atol=1e-9)
    # The trace, without what is not finite; held-out rows on the other axis.
    finite, held = trace.dropna(subset="elbo"), trace.dropna(subset="validation_tll")
    np.testing.assert_allclose(training.lines[0].get_data(), [finite["iteration"], finite["elbo"]])
    np.testing.assert_allclose(validation.lines[0].get_data(), [held["iteration"], held["validation_tll"]])
    low, high = np.quantile(finite["elbo"], 0.05), finite["elbo"].max()
    margin = 0.08 * (high - low)
    np.testing.assert_allclose(training.get_ylim(), [low - margin, high + margin])
    title = figure.get_suptitle()
    assert "TLL -2.432 nats,  RMSE 3 units of y,  CRPS 0.5 units of y\n" in title
    inside = [p for p in (35, 36) if binom.cdf(p, 40, 0.95) >= 0.025]  # the fewest of 40 rows that chance explains
    assert f"95 % intervals hold 87.5 % of 40 rows, within chance ({100 * inside[0] / 40:.1f} % to 100.0 %)" in title
    assert observed.get_xlim() == observed.get_ylim()
    assert observed.get_box_aspect() == 1
    assert band.get_zorder() < min(bar.get_zorder() for bar in histogram.containers[0])
    assert title.startswith("star (L = 3) on boston, interpolation, split 0, seed 0; lindinger2020-paper")
