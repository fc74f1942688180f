"""Which panels make the figure of an item: from its runs to frames, from frames to panels.

A layout is a function ``(item, runs) -> panels`` under the name that ``figure:`` in an item's YAML gives.
``runs`` is the item's selection of records, done ones only, as ``cells.select`` gives it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from dgpbench.experiments.items import Item
from dgpbench.predictive.scores import METRICS
from dgpbench.report import calibration_study as numbers
from dgpbench.report import cells, covariances, published, step_times
from dgpbench.report.figures import calibration, posterior, scores, sources, synthetic, timing, training
from dgpbench.report.figures.panels import Panel
from dgpbench.report.figures.style import label
from dgpbench.runs import store

Layout = Callable[[Item, pd.DataFrame], list[Panel]]
LAYOUTS: dict[str, Layout] = {}
QUANTITIES = ("elbo", "test_tll", "test_rmse", "validation_tll")
SQUARE, WIDE, NARROW = (3.9, 3.0), (4.2, 3.1), (3.5, 2.7)
MOST = 8  # curves of a panel that can be told apart


def layout(function: Layout) -> Layout:
    """Register a layout under its own name."""
    LAYOUTS[function.__name__] = function
    return function


def _curves(
    dataset: str, draw: Callable, frame: pd.DataFrame, runs: pd.DataFrame, size: tuple[float, float] = WIDE
) -> list[Panel]:
    """Panels of a data set's curves: at most MOST in colour, all depths of a method together, and the others in grey.

    :param frame: what the function draws, with columns method and num_layers
    :param runs: those of the item, which say which cells are incomplete
    """
    counts = runs[runs["dataset"] == dataset].assign(method=lambda rows: rows["series"])
    counts = counts[["method", "num_layers", "count", "wanted"]].drop_duplicates()
    frame = frame.merge(counts, how="left", on=["method", "num_layers"])
    groups: list[list[str]] = [[]]
    room = MOST
    for method, depths in frame.groupby("method", sort=False)["num_layers"].nunique().items():
        if depths > room and groups[-1]:
            groups.append([])
            room = MOST
        groups[-1].append(str(method))
        room -= depths
    if len(groups) == 1:
        return [Panel(dataset, draw, frame, size)]
    parts = (frame.assign(behind=~frame["method"].isin(names)) for names in groups)
    ordered = [part.sort_values("behind", ascending=False, kind="stable") for part in parts]
    titles = [f"{dataset} ({number} of {len(groups)})" for number in range(1, len(groups) + 1)]
    return [Panel(title, draw, part, size) for title, part in zip(titles, ordered, strict=True)]


# Posteriors -----------------------------------------------------------------------------------------------------------


@layout
def covariance(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Covariance of q after training; precision too at the depths in ``options.precision_layers`` (Figs. 1 and S8)."""
    deep = np.atleast_1d(item.options.get("precision_layers", []))
    panels = []
    for (num_layers, _), rows in runs.groupby(["num_layers", "dataset"], sort=False):
        found = [(title, sources.posterior(run)) for title, run in sources.first_of_each(rows)]
        panels += [
            Panel(t, posterior.covariance_heatmap, covariances.covariance(arrays), SQUARE, comparable=True)
            for t, arrays in found
        ]
        if num_layers in deep:
            panels += [
                Panel(t, posterior.precision_heatmap, covariances.precision(arrays), SQUARE, comparable=True)
                for t, arrays in found
            ]
    return panels


@layout
def block_correlations(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Correlations by the kind of block of the covariance: stripes, arrow and the rest, one panel for each data set."""
    panels = []
    for (num_layers, dataset), rows in runs.groupby(["num_layers", "dataset"], sort=False):
        frames = [
            covariances.correlations(sources.posterior(run)).assign(method=run["series"], num_layers=num_layers)
            for _, run in sources.first_of_each(rows)
        ]
        if len(frame := pd.concat(frames)):  # nothing is correlated before training
            panels.append(Panel(f"{dataset}, L = {num_layers}", posterior.block_correlations, frame, WIDE))
    return panels


@layout
def normality(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """The least normal inducing output of SGHMC, and the p-values of all (Fig. S6)."""
    panels = []
    for title, run in sources.first_of_each(runs):
        draws = covariances.samples(sources.posterior(run))
        tests = covariances.normality(draws)
        worst = tests.loc[tests["p_value"].idxmin()]
        values = draws[worst["output"]]
        fitted = {"mean": values.mean(), "deviation": values.std(), "p_value": worst["p_value"]}
        frame = pd.DataFrame({"value": values}).assign(**fitted)
        panels.append(Panel(f"{title}: least normal", posterior.sample_histogram, frame, WIDE))
        panels.append(Panel(title, posterior.normality_p_values, tests, WIDE))
    return panels


# Training -------------------------------------------------------------------------------------------------------------


@layout
def elbo_against_seconds(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """The ELBO as training goes on (Fig. 2)."""
    panels = []
    for name, rows in sources.per_dataset(sources.tables(runs, store.TRACE)):
        panels += _curves(name, training.elbo_against_seconds, rows, runs)
    return panels


@layout
def training_curves(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Every quantity that the traces keep, against iterations (Jain et al. 2021, Fig. 11)."""
    panels = []
    for dataset, rows in sources.per_dataset(sources.tables(runs, store.TRACE)):
        for quantity in [name for name in QUANTITIES if name in rows and rows[name].notna().any()]:
            frame = rows.assign(value=rows[quantity].astype(float), quantity=quantity)
            panels += _curves(dataset, training.training_curves, frame, runs, NARROW)
    return panels


@layout
def elbo_boxes(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Final ELBO of every split (Fig. S5)."""
    frame = runs.assign(method=runs["series"], elbo=cells.value_of("elbo")(runs))
    frame = frame.assign(count=frame.groupby(cells.KEYS)["elbo"].transform("count"))
    return [Panel(name, scores.elbo_boxes, rows) for name, rows in sources.per_dataset(frame)]


@layout
def score_against_seconds(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """RMSE and TLL against seconds, along the trace where it has them, else at the end (thesis, Fig. 5.3)."""
    panels = []
    for metric in ("rmse", "tll"):
        for dataset, rows in sources.per_dataset(_scores_in_time(runs, metric)):
            panels += _curves(dataset, scores.score_against_seconds, rows.assign(metric=metric), runs)
    return panels


def _scores_in_time(runs: pd.DataFrame, metric: str) -> pd.DataFrame:
    traced = sources.tables(runs, store.TRACE)
    if f"test_{metric}" in traced:
        rows = traced.dropna(subset=[f"test_{metric}"])
        return rows.assign(score=rows[f"test_{metric}"].astype(float))
    at_end = runs.drop(columns=["count", "wanted"]).assign(method=runs["series"], run=runs["path"])
    return at_end.assign(seconds=runs["seconds_training"], score=runs[metric])


@layout
def seconds_per_step(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Time of a step along ``options.along`` (Figs. 4 and S7), from runs or else results/bench/*.csv."""
    methods = list(dict.fromkeys(cells.wanted(item)["series"]))
    bench = sources.timings(runs, Path(item.results_dir, "bench"), methods)
    sizes = [sources.ALONG[key] for key in item.options.get("along", sources.ALONG)]
    frames = {size: step_times.along(bench, size) for size in sizes}
    return [Panel(f"against {size}", timing.seconds_per_step, frame, WIDE) for size, frame in frames.items()]


# Predictions ----------------------------------------------------------------------------------------------------------


@layout
def calibration_study(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Variance against distance, squared error against variance, all test rows of all splits together (Fig. 3)."""
    panels = []
    for dataset, rows in sources.per_dataset(sources.tables(runs, store.POINTS)):
        by_distance, by_variance = numbers.variance_along_distance(rows), numbers.error_along_variance(rows)
        panels += _curves(dataset, calibration.variance_against_distance, by_distance, runs)
        panels += _curves(dataset, calibration.error_against_variance, by_variance, runs)
    return panels


@layout
def reliability(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """PIT histogram and reliability diagram of each data set."""
    panels = []
    for dataset, rows in sources.per_dataset(sources.tables(runs, store.POINTS)):
        panels += _curves(dataset, calibration.pit_histogram, numbers.pit_density(rows), runs)
        panels += _curves(dataset, calibration.reliability_diagram, numbers.reliability(rows), runs)
    return panels


@layout
def reliability_curves(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Reliability diagram of each data set, all splits together, of complete cells; compact records are enough."""
    panels = []
    for name, rows in sources.per_dataset(runs[runs["count"] >= runs["wanted"]]):
        if len(frame := numbers.reliability_of_runs(rows.assign(method=rows["series"]))):
            panels += _curves(name, calibration.reliability_diagram, frame, runs)
    return panels


@layout
def predictive_samples(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Draws from the predictive distribution where a run kept them (``grid_x`` [G], ``grid_samples`` [S, G]), else
    mean and deviation at the test rows: draws from those two moments would hide a second mode (thesis, Fig. 5.2)."""
    panels = []
    for title, run in sources.first_of_each(runs):
        points, grid = sources.with_inputs(run), sources.posterior(run)
        if "grid_samples" in grid:
            x = np.tile(grid["grid_x"], len(grid["grid_samples"]))
            drawn = pd.DataFrame({"x": x, "y": grid["grid_samples"].ravel()}).assign(kind="sample")
            frame = pd.concat([drawn, points[["x", "y"]].assign(kind="test data")], ignore_index=True)
            panels.append(Panel(title, synthetic.predictive_samples, frame, WIDE, comparable=True))
        else:
            panels.append(Panel(title, synthetic.predictive_band, points, WIDE, comparable=True))
    return panels


@layout
def predictive_densities(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """The predictive density on a grid where a run kept it (``grid_x`` [G], ``grid_y`` [K], ``grid_density`` [G, K]),
    else mean and deviation at the test rows (thesis, Fig. 4.3)."""
    panels = []
    for title, run in sources.first_of_each(runs):
        grid = sources.posterior(run)
        if "grid_density" in grid:
            x, y = np.meshgrid(grid["grid_x"], grid["grid_y"], indexing="ij")
            frame = pd.DataFrame({"x": x.ravel(), "y": y.ravel(), "density": grid["grid_density"].ravel()})
            panels.append(Panel(title, synthetic.predictive_density, frame, WIDE))
        else:
            panels.append(Panel(title, synthetic.predictive_band, sources.with_inputs(run), WIDE))
    return panels


# Scores ---------------------------------------------------------------------------------------------------------------


@layout
def score_bars(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """A panel for each metric of a table (those of ``options.bars``, or all) and data set (Jain et al. 2021, Fig. 4;
    thesis, Figs. 5.1.1-2), with the published numbers of the item, or of the table that ``options.published`` names."""
    frame = published.beside(cells.of_runs(item, runs), item.options.get("published", item.name))
    frame = frame[frame["metric"].isin(item.options.get("bars", frame["metric"]))]
    columns = frame[["metric", "method", "num_layers"]].drop_duplicates()  # each panel of a metric lists all
    line = 0.27 if frame["published"].notna().any() else 0.19
    height = 1.0 + line * columns["metric"].value_counts().max()
    longest = max(len(label(*key)) for key in zip(columns["method"], columns["num_layers"], strict=True))
    width = max(3.3, 2.4 + 0.075 * longest)
    return [
        Panel(name, scores.score_bars, columns[columns["metric"] == metric].merge(rows, how="left"), (width, height))
        for (metric, name), rows in frame.groupby(["metric", "dataset"], sort=False)
        if rows["mean"].notna().any()
    ]


@layout
def score_beside_seconds(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Mean score against the median of seconds, for the first two metrics and each data set; complete cells alone.

    The first run of a process also waits for imports, and a mean of ten runs of a second each would show little else.
    """
    panels = []
    for metric in [block.metric for block in item.blocks[:2]]:
        values = runs.assign(method=runs["series"], score=cells.value_of(metric)(runs), seconds=runs["seconds_total"])
        for dataset, rows in sources.per_dataset(values.dropna(subset=["score"])):
            groups = rows.groupby(["method", "num_layers"], sort=False)
            middle = {"seconds": groups["seconds"].median(), "score": groups["score"].mean()}
            complete = groups.size() >= groups["wanted"].first()
            if complete.any():
                means = pd.DataFrame(middle)[complete].reset_index()
                shown = means.assign(metric=metric, better=METRICS[metric].direction)
                panels.append(Panel(dataset, scores.score_beside_seconds, shown, WIDE))
    return panels
