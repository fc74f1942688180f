"""The counted floor of a gradient step: flops of the products and solves that no implementation can leave out.

Forward and backward, by three identities: the first layer does not see the R paths of a row, so its columns number
N_1 = B, and N_l = R B above; a quadratic form re-uses its forward product; STAR needs no algebra for single rows.

    features       A = Lk^{-1} k(Z, h), a solve is half a product; backward a solve, and dLk = -dK A^T,
                   counted whole:                                                                           4 M^2 N_l
    own block      a^T S a for a symmetric S: S A, and (g A) A^T, counted whole; dA re-uses S A:            4 M^2 N_l
    cross block    a_l^T S a_k: S A_k, S^T (g A_l), (g A_l) A_k^T, on the columns of the earlier layer k:   6 M^2 N_k
    block of S     each product C C^T that enters it: 6 M^3; half with a triangular factor or a symmetric result

Elementwise work (exponentials of the kernel, the scalar recursion, Adam) and the small Cholesky factors of rows and of
k(Z, Z) are not products and are left out, so a floor is not reached; it says how far a step is from the imaginable.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dgpbench.benchmarks.cases import Cell
from dgpbench.methods.settings import MethodSettings, PowerEPSettings, StructuredSettings, SubsetSettings
from dgpbench.runs.resolve import Run

KERNEL_MATRIX = 5  # times M^3: a Cholesky factor, its inverse and, backward, two products


def flops(cell: Cell, run: Run, num_features: int) -> float:
    """Unavoidable flops of one step of a method; NaN for a family that is not counted.

    :param run: the cell's settings
    :param num_features: D
    """
    count = FAMILIES.get(run.card.family)
    return float("nan") if count is None else float(count(cell, run.method, num_features))


def columns(cell: Cell, layer: int) -> int:
    """N_l: the first layer does not see the paths (identity 2)."""
    return cell.B if layer == 0 else cell.R * cell.B


def widths(cell: Cell) -> tuple[int, ...]:
    """T_l."""
    return (*[cell.tau] * (cell.L - 1), 1)


def structured(cell: Cell, method: StructuredSettings, num_features: int) -> float:
    """Structured posteriors: features, quadratic forms, blocks of S; fc_mc samples v and has but the first."""
    from dgpbench.gp.structures import STRUCTURES

    del num_features
    custom = [method.blocks] if method.structure == "custom" else []
    structure = STRUCTURES[method.structure](widths(cell), *custom)
    if not method.marginalise:
        drawn = 6 * cell.M**2 * cell.R * int(structure.factor_pattern.sum())  # v = m + C e, and dC
        return features(cell) + projections(cell) + drawn
    return features(cell) + forms(cell, structure) + covariance_blocks(cell, structure)


def features(cell: Cell) -> float:
    """A of every layer, forward and backward."""
    return 4 * cell.M**2 * sum(columns(cell, layer) for layer in range(cell.L))


def forms(cell: Cell, structure) -> float:
    """a^T S a' for each block of the covariance's pattern.

    Two GPs of one layer share A, so their block enters by its symmetric part: an own block.
    """
    layer_of = np.repeat(np.arange(cell.L), structure.widths)
    total = 0
    for node, earlier in np.argwhere(np.tril(structure.covariance_pattern)):
        layer, k = int(layer_of[node]), int(layer_of[earlier])
        total += (4 if layer == k else 6) * cell.M**2 * columns(cell, k)
    return total


def covariance_blocks(cell: Cell, structure) -> float:
    """S_ab = sum_c C_ac C_bc^T over the blocks c that both rows of C have; C_aa is triangular."""
    C = structure.factor_pattern
    total = 0
    for a, b in np.argwhere(np.tril(structure.covariance_pattern)):
        both = int((C[a] & C[b]).sum())
        if a == b:
            total += 3 * (both - 1) + 1
        else:
            triangular = int(C[a, b])  # c = b
            total += 6 * (both - triangular) + 3 * triangular
    return total * cell.M**3


def projections(cell: Cell) -> float:
    """a^T v for each GP and path, with dA and dv."""
    return 6 * cell.M * sum(width * cell.R * cell.B for width in widths(cell))


def subset(cell: Cell, method: SubsetSettings, num_features: int) -> float:
    """Subset of data: every path has its own kernel matrices in every layer but the first.

    Features as above; a kernel matrix 5 M^3 each; f = t^T F_S a projection (``propagation=diagonal``: a quadratic form
    for each GP and path); the last layer's form and, for each path, P = Lk^{-1} Sig^ Lk^{-T}, 8 M^3 with dP.
    """
    del num_features
    M, R = cell.M, cell.R
    matrices = KERNEL_MATRIX * M**3 * (1 + R * (cell.L - 1))
    last = 4 * M**2 * columns(cell, cell.L - 1) + 8 * M**3 * (R if cell.L > 1 else 1)
    hidden = projections(cell)
    if method.propagation == "diagonal":
        hidden += sum(cell.tau * 4 * M**2 * columns(cell, layer) for layer in range(cell.L - 1))
    covariances = M**3 * sum(widths(cell))
    return features(cell) + matrices + last + hidden + covariances


def sampling(cell: Cell, method: MethodSettings, num_features: int) -> float:
    """SGHMC: one sampler step and one hyperparameter step, each on B rows of one path.

    The sampler wants gradients for v alone: solves forward in every layer, backward in all but the first, and no dLk.
    """
    del method, num_features
    sampler = cell.M**2 * cell.B * (2 * cell.L - 1)
    learner = 4 * cell.M**2 * cell.B * cell.L
    return sampler + learner + 2 * projections(cell)


def power_ep(cell: Cell, method: PowerEPSettings, num_features: int) -> float:
    """Tied sites: G, the cavity's covariance, q's determinant, 8 M^3 a GP; then rows as samples or Gaussians."""
    from dgpbench.gp.structures import mean_field

    sites = 8 * cell.M**3 * sum(widths(cell))
    if method.propagation == "match_moments":
        return sites + matched(cell, num_features)
    return sites + features(cell) + forms(cell, mean_field(widths(cell)))


def fully_factorised(cell: Cell, method: MethodSettings, num_features: int) -> float:
    """A mean-field q(v), whose S are formed, and psi statistics."""
    del method
    return cell.M**3 * sum(widths(cell)) + matched(cell, num_features)


def matched(cell: Cell, num_features: int) -> float:
    """Rows as Gaussians, R plays no part: the first layer's features and forms; above it psi2 of each row, contracted.

    psi2 has P = M (M+1)/2 distinct entries, whose exponents are one product with 2 T + 2 columns and whose contraction
    with the GPs' matrices Q is another; Q = Lk^{-T} (S + m m^T - I) Lk^{-1} costs 5 M^3 a GP. The exponentials, B P a
    layer, are not counted, and are no small part of such a step.
    """
    del num_features
    M, B = cell.M, cell.B
    total = 4 * M**2 * B * (1 + widths(cell)[0])
    for width, inputs in zip(widths(cell)[1:], widths(cell)[:-1], strict=True):
        total += 6 * B * (M * (M + 1) // 2) * (2 * inputs + 2 + width) + KERNEL_MATRIX * M**3 * width
    return total


FAMILIES: dict[str, Callable[[Cell, Any, int], float]] = {
    count.__name__: count for count in (structured, subset, sampling, power_ep, fully_factorised)
}
