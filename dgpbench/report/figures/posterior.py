"""Pictures of q: covariance and precision (Lindinger et al. 2020, Figs. 1 and S8), normality of samples (Fig. S6).

``arrays`` are those of a record's ``posterior.npz``, in whitened coordinates.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.predictive import posterior_file
from dgpbench.report.figures.page import SQUARE, WIDE, Panel
from dgpbench.report.figures.sources import first_of_each, posterior
from dgpbench.report.figures.style import entries, log_scale, name_rows, row_lines

LEVEL = 1e-5  # of Fig. S6, corrected for the number of outputs
LEAST_P = 1e-20  # of the axis of p-values, which may underflow to 0
DECADES = 8  # below the largest entry; smaller ones share the darkest colour


def covariance(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Covariance of q, and precision at the depth ``options.precision_layers`` (Figs. 1 and S8)."""
    panels = []
    for (num_layers, _), rows in runs.groupby(["num_layers", "dataset"], sort=False):
        arrays = {title: posterior(run) for title, run in first_of_each(rows)}
        kinds = [(covariance_matrix, draw_covariance)]
        if num_layers == item.options.get("precision_layers"):
            kinds.append((precision_matrix, draw_precision))
        for matrix, draw in kinds:
            panels += [Panel(title, draw, matrix(each), SQUARE, comparable=True) for title, each in arrays.items()]
    return panels


def block_correlations(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Correlations by the kind of covariance block: stripes, arrow and the others; one panel for each data set."""
    panels = []
    for (num_layers, dataset), rows in runs.groupby(["num_layers", "dataset"], sort=False):
        frames = [
            correlations(posterior(run)).assign(method=run["series"], num_layers=num_layers)
            for _, run in first_of_each(rows)
        ]
        if len(frame := pd.concat(frames)):  # nothing is correlated before training
            panels.append(Panel(f"{dataset}, L = {num_layers}", draw_block_correlations, frame, WIDE))
    return panels


def normality(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """An inducing output of SGHMC chosen at random, and the p-values of all (Fig. S6)."""
    panels = []
    for title, run in first_of_each(runs):
        draws = samples(posterior(run))
        tests = normality_tests(draws)
        chosen = tests.iloc[np.random.default_rng(0).integers(len(tests))]
        frame = pd.DataFrame({"value": draws[chosen["output"]], "p_value": chosen["p_value"]})
        panels.append(Panel(f"{title}: one at random", draw_sample_histogram, frame, WIDE))
        panels.append(Panel(title, draw_p_values, tests, WIDE))
    return panels


# Numbers --------------------------------------------------------------------------------------------------------------


def factor(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return C of q(v) = N(m, C C^T) as a dense matrix; rows and columns have the index (layer, gp, inducing) from 1.

    :raises UserError: if the posterior is not structured
    """
    if not posterior_file.has_blocks(arrays):
        raise UserError(
            "this run's posterior has no blocks; covariance pictures are for mf, star, fc and their relatives"
        )
    widths, M = posterior_file.widths(arrays), arrays["diagonal_1"].shape[-1]
    first = np.concatenate([[0], np.cumsum(widths)])
    C = np.zeros((first[-1] * M, first[-1] * M))
    for layer, earlier, t, s, block in posterior_file.blocks(arrays):
        row, column = (first[layer] + t) * M, (first[earlier] + s) * M
        C[row : row + M, column : column + M] = block
    nodes = [(layer + 1, t + 1, m + 1) for layer, width in enumerate(widths) for t in range(width) for m in range(M)]
    index = pd.MultiIndex.from_tuples(nodes, names=["layer", "gp", "inducing"])
    return pd.DataFrame(C, index=index, columns=index)


def covariance_matrix(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """S = C C^T."""
    C = factor(arrays)
    return pd.DataFrame(C.to_numpy() @ C.to_numpy().T, index=C.index, columns=C.index)


def precision_matrix(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """S^{-1} = C^{-T} C^{-1}."""
    from scipy.linalg import solve_triangular

    C = factor(arrays)
    inverse = solve_triangular(C.to_numpy(), np.eye(len(C)), lower=True)
    return pd.DataFrame(inverse.T @ inverse, index=C.index, columns=C.index)


def correlations(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Root mean square correlation of inducing outputs by the kind of block (Lindinger et al. 2020, Sec. 3.2).

    sqrt(mean S_ij^2 / (S_ii S_jj)) over i != j of: one GP; stripes, GPs of one position in two hidden layers; the
    arrow, a hidden layer and the output layer; other GPs across hidden layers; other GPs within a layer. Columns block
    (categories in this order) and correlation; a kind with zero covariances is left out.
    """
    S = covariance_matrix(arrays)
    deviations = np.sqrt(np.diag(S))
    R = S.to_numpy() / np.outer(deviations, deviations)
    layer, gp = (S.index.get_level_values(level).to_numpy() for level in ("layer", "gp"))
    one_layer, one_gp = layer[:, None] == layer, gp[:, None] == gp
    output = (layer == layer.max())[:, None] | (layer == layer.max())
    kinds = {
        "one GP": one_layer & one_gp & ~np.eye(len(S), dtype=bool),
        "stripes": ~one_layer & one_gp & ~output,
        "arrow": ~one_layer & output,
        "across layers, else": ~one_layer & ~one_gp & ~output,
        "within a layer": one_layer & ~one_gp,
    }
    rms = {kind: float(np.sqrt(np.mean(R[where] ** 2))) for kind, where in kinds.items() if R[where].any()}
    return pd.DataFrame({"block": pd.Categorical(list(rms), list(kinds)), "correlation": list(rms.values())})


def samples(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return the samples of v, [S, T M], one column for each inducing output.

    :raises UserError: if the posterior is not kept as samples
    """
    layers = posterior_file.samples(arrays)
    if not layers:
        raise UserError("this run's posterior is not kept as samples; normality is studied for method=sghmc")
    columns = {f"{layer}.{k}": column for layer, values in layers.items() for k, column in enumerate(values.T)}
    return pd.DataFrame(columns)


def normality_tests(draws: pd.DataFrame) -> pd.DataFrame:
    """Test each column by D'Agostino and Pearson: columns output and p_value.

    The test assumes independent draws; a slowly mixing chain fails it more often than its distribution deserves.
    """
    from scipy.stats import normaltest

    if len(draws) < 20:
        raise UserError(
            f"a test of normality needs 20 samples, and the record has {len(draws)}; use prediction.num_samples=20"
        )
    p_values = normaltest(draws.to_numpy(), axis=0).pvalue
    return pd.DataFrame({"output": draws.columns, "p_value": p_values})


# Drawing --------------------------------------------------------------------------------------------------------------


def _draw_heatmap(frame: pd.DataFrame, ax: Axes, what: str) -> None:
    """Draw the log-absolute entries of a matrix; zero blocks stay white, lines divide GPs and, thicker, layers."""
    values = np.abs(frame.to_numpy())
    logs = np.log10(values, where=values > 0, out=np.full(values.shape, np.nan))
    high = np.nanmax(logs)
    low = max(np.nanmin(logs), high - DECADES)
    image = ax.imshow(logs, cmap="viridis", interpolation="nearest", vmin=low, vmax=high)
    ax.figure.colorbar(image, ax=ax, shrink=0.85, label=f"log$_{{10}}$ |{what}| (whitened, no unit)")
    layers, gps = (frame.index.get_level_values(level).to_numpy() for level in ("layer", "gp"))
    for place in range(1, len(frame)):
        if layers[place] != layers[place - 1] or gps[place] != gps[place - 1]:
            thick = layers[place] != layers[place - 1]
            for line in (ax.axhline, ax.axvline):
                line(place - 0.5, color="black" if thick else "0.6", linewidth=1.0 if thick else 0.4)
    middles = {str(layer): np.flatnonzero(layers == layer).mean() for layer in layers}
    ax.set_xticks(list(middles.values()), list(middles))
    name_rows(ax, middles.values(), middles)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.set(xlabel="layer (blocks: its GPs)", ylabel="layer (blocks: its GPs)")


draw_covariance = partial(_draw_heatmap, what="covariance")
draw_precision = partial(_draw_heatmap, what="precision")


def draw_block_correlations(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw ``correlations`` of several methods (columns method and num_layers), a mark for each."""
    blocks = frame["block"].cat.remove_unused_categories().cat
    kinds = list(blocks.categories)
    for name, look, rows in entries(frame.assign(place=blocks.codes)):
        ax.plot(rows["correlation"], rows["place"], label=name, markersize=5, **look.of_points())
    name_rows(ax, range(len(kinds)), kinds)
    row_lines(ax, len(kinds))
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.set(xlabel="RMS correlation of inducing outputs (no unit)", ylabel="block")


def draw_sample_histogram(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw samples of one inducing output with the fitted normal density (Fig. S6, left).

    :param frame: columns value (the samples) and p_value (the same in all rows)
    """
    from scipy.stats import norm

    values, p_value = frame["value"], frame["p_value"].iloc[0]
    mean, deviation = values.mean(), values.std()
    label = f"{len(values)} samples"
    ax.hist(values, bins="sqrt", density=True, label=label, color="#56B4E9", edgecolor="white", linewidth=0.4)
    grid = np.linspace(mean - 4 * deviation, mean + 4 * deviation, 200)
    ax.plot(grid, norm.pdf(grid, mean, deviation), color="black", label=f"fitted normal (p = {p_value:.2g})")
    ax.set(xlabel="inducing output (whitened, no unit)", ylabel="density (per unit of the output)")
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])


def draw_p_values(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw the sorted p-values of ``normality_tests``, with the paper's level (Fig. S6, right)."""
    ordered = np.sort(frame["p_value"].to_numpy())
    below = int((ordered < LEVEL).sum())
    ranks, hidden = np.arange(1, len(ordered) + 1), ordered < LEAST_P
    ax.plot(ranks[~hidden], ordered[~hidden], ".", color="#0072B2", label=f"{len(ordered)} inducing outputs")
    if hidden.any():
        smaller = f"{hidden.sum()} of them below {LEAST_P:g}"
        ax.plot(ranks[hidden], np.full(hidden.sum(), LEAST_P), "v", color="#0072B2", markersize=4, label=smaller)
    uniform = (ranks - 0.5) / len(ordered)
    ax.plot(ranks, uniform, color="0.4", linestyle=":", label="expected of normal samples")
    ax.axhline(LEVEL, color="#D55E00", linestyle="--", label=f"level {LEVEL:g}, corrected ({below} below)")
    log_scale(ax, "y")
    ax.set(xlabel="inducing output (rank of its p-value)", ylabel="p-value of normality (no unit)")
