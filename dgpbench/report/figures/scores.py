"""Scores of many runs: bars per data set, box plots of the ELBO, scores against seconds."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.figures.style import ELBO_LABEL, Look, axis_label, entries, focus, log_scale, name_rows, row_lines

BELOW = 0.33  # of the distance of two methods: where the published mark lies under ours
PALE = 0.4  # opacity of an incomplete mean


def score_bars(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Mean score of each method on one data set, with its standard error over splits (Jain et al. 2021, Fig. 4).

    Dots rather than bars: a bar's length would mean something only from a natural zero, which a log-density has not.
    An incomplete mean is pale, with its count; a method without a run keeps its line, empty. The published number and
    its standard error are a hollow mark under ours.

    :param frame: columns method, num_layers, metric (one for all rows), mean, stderr, count, wanted, published,
        published_stderr
    """
    names: list[str] = []
    marks: list[tuple] = []
    for place, (name, look, rows) in enumerate(entries(frame)):
        row = rows.iloc[0]
        _ours(ax, place, row, look)
        _mark(
            ax, row["published"], place + BELOW, row["published_stderr"], look, markerfacecolor="white", linewidth=0.8
        )
        names.append(name)
        marks.append((row["mean"], row["stderr"], place, look.colour, _count(row)))
        marks.append((row["published"], row["published_stderr"], place + BELOW, look.colour, ""))
    if frame["published"].notna().any():
        _legend(ax)
    even = {"tll_difference": 0.0, "win_frequency": 0.5}.get(frame["metric"].iloc[0])
    if even is not None:
        ax.axvline(even, color="0.4", linestyle="--", linewidth=1)
    name_rows(ax, range(len(names)), names)
    row_lines(ax, len(names))
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.margins(x=0.12)
    focus(ax, "x", pd.DataFrame(marks, columns=["value", "spread", "other", "colour", "count"]))
    ax.locator_params(axis="x", nbins=4)
    ax.set_ylabel("method, layers")
    ax.set_xlabel(axis_label(frame["metric"].iloc[0]))
    return ax


def _ours(ax: Axes, place: int, row: pd.Series, look: Look) -> None:
    if not (text := _count(row)):
        _mark(ax, row["mean"], place, row["stderr"], look)
    elif np.isfinite(row["mean"]):
        _mark(ax, row["mean"], place, row["stderr"], look, alpha=PALE)
        ax.annotate(text, (row["mean"], place), (0, 4), textcoords="offset points", ha="center", fontsize="x-small")


def _count(row: pd.Series) -> str:
    """'6/10' for an incomplete mean."""
    return f"{int(row['count'])}/{int(row['wanted'])}" if row["count"] < row["wanted"] else ""


def _mark(ax: Axes, mean: float, place: float, stderr: float, look: Look, **style: Any) -> None:
    """A mean with its standard error; nothing where there is no mean, no bar where there is no standard error."""
    if np.isfinite(mean):
        spread = stderr if np.isfinite(stderr) else 0
        given: dict[str, Any] = {"color": look.colour, "markersize": 5} | style
        ax.errorbar(mean, place, xerr=spread, fmt=look.marker, **given)


def _legend(ax: Axes) -> None:
    """Which mark is whose, in no method's colour."""
    usual: dict[str, Any] = {"color": "0.3", "marker": "o", "linestyle": "none", "markersize": 5}
    ax.plot([], [], label="ours ± standard error", **usual)
    ax.plot([], [], label="published ± standard error", markerfacecolor="white", **usual)
    ax.legend()


def elbo_boxes(frame: pd.DataFrame, ax: Axes) -> Axes:
    """The final ELBO of every split as a box for each method (Lindinger et al. 2020, Fig. S5).

    :param frame: columns method, num_layers, elbo (nats), one row for each run
    """
    shown = list(entries(frame))
    values = [rows["elbo"].dropna().to_numpy() for _, _, rows in shown]
    boxes = ax.boxplot(values, widths=0.6, patch_artist=True, medianprops={"color": "black"})
    for box, (_, look, _) in zip(boxes["boxes"], shown, strict=True):
        box.set(facecolor=look.colour, alpha=0.6, hatch=look.hatch)
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

    :param frame: columns method, num_layers, budget (``paper``, drawn hollow, and another), metric, seconds, score
    """
    for name, look, rows in entries(frame):
        ax.plot(rows["seconds"], rows["score"], color=look.colour, linewidth=0.8)
        for row in rows.itertuples(index=False):
            hollow: dict[str, Any] = {"markerfacecolor": "white"} if row.budget == "paper" else {"label": name}
            ax.plot(row.seconds, row.score, markersize=5, **look.of_points(), **hollow)
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
        marks += [(score, 0.0, seconds, look.colour, "") for seconds, score in rows[["seconds", "score"]].to_numpy()]
    front = pareto_front(frame)
    ax.plot(front["seconds"], front["score"], color="0.6", linewidth=0.8, zorder=0, drawstyle="steps-post",
            label="not beaten in both")  # fmt: skip
    log_scale(ax, "x")
    ax.margins(0.08)
    focus(ax, "y", pd.DataFrame(marks, columns=["value", "spread", "other", "colour", "count"]))
    ax.set_xlabel("time of a run (s)")
    ax.set_ylabel(axis_label(frame["metric"].iloc[0]))
    ax.legend()
    return ax


def pareto_front(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows than which no other is both faster and better, by seconds."""
    ordered = frame.sort_values("seconds", kind="stable")
    gain = ordered["score"] * (1 if frame["better"].iloc[0] == "higher" else -1)
    return ordered[gain > gain.cummax().shift(fill_value=-np.inf)]
