"""The arrays of ``posterior.npz``: how each kind of posterior is written and read. NumPy alone.

blocks    mean_l [T_l, M], diagonal_l [T_l, M, M], coupling_l_k [P, M, M] with pairs_l_k [P, 2], layers from 1
samples   samples_l [S, T_l, M]
subset    mean_l, factor_l [T_l, M, M], subset_rows [M]
grid      grid_x [G], grid_y [K], grid_density [G, K], grid_samples [S, G], for tables with one feature
draws     draws_x [P], draws_y [K, P], draws_of_layer_l [S, P, T_l], for tables with one feature
rows      rows_train [N, 2], rows_test [N*, 2]: x and y, for tables with one feature
effects   effect_columns [K], and for each of them effect_k [G, 3]: value, mean and deviation of the prediction
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

MAX_STORED = 4_000_000  # numbers in the samples that a record keeps
PICTURED = ("grid_", "rows_", "effect_")  # what the picture of a run is drawn from
MAX_ROWS = 2_000  # of a table that a record keeps
Arrays = dict[str, np.ndarray]
Pairs = Mapping[tuple[int, int], Sequence[tuple[int, int]]]


def of_blocks(
    means: Sequence[np.ndarray],
    diagonal: Sequence[np.ndarray],
    couplings: Mapping[tuple[int, int], np.ndarray],
    pairs: Pairs,
) -> Arrays:
    """q(v) = N(m, C C^T) by the blocks of C.

    :param couplings: (l, k) -> the blocks C[(l, t), (k, s)] of ``pairs[l, k]``, layers and GPs counted from 0
    """
    arrays = {f"mean_{layer + 1}": mean for layer, mean in enumerate(means)}
    arrays |= {f"diagonal_{layer + 1}": blocks for layer, blocks in enumerate(diagonal)}
    for (layer, earlier), blocks in couplings.items():
        arrays[f"coupling_{layer + 1}_{earlier + 1}"] = blocks
        arrays[f"pairs_{layer + 1}_{earlier + 1}"] = np.array(pairs[layer, earlier])
    return arrays


def has_blocks(arrays: Mapping[str, np.ndarray]) -> bool:
    """Return whether the arrays are those of ``of_blocks``."""
    return "diagonal_1" in arrays


def widths(arrays: Mapping[str, np.ndarray]) -> list[int]:
    """T_l of each layer."""
    count = sum(name.startswith("diagonal_") for name in arrays)
    return [len(arrays[f"diagonal_{layer}"]) for layer in range(1, count + 1)]


def blocks(arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[int, int, int, int, np.ndarray]]:
    """(layer, earlier layer, GP, earlier GP, block [M, M]) of every block of C, counted from 0."""
    for layer, width in enumerate(widths(arrays)):
        for t in range(width):
            yield layer, layer, t, t, arrays[f"diagonal_{layer + 1}"][t]
    for name in arrays:
        if name.startswith("coupling_"):
            layer, earlier = (int(number) for number in name.split("_")[1:])
            for (t, s), block in zip(arrays[f"pairs_{layer}_{earlier}"], arrays[name], strict=True):
                yield layer - 1, earlier - 1, t, s, block


def of_samples(layers: Sequence[np.ndarray]) -> Arrays:
    """Samples of v, [S, T_l, M] a layer, evenly thinned where they would be too many to keep."""
    size = sum(layer.size for layer in layers)
    step = max(1, -(-size // MAX_STORED))
    return {f"samples_{index + 1}": layer[::step] for index, layer in enumerate(layers)}


def samples(arrays: Mapping[str, np.ndarray]) -> dict[int, np.ndarray]:
    """Layer, counted from 1 -> its samples [S, T_l M]; empty where the posterior is not kept as samples."""
    kept = {int(name.split("_")[1]): values for name, values in arrays.items() if name.startswith("samples_")}
    return {layer: kept[layer].reshape(len(kept[layer]), -1) for layer in sorted(kept)}


def of_subset(means: Sequence[np.ndarray], factors: Sequence[np.ndarray], rows: np.ndarray | None) -> Arrays:
    """q(f_S) of each layer in the values' own coordinates, and which training rows are the subset."""
    arrays = {f"mean_{layer + 1}": mean for layer, mean in enumerate(means)}
    arrays |= {f"factor_{layer + 1}": factor for layer, factor in enumerate(factors)}
    return arrays if rows is None else arrays | {"subset_rows": rows}


def of_grid(x: np.ndarray, y: np.ndarray, density: np.ndarray, draws: np.ndarray) -> Arrays:
    """Return the predictive density, per unit of y, and draws over the range of the only feature, in original units."""
    return {"grid_x": x, "grid_y": y, "grid_density": density, "grid_samples": draws}


def grid(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """x, y, density and draws as ``of_grid`` takes them; None where the run has more than one feature."""
    if "grid_x" not in arrays:
        return None
    return arrays["grid_x"], arrays["grid_y"], arrays["grid_density"], arrays["grid_samples"]


def of_draws(x: np.ndarray, y: np.ndarray, hidden: Sequence[np.ndarray]) -> Arrays:
    """Return draws of y and of the hidden layers at some values of the only feature, x and y in original units."""
    return {"draws_x": x, "draws_y": y} | {f"draws_of_layer_{index + 1}": layer for index, layer in enumerate(hidden)}


def draws(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]] | None:
    """Return x, y and the hidden layers as ``of_draws`` takes them; None for runs with several features."""
    if "draws_x" not in arrays:
        return None
    count = sum(name.startswith("draws_of_layer_") for name in arrays)
    return arrays["draws_x"], arrays["draws_y"], [arrays[f"draws_of_layer_{index + 1}"] for index in range(count)]


def of_rows(train: np.ndarray, test: np.ndarray) -> Arrays:
    """x and y of the rows of a table with one feature, in original units, evenly thinned where there are many."""
    return {f"rows_{name}": rows[:: -(-len(rows) // MAX_ROWS)] for name, rows in (("train", train), ("test", test))}


def rows(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the training and test rows as ``of_rows`` takes them; None for runs with several features."""
    return (arrays["rows_train"], arrays["rows_test"]) if "rows_train" in arrays else None


def of_effects(effects: Mapping[int, np.ndarray]) -> Arrays:
    """Partial dependence on some columns of a user's own table.

    :param effects: the column's number -> [G, 3], its values (of a category, its number), and the prediction's mean and
        standard deviation there, in original units
    """
    numbered = {f"effect_{column}": values for column, values in effects.items()}
    return {"effect_columns": np.array(list(effects), dtype=np.int64)} | numbered if effects else {}


def effects(arrays: Mapping[str, np.ndarray]) -> dict[int, np.ndarray]:
    """Partial dependence as ``of_effects`` takes it; empty where a run kept none."""
    return {int(column): arrays[f"effect_{column}"] for column in arrays.get("effect_columns", ())}
