"""Pictures of q: covariance and precision (Lindinger et al. 2020, Figs. 1 and S8), normality of samples (Fig. S6)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.figures.style import entries, log_scale, name_rows, row_lines

LEAST_P = 1e-20  # of the axis of p-values, which may underflow to 0
DECADES = 8  # below the largest entry; smaller ones share the darkest colour


def covariance_heatmap(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Log-absolute covariance of the whitened inducing outputs; blocks that are zero stay white.

    :param frame: square, rows and columns indexed by (layer, gp, inducing), as ``posteriors.covariance`` gives it
    """
    return _heatmap(frame, ax, "covariance")


def precision_heatmap(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Log-absolute precision (inverse covariance), drawn like the covariance."""
    return _heatmap(frame, ax, "precision")


def _heatmap(frame: pd.DataFrame, ax: Axes, what: str) -> Axes:
    values = np.abs(frame.to_numpy())
    logs = np.log10(values, where=values > 0, out=np.full(values.shape, np.nan))
    high = np.nanmax(logs)
    image = ax.imshow(
        logs, cmap="viridis", vmin=max(np.nanmin(logs), high - DECADES), vmax=high, interpolation="nearest"
    )
    ax.figure.colorbar(image, ax=ax, shrink=0.85, label=f"log$_{{10}}$ |{what}| (whitened, no unit)")
    _draw_blocks(frame.index, ax)
    return ax


def _draw_blocks(index: pd.MultiIndex, ax: Axes) -> None:
    """Thin lines between GPs, thick ones between layers, and each layer's name at its middle."""
    layers = index.get_level_values("layer").to_numpy()
    gps = index.get_level_values("gp").to_numpy()
    for place in range(1, len(index)):
        if layers[place] != layers[place - 1] or gps[place] != gps[place - 1]:
            thick = layers[place] != layers[place - 1]
            for line in (ax.axhline, ax.axvline):
                line(place - 0.5, color="black" if thick else "0.6", linewidth=1.0 if thick else 0.4)
    names = list(dict.fromkeys(layers))
    middles = [np.flatnonzero(layers == layer).mean() for layer in names]
    ax.set_xticks(middles, [str(layer) for layer in names])
    name_rows(ax, middles, [str(layer) for layer in names])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.set_xlabel("layer (blocks: its GPs)")
    ax.set_ylabel("layer (blocks: its GPs)")


def block_correlations(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Root mean square correlation of inducing outputs in each kind of block, a mark for each method.

    :param frame: columns method, num_layers, block, correlation, as ``covariances.correlations`` gives it
    """
    blocks = frame["block"].cat.remove_unused_categories().cat
    kinds = list(blocks.categories)
    for name, look, rows in entries(frame.assign(place=blocks.codes)):
        ax.plot(rows["correlation"], rows["place"], label=name, markersize=5, **look.of_points())
    name_rows(ax, range(len(kinds)), kinds)
    row_lines(ax, len(kinds))
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.set_xlabel("RMS correlation of inducing outputs (no unit)")
    ax.set_ylabel("block")
    ax.legend()
    return ax


def sample_histogram(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Samples of one inducing output with the fitted normal density (Fig. S6, left).

    :param frame: columns value (the samples), mean, deviation and p_value (one for all rows)
    """
    values = frame["value"]
    mean, deviation, p_value = (float(frame[name].iloc[0]) for name in ("mean", "deviation", "p_value"))
    ax.hist(
        values,
        bins="sqrt",
        density=True,
        color="#56B4E9",
        edgecolor="white",
        linewidth=0.4,
        label=f"{len(values)} samples",
    )
    grid = np.linspace(mean - 4 * deviation, mean + 4 * deviation, 200)
    density = np.exp(-0.5 * ((grid - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
    ax.plot(grid, density, color="black", label=f"fitted normal (p = {p_value:.2g})")
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])
    ax.set_xlabel("inducing output (whitened, no unit)")
    ax.set_ylabel("density (per unit of the output)")
    ax.legend(loc="upper right")
    return ax


def normality_p_values(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Sorted p-values of all inducing outputs, with the level alpha / number (Fig. S6, right).

    :param frame: columns p_value and bonferroni, as ``posteriors.normality`` gives it
    """
    ordered = np.sort(frame["p_value"].to_numpy())
    level = float(frame["bonferroni"].iloc[0])
    below = int((ordered < level).sum())
    ranks, hidden = np.arange(1, len(ordered) + 1), ordered < LEAST_P
    ax.plot(ranks[~hidden], ordered[~hidden], ".", color="#0072B2", label=f"{len(ordered)} inducing outputs")
    if hidden.any():
        smaller = f"{hidden.sum()} of them below {LEAST_P:g}"
        ax.plot(ranks[hidden], np.full(hidden.sum(), LEAST_P), "v", color="#0072B2", markersize=4, label=smaller)
    uniform = (ranks - 0.5) / len(ordered)
    ax.plot(ranks, uniform, color="0.4", linestyle=":", label="expected of normal samples")
    ax.axhline(level, color="#D55E00", linestyle="--", label=f"Bonferroni level {level:.1g} ({below} below)")
    log_scale(ax, "y")
    ax.set_xlabel("inducing output (rank of its p-value)")
    ax.set_ylabel("p-value of normality (no unit)")
    ax.legend(loc="lower right")
    return ax
