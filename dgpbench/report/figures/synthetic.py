"""Predictions on the synthetic data sets of one input (Hernandez-Munoz 2018, Figs. 4.3.1-4 and 5.2.1-2)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes


def predictive_band(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Test data, coloured by the density that the prediction gave them, on the predicted mean and two deviations.

    :param frame: columns x, y, mean, variance, log_density, one row for each test row
    """
    ordered = frame.sort_values("x")
    deviation = np.sqrt(ordered["variance"])
    ax.fill_between(
        ordered["x"], ordered["mean"] - 2 * deviation, ordered["mean"] + 2 * deviation,
        color="0.85", linewidth=0, label="mean ± 2 deviations",
    )  # fmt: skip
    ax.plot(ordered["x"], ordered["mean"], color="black", label="predicted mean")
    dots = ax.scatter(frame["x"], frame["y"], c=frame["log_density"], s=9, cmap="viridis", label="test data", zorder=3)
    ax.figure.colorbar(dots, ax=ax, label="log-density at the target (nats)")
    return _name_axes(ax)


def predictive_samples(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Draws from the predictive distribution over the data.

    :param frame: columns x, y, kind (``test data`` or ``sample``)
    """
    for kind, colour, size in (("sample", "#56B4E9", 3), ("test data", "black", 6)):
        rows = frame[frame["kind"] == kind]
        ax.scatter(rows["x"], rows["y"], s=size, color=colour, linewidths=0, label=f"{kind} (n = {len(rows):,})")
    return _name_axes(ax)


def predictive_density(frame: pd.DataFrame, ax: Axes) -> Axes:
    """The predictive density on a grid of inputs and outputs.

    :param frame: columns x, y, density (per unit of y), every combination of the grid's x and y once
    """
    grid = frame.pivot(index="y", columns="x", values="density")
    mesh = ax.pcolormesh(grid.columns, grid.index, grid.to_numpy(), cmap="viridis", shading="nearest", rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label="predictive density (per unit of y)")
    ax.grid(visible=False)
    return _name_axes(ax, legend=False)


def _name_axes(ax: Axes, *, legend: bool = True) -> Axes:
    ax.set_xlabel("input x (units of x)")
    ax.set_ylabel("output y (units of y)")
    if legend:
        ax.legend(loc="best")
    return ax
