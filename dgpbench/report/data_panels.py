"""Panels of a run's picture for people with data: one feature with bands and samples, and partial dependence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dgpbench.predictive import posterior_file

BANDS = {0.95: "0.88", 0.5: "0.76"}
COUNTED = {"category", "flag"}


def data_and_bands(
    grid: tuple[np.ndarray, ...], rows: tuple[np.ndarray, np.ndarray] | None, feature: str, target: str, ax: Axes
) -> Axes:
    """The rows, the central 50 % and 95 % of the prediction, and samples of it, against the only feature.

    :param grid: as ``posterior_file.grid`` gives it
    :param rows: as ``posterior_file.rows`` gives them
    """
    x, y, density, samples = grid
    for share, grey in BANDS.items():
        low, high = (quantiles(y, density, p) for p in ((1 - share) / 2, (1 + share) / 2))
        ax.fill_between(x, low, high, color=grey, linewidth=0, label=f"central {share:.0%} of the prediction")
    at = np.broadcast_to(x, samples.shape)
    ax.scatter(at, samples, s=2, color="#56B4E9", alpha=0.5, linewidths=0, label=f"{len(samples):,} samples at each x")
    for name, points, colour in zip(("training", "test"), rows or (), ("0.35", "#D55E00"), strict=False):
        ax.scatter(
            points[:, 0], points[:, 1], s=9, marker="x", color=colour, linewidths=0.7, alpha=0.8, label=f"{name} rows"
        )
    ax.set_xlabel(feature, parse_math=False)
    ax.set_ylabel(f"{target} (original units)", parse_math=False)
    ax.set_title("Prediction over the training range")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def quantiles(y: np.ndarray, density: np.ndarray, p: float) -> np.ndarray:
    """The y below which p of each row of a density on a grid lies, [G].

    :param y: [K], evenly spaced
    :param density: [G, K]
    """
    below = np.cumsum(density, axis=1) - 0.5 * density
    return np.array([np.interp(p, row, y) for row in below / density.sum(axis=1, keepdims=True)])


def partial_dependence(effect: np.ndarray, column: Mapping[str, Any], target: str, ax: Axes) -> Axes:
    """The mean prediction against one column, and two standard deviations either side.

    :param effect: [G, 3], as ``posterior_file.effects`` gives it
    :param column: what the record says of the column
    """
    values, mean, deviation = effect.T
    if column["kind"] in COUNTED:
        names = column.get("categories", ["false", "true"])
        ax.errorbar(np.arange(len(values)), mean, 2 * deviation, fmt="o", elinewidth=0.9)
        ax.set_xticks(np.arange(len(values)), [names[int(value)][:12] for value in values], parse_math=False)
        ax.set_xlim(-0.5, len(values) - 0.5)
        if len(values) > 4:
            ax.tick_params(axis="x", rotation=45)
    else:
        ax.fill_between(values, mean - 2 * deviation, mean + 2 * deviation, color=BANDS[0.95], linewidth=0)
        ax.plot(values, mean, marker="o" if len(values) < 5 else None)
    if column["kind"] == "date":
        ax.xaxis_date()  # matplotlib counts days since 1970-01-01 too
        ax.tick_params(axis="x", rotation=30)
    ax.set_xlabel(column["column"], parse_math=False)
    ax.set_ylabel(target, parse_math=False)
    return ax


def partial_dependences(
    effects: Mapping[int, np.ndarray], columns: Sequence[Mapping[str, Any]], target: str, axes: Sequence[Axes]
) -> None:
    """A panel for each column, on one scale of the target, so that what matters more looks larger."""
    for (number, effect), ax in zip(effects.items(), axes, strict=False):
        partial_dependence(effect, columns[number], target, ax)
    used = axes[: len(effects)]
    low, high = min(ax.get_ylim()[0] for ax in used), max(ax.get_ylim()[1] for ax in used)
    for ax in used:
        ax.set_ylim(low, high)
    for ax in axes[len(effects) :]:
        ax.set_axis_off()


@dataclass(frozen=True)
class Below:
    """The second row of a run's picture.

    :param height: in inches
    :param draw: into the lower part of the figure
    """

    height: float
    draw: Callable[[Any], object]


def below(data: Mapping[str, Any], arrays: Mapping[str, np.ndarray], target: str) -> Below | None:
    """One feature with bands and samples, or partial dependence, where the run kept what they need; else None.

    :param data: the part of the record that describes the data
    """
    grid, effects = posterior_file.grid(arrays), posterior_file.effects(arrays)
    if grid is not None:
        names = [name for name in data.get("features", []) if name not in data["dropped"]] or ["x"]
        one = partial(data_and_bands, grid, posterior_file.rows(arrays), names[0], target)
        return Below(3.6, lambda figure: one(figure.subplots()))
    if not effects:
        return None
    beside = 2 if len(effects) in (2, 4) else min(3, len(effects))
    shape = (-(-len(effects) // beside), beside)
    return Below(0.5 + 2.4 * shape[0], lambda figure: _effects(figure, effects, data["columns"], target, shape))


def _effects(
    figure: Any,
    effects: Mapping[int, np.ndarray],
    columns: Sequence[Mapping[str, Any]],
    target: str,
    shape: tuple[int, int],
) -> None:
    partial_dependences(effects, columns, target, list(figure.subplots(*shape, squeeze=False).flat))
    figure.suptitle(
        "Partial dependence: the mean prediction over training rows with one column changed, ± two standard deviations",
        fontsize=10,
    )
