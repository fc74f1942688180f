"""Scores of many runs: bars per data set, box plots of the ELBO, scores against seconds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.figures.style import (
    ELBO_LABEL,
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

BELOW = 0.4  # of the distance of two methods: where the published mark lies under ours


def score_bars(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Mean score of each method on one data set, with its standard error over splits (Jain et al. 2021, Fig. 4).

    Dots rather than bars: a bar's length would mean something only from a natural zero, which a log-density has not.
    An incomplete mean is hollow, with its count; a method without a run keeps its line, empty. The published number
    and its standard error are a cross under ours.

    :param frame: columns method, num_layers, metric (one for all rows), mean, stderr, count, wanted, published,
        published_stderr
    """
    names: list[str] = []
    marks: list[tuple] = []
    for place, (_, look, rows) in enumerate(entries(frame)):
        row, published = rows.iloc[0], replace(look, marker=PUBLISHED, hollow=False)
        _mark(ax, row["mean"], place, row["stderr"], look)
        _mark(ax, row["published"], place + BELOW, row["published_stderr"], published, linewidth=0.8)
        if (text := count_text(row)) and np.isfinite(
            row["mean"]
        ):  # which matplotlib hides where the mean is off the axes
            ax.annotate(text, (row["mean"], place), (0, 5), textcoords="offset points", ha="center", fontsize="x-small")
        names.append(label(row["method"], row["num_layers"]))
        marks.append((row["mean"], row["stderr"], place, look, text))
        marks.append((row["published"], row["published_stderr"], place + BELOW, published, ""))
    _legend(ax, frame)
    even = {"tll_difference": 0.0, "win_frequency": 0.5}.get(frame["metric"].iloc[0])
    if even is not None:
        ax.axvline(even, color="0.4", linestyle="--", linewidth=1)
    name_rows(ax, range(len(names)), names)
    row_lines(ax, len(names))
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.margins(x=0.12)
    focus(ax, "x", pd.DataFrame(marks, columns=["value", "spread", "other", "look", "count"]))
    ax.locator_params(axis="x", nbins=4)
    ax.set_ylabel("method, layers")
    ax.set_xlabel(axis_label(frame["metric"].iloc[0]))
    return ax


def _mark(ax: Axes, mean: float, place: float, stderr: float, look: Look, **style: Any) -> None:
    """A mean with its standard error; nothing where there is no mean, no bar where there is no standard error."""
    if np.isfinite(mean):
        spread = stderr if np.isfinite(stderr) else 0
        ax.errorbar(mean, place, xerr=spread, markersize=5, **look.of_points(), **style)


def _legend(ax: Axes, frame: pd.DataFrame) -> None:
    """What a cross and a hollow mark are, in no method's colour."""
    ours, published = "ours ± standard error", frame["published"].notna().any()
    hollow = (frame["mean"].notna() & (frame["count"] < frame["wanted"])).any()
    kinds = {ours: Look("0.3", "o", "", "")} if published or hollow else {}
    kinds |= {"incomplete: done/wanted splits": Look("0.3", "o", "", "", hollow=True)} if hollow else {}
    kinds |= {"published ± standard error": Look("0.3", PUBLISHED, "", "")} if published else {}
    for text, look in kinds.items():
        ax.plot([], [], label=text, markersize=5, **look.of_points())
    if kinds:
        ax.legend()


def elbo_boxes(frame: pd.DataFrame, ax: Axes) -> Axes:
    """The final ELBO of every split as a box for each method, hollow where splits are missing (Lindinger et al. 2020,
    Fig. S5).

    :param frame: columns method, num_layers, elbo (nats), one row for each run
    """
    shown = list(entries(frame))
    values = [rows["elbo"].dropna().to_numpy() for _, _, rows in shown]
    boxes = ax.boxplot(values, widths=0.6, patch_artist=True, medianprops={"color": "black"})
    for box, (_, look, _) in zip(boxes["boxes"], shown, strict=True):
        face = {"facecolor": "white"} if look.hollow else {"facecolor": look.colour, "alpha": 0.6}
        box.set(hatch=look.hatch, edgecolor=look.colour if look.hollow else "black", **face)
    ax.set_xticks(range(1, len(shown) + 1), [f"{name}\nn = {rows['elbo'].count()}" for name, _, rows in shown])
    ax.set_xlabel("method (box: quartiles over splits)")
    ax.set_ylabel(ELBO_LABEL)
    return ax


def score_against_seconds(frame: pd.DataFrame, ax: Axes) -> Axes:
    """A score against seconds of training, one curve for each run that has several rows (thesis, Figs. 5.3.1-2).

    :param frame: columns method, num_layers, run, metric, seconds, score
    """
    for name, look, rows in entries(frame):
        for number, (_, run) in enumerate(rows.groupby("run", sort=False)):
            ordered = run.sort_values("seconds")
            style = look.of_points() if len(ordered) == 1 else look.of_line()
            ax.plot(ordered["seconds"], ordered["score"], label=name if number == 0 else None, **style)
    log_scale(ax, "x")
    ax.set_xlabel("training time (s)")
    ax.set_ylabel(axis_label(frame["metric"].iloc[0]))
    ax.legend()
    return ax


def score_of_two_budgets(frame: pd.DataFrame, ax: Axes) -> Axes:
    """A score against seconds of training at two budgets, for each method a line from the one to the other.

    :param frame: columns method, num_layers, budget (``paper``, drawn as a cross, and another), metric, seconds, score
    """
    for name, look, rows in entries(frame):
        ax.plot(rows["seconds"], rows["score"], color=look.colour, linewidth=0.8)
        for row in rows.itertuples(index=False):
            style = {"marker": "x"} if row.budget == "paper" else {"label": name}
            ax.plot(row.seconds, row.score, markersize=5, **look.of_points() | style)
    log_scale(ax, "x")
    ax.margins(0.08)
    ax.set_xlabel("training time (s)")
    ax.set_ylabel(axis_label(frame["metric"].iloc[0]))
    ax.legend()
    return ax


def score_beside_seconds(frame: pd.DataFrame, ax: Axes) -> Axes:
    """A mean score against the seconds of a run, a mark for each method; the line joins those that no other
    method beats in both.

    :param frame: columns method, num_layers, metric (one for all rows), seconds, score, better (higher or lower)
    """
    marks = []
    for name, look, rows in entries(frame):
        ax.plot(rows["seconds"], rows["score"], label=name, markersize=5, **look.of_points())
        marks += [(score, 0.0, seconds, look, "") for seconds, score in rows[["seconds", "score"]].to_numpy()]
    front = pareto_front(frame)
    ax.plot(front["seconds"], front["score"], color="0.6", linewidth=0.8, zorder=0, drawstyle="steps-post",
            label="not beaten in both")  # fmt: skip
    log_scale(ax, "x")
    ax.margins(0.08)
    focus(ax, "y", pd.DataFrame(marks, columns=["value", "spread", "other", "look", "count"]))
    ax.set_xlabel("time of a run (s)")
    ax.set_ylabel(axis_label(frame["metric"].iloc[0]))
    ax.legend()
    return ax


def pareto_front(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows than which no other is both faster and better, by seconds."""
    ordered = frame.sort_values("seconds", kind="stable")
    gain = ordered["score"] * (1 if frame["better"].iloc[0] == "higher" else -1)
    return ordered[gain > gain.cummax().shift(fill_value=-np.inf)]
