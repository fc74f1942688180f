"""Predictions on the synthetic data sets of one input (Hernandez-Munoz 2018, Figs. 4.3.1-4 and 5.2.1-2)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.predictive import posterior_file
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


def predictive_histograms(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Draws of y at three inputs, beside the Gaussian of equal mean and variance (thesis, Figs. 4.3.1 and 4.3.3)."""
    return [
        Panel(f"{title}\nx = {at:.2g}", draw_histogram, pd.DataFrame({"value": values, "of": "y"}), WIDE)
        for title, run in first_of_each(runs)
        for at, values in zip(*_draws(run)[:2], strict=True)
    ]


def layer_histograms(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Draws of each hidden layer and of y at the middle of the inputs (thesis, Fig. 4.3.2)."""
    panels = []
    for title, run in first_of_each(runs):
        x, y, hidden = _draws(run)
        middle = len(x) // 2
        for number, layer in enumerate(hidden, 1):
            values = layer[:, middle].T
            names = np.repeat([f"$f^{number}_{t + 1}$" for t in range(len(values))], values.shape[1])
            frame = pd.DataFrame({"value": values.ravel(), "of": names})
            panels.append(Panel(f"{title}\nlayer {number} at x = {x[middle]:.2g}", draw_histogram, frame, WIDE))
        frame = pd.DataFrame({"value": y[middle], "of": "y"})
        panels.append(Panel(f"{title}\noutput at x = {x[middle]:.2g}", draw_histogram, frame, WIDE))
    return panels


def _draws(run: pd.Series) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Inputs [P], draws of y [P, K] and of the hidden layers [S, P, T_l]."""
    found = posterior_file.draws(posterior(run))
    if found is None:
        raise UserError(
            f"{run['path']} kept no draws, which this figure is drawn from; only inputs of one feature have them"
        )
    x, y, hidden = found
    return x, y.T, hidden


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


def draw_histogram(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw a histogram of the values of each quantity, and for y the Gaussian of equal mean and variance.

    :param frame: columns value, of
    """
    values = frame["value"].to_numpy()
    edges = np.histogram_bin_edges(values, bins=60).tolist()
    xlabel = "hidden layer (standard units)"
    for name, rows in frame.groupby("of", sort=False)["value"]:
        ax.hist(rows, bins=edges, density=True, histtype="stepfilled", alpha=0.6, label=f"{name} (n = {len(rows):,})")
    if set(frame["of"]) == {"y"}:
        from scipy.stats import norm

        grid = np.linspace(edges[0], edges[-1], 200)
        gaussian = norm.pdf(grid, values.mean(), values.std())
        xlabel = "output y (units of y)"
        ax.plot(grid, gaussian, color="black", linestyle="--", label="Gaussian of equal mean and variance")
    ax.locator_params(axis="x", nbins=6)  # numbers of five digits would overlap
    ax.set(xlabel=xlabel, ylabel="density (1 / unit)")


def _name_axes(ax: Axes) -> None:
    ax.set(xlabel="input x (units of x)", ylabel="output y (units of y)")
