"""Artists of a figure, read from its axes."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def panels(figure: Figure) -> dict[str, Axes]:
    """The axes by their titles, colour bars and empty places left out."""
    found = [ax for ax in figure.axes if ax.axison and ax.get_label() != "<colorbar>"]
    assert len({ax.get_title() for ax in found}) == len(found)
    return {ax.get_title(): ax for ax in found}


def lines(ax: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """x and y of each labelled line."""
    labelled = [line for line in ax.lines if not line.get_label().startswith("_")]
    assert len({line.get_label() for line in labelled}) == len(labelled)
    return {line.get_label(): tuple(np.asarray(each, float) for each in line.get_data()) for line in labelled}


def line_of(ax: Axes, label: str):
    (found,) = [line for line in ax.lines if line.get_label() == label]
    return found


def assert_drawn(ax: Axes, expected: dict[str, tuple], rtol: float = 1e-12) -> None:
    """The labelled lines of the axes are these and no others."""
    found = lines(ax)
    assert set(found) == set(expected)
    for label, (x, y) in expected.items():
        np.testing.assert_allclose(found[label][0], x, rtol=rtol, err_msg=label)
        np.testing.assert_allclose(found[label][1], y, rtol=rtol, err_msg=label)


# Posteriors -----------------------------------------------------------------------------------------------------------


def factor_of(seed: int) -> np.ndarray:
    """A lower-triangular factor of two GPs in the first layer and one in the second, two inducing outputs each.

    The two GPs of the first layer are independent, as in STAR: their block is zero.
    """
    C = np.tril(np.random.default_rng(seed).normal(size=(6, 6)))
    C[2:4, :2] = 0
    return C


def stored(C: np.ndarray) -> dict[str, np.ndarray]:
    """The same as ``posterior.npz`` has it."""
    return {
        "mean_1": np.zeros((2, 2)),
        "mean_2": np.zeros((1, 2)),
        "diagonal_1": np.stack([C[:2, :2], C[2:4, 2:4]]),
        "diagonal_2": C[None, 4:, 4:],
        "coupling_2_1": np.stack([C[4:, 2:4], C[4:, :2]]),  # the second GP first: pairs identify them
        "pairs_2_1": np.array([[0, 1], [0, 0]]),
    }


# Training -------------------------------------------------------------------------------------------------------------


def trace_of(seed: int, rows: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    iteration = 10 * np.arange(1, rows + 1)
    return pd.DataFrame(
        {"iteration": iteration, "seconds": iteration * 0.02 * (1 + seed), "elbo": -50 + rng.normal(size=rows)}
        | {"validation_tll": rng.normal(size=rows)}
    )
