"""Predictions on the synthetic data sets of one input (Hernandez-Munoz 2018, Figs. 4.3.1-4 and 5.2.1-2)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.report.figures.page import WIDE, Panel
from dgpbench.report.figures.sources import first_of_each, posterior, tables
from dgpbench.runs import store


def predictive_samples(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Draws from the predictive distribution if a run kept them (``grid_x`` [G], ``grid_samples`` [S, G]), else mean
    and deviation at the test rows: draws from those two moments would hide a second mode (thesis, Fig. 5.2)."""
    panels = []
    for title, run in first_of_each(runs):
        points, grid = with_inputs(run), posterior(run)
        frame, draw = points, draw_predictive_band
        if "grid_samples" in grid:
            x = np.tile(grid["grid_x"], len(grid["grid_samples"]))
            samples = pd.DataFrame({"x": x, "y": grid["grid_samples"].ravel()}).assign(kind="sample")
            frame = pd.concat([samples, points[["x", "y"]].assign(kind="test data")], ignore_index=True)
            draw = draw_predictive_samples
        panels.append(Panel(title, draw, frame, WIDE, comparable=True))
    return panels


def predictive_densities(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """The predictive density on a grid if a run kept it (``grid_x`` [G], ``grid_y`` [K], ``grid_density`` [G, K]), else
    mean and deviation at the test rows (thesis, Fig. 4.3)."""
    panels = []
    for title, run in first_of_each(runs):
        grid = posterior(run)
        if "grid_density" in grid:
            x, y = np.meshgrid(grid["grid_x"], grid["grid_y"], indexing="ij")
            frame = pd.DataFrame({"x": x.ravel(), "y": y.ravel(), "density": grid["grid_density"].ravel()})
            panels.append(Panel(title, draw_predictive_density, frame, WIDE))
        else:
            panels.append(Panel(title, draw_predictive_band, with_inputs(run), WIDE))
    return panels


def with_inputs(run: pd.Series) -> pd.DataFrame:
    """Return the run's per-row table with each row's input x, looked up in its data set.

    :raises UserError: for another kind of data set, or another version of it
    """
    from dgpbench.data import datasets

    points = tables(run.to_frame().T, store.POINTS)
    record = store.read_record(run["path"])
    spec = groups.describe("dataset", run["dataset"]) if run["dataset"] in groups.names("dataset") else {}
    if spec.get("kind") != "synthetic":  # a figure downloads nothing
        raise UserError(f"predictions are drawn for the synthetic data sets of one input; {run['dataset']} is not one")
    table = datasets.load(spec | record["config"]["dataset"])
    if record["data"].get("digest_xy") != table.digest_xy:
        raise UserError(f"{run['path']} was run on another version of {run['dataset']}, so its inputs are unknown")
    return points.assign(x=table.X[points["row"].to_numpy(), 0])


def draw_predictive_band(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw test data, coloured by their predictive density, on the predicted mean and two standard deviations.

    :param frame: columns x, y, mean, variance, log_density, one row for each test row
    """
    ordered = frame.sort_values("x")
    x, mean, deviation = ordered["x"], ordered["mean"], np.sqrt(ordered["variance"])
    low, high = mean - 2 * deviation, mean + 2 * deviation
    ax.fill_between(x, low, high, color="0.85", linewidth=0, label="mean ± 2 deviations")
    ax.plot(x, mean, color="black", label="predicted mean")
    dots = ax.scatter(frame["x"], frame["y"], c=frame["log_density"], s=9, cmap="viridis", label="test data", zorder=3)
    ax.figure.colorbar(dots, ax=ax, label="log-density at the target (nats)")
    _name_axes(ax)


def draw_predictive_samples(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw samples of the predictive distribution over the data: columns x, y, kind (``test data`` or ``sample``)."""
    for kind, colour, size in (("sample", "#56B4E9", 3), ("test data", "black", 6)):
        rows = frame[frame["kind"] == kind]
        ax.scatter(rows["x"], rows["y"], s=size, color=colour, linewidths=0, label=f"{kind} (n = {len(rows):,})")
    _name_axes(ax)


def draw_predictive_density(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw the predictive density on a grid: columns x, y, density (per unit of y), every combination once."""
    grid = frame.pivot(index="y", columns="x", values="density")
    mesh = ax.pcolormesh(grid.columns, grid.index, grid.to_numpy(), cmap="viridis", shading="nearest", rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label="predictive density (per unit of y)")
    ax.grid(visible=False)
    _name_axes(ax)


def _name_axes(ax: Axes) -> None:
    ax.set(xlabel="input x (units of x)", ylabel="output y (units of y)")
