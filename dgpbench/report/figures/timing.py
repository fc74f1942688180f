"""Milliseconds per gradient step against the sizes of a model (Lindinger et al. 2020, Figs. 4 and S7)."""

import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.figures.style import entries, log_scale

SIZES = {
    "M": "inducing points M (count, each layer)",
    "L": "layers L (count)",
    "tau": "hidden GPs τ (count, each layer)",
}


def seconds_per_step(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Measured time of a step on log axes; dashed lines have the slope that theory gives, through the largest size.

    :param frame: columns method, num_layers, size, value, ms_per_step, exponent, as ``scaling.along`` gives it
    """
    for _, look, rows in entries(frame):
        name = rows["method"].iloc[0].upper().replace("_", "-")
        exponent = rows["exponent"].iloc[0]
        slope = "" if pd.isna(exponent) or len(rows) < 2 else f" (slope {exponent:g})"
        ax.plot(
            rows["value"], rows["ms_per_step"] / 1000, color=look.colour, marker=look.marker, label=f"{name}{slope}"
        )
        if slope:
            last = rows.iloc[-1]
            theory = last["ms_per_step"] / 1000 * (rows["value"] / last["value"]) ** exponent
            ax.plot(rows["value"], theory, color=look.colour, linestyle="--", linewidth=0.8)
    _log_axes(frame, ax)
    ax.set_ylabel("time of a gradient step (s)")
    if any("slope" in str(line.get_label()) for line in ax.lines):
        ax.plot([], [], color="0.4", linestyle="--", linewidth=0.8, label="slope in theory")
    ax.legend()
    return ax


def _log_axes(frame: pd.DataFrame, ax: Axes) -> None:
    """Ticks at the sizes that were measured, as plain numbers."""
    log_scale(ax, "x")
    log_scale(ax, "y")
    values = sorted(frame["value"].unique())
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.set_xticks([], minor=True)
    ax.set_xlabel(SIZES[frame["size"].iloc[0]])
