"""The calibration study (Lindinger et al. 2020, Fig. 3), PIT histograms and reliability diagrams."""

import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.figures.style import entries, log_scale


def variance_against_distance(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Median-filtered predicted variance against distance to the training data.

    :param frame: columns method, num_layers, distance, variance, as ``calibration.variance_along_distance`` gives it
    """
    for name, look, rows in entries(frame):
        ax.plot(rows["distance"], rows["variance"], label=name, **look.of_line())
    log_scale(ax, "y")
    ax.set_xlabel("distance to training data (standard deviations)")
    ax.set_ylabel("predicted variance (squared units of y)")
    ax.legend()
    return ax


def error_against_variance(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Median-filtered squared error against predicted variance; on y = x the variance is right, above it too small.

    :param frame: columns method, num_layers, variance, squared_error, as ``calibration.error_along_variance`` gives it
    """
    for name, look, rows in entries(frame):
        ax.plot(rows["variance"], rows["squared_error"], label=name, **look.of_line())
    ends = [frame["variance"].min(), frame["variance"].max()]
    ax.plot(ends, ends, color="black", linewidth=0.8, label="y = x")
    log_scale(ax, "x")
    log_scale(ax, "y")
    ax.set_xlabel("predicted variance (squared units of y)")
    ax.set_ylabel("squared error / 0.455 (squared units of y)")
    ax.legend()
    return ax


def pit_histogram(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Density of the probability integral transform; 1 is calibrated, the band is two deviations of chance.

    :param frame: columns method, num_layers, left, right, density, deviation, as ``calibration.pit_density`` gives it
    """
    deviation = float(frame["deviation"].max())
    ax.axhspan(max(0, 1 - 2 * deviation), 1 + 2 * deviation, color="0.88", label="calibrated, by chance")
    for name, look, rows in entries(frame):
        edges = [*rows["left"], rows["right"].iloc[-1]]
        ax.stairs(rows["density"], edges, label=name, color=look.colour, linestyle=look.line, linewidth=1.3)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.35 * max(frame["density"].max(), 1 + 2 * deviation))
    ax.set_xlabel("probability integral transform (no unit)")
    ax.set_ylabel("density (no unit)")
    ax.legend(ncols=2, loc="upper center")
    return ax


def reliability_diagram(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Share of targets inside the central p interval against p; below the line a method is too sure.

    :param frame: columns method, num_layers, nominal, observed, as ``calibration.reliability`` gives it
    """
    ax.plot([0, 1], [0, 1], color="black", linewidth=0.8, label="calibrated")
    for name, look, rows in entries(frame):
        ax.plot(rows["nominal"], rows["observed"], label=name, markersize=3, **look.of_points() | look.of_line())
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.set_xlabel("nominal coverage (share of rows)")
    ax.set_ylabel("observed coverage (share of rows)")
    ax.legend(loc="upper left")
    return ax
