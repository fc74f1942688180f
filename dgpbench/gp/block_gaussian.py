"""Gaussian variational posteriors over the whitened inducing outputs v of all layers.

Reference: docs/methods.md, "Structured posteriors".
"""

from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.gp.linear_algebra import half_square_minus_log, lower_gram
from dgpbench.gp.structures import Structure


class Blocks(NamedTuple):
    """The values of q(v) = N(m, C C^T) at one moment, block by block.

    :param structure: which blocks of C exist
    :param means: m, one [T_l, M] a layer
    :param diagonal: the diagonal blocks of C, one lower triangular [T_l, M, M] a layer
    :param couplings: (l, k) -> the off-diagonal blocks of C in the structure's order, [P, M, M]
    :param covariances: C C^T of the diagonal blocks where it is known already, [T_l, M, M]; mean field only
    """

    structure: Structure
    means: list[tf.Tensor]
    diagonal: list[tf.Tensor]
    couplings: dict[tuple[int, int], tf.Tensor]
    covariances: list[tf.Tensor] | None = None

    def covariance(self, layer: int) -> tf.Tensor:
        """The covariance of each GP of a layer in a mean-field posterior, [T_l, M, M]."""
        if self.covariances is not None:
            return self.covariances[layer]
        return lower_gram(self.diagonal[layer])

    def factors_as(self, kind: tf.DType) -> "Blocks":
        """Return the same q with C, and known covariances, in another type."""
        couplings = {key: tf.cast(C, kind) for key, C in self.couplings.items()}
        covariances = self.covariances and [tf.cast(S, kind) for S in self.covariances]
        return Blocks(self.structure, self.means, [tf.cast(C, kind) for C in self.diagonal], couplings, covariances)

    def kl(self) -> tf.Tensor:
        """KL(q(v) || N(0, I)) = 1/2 (|C|_F^2 + |m|^2 - T M - 2 sum log |C_ii|)."""
        size = sum(int(np.prod(m.shape)) for m in self.means)
        squares = [0.5 * tf.reduce_sum(tf.square(values)) for values in [*self.couplings.values(), *self.means]]
        return tf.add_n([*squares, *map(half_square_minus_log, self.diagonal)]) - 0.5 * size

    def panel(self, layer: int, earlier: int) -> tf.Tensor:
        """C between two layers as one matrix with its zeros, [T_l M, T_k M]."""
        parts, places = [], []
        widths = self.structure.widths
        if layer == earlier:
            parts.append(self.diagonal[layer])
            places += [(t, t) for t in range(widths[layer])]
        if (layer, earlier) in self.couplings:
            parts.append(self.couplings[layer, earlier])
            places += self.structure.couplings[layer, earlier]
        M = tf.shape(self.means[0])[-1]
        if not parts:
            return tf.zeros([widths[layer] * M, widths[earlier] * M], self.diagonal[0].dtype)
        blocks = tf.concat(parts, axis=0)
        index = np.array([[t * widths[earlier] + s] for t, s in places], dtype=np.int32)
        grid = tf.scatter_nd(index, blocks, tf.stack([widths[layer] * widths[earlier], M, M]))
        grid = tf.reshape(grid, tf.stack([widths[layer], widths[earlier], M, M]))
        return tf.reshape(tf.transpose(grid, [0, 2, 1, 3]), tf.stack([widths[layer] * M, widths[earlier] * M]))

    def dense_factor(self) -> tf.Tensor:
        """C as one matrix [T M, T M]: the slow, obvious form that tests compare with."""
        layers = range(len(self.structure.widths))
        return tf.concat([tf.concat([self.panel(layer, k) for k in layers], axis=1) for layer in layers], axis=0)

    def dense(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean [T M] and covariance S = C C^T [T M, T M] as plain arrays."""
        C = self.dense_factor()
        return tf.concat([tf.reshape(m, [-1]) for m in self.means], axis=0), tf.matmul(C, C, transpose_b=True)

    def sample(self, normals: list[tf.Tensor]) -> list[tf.Tensor]:
        """v = m + C e for standard normals e, one [R, T_l, M] a layer; the same shapes come back."""
        columns = [tf.transpose(e, [1, 2, 0]) for e in normals]  # [T_l, M, R]
        draws = [self.diagonal[layer] @ e for layer, e in enumerate(columns)]
        for (layer, earlier), C in self.couplings.items():
            t, s = np.array(self.structure.couplings[layer, earlier]).T
            terms = C @ tf.gather(columns[earlier], s)
            draws[layer] += tf.math.unsorted_segment_sum(terms, t, self.structure.widths[layer])
        return [m + tf.transpose(v, [2, 0, 1]) for m, v in zip(self.means, draws, strict=True)]


class BlockGaussian(gpflow.Module):
    """q(v) = N(m, C C^T) over the whitened inducing outputs of all layers, with C block lower triangular.

    Reference: Lindinger et al. 2020, Sec. 3; docs/methods.md, "Structured posteriors".

    :param structure: which blocks exist
    :param num_inducing: M
    :param scales: the diagonal blocks of a layer's GPs start at scale * I, one number a layer
    :param whiten: whether m and C describe v (the default) or the residuals u - m(Z) = Lk v themselves
    """

    def __init__(self, structure: Structure, num_inducing: int, scales, *, whiten: bool = True):
        super().__init__(name="block_gaussian")
        M = num_inducing
        self.structure = structure
        self.whiten = whiten
        self.means = [gpflow.Parameter(np.zeros([width, M])) for width in structure.widths]
        self.diagonal = [
            gpflow.Parameter(scale * np.tile(np.eye(M), [width, 1, 1]))
            for width, scale in zip(structure.widths, scales, strict=True)
        ]
        self._pairs = list(structure.couplings)
        self.couplings = [gpflow.Parameter(np.zeros([len(structure.couplings[key]), M, M])) for key in self._pairs]

    def blocks(self, cholesky: list[tf.Tensor]) -> Blocks:
        """The values of m and C in whitened coordinates.

        :param cholesky: Lk of each layer; used only without whitening, where v = Lk^{-1} (u - m(Z))
        """
        own = self.own_blocks()
        if self.whiten:
            return own
        means = [tf.transpose(_solve(Lk, tf.transpose(m))) for Lk, m in zip(cholesky, own.means, strict=True)]
        diagonal = [_solve(Lk, C) for Lk, C in zip(cholesky, own.diagonal, strict=True)]
        couplings = {key: _solve(cholesky[key[0]], C) for key, C in own.couplings.items()}
        return Blocks(self.structure, means, diagonal, couplings)

    def own_blocks(self) -> Blocks:
        """The values of m and C in the coordinates in which they are trained."""
        means = [tf.convert_to_tensor(m) for m in self.means]
        diagonal = [tf.linalg.band_part(tf.convert_to_tensor(C), -1, 0) for C in self.diagonal]
        couplings = {key: tf.convert_to_tensor(C) for key, C in zip(self._pairs, self.couplings, strict=True)}
        return Blocks(self.structure, means, diagonal, couplings)


def _solve(Lk: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Lk^{-1} applied to each matrix of a stack."""
    stacked = tf.broadcast_to(Lk, tf.concat([tf.shape(values)[:-2], tf.shape(Lk)], axis=0))
    return tf.linalg.triangular_solve(stacked, values)
