"""Values plotted by figures of posteriors, training and the time of a step, read from their axes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from figure_axes import assert_drawn, factor_of, line_of, lines, panels, stored, trace_of
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from scipy.stats import chi2, kurtosistest, norm, skewtest
from toys import toy_trace, write_toy

from dgpbench.cli import main
from dgpbench.report.figures.style import COLOURS


def assert_heatmap(ax: Axes, matrix: np.ndarray, *, beside: Sequence[np.ndarray] = ()) -> None:
    """:param beside: the matrices of all panels, which have one scale"""
    (image,) = ax.images
    shown = np.ma.filled(image.get_array(), np.nan)
    zero = matrix == 0
    np.testing.assert_allclose(shown[~zero], np.log10(np.abs(matrix[~zero])), atol=1e-8)
    assert np.isnan(shown[zero]).all()
    logs = [np.log10(np.abs(each[each != 0])) for each in beside or [matrix]]
    low, high = min(max(each.min(), each.max() - 8) for each in logs), max(each.max() for each in logs)
    np.testing.assert_allclose(image.get_clim(), (low, high), atol=1e-8)
    assert image.origin == "upper"  # the first row is on top, as a matrix is written


def assert_correlations(ax: Axes, S: np.ndarray) -> None:
    """Marks of FC, with two independent GPs in the first layer here (``factor_of``)."""
    R = np.abs(S) / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    expected = {"one GP": [R[0, 1], R[2, 3], R[4, 5]], "arrow": R[:4, 4:]}
    assert [text.get_text() for text in ax.get_yticklabels()] == list(expected)
    (line,) = [line for line in ax.lines if line.get_label() == "FC L3"]
    rms = [np.sqrt(np.mean(np.square(values))) for values in expected.values()]
    np.testing.assert_allclose(line.get_xydata(), np.column_stack([rms, range(2)]))


def test_heatmaps_show_the_logarithm_of_the_covariance_of_each_method(drawn, results):
    for seed, method in enumerate(("mf", "star", "fc")):
        write_toy(results, method=method, dataset="concrete", posterior=stored(factor_of(seed)))
    figure, beside = drawn("lindinger2020_fig1")
    assert_correlations(panels(beside)["concrete, L = 3"], factor_of(2) @ factor_of(2).T)
    shown = panels(figure)
    assert list(shown) == [f"{method} L3, concrete, split 0" for method in ("MF", "STAR", "FC")]
    matrices = [factor_of(seed) @ factor_of(seed).T for seed in range(3)]
    for matrix, ax in zip(matrices, shown.values(), strict=True):
        assert_heatmap(ax, matrix, beside=matrices)


def test_heatmaps_at_four_layers_show_covariance_and_then_precision(drawn, results):
    C = factor_of(7)
    write_toy(results, method="fc", num_layers=4, overrides={"method.width": 3}, posterior=stored(C))
    figure, _ = drawn("lindinger2020_figs8", "method=fc", "method.num_layers=4", "dataset=boston")
    first, second = [ax for ax in figure.axes if ax.images]
    assert_heatmap(first, C @ C.T)
    precision = np.linalg.inv(C @ C.T)
    (image,) = second.images
    np.testing.assert_allclose(np.ma.filled(image.get_array(), np.nan), np.log10(np.abs(precision)), atol=1e-6)


def test_a_heatmap_has_lines_between_gps_and_a_label_for_each_layer(drawn, results):
    write_toy(results, method="fc", dataset="concrete", posterior=stored(factor_of(0)))
    figure, _ = drawn("lindinger2020_fig1", "method=fc")
    (ax,) = panels(figure).values()
    across = sorted(line.get_ydata()[0] for line in ax.lines if line.get_ydata()[0] == line.get_ydata()[1])
    assert across == [1.5, 3.5]
    assert [(text.get_text(), place) for text, place in zip(ax.get_xticklabels(), ax.get_xticks(), strict=True)] == [
        ("1", 1.5),
        ("2", 4.5),
    ]


def normality_p(values: np.ndarray) -> float:
    """D'Agostino and Pearson: the squares of the tests of skewness and kurtosis, chi-squared with two degrees."""
    return float(chi2.sf(skewtest(values).statistic ** 2 + kurtosistest(values).statistic ** 2, 2))


def test_normality_shows_one_output_and_all_p_values_in_order(drawn, results):
    samples = np.random.default_rng(3).normal(size=(100, 1, 9))
    samples[:, 0, 4] = np.exp(samples[:, 0, 4]) + 2
    overrides = {"prediction.num_samples": 100}
    write_toy(results, method="sghmc", num_layers=1, posterior={"samples_1": samples}, overrides=overrides)
    (figure,) = drawn("lindinger2020_figs6")
    histogram, p_values = panels(figure).values()
    chosen = np.random.default_rng(0).integers(9)  # the same in every picture
    values, p = samples[:, 0, chosen], np.sort([normality_p(samples[:, 0, k]) for k in range(9)])
    # Left: ten bins (the root of 100) from the least to the greatest value, and the fitted normal.
    heights, edges = np.histogram(values, 10, density=True)
    bars = histogram.containers[0]
    np.testing.assert_allclose([bar.get_height() for bar in bars], heights)
    np.testing.assert_allclose([bar.get_x() for bar in bars], edges[:-1])
    ((label, (grid, density)),) = lines(histogram).items()
    assert label == f"fitted normal (p = {normality_p(values):.2g})"
    np.testing.assert_allclose(density, norm.pdf(grid, values.mean(), values.std(ddof=1)))
    # Right: sorted p-values, what normal samples would give, and the paper's level.
    shown = lines(p_values)
    np.testing.assert_allclose(shown["9 inducing outputs"], [np.arange(1, 10), p])
    np.testing.assert_allclose(
        shown["expected of normal samples"], [np.arange(1, 10), np.linspace(0.5 / 9, 8.5 / 9, 9)]
    )
    assert p[0] < 1e-5 < p[1]
    np.testing.assert_allclose(shown["level 1e-05, corrected (1 below)"][1], [1e-5] * 2)


def test_the_elbo_is_drawn_against_seconds_from_each_methods_own_trace(drawn, results):
    fixed = {"training.batch_size": 1030, "training.early_stopping": False}
    traces = {"fc": trace_of(0), "fc_mc": trace_of(1)}
    for (method, trace), steps in zip(traces.items(), (750, 1500), strict=True):
        overrides = {"training.max_iterations": steps, **fixed}
        write_toy(results, method=method, dataset="concrete", trace=trace, overrides=overrides)
    (figure,) = drawn("lindinger2020_fig2")
    ax = panels(figure)["concrete"]
    names = {"FC L3": traces["fc"], "FC-MC L3": traces["fc_mc"]}
    assert_drawn(ax, {name: (trace["seconds"], trace["elbo"]) for name, trace in names.items()})
    assert ax.get_xlabel() == "training time (s)"
    assert to_hex(line_of(ax, "FC-MC L3").get_color()) == COLOURS["fc_mc"].lower()


def test_the_first_plunge_is_left_out_of_the_view_and_nothing_else(drawn, results):
    elbo = np.concatenate([[-4e4, -3e4], np.linspace(-120, -100, 48)])
    trace = trace_of(0, 50).assign(elbo=elbo)
    overrides = {"training.max_iterations": 750, "training.batch_size": 1030, "training.early_stopping": False}
    write_toy(results, method="fc", dataset="concrete", trace=trace, overrides=overrides)
    (figure,) = drawn("lindinger2020_fig2", "method=fc")
    low, high = np.quantile(elbo, 0.1), elbo.max()
    expected = low - 0.2 * (high - low), high + 0.1 * (high - low)
    np.testing.assert_allclose(panels(figure)["concrete"].get_ylim(), expected)


def test_training_curves_draw_each_quantity_against_iterations(drawn, results):
    trace = trace_of(2).assign(test_tll=np.linspace(-3, -2, 30), test_rmse=np.linspace(9, 3, 30))
    trace.loc[::2, "validation_tll"] = np.nan  # taken at every second recorded iteration
    traced = {"training.trace_test": True}
    write_toy(results, method="mf", protocol="jain2021", trace=trace, overrides=traced)
    (figure,) = drawn("jain2021_fig11", "method=mf")
    shown = {ax.get_ylabel().split(" (")[0]: ax for ax in figure.axes if ax.axison}
    assert list(shown) == ["ELBO", "test TLL", "test RMSE", "held-out TLL"]
    columns = {"ELBO": "elbo", "test TLL": "test_tll", "test RMSE": "test_rmse", "held-out TLL": "validation_tll"}
    for quantity, ax in shown.items():
        kept = trace.dropna(subset=columns[quantity])
        assert_drawn(ax, {"MF L3": (kept["iteration"], kept[columns[quantity]])})


def test_boxes_are_quartiles_of_the_final_elbos_over_splits(drawn, results):
    rng, ends = np.random.default_rng(5), {}
    for place, method in enumerate(("mf", "star")):
        ends[method] = []
        for split in range(10):
            elbo = rng.normal(-500 + 100 * place, 30, 20)
            elbo[:18] += 1e4 * rng.random(18)  # the largest values are not the last
            ends[method].append(elbo[18:].mean())  # of the last tenth of 20 rows
            write_toy(results, method=method, split=split, trace=toy_trace(0.0, 20).assign(elbo=elbo))
    (figure,) = drawn("lindinger2020_figs5", "dataset=boston")
    ax = panels(figure)["boston"]
    for patch, method in zip(ax.patches, ("mf", "star"), strict=True):
        heights = patch.get_path().vertices[:, 1]
        quartiles = np.percentile(ends[method], [25, 75])
        np.testing.assert_allclose([heights.min(), heights.max()], quartiles)
        assert to_hex(patch.get_facecolor()) == COLOURS[method].lower()
    medians = [line.get_ydata()[0] for line in ax.lines if line.get_color() == "black" and len(line.get_xdata()) == 2]
    for method in ends:
        assert any(np.isclose(np.median(ends[method]), medians))
    # Whiskers reach the last value within one and a half box heights; each caps at one of ours.
    reach = {round(float(y), 6) for line in ax.lines for y in line.get_ydata()}
    for values in ends.values():
        low, high = np.percentile(values, [25, 75])
        inside = [each for each in values if low - 1.5 * (high - low) <= each <= high + 1.5 * (high - low)]
        assert {round(min(inside), 6), round(max(inside), 6)} <= reach
    assert [text.get_text() for text in ax.get_xticklabels()] == ["MF L3\nn = 10", "STAR L3\nn = 10"]


def test_scores_along_the_trace_are_drawn_against_seconds(drawn, results):
    trace = trace_of(1).assign(test_rmse=np.linspace(9, 3, 30), test_tll=np.linspace(-3, -2, 30))
    seconds = {"tracing": 5.0, "training": 40.0, "prediction": 7.0, "total": 52.0}
    identity = {"task": "fixed", "dataset": "year", "method": "mf", "protocol": "hernandez2018"}
    overrides = {"training.num_samples": 10, "training.trace_test": True}
    write_toy(
        results, {"rmse": 3.5, "tll": -2.25}, trace=trace, overrides=overrides, record={"seconds": seconds}, **identity
    )
    (figure,) = drawn("hernandez2018_fig531", "method=mf")
    for ax, metric in zip(figure.axes, ("rmse", "tll"), strict=True):
        assert_drawn(ax, {"MF R10 L3": (trace["seconds"], trace[f"test_{metric}"])})
        assert ax.get_xscale() == "log"
        assert {"rmse": "RMSE", "tll": "test log-likelihood"}[metric] in ax.get_ylabel()


def test_scores_along_the_trace_need_a_run_that_traced_them(results, capsys):
    identity = {"task": "fixed", "dataset": "year", "method": "aep", "protocol": "hernandez2018"}
    write_toy(results, {"rmse": 3.5}, trace=trace_of(1), overrides={"training.trace_test": False}, **identity)
    untraced = ["hernandez2018_fig531", "method=aep", "training.trace_test=false", f"results_dir={results}"]
    assert main(["figure", *untraced]) == 2
    assert "nothing to draw as score_against_seconds" in capsys.readouterr().err


# Time of a step -------------------------------------------------------------------------------------------------------

FIG4 = {"training.max_iterations": 2000, "training.early_stopping": False}


def test_the_time_of_a_step_is_drawn_against_m_with_the_slope_of_theory(drawn, results):
    seconds = {"star": [1.0, 3.0, 14.0, 60.0], "sgp": []}["star"]
    for M, training in zip((32, 64, 128, 256), seconds, strict=True):
        record = {"seconds": {"tracing": 50.0, "training": training, "prediction": 1.0, "total": 99.0}}
        overrides = {"method.num_inducing": M, **FIG4}
        write_toy(results, method="star", dataset="protein", overrides=overrides, record=record | {"iterations": 2000})
    (figure,) = drawn("lindinger2020_fig4", "method=star")
    ax = panels(figure)["against M"]
    steps = np.array(seconds) / 2000
    measured, theory = ax.lines[:2]
    np.testing.assert_allclose(measured.get_data(), [[32, 64, 128, 256], steps])
    # The quadratic forms of a step cost M^2: a line of slope two through the largest size.
    np.testing.assert_allclose(theory.get_data(), [[32, 64, 128, 256], steps[-1] / np.array([64, 16, 4, 1])])
    assert measured.get_label() == "STAR (slope 2)"
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["32", "64", "128", "256"]


def test_timings_are_drawn_along_each_size_at_usual_other_sizes(drawn, results):
    rows = [("mf", M, 3, 5, M / 16) for M in (64, 128, 256)]
    rows += [("mf", 128, L, 5, 2.0 * L) for L in (2, 5)] + [("mf", 128, 3, tau, 1.0 * tau) for tau in (2, 8)]
    bench = pd.DataFrame(rows, columns=["method", "M", "L", "tau", "ms_per_step"])
    bench = bench.assign(code="dgpbench", data="protein", B=512, R=5, precision="float64", threads=1)
    others = [
        bench[:1].assign(ms_per_step=99.0, **given) for given in ({"code": "gpflux"}, {"method": "sod"}, {"B": 1})
    ]
    folder = results / "bench"
    folder.mkdir(parents=True)
    pd.concat([bench, *others]).to_csv(folder / "a.csv", index=False)
    (figure,) = drawn("lindinger2020_figs7")
    assert "timings of bench steps" in figure.get_suptitle()
    shown = panels(figure)
    assert [len(ax.lines) for ax in shown.values()] == [
        3,
        3,
        3,
    ]  # measured, the slope of theory, its entry in the legend
    expected = {
        "M": ([64, 128, 256], [0.004, 0.008, 0.016], 2),
        "L": ([2, 3, 5], [0.004, 0.008, 0.010], 1),
        "tau": ([2, 5, 8], [0.002, 0.008, 0.008], 1),
    }
    assert list(shown) == [f"against {size}" for size in expected]
    for size, (x, y, slope) in expected.items():
        measured, theory = shown[f"against {size}"].lines[:2]
        np.testing.assert_allclose(measured.get_data(), [x, y])
        np.testing.assert_allclose(theory.get_data(), [x, y[-1] * (np.array(x) / x[-1]) ** slope])


@pytest.mark.parametrize(
    ("method", "slopes"),
    [("mf", (2, 1, 1)), ("star", (2, 2, 1)), ("fc", (2, 2, 2)), ("fc_mc", (2, 2, 2)), ("sgp", (None,) * 3)],
)
def test_slopes_of_theory_count_the_covariance_blocks(method, slopes):
    # A step costs N M^2 for each block: mean field has tau L of them, STAR's stripes tau L^2, a full matrix (tau L)^2.
    from dgpbench.report.figures.timing import along

    bench = pd.DataFrame([(method, 128, 3, 5, 1.0)], columns=["method", "M", "L", "tau", "ms_per_step"])
    found = [along(bench, size)["exponent"].iloc[0] for size in ("M", "L", "tau")]
    assert [None if np.isnan(each) else each for each in found] == list(slopes)
