"""Comparisons across data sets: critical-difference diagrams and probabilities of improvement."""

import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.statistics import cliques


def critical_difference(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Mean ranks on a line, methods that do not differ joined by bars (Demsar 2006, Fig. 1).

    :param frame: columns label, mean_rank, and for all rows alike critical_difference, num_blocks, alpha
    """
    ordered = frame.sort_values("mean_rank").reset_index(drop=True)
    difference, k = float(ordered["critical_difference"].iloc[0]), len(ordered)
    groups = _groups(ordered, difference)
    lowest = -0.35 - 0.28 * len(groups)
    for place, row in ordered.iterrows():
        _name(ax, row, place, k, lowest)
    for number, (left, right) in enumerate(groups):
        ax.plot(
            [left - 0.04, right + 0.04], [-0.3 - 0.28 * number] * 2, color="black", linewidth=3.5, solid_capstyle="butt"
        )
    _ruler(ax, k, difference, ordered)
    ax.set_ylim(lowest - 0.55 * ((k + 1) // 2) - 0.3, 1.4)
    return ax


def _groups(ordered: pd.DataFrame, difference: float) -> list[tuple[float, float]]:
    average = ordered["mean_rank"]
    return [(average[group].min(), average[group].max()) for group in cliques(average, difference)]


def _name(ax: Axes, row: pd.Series, place: int, k: int, lowest: float) -> None:
    """The better half is named on the left, the rest on the right, so that the leader lines do not cross."""
    left = place < (k + 1) // 2
    level = lowest - 0.55 * (place + 1 if left else k - place)
    end = 1 - 0.12 * (k - 1) if left else k + 0.12 * (k - 1)
    ax.plot([row["mean_rank"]] * 2 + [end], [0, level, level], color="0.35", linewidth=0.9)
    ax.plot(row["mean_rank"], 0, "ko", markersize=4, zorder=3)
    text = f"{row['label']} ({row['mean_rank']:.2f})"
    ax.annotate(
        text,
        (end, level),
        (-4 if left else 4, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
    )


def _ruler(ax: Axes, k: int, difference: float, ordered: pd.DataFrame) -> None:
    ax.set_xlim(1 - 0.55 * (k - 1), k + 0.55 * (k - 1))
    ax.spines[["left", "right", "bottom", "top"]].set_visible(False)
    ax.grid(visible=False)
    ax.set_yticks([])
    ax.set_xticks([])
    ax.plot([1, k], [0, 0], color="black", linewidth=1)
    for rank in range(1, k + 1):
        ax.plot([rank, rank], [0, 0.12], color="black", linewidth=1)
        ax.annotate(str(rank), (rank, 0.12), (0, 2), textcoords="offset points", ha="center", va="bottom")
    ax.plot([1, 1 + difference], [0.95, 0.95], color="black", linewidth=1.5, marker="|", markersize=6)
    ax.annotate(f"CD = {difference:.2f}", (1 + difference / 2, 0.98), (0, 3), textcoords="offset points", ha="center")
    blocks, alpha = int(ordered["num_blocks"].iloc[0]), float(ordered["alpha"].iloc[0])
    ax.set_xlabel(
        f"mean rank over {blocks} data sets (1 is best)\nbars join what does not differ (Nemenyi, level {alpha:g})"
    )


def improvement(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Probability that the first of two methods beats the second on a split, with its bootstrap interval.

    :param frame: columns pair, probability, low, high
    """
    rows = frame.iloc[::-1]
    places = range(len(rows))
    errors = [(rows["probability"] - rows["low"]).clip(lower=0), (rows["high"] - rows["probability"]).clip(lower=0)]
    ax.errorbar(rows["probability"], places, xerr=errors, fmt="o", color="#0072B2", markersize=4, capsize=3)
    ax.axvline(0.5, color="0.4", linestyle="--", linewidth=1)
    ax.set_yticks(places, rows["pair"])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("probability (share of splits)\nwhiskers: 95 % bootstrap interval")
    ax.set_ylabel("pair of methods")
    return ax
