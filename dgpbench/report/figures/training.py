"""Training curves: the objective and the scores along a trace, against seconds or iterations."""

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes

from dgpbench.experiments.items import Item
from dgpbench.report.figures.page import NARROW, Panel
from dgpbench.report.figures.sources import OBJECTIVE, curves, tables
from dgpbench.report.figures.style import entries
from dgpbench.runs import store

LABELS = {
    "test_tll": "test TLL (nats per row)",
    "test_rmse": "test RMSE (units of y)",
    "validation_tll": "held-out TLL (nats, standardised y)",
}


def elbo_against_seconds(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """The ELBO during training (Lindinger et al. 2020, Fig. 2)."""
    groups = tables(runs, store.TRACE).groupby("dataset", sort=False)
    return [panel for name, rows in groups for panel in curves(name, draw_elbo_against_seconds, rows, runs)]


def training_curves(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Every quantity of the traces against iterations (Jain et al. 2021, Fig. 11)."""
    panels = []
    for dataset, rows in tables(runs, store.TRACE).groupby("dataset", sort=False):
        for quantity in ("elbo", *LABELS):
            if quantity in rows and rows[quantity].notna().any():
                frame = rows.assign(value=rows[quantity].astype(float), quantity=quantity)
                panels += curves(dataset, draw_training_curves, frame, runs, NARROW)
    return panels


def objective_label(names: Iterable[str]) -> str:
    """Label the axis of one or several objectives: 'log joint (nats, standardised y)'."""
    return f"{' or '.join(dict.fromkeys(names)) or OBJECTIVE} (nats, standardised y)"


def draw_elbo_against_seconds(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw the ELBO against training time.

    :param frame: columns method, num_layers, run, seconds, elbo, objective, one row for each recorded iteration
    """
    _draw_curves(frame, ax, "seconds", "elbo")
    ax.set(xlabel="training time (s)", ylabel=objective_label(frame.get("objective", ())))


def draw_training_curves(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw one quantity against iterations.

    :param frame: columns method, num_layers, run, iteration, value, objective, quantity (``elbo`` for the objective, or
        a key of ``LABELS``; the same in all rows)
    """
    _draw_curves(frame, ax, "iteration", "value")
    ax.set_xlabel("iteration (steps of the optimiser)")
    quantity = frame["quantity"].iloc[0]
    ax.set_ylabel(objective_label(frame.get("objective", ())) if quantity == "elbo" else LABELS[quantity])


def _draw_curves(frame: pd.DataFrame, ax: Axes, along: str, value: str) -> None:
    """Draw a line for each run, paler if there are several; the legend counts them."""
    for name, look, rows in entries(frame):
        runs = [run.dropna(subset=[value]).sort_values(along) for _, run in rows.groupby("run", sort=False)]
        if len(runs) > 1 and look.marker != "none" and not look.hollow:
            name = f"{name} ({len(runs)} splits)"
        alpha = 1.0 if len(runs) == 1 else 0.45
        for number, run in enumerate(runs):
            ax.plot(run[along], run[value], label=name if number == 0 else None, alpha=alpha, **look.of_line())
    leave_out_plunge(frame[value], ax)


def leave_out_plunge(values: pd.Series, ax: Axes) -> None:
    """Limit the y axis if the lowest tenth of the values, the first iterations, would flatten everything else."""
    finite = values.dropna()
    low, high = finite.quantile(0.1), finite.max()
    if finite.min() < low - 3 * (high - low):
        ax.set_ylim(low - 0.2 * (high - low), high + 0.1 * (high - low))
