"""Scores of many runs: means, box plots of the ELBO, scores against seconds, and ranks of methods over data sets."""

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.predictive.scores import METRICS
from dgpbench.report import cells, published, statistics
from dgpbench.report.figures.page import WIDE, Panel
from dgpbench.report.figures.sources import curves, tables
from dgpbench.report.figures.style import (
    PUBLISHED,
    Look,
    axis_label,
    count_text,
    entries,
    focus,
    label,
    log_scale,
    name_rows,
    row_lines,
)
from dgpbench.runs import store

BELOW = 0.4  # the distance of the published mark below ours, in methods
MARKS = ["value", "spread", "other", "look", "count"]  # columns that ``focus`` takes


def score_bars(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Scores with the published ones, a panel for each metric and data set (Jain et al. 2021, Fig. 4; thesis, 5.1.1-2).

    ``options.bars`` lists the metrics (default: all), ``options.published`` the table of the published numbers.
    """
    frame = published.beside(cells.of_runs(item, runs), item.options.get("published", item.name))
    frame = frame[frame["metric"].isin(item.options.get("bars", frame["metric"]))]
    columns = frame[["metric", "method", "num_layers"]].drop_duplicates()  # each panel of a metric lists all
    line = 0.27 if frame["published"].notna().any() else 0.19
    height = 1.0 + line * columns["metric"].value_counts().max()
    longest = max(len(label(*key)) for key in zip(columns["method"], columns["num_layers"], strict=True))
    size = (max(3.3, 2.4 + 0.075 * longest), height)
    return [
        Panel(name, draw_score_bars, columns[columns["metric"] == metric].merge(rows, how="left"), size)
        for (metric, name), rows in frame.groupby(["metric", "dataset"], sort=False)
        if rows["mean"].notna().any()
    ]


def elbo_boxes(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Final ELBO of every split (Fig. S5)."""
    frame = runs.assign(method=runs["series"], elbo=cells.value_of("elbo", runs))
    frame = frame.assign(count=frame.groupby(cells.KEYS)["elbo"].transform("count"))
    return [Panel(name, draw_elbo_boxes, rows) for name, rows in frame.groupby("dataset", sort=False)]


def score_against_seconds(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """RMSE and TLL of the test rows against seconds, along the trace (thesis, Fig. 5.3)."""
    traced, panels = tables(runs, store.TRACE), []
    for metric in ("rmse", "tll"):
        if f"test_{metric}" not in traced:  # no run traced its test rows
            continue
        frame = traced.dropna(subset=[f"test_{metric}"])
        frame = frame.assign(metric=metric, score=frame[f"test_{metric}"].astype(float))
        for dataset, rows in frame.groupby("dataset", sort=False):
            panels += curves(dataset, draw_score_against_seconds, rows, runs)
    return panels


def score_beside_seconds(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Mean score and median seconds of the complete cells, for the first two metrics and each data set.

    Median: the first run of a process also waits for imports, which would dominate a mean of ten short runs.
    """
    panels = []
    for metric in [block.metric for block in item.blocks[:2]]:
        values = runs.assign(method=runs["series"], score=cells.value_of(metric, runs), seconds=runs["seconds_total"])
        for dataset, rows in values.dropna(subset=["score"]).groupby("dataset", sort=False):
            groups = rows.groupby(["method", "num_layers"], sort=False)
            middle = pd.DataFrame({"seconds": groups["seconds"].median(), "score": groups["score"].mean()})
            means = middle[groups.size() >= groups["wanted"].first()].reset_index()
            if len(means):
                shown = means.assign(metric=metric, better=METRICS[metric].direction)
                panels.append(Panel(dataset, draw_score_beside_seconds, shown, WIDE))
    return panels


def rank_panels(item: Item, done: pd.DataFrame) -> dict[str, tuple[str, Panel]]:
    """Return ranks_METRIC and improvement_METRIC for each score, over the complete cells.

    Each has a sentence that lists its data sets and what is left out.
    """
    panels = {}
    for metric in statistics.compared_metrics(item):
        try:
            found = statistics.compared(item, done, metric)
        except UserError:
            continue  # the report names what is missing; a table's scores are drawn anyway
        num_sets, num_methods = found.across.shape
        if num_sets >= 2 and num_methods >= 3:
            test, size = statistics.friedman(found.across), (7.0, 1.8 + 0.17 * num_methods)
            frame = pd.DataFrame({"label": test.mean_ranks.index, "mean_rank": test.mean_ranks.to_numpy()})
            frame = frame.assign(critical_difference=test.critical_difference, num_blocks=num_sets)
            panels[f"ranks_{metric}"] = found.about, Panel("", draw_critical_difference, frame, size)
        table = statistics.improvements(found.losses)
        if table["low"].notna().all():
            frame = table.assign(pair=table["method_a"] + " beats " + table["method_b"])
            panel = Panel("", draw_improvement, frame, (5.5, 1.2 + 0.2 * len(frame)))
            panels[f"improvement_{metric}"] = found.about, panel
    return panels


def pareto_front(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that no other row beats in both speed and score, by seconds."""
    ordered = frame.sort_values("seconds", kind="stable")
    gain = ordered["score"] * (1 if frame["better"].iloc[0] == "higher" else -1)
    return ordered[gain > gain.cummax().shift(fill_value=-np.inf)]


# Drawing --------------------------------------------------------------------------------------------------------------


def draw_score_bars(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw the mean score of each method on one data set with its standard error, and the published one as a cross.

    Dots rather than bars: the length of a bar needs a natural zero, and a log-density has none. An incomplete mean is
    hollow, with its count; a method without a run keeps its line, empty.

    :param frame: columns method, num_layers, metric (the same in all rows), mean, stderr, count, wanted, published,
        published_stderr
    """
    names: list[str] = []
    marks: list[tuple] = []
    for place, (_, look, rows) in enumerate(entries(frame)):
        row, published = rows.iloc[0], replace(look, marker=PUBLISHED, hollow=False)
        _mark(ax, row["mean"], place, row["stderr"], look)
        _mark(ax, row["published"], place + BELOW, row["published_stderr"], published, linewidth=0.8)
        if (text := count_text(row)) and np.isfinite(row["mean"]):  # matplotlib hides it if the mean is off the axes
            ax.annotate(text, (row["mean"], place), (0, 5), textcoords="offset points", ha="center", fontsize="x-small")
        names.append(label(row["method"], row["num_layers"]))
        marks.append((row["mean"], row["stderr"], place, look, text))
        marks.append((row["published"], row["published_stderr"], place + BELOW, published, ""))
    has_published = frame["published"].notna().any()
    has_hollow = (frame["mean"].notna() & (frame["count"] < frame["wanted"])).any()
    dot = Look("0.3", "o", "", "")  # in no method's colour
    kinds = {"ours ± standard error": dot} if has_published or has_hollow else {}
    kinds |= {"incomplete: done/wanted splits": replace(dot, hollow=True)} if has_hollow else {}
    kinds |= {"published ± standard error": replace(dot, marker=PUBLISHED)} if has_published else {}
    for text, look in kinds.items():
        ax.plot([], [], label=text, markersize=5, **look.of_points())
    even = {"tll_difference": 0.0, "win_frequency": 0.5}.get(frame["metric"].iloc[0])
    if even is not None:
        ax.axvline(even, color="0.4", linestyle="--", linewidth=1)
    name_rows(ax, range(len(names)), names)
    row_lines(ax, len(names))
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.margins(x=0.12)
    focus(ax, "x", pd.DataFrame(marks, columns=MARKS))
    ax.locator_params(axis="x", nbins=4)
    ax.set(ylabel="method, layers", xlabel=axis_label(frame["metric"].iloc[0]))


def _mark(ax: Axes, mean: float, place: float, stderr: float, look: Look, **style: Any) -> None:
    """Draw a mean with its standard error, each only if it is a number."""
    if np.isfinite(mean):
        spread = stderr if np.isfinite(stderr) else 0
        ax.errorbar(mean, place, xerr=spread, markersize=5, **look.of_points(), **style)


def draw_elbo_boxes(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw the final ELBO of every split as a box for each method, hollow if splits are missing.

    :param frame: columns method, num_layers, elbo (nats), one row for each run
    """
    shown = list(entries(frame))
    values = [rows["elbo"].dropna().to_numpy() for _, _, rows in shown]
    boxes = ax.boxplot(values, widths=0.6, patch_artist=True, medianprops={"color": "black"})
    for box, (_, look, _) in zip(boxes["boxes"], shown, strict=True):
        face = {"facecolor": "white"} if look.hollow else {"facecolor": look.colour, "alpha": 0.6}
        box.set(hatch=look.hatch, edgecolor=look.colour if look.hollow else "black", **face)
    ax.set_xticks(range(1, len(shown) + 1), [f"{name}\nn = {rows['elbo'].count()}" for name, _, rows in shown])
    ax.set(xlabel="method (box: quartiles over splits)", ylabel=axis_label("elbo"))


def draw_score_against_seconds(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw a score against training time, one curve for each run.

    :param frame: columns method, num_layers, run, metric, seconds, score
    """
    for name, look, rows in entries(frame):
        for number, (_, run) in enumerate(rows.groupby("run", sort=False)):
            ordered = run.sort_values("seconds")
            ax.plot(ordered["seconds"], ordered["score"], label=name if number == 0 else None, **look.of_line())
    log_scale(ax, "x")
    ax.set(xlabel="training time (s)", ylabel=axis_label(frame["metric"].iloc[0]))


def draw_score_beside_seconds(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw the mean score of each method against seconds; the line joins those that none beats in both.

    :param frame: columns method, num_layers, metric (the same in all rows), seconds, score, better (higher or lower)
    """
    marks = []
    for name, look, rows in entries(frame):
        ax.plot(rows["seconds"], rows["score"], label=name, markersize=5, **look.of_points())
        marks += [(score, 0.0, seconds, look, "") for seconds, score in rows[["seconds", "score"]].to_numpy()]
    front = pareto_front(frame)
    steps: dict[str, Any] = {"drawstyle": "steps-post", "color": "0.6", "linewidth": 0.8, "zorder": 0}
    ax.plot(front["seconds"], front["score"], label="not beaten in both", **steps)
    log_scale(ax, "x")
    ax.margins(0.08)
    focus(ax, "y", pd.DataFrame(marks, columns=MARKS))
    ax.set(xlabel="time of a run (s)", ylabel=axis_label(frame["metric"].iloc[0]))


def draw_critical_difference(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw mean ranks on a line; bars join methods that cannot be distinguished (Demsar 2006, Fig. 1).

    :param frame: columns label, mean_rank, and for all rows alike critical_difference, num_blocks
    """
    from scikit_posthocs import critical_difference_diagram

    average = frame.set_index("label")["mean_rank"]
    difference, blocks = frame[["critical_difference", "num_blocks"]].iloc[0]
    apart = np.abs(np.subtract.outer(average.to_numpy(), average.to_numpy())) > difference
    critical_difference_diagram(
        average,
        pd.DataFrame(np.where(apart, 0.0, 1.0), average.index, average.index),
        alpha=statistics.LEVEL,
        ax=ax,
        label_fmt_left="{label} ({rank:.2f}) ",
        label_fmt_right=" {label} ({rank:.2f})",
        marker_props={"s": 16, "color": "black"},
        elbow_props={"color": "black", "linewidth": 0.8},
        crossbar_props={"color": "black", "linewidth": 3},
        text_h_margin=0.12 * (len(average) - 1),
    )
    ax.spines["top"].set_visible(True)
    ax.set_xticks(range(1, len(average) + 1, ceil(len(average) / 10)))
    ax.grid(visible=False)
    ax.set_xlabel(
        f"mean rank over {blocks:g} data sets (1 is best)\n"
        f"bars join methods that cannot be distinguished with {blocks:g} data sets \n"
        f"(Nemenyi, level {statistics.LEVEL:g}: ranks at most {difference:.2f} apart)"
    )


def draw_improvement(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw the probability that the first of two methods beats the second on a split, with its bootstrap interval.

    :param frame: columns pair, probability, low, high
    """
    rows = frame.iloc[::-1]
    places = range(len(rows))
    errors = [(rows["probability"] - rows["low"]).clip(lower=0), (rows["high"] - rows["probability"]).clip(lower=0)]
    ax.errorbar(rows["probability"], places, xerr=errors, fmt="o", color="#0072B2", markersize=4, capsize=3)
    ax.axvline(0.5, color="0.4", linestyle="--", linewidth=1)
    ax.set_yticks(places, rows["pair"])
    ax.set(ylim=(-0.6, len(rows) - 0.4), xlim=(-0.02, 1.02))
    ax.set(xlabel="probability (share of splits)\nwhiskers: 95 % bootstrap interval", ylabel="pair of methods")
