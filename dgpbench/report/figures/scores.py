"""Scores of many runs: bars per data set, box plots of the ELBO, scores against seconds."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.figures.style import Look, axis_label, entries


def score_bars(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Mean score of each method with its standard error over splits, one data set or several (Jain, Fig. 4).

    An incomplete mean is drawn hollow, with its count above it.

    :param frame: columns dataset, method, num_layers, metric (one for all rows), mean, stderr, count, wanted
    """
    datasets = list(dict.fromkeys(frame["dataset"]))
    shown = list(entries(frame))
    width = 0.8 / len(shown)
    for number, (name, look, rows) in enumerate(shown):
        places = [datasets.index(each) + (number - (len(shown) - 1) / 2) * width for each in rows["dataset"]]
        _bars(ax, places, rows, width, name, look)
    ax.set_xticks(range(len(datasets)), datasets)
    ax.set_xlim(-0.5, len(datasets) - 0.5)
    ax.set_xlabel("data set (whiskers: one standard error over splits)")
    ax.set_ylabel(axis_label(frame["metric"].iloc[0]))
    ax.grid(axis="x", visible=False)
    return ax


def _bars(ax: Axes, places: list[float], rows: pd.DataFrame, width: float, name: str, look: Look) -> None:
    """Dots with whiskers: a bar's length would mean something only from a natural zero, which a log-density has not."""
    complete = (rows["count"] >= rows["wanted"]).to_numpy()
    places = np.asarray(places)
    ax.errorbar(places, rows["mean"], rows["stderr"].fillna(0), fmt="none", ecolor=look.colour, elinewidth=1)
    style = {"color": look.colour, "marker": look.marker, "linestyle": "none", "markersize": 5}
    ax.plot(places[complete], rows["mean"][complete], label=name, **style)
    ax.plot(places[~complete], rows["mean"][~complete], markerfacecolor="none", **style)
    for place, (_, row) in zip(places[~complete], rows[~complete].iterrows(), strict=True):
        _count(ax, place, row)


def _count(ax: Axes, place: float, row: pd.Series) -> None:
    text = f"{int(row['count'])}/{int(row['wanted'])}"
    ax.annotate(text, (place, row["mean"]), (0, 6), textcoords="offset points", ha="center", fontsize="xx-small")


def elbo_boxes(frame: pd.DataFrame, ax: Axes) -> Axes:
    """The final ELBO of every split as a box for each method (Lindinger et al. 2020, Fig. S5).

    :param frame: columns method, num_layers, elbo (nats), one row for each run
    """
    shown = list(entries(frame))
    boxes = ax.boxplot(
        [rows["elbo"].dropna().to_numpy() for _, _, rows in shown], widths=0.6, patch_artist=True, medianprops={"color": "black"}
    )
    for box, (_, look, _) in zip(boxes["boxes"], shown, strict=True):
        box.set(facecolor=look.colour, alpha=0.6, hatch=look.hatch)
    ax.set_xticks(range(1, len(shown) + 1), [f"{name}\nn = {rows['elbo'].count()}" for name, _, rows in shown])
    ax.set_xlabel("method (box: quartiles over splits)")
    ax.set_ylabel(axis_label("elbo"))
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
    ax.set_xscale("log")
    ax.set_xlabel("training time (s)")
    ax.set_ylabel(axis_label(frame["metric"].iloc[0]))
    ax.legend()
    return ax
