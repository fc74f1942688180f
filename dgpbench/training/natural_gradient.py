"""Natural gradients on a Gaussian q = N(m, C C^T), with Adam on the rest (docs/methods.md, "Natural gradients").

An own step: GPflow's goes through S = E[v v^T] - m m^T, which cancels at the papers' starting value C = 1e-5 I
(relative error 1.5e-4 at |m| ~ 100, failure at 1e4). At C = O(1) the two agree.
"""

import tensorflow as tf

from dgpbench.gp.block_gaussian import BlockGaussian, Blocks
from dgpbench.training.loops import create_slots

HALVINGS = 30
LEAF = 256


def natural_step(
    m: tf.Tensor, C: tf.Tensor, dm: tf.Tensor, dC: tf.Tensor, gamma: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """One natural-gradient step of length gamma on a loss, for a batch of Gaussians (Salimbeni et al. 2018).

        P = tril(C^T tril(dl/dC)),  P <- P + P^T - diag P,  so that dl/dS = 1/2 C^{-T} P C^{-1} for S = C C^T
        Lam' = Lam + 2 gamma dl/dS = C^{-T} (I + gamma P) C^{-1}
        Lam' m' = Lam m - gamma (dl/dm - 2 dl/dS m), with right side Lam' m - gamma dl/dm

    With I + gamma P = V V^T, V upper triangular, C' = C V^{-T} is the lower factor of S' and m' = m - gamma S' dl/dm:
    one product, one Cholesky factor and one solve. Where V does not exist, gamma is halved for all of the batch; after
    ``HALVINGS`` halvings nothing moves. Products and solves of triangular matrices go by halves down to ``LEAF`` rows.

    :param m: [T, M]
    :param C: lower triangular, [T, M, M]
    :param dm: dl/dm, [T, M]
    :param dC: dl/dC, [T, M, M]
    """
    P = _lower_of_product(C, tf.linalg.band_part(dC, -1, 0))
    P = P + tf.linalg.matrix_transpose(P) - tf.linalg.diag(tf.linalg.diag_part(P))
    eye = tf.eye(tf.shape(C)[-1], dtype=C.dtype)

    def factor(gamma):
        return _upper_cholesky(eye + gamma * P)

    def failed(gamma, V, halvings):
        return tf.logical_and(halvings < HALVINGS, tf.logical_not(_finite(V)))

    def halve(gamma, V, halvings):
        return 0.5 * gamma, factor(0.5 * gamma), halvings + 1

    gamma = tf.cast(gamma, C.dtype)
    gamma, V, _ = tf.while_loop(failed, halve, (gamma, factor(gamma), tf.constant(0)))
    new_C = _lower_quotient(C, V)
    new_m = m - gamma * tf.linalg.matvec(new_C, tf.linalg.matvec(new_C, dm, transpose_a=True))  # S' = C' C'^T
    ok = tf.logical_and(_finite(new_C), _finite(new_m))
    return tf.where(ok, new_m, m), tf.where(ok, new_C, C)


def _lower_of_product(C: tf.Tensor, D: tf.Tensor) -> tf.Tensor:
    """tril(C^T D) of lower triangular C and D: for large n a third of the whole product's flops.

    Its blocks are C11^T D11 + C21^T D21 (lower triangle), C22^T D21 and C22^T D22 (lower triangle).
    """
    half = C.shape[-1] // 2
    if 2 * half < LEAF:
        return tf.linalg.band_part(tf.matmul(C, D, transpose_a=True), -1, 0)
    (C11, C21, C22), (D11, D21, D22) = _lower_blocks(C, half), _lower_blocks(D, half)
    above = _lower_of_product(C11, D11) + tf.linalg.band_part(tf.matmul(C21, D21, transpose_a=True), -1, 0)
    return _from_lower_blocks(above, tf.matmul(C22, D21, transpose_a=True), _lower_of_product(C22, D22))


def _lower_quotient(C: tf.Tensor, V: tf.Tensor) -> tf.Tensor:
    """C V^{-T} of lower triangular C and upper triangular V, itself lower triangular: half the flops of a whole solve.

    Its blocks are X11 = C11 V11^{-T}, X22 = C22 V22^{-T} and X21 = (C21 - X22 V12^T) V11^{-T}.
    """
    half = C.shape[-1] // 2
    if 2 * half < LEAF:
        return _solve_right(C, V)
    C11, C21, C22 = _lower_blocks(C, half)
    V11, V12, V22 = V[:, :half, :half], V[:, :half, half:], V[:, half:, half:]
    X22 = _lower_quotient(C22, V22)
    X21 = _solve_right(C21 - tf.matmul(X22, V12, transpose_b=True), V11)
    return _from_lower_blocks(_lower_quotient(C11, V11), X21, X22)


def _solve_right(B: tf.Tensor, V: tf.Tensor) -> tf.Tensor:
    """B V^{-T} for upper triangular V."""
    return tf.linalg.matrix_transpose(tf.linalg.triangular_solve(V, tf.linalg.matrix_transpose(B), lower=False))


def _lower_blocks(A: tf.Tensor, half: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    return A[:, :half, :half], A[:, half:, :half], A[:, half:, half:]


def _from_lower_blocks(A11: tf.Tensor, A21: tf.Tensor, A22: tf.Tensor) -> tf.Tensor:
    above = tf.pad(A11, [[0, 0], [0, 0], [0, A22.shape[-1]]])
    return tf.concat([above, tf.concat([A21, A22], axis=-1)], axis=-2)


def _upper_cholesky(S: tf.Tensor) -> tf.Tensor:
    """The upper triangular U with S = U U^T: J chol(J S J) J, where J reverses the order; NaN if it does not exist."""
    L = tf.linalg.cholesky(tf.reverse(S, [-2, -1]))
    return tf.reverse(tf.linalg.band_part(L, -1, 0), [-2, -1])


def _finite(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(tf.math.is_finite(values))


class NaturalGradientAdam:
    """An optimiser for ``training.loops``: natural gradients on q, Adam on all other variables, one decay for both.

    :param q: mean field (a step for each layer) or fully coupled (one for all); for other structures the map to natural
        parameters is not invertible (Lindinger et al. 2020, Sec. 3.2)
    :param adam: for all variables that are not q's, its learning rate a schedule
    :param gamma: step -> the natural gradient's step length
    """

    def __init__(self, q: BlockGaussian, adam, gamma):
        self.q, self.adam, self.gamma = q, adam, gamma
        self._own = {id(variable) for variable in q.trainable_variables}

    def build(self, variables) -> None:
        """Create Adam's slots and counter before the graph is traced."""
        create_slots(self.adam, [variable for variable in variables if id(variable) not in self._own])

    def variables(self) -> list:
        """Return the variables for the checkpoint."""
        return self.adam.variables()

    def apply_gradients(self, pairs) -> None:
        """Take one step of both optimisers."""
        pairs = list(pairs)
        gradients = {id(variable): gradient for gradient, variable in pairs if id(variable) in self._own}
        gamma = self.gamma(self.adam.iterations)
        step = _coupled_step if self.q.structure.couplings else _layer_steps
        step(self.q, gradients, gamma)
        self.adam.apply_gradients([pair for pair in pairs if id(pair[1]) not in self._own])


def _layer_steps(q: BlockGaussian, gradients: dict, gamma: tf.Tensor) -> None:
    for mean, factor in zip(q.means, q.diagonal, strict=True):
        m, C = (parameter.unconstrained_variable for parameter in (mean, factor))
        new_m, new_C = natural_step(m, tf.linalg.band_part(C, -1, 0), gradients[id(m)], gradients[id(C)], gamma)
        m.assign(new_m)
        C.assign(new_C)


def _coupled_step(q: BlockGaussian, gradients: dict, gamma: tf.Tensor) -> None:
    values = q.own_blocks()
    means, diagonal, couplings = (
        [gradients[id(p.unconstrained_variable)] for p in group] for group in (q.means, q.diagonal, q.couplings)
    )
    slopes = Blocks(q.structure, means, diagonal, dict(zip(values.couplings, couplings, strict=True)))
    m, dm = (tf.concat([tf.reshape(each, [-1]) for each in blocks.means], axis=0)[None] for blocks in (values, slopes))
    new_m, new_C = natural_step(m, values.dense_factor()[None], dm, slopes.dense_factor()[None], gamma)
    _assign_dense(q, new_m[0], new_C[0])


def _assign_dense(q: BlockGaussian, m: tf.Tensor, C: tf.Tensor) -> None:
    """Write a dense mean [T M] and factor [T M, T M] into q's blocks."""
    structure = q.structure
    M, nodes = q.means[0].shape[1], sum(structure.widths)
    means = tf.split(tf.reshape(m, [nodes, M]), list(structure.widths))
    grid = tf.transpose(tf.reshape(C, [nodes, M, nodes, M]), [0, 2, 1, 3])
    first = structure.first_node
    for layer, width in enumerate(structure.widths):
        q.means[layer].assign(means[layer])
        places = [[first[layer] + t] * 2 for t in range(width)]
        q.diagonal[layer].assign(tf.gather_nd(grid, places))
    for ((layer, earlier), pairs), coupling in zip(structure.couplings.items(), q.couplings, strict=True):
        coupling.assign(tf.gather_nd(grid, [[first[layer] + t, first[earlier] + s] for t, s in pairs]))
