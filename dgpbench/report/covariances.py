"""Numbers of fitted posteriors, from the arrays that a record keeps: covariance, precision, normality of samples."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.predictive import posterior_file


def factor(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """C of q(v) = N(m, C C^T) as one dense matrix; rows and columns are indexed by (layer, gp, inducing) from 1.

    :param arrays: ``posterior.npz`` of a structured method
    :raises UserError: for the arrays of another kind of method
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


def covariance(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """S = C C^T, whitened coordinates."""
    C = factor(arrays)
    return pd.DataFrame(C.to_numpy() @ C.to_numpy().T, index=C.index, columns=C.index)


def precision(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """S^{-1} = C^{-T} C^{-1}, whitened coordinates."""
    from scipy.linalg import solve_triangular

    C = factor(arrays)
    inverse = solve_triangular(C.to_numpy(), np.eye(len(C)), lower=True)
    return pd.DataFrame(inverse.T @ inverse, index=C.index, columns=C.index)


def correlations(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Root mean square correlation of whitened inducing outputs by the kind of block (Lindinger et al. 2020, Sec. 3.2).

    sqrt(mean S_ij^2 / (S_ii S_jj)) over i != j of: one GP; stripes, GPs of one position in two hidden layers; the
    arrow, a hidden layer and the output layer; other GPs across hidden layers; other GPs within a layer. Columns block
    (categories in this order) and correlation; a kind whose covariances are zero is left out.
    """
    S = covariance(arrays)
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
    found = {kind: float(np.sqrt(np.mean(R[where] ** 2))) for kind, where in kinds.items() if R[where].any()}
    return pd.DataFrame({"block": pd.Categorical(list(found), list(kinds)), "correlation": list(found.values())})


def samples(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Samples of v, [S, T M], one column for each inducing output.

    :raises UserError: where the posterior is not kept as samples
    """
    layers = posterior_file.samples(arrays)
    if not layers:
        raise UserError("this run's posterior is not kept as samples; normality is studied for method=sghmc")
    named = {
        f"{layer}.{column}": values[:, column] for layer, values in layers.items() for column in range(values.shape[1])
    }
    return pd.DataFrame(named)


def normality(draws: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """D'Agostino and Pearson's test of each column: columns output, p_value, bonferroni (the level for all at once).

    The test takes draws as independent; a chain that mixes slowly fails it more often than its distribution deserves.
    """
    from scipy.stats import normaltest

    if len(draws) < 20:
        raise UserError(
            f"a test of normality needs 20 samples, and the record keeps {len(draws)}; use prediction.num_samples=20"
        )
    p_values = normaltest(draws.to_numpy(), axis=0).pvalue
    return pd.DataFrame({"output": draws.columns, "p_value": p_values, "bonferroni": alpha / draws.shape[1]})
