"""How training went: the objective against seconds and against iterations, and the scores kept on the way."""

import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.figures.style import entries
from dgpbench.report.objectives import objective_label

LABELS = {
    "validation_tll": "held-out TLL (nats, standardised y)",
    "test_tll": "test TLL (nats per row)",
    "test_rmse": "test RMSE (units of y)",
}


def elbo_against_seconds(frame: pd.DataFrame, ax: Axes) -> Axes:
    """The ELBO as training goes on, analytic against sampled marginalisation (Lindinger et al. 2020, Fig. 2).

    :param frame: columns method, num_layers, run, seconds, elbo, objective, one row for each recorded iteration
    """
    _curves(frame, ax, "seconds", "elbo")
    ax.set_xlabel("training time (s)")
    ax.set_ylabel(_objective(frame))
    return ax


def training_curves(frame: pd.DataFrame, ax: Axes) -> Axes:
    """One quantity against iterations (Jain et al. 2021, Fig. 11).

    :param frame: columns method, num_layers, run, iteration, value, objective, quantity (``elbo``, which stands for the
        objective, or a key of ``LABELS``; one for all rows)
    """
    _curves(frame, ax, "iteration", "value")
    ax.set_xlabel("iteration (steps of the optimiser)")
    quantity = frame["quantity"].iloc[0]
    ax.set_ylabel(_objective(frame) if quantity == "elbo" else LABELS[quantity])
    return ax


def _objective(frame: pd.DataFrame) -> str:
    return objective_label(frame.get("objective", ()))


def _curves(frame: pd.DataFrame, ax: Axes, along: str, value: str) -> None:
    """A line for each run, paler where there are several; the legend says how many, and of how many."""
    for name, look, rows in entries(frame):
        runs = [run.dropna(subset=[value]).sort_values(along) for _, run in rows.groupby("run", sort=False)]
        for number, run in enumerate(runs):
            counted = (
                f"{name} ({len(runs)} splits)" if len(runs) > 1 and look.marker != "none" and not look.hollow else name
            )
            alpha = 1.0 if len(runs) == 1 else 0.45
            ax.plot(run[along], run[value], label=counted if number == 0 else None, alpha=alpha, **look.of_line())
    _focus(frame[value], ax)
    ax.legend(loc="best")


def _focus(values: pd.Series, ax: Axes) -> None:
    """Leave out the first plunge: the lowest tenth of the values would flatten everything that matters."""
    finite = values.dropna()
    low, high = finite.quantile(0.1), finite.max()
    if finite.min() < low - 3 * (high - low):
        ax.set_ylim(low - 0.2 * (high - low), high + 0.1 * (high - low))
