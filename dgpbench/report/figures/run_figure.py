"""The picture of one run.

The first row has predicted against observed values, the PIT histogram and the training trace. The second, if the run
kept what it needs, the prediction along a single feature, or partial dependence.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgpbench.errors import UserError
from dgpbench.predictive import posterior_file
from dgpbench.predictive.scores import describe_coverage
from dgpbench.report.figures.page import save
from dgpbench.report.figures.style import house_style
from dgpbench.report.figures.training import OBJECTIVE, objective_label
from dgpbench.runs import store, summary
from dgpbench.system import files

MAX_DRAWN = 300  # more error bars than this hide one another
SHOWN_SCORES = {"tll": "TLL {:.3f} nats", "rmse": "RMSE {:.3g} units of y", "crps": "CRPS {:.3g} units of y"}
HEIGHT = 3.9  # inches of the first row
BANDS = {0.95: "0.88", 0.5: "0.76"}  # share of a central interval -> grey
ABOUT_EFFECTS = (
    "Partial dependence: the mean prediction over training rows with one column changed, ± two standard deviations"
)


def save_run_figure(run_directory: str | Path, output: str | Path | None = None) -> Path:
    """Draw a finished run from its files; the suffix of ``output`` (png, pdf, svg) names the format.

    :param output: default: ``figure.png`` beside the record
    :raises ValueError: if the run's files are damaged or have no predictions
    """
    run_directory = Path(run_directory)
    record = store.read_record(run_directory)
    if problems := store.verify_run(run_directory):
        raise ValueError(problems[0])
    if store.POINTS not in record["files"]:
        raise ValueError(f"{run_directory} is {record['status']}: there are no predictions to draw")
    who, trace_file = record["identity"], run_directory / store.TRACE
    method = summary.of_method(who["method"], who["num_layers"], record["config"]["method"])
    target = str(record["config"].get("dataset", {}).get("target") or "y")
    is_kept, path = store.POSTERIOR in record["files"], run_directory / store.POSTERIOR
    arrays = store.read_arrays(path, posterior_file.PICTURED) if is_kept else {}
    figure = run_figure(
        pd.read_parquet(run_directory / store.POINTS),
        pd.read_parquet(trace_file) if trace_file.exists() else None,
        record["scores"],
        "{} on {dataset}, {task}, split {split}, seed {seed}; {protocol}-{budget}".format(method, **who),
        record.get("objective", OBJECTIVE),
        target,
        second_row(record["data"], arrays, target),
    )
    if output is None:
        return save(figure, run_directory / "figure.png", files.ANOTHER_FOLDER)
    return save(figure, Path(output), files.ANOTHER_OUTPUT)


def run_figure(
    points: pd.DataFrame,
    trace: pd.DataFrame | None,
    scores: Mapping[str, float],
    title: str,
    objective: str = OBJECTIVE,
    target: str = "y",
    below: tuple[float, Callable[[Any], None]] | None = None,
) -> Figure:
    """Compose the picture; panels without data are left out.

    :param points: columns y, mean and variance or q05, q50 and q95, pit; one row for each test row
    :param trace: columns iteration, elbo, validation_tll (NaN where not evaluated)
    :param objective: the name of the values in ``elbo``
    :param target: the name of the predicted column
    :param below: a second row, as ``second_row`` returns it
    :raises UserError: if no panel is left
    """
    panels: list[Callable[[Axes], None]] = []
    if "variance" in points or {"q05", "q50", "q95"} <= set(points):
        panels.append(lambda ax: predicted_against_observed(points, ax, target))
    if "pit" in points:
        panels.append(lambda ax: pit_histogram(points, ax))
    if trace is not None and len(trace) > 0:
        panels.append(lambda ax: training_trace(trace, ax, objective))
    if not panels:
        raise UserError("these predictions have neither a spread nor a distribution function to draw")
    with house_style():
        height, draw_below = below or (0.0, None)
        figure = Figure(figsize=(11.0 if below or len(panels) > 2 else 7.4, HEIGHT + height))
        upper: Any = figure
        if draw_below:
            upper, lower = cast("np.ndarray", figure.subfigures(2, 1, height_ratios=(HEIGHT, height)))
        for ax, draw in zip(upper.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            draw(ax)
        if draw_below:
            draw_below(lower)
        lines = [title, ",  ".join(text.format(scores[name]) for name, text in SHOWN_SCORES.items() if name in scores)]
        if "coverage_95" in scores:
            lines.append(describe_coverage(scores["coverage_95"], len(points)))
        # parse_math: a data set may be called "a$b".
        figure.suptitle("\n".join(lines), fontsize=10, parse_math=False)
    return figure


# First row ------------------------------------------------------------------------------------------------------------


def predicted_against_observed(points: pd.DataFrame, ax: Axes, target: str = "y") -> None:
    """Draw predictive means with two standard deviations on either side against the targets; the line is y = x.

    Predictions that are quantiles alone are drawn as medians and central 90 % intervals.
    """
    drawn = thinned(points)
    if "variance" in drawn:
        what, centre = "Mean and two standard deviations", drawn["mean"]
        below = above = 2 * np.sqrt(drawn["variance"])
    else:
        what, centre = "Median and central 90 % interval", drawn["q50"]
        below, above = centre - drawn["q05"], drawn["q95"] - centre
    ax.errorbar(drawn["y"], centre, [below, above], fmt="o", elinewidth=0.7, alpha=0.6, markeredgewidth=0)
    ax.axline((drawn["y"].iloc[0], drawn["y"].iloc[0]), slope=1, color="black", linewidth=0.9, zorder=3)
    few = "" if len(drawn) == len(points) else f" of {len(points):,}"
    ax.set_title(f"{what}\n{len(drawn):,}{few} test rows; line: y = x")
    ax.set_xlabel(f"observed {target} (original units)", parse_math=False)
    ax.set_ylabel(f"predicted {target} (original units)", parse_math=False)
    low = min(drawn["y"].min(), (centre - below).min())
    high = max(drawn["y"].max(), (centre + above).max())
    margin = 0.04 * (high - low) or 1.0
    ax.set(xlim=(low - margin, high + margin), ylim=(low - margin, high + margin), box_aspect=1)


def thinned(points: pd.DataFrame) -> pd.DataFrame:
    """Select at most ``MAX_DRAWN`` rows, evenly spaced in the order of y with both ends: the same ones each time."""
    ordered = points.sort_values("y", kind="stable")
    chosen = np.unique(np.linspace(0, len(ordered) - 1, min(MAX_DRAWN, len(ordered))).round().astype(int))
    return ordered.iloc[chosen]


def pit_histogram(points: pd.DataFrame, ax: Axes) -> None:
    """Draw the density of the PIT; of a calibrated prediction, 95 % of the bars end in the band."""
    bins = 20 if len(points) >= 500 else 10
    low, high = uniform_band(len(points), bins)
    ax.hist(points["pit"], bins=bins, range=(0, 1), density=True, color="#7FB8D8", edgecolor="white", linewidth=0.5)
    ax.axhspan(low, high, color="0.87", linewidth=0, zorder=0, label="95 % of bars, if calibrated")
    for limit in (low, high):
        ax.axhline(limit, color="0.35", linewidth=0.8, linestyle="--")
    ax.axhline(1, color="black", linewidth=0.9)
    ax.set(xlim=(0, 1), xlabel="probability integral transform u", ylabel="density")
    ax.set_ylim(0, max(ax.get_ylim()[1], high) * 1.2)  # room for the legend
    ax.set_title(f"Calibration\n{len(points):,} test rows in {bins} bins")
    ax.legend(loc="upper center")


def uniform_band(num_rows: int, bins: int) -> tuple[float, float]:
    """Return the central 95 % of the density of a bar with a Binomial(num_rows, 1/bins) count."""
    from scipy.stats import binom

    low, high = binom.ppf([0.025, 0.975], num_rows, 1 / bins) * bins / num_rows
    return float(low), float(high)


def training_trace(trace: pd.DataFrame, ax: Axes, objective: str = OBJECTIVE) -> None:
    """Draw the objective against the iteration and, on a second axis, the log-likelihood of held-out rows, if any."""
    finite = trace[np.isfinite(trace["elbo"])]
    ax.plot(finite["iteration"], finite["elbo"], label=objective)
    ax.set(xlabel="iteration", title="Training\n")
    ax.set_ylabel(objective_label([objective]), color="C0")
    _leave_out_start(finite["elbo"], ax)
    columns = ["iteration", "validation_tll"]
    validation = trace[columns].astype(float).dropna() if "validation_tll" in trace else trace[:0]
    if len(validation):
        other = ax.twinx()
        other.plot(validation["iteration"], validation["validation_tll"], color="C1", alpha=0.8, linewidth=0.8)
        other.spines["right"].set_visible(True)
        other.set_ylabel("validation TLL (nats, standardised y)", color="C1")
        other.grid(visible=False)
        _leave_out_start(validation["validation_tll"], other)


def _leave_out_start(values: pd.Series, ax: Axes) -> None:
    """Limit the y axis to all but the lowest twentieth of the values, which would flatten the rest."""
    low, high = values.quantile(0.05), values.max()
    if len(values) >= 20 and high > low:
        ax.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))


# Second row -----------------------------------------------------------------------------------------------------------


def second_row(
    data: Mapping[str, Any], arrays: Mapping[str, np.ndarray], target: str
) -> tuple[float, Callable[[Any], None]] | None:
    """Return the height in inches and the function that draws the prediction along a single feature, or partial
    dependence; None if the run kept neither.

    :param data: the part of the record that describes the data
    """
    grid, effects = posterior_file.grid(arrays), posterior_file.effects(arrays)
    if grid is not None:
        feature = next((name for name in data.get("features", []) if name not in data["dropped"]), "x")
        rows = posterior_file.rows(arrays)
        return 3.6, lambda figure: data_and_bands(grid, rows, feature, target, figure.subplots())
    if not effects:
        return None
    columns = 2 if len(effects) in (2, 4) else min(3, len(effects))
    lines = -(-len(effects) // columns)

    def draw(figure: Any) -> None:
        axes = list(figure.subplots(lines, columns, squeeze=False).flat)
        partial_dependences(effects, data["columns"], target, axes)
        figure.suptitle(ABOUT_EFFECTS, fontsize=10)

    return 0.5 + 2.4 * lines, draw


def data_and_bands(
    grid: tuple[np.ndarray, ...], rows: tuple[np.ndarray, np.ndarray] | None, feature: str, target: str, ax: Axes
) -> None:
    """Draw the rows, the central 50 % and 95 % of the prediction, and samples of it, against the only feature.

    :param grid: as ``posterior_file.grid`` returns it
    :param rows: as ``posterior_file.rows`` returns them
    """
    x, y, density, samples = grid
    for share, grey in BANDS.items():
        low, high = (quantiles(y, density, p) for p in ((1 - share) / 2, (1 + share) / 2))
        ax.fill_between(x, low, high, color=grey, linewidth=0, label=f"central {share:.0%} of the prediction")
    at, label = np.broadcast_to(x, samples.shape), f"{len(samples):,} samples at each x"
    ax.scatter(at, samples, s=2, color="#56B4E9", alpha=0.5, linewidths=0, label=label)
    crosses: dict[str, Any] = {"s": 9, "marker": "x", "linewidths": 0.7, "alpha": 0.8}
    for name, points, colour in zip(("training", "test"), rows or (), ("0.35", "#D55E00"), strict=False):
        ax.scatter(points[:, 0], points[:, 1], color=colour, label=f"{name} rows", **crosses)
    ax.set_xlabel(feature, parse_math=False)
    ax.set_ylabel(f"{target} (original units)", parse_math=False)
    ax.set_title("Prediction over the training range")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def quantiles(y: np.ndarray, density: np.ndarray, p: float) -> np.ndarray:
    """Return the p-quantile of each row of a density on a grid, [G].

    :param y: [K], evenly spaced
    :param density: [G, K]
    """
    below = np.cumsum(density, axis=1) - 0.5 * density
    return np.array([np.interp(p, row, y) for row in below / density.sum(axis=1, keepdims=True)])


def partial_dependences(
    effects: Mapping[int, np.ndarray], columns: Sequence[Mapping[str, Any]], target: str, axes: Sequence[Axes]
) -> None:
    """Draw the mean prediction against each column, with two standard deviations on either side.

    All panels have one scale of the target: what matters more looks larger.

    :param effects: column number -> [G, 3], as ``posterior_file.effects`` returns them
    :param columns: the record's descriptions of the columns
    """
    used = axes[: len(effects)]
    for (number, effect), ax in zip(effects.items(), used, strict=True):
        column, (values, mean, deviation) = columns[number], effect.T
        if column["kind"] in ("category", "flag"):
            names, places = column.get("categories", ["false", "true"]), np.arange(len(values))
            ax.errorbar(places, mean, 2 * deviation, fmt="o", elinewidth=0.9)
            ax.set_xticks(places, [names[int(value)][:12] for value in values], parse_math=False)
            ax.set_xlim(-0.5, len(values) - 0.5)
            if len(values) > 4:
                ax.tick_params(axis="x", rotation=45)
        else:
            ax.fill_between(values, mean - 2 * deviation, mean + 2 * deviation, color=BANDS[0.95], linewidth=0)
            ax.plot(values, mean, marker="o" if len(values) < 5 else None)
        if column["kind"] == "date":
            ax.xaxis_date()  # matplotlib counts days since 1970-01-01 too
            ax.tick_params(axis="x", rotation=30)
        ax.set_xlabel(column["column"], parse_math=False)
        ax.set_ylabel(target, parse_math=False)
    low, high = min(ax.get_ylim()[0] for ax in used), max(ax.get_ylim()[1] for ax in used)
    for ax in used:
        ax.set_ylim(low, high)
    for ax in axes[len(effects) :]:
        ax.set_axis_off()
