"""The picture of one run: predicted against observed, the PIT histogram, the training trace."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgpbench.errors import UserError
from dgpbench.predictive import posterior_file
from dgpbench.predictive.scores import describe_coverage
from dgpbench.report import data_panels
from dgpbench.report.objectives import objective_label, objective_of
from dgpbench.runs import store, summary
from dgpbench.system import files

STYLE = Path(__file__).with_name("dgpbench.mplstyle")
MAX_DRAWN = 300  # more error bars than this hide one another
SHOWN_SCORES = {
    "tll": "TLL {:.3f} nats",
    "rmse": "RMSE {:.3g} units of y",
    "crps": "CRPS {:.3g} units of y",
}
HEIGHT = 3.9  # inches of the row of panels that every run has


def save_run_figure(run_directory: str | Path, output: str | Path | None = None) -> Path:
    """Draw a finished run from its files; the suffix of ``output`` (png, pdf, svg) names the format.

    :param output: ``figure.png`` beside the record unless given
    :raises ValueError: when the run's files are damaged or hold no predictions
    """
    run_directory = Path(run_directory)
    advice = files.ANOTHER_FOLDER if output is None else files.ANOTHER_OUTPUT
    output = run_directory / "figure.png" if output is None else Path(output)
    record = store.read_record(run_directory)
    if problems := store.verify_run(run_directory):
        raise ValueError(problems[0])
    if store.POINTS not in record["files"]:
        raise ValueError(f"{run_directory} is {record['status']}: there are no predictions to draw")
    trace_file = run_directory / store.TRACE
    trace = pd.read_parquet(trace_file) if trace_file.exists() else None
    points, title = pd.read_parquet(run_directory / store.POINTS), title_of(record)
    target = target_of(record)
    arrays = store.read_posterior(run_directory, posterior_file.PICTURED) if store.POSTERIOR in record["files"] else {}
    below = data_panels.below(record["data"], arrays, target)
    figure = run_figure(points, trace, record["scores"], title, objective_of(record), target, below)
    return save(figure, output, advice)


def save(figure: Figure, output: Path, advice: str) -> Path:
    """Write a picture.

    :param advice: how the user says where else to write
    """
    with matplotlib.rc_context(fname=STYLE), files.replacing(output, advice) as partial:
        figure.savefig(partial)
    return output


def title_of(record: Mapping[str, Any]) -> str:
    """'star (L = 3) on boston, interpolation, split 0, seed 0; lindinger2020-laptop'."""
    who = record["identity"]
    method = summary.of_method(who["method"], who["num_layers"], record["config"]["method"])
    return "{} on {dataset}, {task}, split {split}, seed {seed}; {protocol}-{budget}".format(method, **who)


def run_figure(
    points: pd.DataFrame,
    trace: pd.DataFrame | None,
    scores: Mapping[str, float],
    title: str,
    objective: str = "objective",
    target: str = "y",
    below: data_panels.Below | None = None,
) -> Figure:
    """Compose the picture; a panel is left out where no trace was kept, or where the predictions do not say enough.

    :param points: columns y, mean and variance or q05, q50 and q95, pit; one line a test row
    :param trace: columns iteration, elbo, validation_tll (NaN where none was taken)
    :param objective: the name of what the trace has under ``elbo``
    :param target: the name of what is predicted
    :param below: what stands in a second row
    :raises UserError: where that is every panel
    """
    panels: list[Callable[[Axes], Axes]] = []
    if "variance" in points or {"q05", "q50", "q95"} <= set(points):
        panels.append(lambda ax: predicted_against_observed(points, ax, target))
    if "pit" in points:
        panels.append(lambda ax: pit_histogram(points, ax))
    if trace is not None and len(trace) > 0:
        panels.append(lambda ax: training_trace(trace, ax, objective))
    if not panels:
        raise UserError("these predictions have neither a spread nor a distribution function to draw")
    with matplotlib.rc_context(fname=STYLE):
        width = 11.0 if below or len(panels) > 2 else 7.4
        figure = Figure(figsize=(width, HEIGHT + (below.height if below else 0.0)))
        upper: Any = figure
        if below:
            upper, lower = cast("np.ndarray", figure.subfigures(2, 1, height_ratios=(HEIGHT, below.height)))
        for ax, draw in zip(upper.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            draw(ax)
        if below:
            below.draw(lower)
        lines = [title, ",  ".join(text.format(scores[name]) for name, text in SHOWN_SCORES.items() if name in scores)]
        if "coverage_95" in scores:
            lines.append(describe_coverage(scores["coverage_95"], len(points)))
        # parse_math: a data set may be called "a$b".
        figure.suptitle("\n".join(lines), fontsize=10, parse_math=False)
    return figure


def target_of(record: Mapping[str, Any]) -> str:
    """The name of what a run predicts."""
    return str(record["config"].get("dataset", {}).get("target") or "y")


def predicted_against_observed(points: pd.DataFrame, ax: Axes, target: str = "y") -> Axes:
    """Predictive means and two standard deviations either side, against the targets; the line is y = x.

    Where predictions are quantiles alone: medians and central 90 % intervals.
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
    return ax


def thinned(points: pd.DataFrame, most: int = MAX_DRAWN) -> pd.DataFrame:
    """At most ``most`` rows, evenly spaced in the order of y, both ends among them: the same ones each time."""
    ordered = points.sort_values("y", kind="stable")
    chosen = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int))
    return ordered.iloc[chosen]


def pit_histogram(points: pd.DataFrame, ax: Axes) -> Axes:
    """Density of the probability integral transforms; a perfect predictor's bars lie in the band 95 % of the time."""
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
    return ax


def uniform_band(num_rows: int, bins: int) -> tuple[float, float]:
    """Limits of the central 95 % of one bar's density, its count being Binomial(num_rows, 1/bins)."""
    from scipy.stats import binom

    low, high = binom.ppf([0.025, 0.975], num_rows, 1 / bins) * bins / num_rows
    return float(low), float(high)


def training_trace(trace: pd.DataFrame, ax: Axes, objective: str = "objective") -> Axes:
    """The objective against the iteration and, where rows were held out, their log-likelihood on a second axis."""
    finite = trace[np.isfinite(trace["elbo"])]
    ax.plot(finite["iteration"], finite["elbo"], label=objective)
    ax.set(xlabel="iteration", title="Training\n")
    ax.set_ylabel(objective_label([objective]), color="C0")
    _focus(finite["elbo"], ax)
    validation = (
        trace[["iteration", "validation_tll"]].astype(float).dropna() if "validation_tll" in trace else trace[:0]
    )
    if len(validation):
        other = ax.twinx()
        other.plot(validation["iteration"], validation["validation_tll"], color="C1", alpha=0.8, linewidth=0.8)
        other.spines["right"].set_visible(True)
        other.set_ylabel("validation TLL (nats, standardised y)", color="C1")
        other.grid(visible=False)
        _focus(validation["validation_tll"], other)
    return ax


def _focus(values: pd.Series, ax: Axes) -> None:
    """Leave the plunge of the first few iterations outside, where it would flatten all the rest."""
    if len(values) >= 20:
        low, high = np.quantile(values, 0.05), values.max()
        ax.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low)) if high > low else None
