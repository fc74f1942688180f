"""Comparisons across data sets: critical-difference diagrams and probabilities of improvement."""

from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.report import statistics
from dgpbench.report.figures.page import Panel


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
            frame, size = rank_frame(statistics.friedman(found.across)), (7.0, 1.8 + 0.17 * num_methods)
            panels[f"ranks_{metric}"] = found.about, Panel("", draw_critical_difference, frame, size)
        pairs = statistics.best_against_rest(found.across)
        frame = improvement_frame(statistics.improvements(found.losses, pairs))
        if frame["low"].notna().all():
            panel = Panel("", draw_improvement, frame, (5.5, 1.2 + 0.2 * len(frame)))
            panels[f"improvement_{metric}"] = found.about, panel
    return panels


def rank_frame(test: statistics.Friedman) -> pd.DataFrame:
    """Return the frame of the critical-difference diagram."""
    frame = test.mean_ranks.rename_axis("label").reset_index(name="mean_rank")
    return frame.assign(critical_difference=test.critical_difference, num_blocks=test.num_blocks, alpha=test.alpha)


def improvement_frame(table: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of the diagram of improvements."""
    return table.assign(pair=table["method_a"] + " beats " + table["method_b"])


def draw_critical_difference(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Draw mean ranks on a line; bars join methods that cannot be distinguished (Demsar 2006, Fig. 1).

    :param frame: columns label, mean_rank, and for all rows alike critical_difference, num_blocks, alpha
    """
    from scikit_posthocs import critical_difference_diagram

    average = frame.set_index("label")["mean_rank"]
    difference, blocks, alpha = frame[["critical_difference", "num_blocks", "alpha"]].iloc[0]
    apart = np.abs(np.subtract.outer(average.to_numpy(), average.to_numpy())) > difference
    critical_difference_diagram(
        average,
        pd.DataFrame(np.where(apart, 0.0, 1.0), average.index, average.index),
        alpha=alpha,
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
        f"(Nemenyi, level {alpha:g}: ranks at most {difference:.2f} apart)"
    )
    return ax


def draw_improvement(frame: pd.DataFrame, ax: Axes) -> Axes:
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
    return ax
