"""The counted floor of a gradient step: flops of the products and solves that no implementation can leave out.

Forward and backward, by three identities: the first layer does not see the R paths of a row, so its columns number
N_1 = B, and N_l = R B above; a quadratic form re-uses its forward product; STAR needs no algebra for single rows.

    features       A = Lk^{-1} k(Z, h), a solve is half a product; backward a solve, and dLk = -dK A^T,
                   counted whole:                                                                           4 M^2 N_l
    own block      a^T S a for a symmetric S: S A, and (g A) A^T, counted whole; dA re-uses S A:            4 M^2 N_l
    cross block    a_l^T S a_k: S A_k, S^T (g A_l), (g A_l) A_k^T, on the columns of the earlier layer k:   6 M^2 N_k
    block of S     each product C C^T that enters it: 6 M^3; half with a triangular factor or a symmetric result

Elementwise work (exponentials of the kernel, the scalar recursion, Adam) and the small Cholesky factors of rows and of
k(Z, Z) are not products and are left out, so no implementation reaches the floor.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dgpbench.benchmarks.timing import Cell
from dgpbench.gp.structures import STRUCTURES, Structure, mean_field
from dgpbench.methods.settings import MethodSettings, PowerEPSettings, StructuredSettings, SubsetSettings
from dgpbench.runs.resolve import Run

KERNEL_MATRIX = 5  # times M^3: a Cholesky factor, its inverse and, backward, two products


def flops(cell: Cell, run: Run) -> float:
    """Return the unavoidable flops of one step of a method; NaN for a family that is not counted."""
    count = FAMILIES.get(run.card.family)
    return float("nan") if count is None else float(count(cell, run.method))


def columns(cell: Cell, layer: int) -> int:
    """N_l: the first layer does not see the paths."""
    return cell.B if layer == 0 else cell.R * cell.B


def widths(cell: Cell) -> tuple[int, ...]:
    """T_l."""
    return (*[cell.tau] * (cell.L - 1), 1)


def structured(cell: Cell, method: StructuredSettings) -> float:
    """Structured posteriors: features, quadratic forms, blocks of S; fc_mc samples v and has features alone."""
    if method.bound == "predictive":
        cell = replace(cell, R=method.num_sites)
    if (K := method.num_importance_samples) is not None:  # every path has its own input of the first layer too
        cell = replace(cell, R=1, B=K * cell.R * cell.B)
    custom = [method.blocks] if method.structure == "custom" else []
    structure = STRUCTURES[method.structure](widths(cell), *custom)
    if not method.marginalise:
        drawn = 6 * cell.M**2 * cell.R * int(structure.factor_pattern.sum())  # v = m + C e, and dC
        return features(cell) + projections(cell) + drawn
    return features(cell) + forms(cell, structure) + covariance_blocks(cell, structure)


def features(cell: Cell) -> float:
    """A of every layer, forward and backward."""
    return 4 * cell.M**2 * sum(columns(cell, layer) for layer in range(cell.L))


def forms(cell: Cell, structure: Structure) -> float:
    """a^T S a' for each block of the covariance's pattern.

    Two GPs of one layer share A, so their block enters by its symmetric part: an own block.
    """
    layer_of = np.repeat(np.arange(cell.L), structure.widths)
    layers = layer_of[np.argwhere(np.tril(structure.covariance_pattern))].tolist()  # of both nodes of each block
    return sum((4 if layer == k else 6) * cell.M**2 * columns(cell, k) for layer, k in layers)


def covariance_blocks(cell: Cell, structure: Structure) -> float:
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


def subset(cell: Cell, method: SubsetSettings) -> float:
    """Subset of data: every path has its own kernel matrices in every layer but the first.

    Features as above; a kernel matrix 5 M^3 each; f = t^T F_S a projection (``propagation=diagonal``: a quadratic form
    for each GP and path); the last layer's form and, for each path, P = Lk^{-1} Sig^ Lk^{-T}, 8 M^3 with dP.
    """
    M, R = cell.M, cell.R
    matrices = KERNEL_MATRIX * M**3 * (1 + R * (cell.L - 1))
    last = 4 * M**2 * columns(cell, cell.L - 1) + 8 * M**3 * (R if cell.L > 1 else 1)
    hidden = projections(cell)
    if method.propagation == "diagonal":
        hidden += sum(cell.tau * 4 * M**2 * columns(cell, layer) for layer in range(cell.L - 1))
    covariances = M**3 * sum(widths(cell))
    return features(cell) + matrices + last + hidden + covariances


def sampling(cell: Cell, method: MethodSettings) -> float:
    """SGHMC: one sampler step and one hyperparameter step, each on B rows of one path.

    The sampler needs gradients for v only: solves forward in every layer, backward in all but the first, and no dLk.
    """
    del method
    sampler = cell.M**2 * cell.B * (2 * cell.L - 1)
    learner = 4 * cell.M**2 * cell.B * cell.L
    return sampler + learner + 2 * projections(cell)


def power_ep(cell: Cell, method: PowerEPSettings) -> float:
    """Tied sites: G, the cavity's covariance, q's determinant, 8 M^3 a GP; then rows as samples or Gaussians."""
    sites = 8 * cell.M**3 * sum(widths(cell))
    if method.propagation == "match_moments":
        return sites + matched(cell)
    return sites + features(cell) + forms(cell, mean_field(widths(cell)))


def fully_factorised(cell: Cell, method: MethodSettings) -> float:
    """A mean-field q(v), with its S formed, and psi statistics."""
    del method
    return cell.M**3 * sum(widths(cell)) + matched(cell)


def matched(cell: Cell) -> float:
    """Rows as Gaussians, R plays no part: the first layer's features and forms; above it psi2 of each row, contracted.

    psi2 has P = M (M+1)/2 distinct entries: their exponents are one product with 2 T + 2 columns, their contraction
    with the GPs' matrices Q is another; Q = Lk^{-T} (S + m m^T - I) Lk^{-1} costs 5 M^3 a GP. The exponentials, B P a
    layer, are not counted, although they take a large part of such a step.
    """
    M, B = cell.M, cell.B
    total = 4 * M**2 * B * (1 + widths(cell)[0])
    for width, inputs in zip(widths(cell)[1:], widths(cell)[:-1], strict=True):
        total += 6 * B * (M * (M + 1) // 2) * (2 * inputs + 2 + width) + KERNEL_MATRIX * M**3 * width
    return total


FAMILIES: dict[str, Callable[[Cell, Any], float]] = {
    count.__name__: count for count in (structured, subset, sampling, power_ep, fully_factorised)
}


# The rate of this machine's products ----------------------------------------------------------------------------------

PRODUCT = (128, 128, 2560)  # [128, 128] by [128, 2560]
PRODUCTS = 20  # in a burst: 40 ms
BURSTS = 5


def product_rate(cell: Cell) -> Callable[[], float]:
    """Return a function that measures the GFLOP/s of TensorFlow's products; those of ``mixed`` are float32."""
    import tensorflow as tf

    M, K, N = PRODUCT
    kind = tf.float64 if cell.precision == "float64" else tf.float32
    left, right = tf.random.normal([M, K], dtype=kind), tf.random.normal([K, N], dtype=kind)

    @tf.function
    def multiply():
        total = tf.zeros([], kind)
        for _ in tf.range(PRODUCTS):  # in one graph call, as the products of a step are
            total += tf.matmul(left, right)[0, 0]
        return total

    multiply()
    return lambda: measured_rate(lambda: multiply().numpy(), one_core=cell.threads == 1 and cell.device == "cpu")


@cache
def numpy_rate(precision: str) -> float:
    """Measure the GFLOP/s of NumPy's products on one thread, without importing TensorFlow."""
    from threadpoolctl import threadpool_limits

    M, K, N = PRODUCT
    kind: Any = np.float64 if precision == "float64" else np.float32
    left, right = np.ones([M, K], kind), np.ones([K, N], kind)
    with threadpool_limits(1):
        return measured_rate(lambda: [left @ right for _ in range(PRODUCTS)], one_core=True)


def measured_rate(multiply: Callable[[], Any], *, one_core: bool) -> float:
    """Return GFLOP/s over ``PRODUCTS`` products, in the fastest of some bursts: the rate of a free core.

    Other programs can only slow a burst, some to 0.6 of their rate, and a rate too low would flatter every ratio to a
    floor. On one core the processor time counts, which interruptions do not lengthen.
    """
    now = time.process_time if one_core else time.perf_counter
    seconds = []
    for _ in range(BURSTS):
        start = now()
        multiply()
        seconds.append(now() - start)
    return 2e-9 * PRODUCTS * float(np.prod(PRODUCT)) / min(seconds)
