"""Propagation of rows through the layers: (prior, q, inputs, standard normals) -> the output GP's moments.

Every function takes its standard normals as an argument, so that nested structures give identical paths for equal
normals. A hidden layer is sampled with variance d + jitter, and the same d + jitter enters all later conditionals;
the output's variance stays raw (docs/methods.md, "Jitter").
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from dgpbench.gp.block_gaussian import Blocks
from dgpbench.gp.layers import FeatureRows, Features, GPLayer
from dgpbench.gp.linear_algebra import bilinear, block_gram, gram, lower_gram, quadratic
from dgpbench.gp.prior import DeepGP


class Paths(NamedTuple):
    """R paths of B rows: the moments of the output given the hidden layers, and the hidden layers themselves.

    :param mean: mu^, [R, B]
    :param variance: Sigma^, without the likelihood's noise, [R, B]
    :param hidden: f^l of each hidden layer, [T_l, R, B]
    :param residual: k - a^T a of the output layer, the part of the variance that v does not explain, [R, B]; None where
        moments were matched
    :param log_weights: of the paths, [R], or of the latent inputs of rows, [R, B]; None for equal weights
    """

    mean: tf.Tensor
    variance: tf.Tensor
    hidden: list[tf.Tensor]
    residual: tf.Tensor | None = None
    log_weights: tf.Tensor | None = None


def path_shapes(widths: tuple[int, ...], num_samples: int, num_rows) -> list[tf.Tensor]:
    """The shapes [T_l, R, B] of the hidden layers' standard normals."""
    return [tf.stack([width, num_samples, num_rows]) for width in widths[:-1]]


def marginalise(prior: DeepGP, q: Blocks, choleskys: list[tf.Tensor], X: tf.Tensor, normals: list[tf.Tensor]) -> Paths:
    """Integrate v out and sample layer by layer from q(f^l | f^1 .. f^{l-1}) (Lindinger et al. 2020, Theorem 1).

        mu^    = mu~^l + S~^{l,1:l-1} (S~^{1:l-1,1:l-1})^{-1} (f^{1:l-1} - mu~^{1:l-1})
        Sigma^ = S~^{ll} - S~^{l,1:l-1} (S~^{1:l-1,1:l-1})^{-1} S~^{1:l-1,l}

    :param X: rows of every path, [B, D], or each path's own, [R, B, D]
    :param normals: standard normals of the hidden layers, one [T_l, R, B] a layer
    """
    step = _RecursiveMarginals if q.structure.is_recursive else _DenseMarginals
    marginals = step(q.factors_as(prior.layers[0].columns))  # S meets columns alone, which are of this type
    features: list[Features] = []
    hidden: list[tf.Tensor] = []
    H = X if X.shape.rank == 3 else X[None]
    for index, layer in enumerate(prior.layers):
        features.append(layer.features(H, choleskys[index]))
        mean, variance = marginals.conditional(features)
        if index == len(prior.layers) - 1:
            R = tf.shape(normals[-1])[1] if normals else tf.shape(H)[0]
            residual = features[-1].residual
            return Paths(_per_path(mean[0], R), _per_path(variance[0], R), hidden, _per_path(residual, R))
        hidden.append(marginals.sample(mean, variance, normals[index], layer.jitter))
        H = tf.transpose(hidden[-1], [1, 2, 0])
    raise ValueError("a deep GP has at least one layer")


def marginalise_jointly(
    prior: DeepGP, q: Blocks, choleskys: list[tf.Tensor], H: tf.Tensor, normals: list[tf.Tensor], num_inputs: int
) -> Paths:
    """Propagate K inputs of each row as inputs of the same functions: hidden layers are drawn jointly over the K.

        Cov[f_t(h_k), f_t(h_j)] = k(h_k, h_j) + a_k^T (S_t - I) a_j + (w + s2_l) [k = j],   S_t = C_t C_t^T

    :param q: a mean-field posterior
    :param H: inputs of the first layer, those of a row side by side, [R K, B, D]
    :param normals: standard normals of the hidden layers, one [T_l, R K, B] a layer
    :param num_inputs: K
    """
    hidden: list[tf.Tensor] = []
    for index, layer in enumerate(prior.layers):
        features = layer.features(H, choleskys[index])
        mean, S = _unconditional_mean(q, index, features), q.covariance(index)
        if index == len(prior.layers) - 1:
            return Paths(mean[0], _own_variance(S, features)[0], hidden)
        covariance = _joint_covariance(layer, S, features.A, H, num_inputs)
        e = _by_row(tf.transpose(normals[index], [1, 2, 0]), num_inputs)  # [R, B, K, T_l]
        e = tf.linalg.matvec(tf.linalg.cholesky(covariance), tf.transpose(e, [3, 0, 1, 2]))
        hidden.append(mean + tf.reshape(tf.transpose(e, [0, 1, 3, 2]), tf.shape(mean)))
        H = tf.transpose(hidden[-1], [1, 2, 0])
    raise ValueError("a deep GP has at least one layer")


def _joint_covariance(layer: GPLayer, S: tf.Tensor, A: tf.Tensor, H: tf.Tensor, num_inputs: int) -> tf.Tensor:
    """The covariance of ``marginalise_jointly`` with the jitter of a sampled layer, [T_l, R, B, K, K]."""
    K, T, M = num_inputs, S.shape[0], S.shape[1]
    inputs, a = _by_row(H, K), _by_row(tf.transpose(A, [1, 2, 0]), K)
    # One product with all GPs' S, and one small product for each row, with no transpose of [T, M, R K B] numbers.
    stacked = tf.reshape(tf.transpose(S - tf.eye(M, dtype=S.dtype), [1, 0, 2]), [M, T * M])
    projected = tf.reshape(tf.reshape(a, [-1, M]) @ stacked, tf.stack([*tf.unstack(tf.shape(a)[:2]), K * T, M]))
    forms = tf.matmul(a, projected, transpose_b=True)
    forms = tf.transpose(tf.reshape(forms, tf.concat([tf.shape(forms)[:3], [K, T]], axis=0)), [4, 0, 1, 2, 3])
    noise = layer.white_noise + layer.output_noise + layer.jitter
    return forms + layer.kernel(inputs) + noise * tf.eye(K, dtype=S.dtype)


def _by_row(values: tf.Tensor, num_inputs: int) -> tf.Tensor:
    """[R K, B, P] as [R, B, K, P]."""
    B, P = tf.shape(values)[1], values.shape[2]
    return tf.transpose(tf.reshape(values, tf.stack([-1, num_inputs, B, P])), [0, 2, 1, 3])


def given(
    prior: DeepGP, v: list[tf.Tensor], choleskys: list[tf.Tensor], X: tf.Tensor | FeatureRows, normals: list[tf.Tensor]
) -> Paths:
    """Sample layer by layer from the prior conditional given particular inducing outputs (paper, Eq. 12).

        f^l | v = m(h) + a^T v + sqrt(k - a^T a) e

    :param v: whitened inducing outputs of each path, one [R, T_l, M] a layer
    :param X: rows of every path, [B, D], or each path's own, [R, B, D]; or their features in the first layer
    """
    hidden: list[tf.Tensor] = []
    for index, layer in enumerate(prior.layers):
        if hidden:
            features = layer.features(tf.transpose(hidden[-1], [1, 2, 0]), choleskys[index])
        elif isinstance(X, FeatureRows):
            features = X.features()
        else:
            features = layer.features(X if X.shape.rank == 3 else X[None], choleskys[index])
        A = features.A
        projected = tf.matmul(tf.cast(v[index], A.dtype), tf.transpose(A, [1, 0, 2]))  # a^T v, [R, T, B]
        mean = features.mean + tf.transpose(tf.cast(projected, v[index].dtype), [1, 0, 2])
        if index == len(prior.layers) - 1:
            R = tf.shape(v[index])[0]
            residual = _per_path(features.residual, R)
            return Paths(_per_path(mean[0], R), residual, hidden, residual)
        hidden.append(mean + tf.sqrt(features.residual + layer.jitter) * normals[index])
    raise ValueError("a deep GP has at least one layer")


def split_layers(flat: tf.Tensor, widths: tuple[int, ...]) -> list[tf.Tensor]:
    """Whitened inducing outputs of all layers, [K, T M], as one [K, T_l, M] a layer."""
    K, M = tf.shape(flat)[0], flat.shape[1] // sum(widths)
    parts = tf.split(flat, [width * M for width in widths], axis=1)
    return [tf.reshape(part, tf.stack([K, width, M])) for part, width in zip(parts, widths, strict=True)]


def _per_path(values: tf.Tensor, R: tf.Tensor) -> tf.Tensor:
    """[1, B] or [R, B] as [R, B]: at depth 1 every path has the same moments."""
    return tf.broadcast_to(values, tf.stack([R, tf.shape(values)[1]]))


def _unconditional_mean(q: Blocks, layer: int, features: Features) -> tf.Tensor:
    """mu~ = m(h) + a^T m, [T_l, R, B]."""
    M = tf.shape(features.A)[0]
    projected = tf.cast(q.means[layer], features.A.dtype) @ tf.reshape(features.A, [M, -1])
    return features.mean + tf.cast(tf.reshape(projected, tf.shape(features.mean)), features.mean.dtype)


def _own_variance(S: tf.Tensor, features: Features) -> tf.Tensor:
    """a^T S a + k - a^T a, [P, R, B] for blocks S [P, M, M].

    In float64 as k + a^T (S - I) a, one pass over A less; in float32 that difference would be lost.
    """
    kind = features.residual.dtype
    if features.A.dtype != kind:
        return tf.cast(quadratic(S, features.A), kind) + features.residual
    return quadratic(S - tf.eye(tf.shape(S)[-1], dtype=S.dtype), features.A) + features.prior_variance


class _RecursiveMarginals:
    """Theorem 1 for STAR and its sub-cases, without any per-row linear algebra (docs/methods.md, "Recursion for STAR").

    Hidden GPs of different index t are uncoupled, so for each t the nodes (1, t), (2, t), .. form a chain of scalars,
    and an unrolled LDL^T over the layers, elementwise over (t, r, b), gives

        w_lk = G_lk - sum_{j<k} U_lj U_kj d_j,   U_lk = w_lk / d_k,   G = S~
        mu^l = mu~^l + sum_k U_lk e_k,           d_l = G_ll - sum_k U_lk w_lk

    with innovations e_k = f^k - mu^k of variance d_k. The output has one such row over all (k, t), with sums
    over t and k.
    """

    def __init__(self, q: Blocks):
        self.q = q
        self.U: list[dict[int, tf.Tensor]] = []  # U_lk, [tau, R, B]
        self.d: list[tf.Tensor] = []  # d_k + jitter
        self.e: list[tf.Tensor] = []

    def conditional(self, features: list[Features]) -> tuple[tf.Tensor, tf.Tensor]:
        """mu^ and Sigma^ of the newest layer given the sampled ones, [T_l, R, B] each."""
        layer = len(features) - 1
        own = features[layer]
        w = self._innovation_covariances(layer, features)
        U = {k: w_k / self.d[k] for k, w_k in w.items()}
        self.U.append(U)
        mean = _unconditional_mean(self.q, layer, own)
        variance = _own_variance(self._covariance(layer, layer), own)
        output = layer == len(self.q.structure.widths) - 1
        for k in U:
            gain, loss = U[k] * self.e[k], U[k] * w[k]
            mean += tf.reduce_sum(gain, axis=0, keepdims=True) if output else gain
            variance -= tf.reduce_sum(loss, axis=0, keepdims=True) if output else loss
        return mean, variance

    def sample(self, mean: tf.Tensor, variance: tf.Tensor, normals: tf.Tensor, jitter: float) -> tf.Tensor:
        """f^l = mu^ + sqrt(d + jitter) e; remembers the innovation and its variance for the layers above."""
        self.d.append(variance + jitter)
        self.e.append(tf.sqrt(variance + jitter) * normals)
        return mean + self.e[-1]

    def _innovation_covariances(self, layer: int, features: list[Features]) -> dict[int, tf.Tensor]:
        w: dict[int, tf.Tensor] = {}
        for k in range(layer):
            terms = [-w[j] * self.U[k][j] for j in w if j in self.U[k]]  # U_lj U_kj d_j = w_lj U_kj
            S = self._covariance(layer, k)
            if S is not None:
                form = bilinear(S, features[layer].A, features[k].A)
                terms.append(tf.cast(form, features[layer].mean.dtype))
            if terms:
                w[k] = sum(terms[1:], terms[0])
        return w

    def _covariance(self, layer: int, earlier: int) -> tf.Tensor | None:
        """S^{l,k} = sum_j C_lj C_kj^T: [tau, M, M], or [1, M, M] for the output with itself."""
        if layer == earlier and not self.q.couplings:
            return self.q.covariance(layer)
        products = [product for j in range(earlier + 1) if (product := self._product(layer, earlier, j)) is not None]
        if not products:
            return None
        if layer == earlier == len(self.q.structure.widths) - 1:
            products = [tf.reduce_sum(product, axis=0, keepdims=True) for product in products]
        return tf.add_n(products)

    def _product(self, layer: int, earlier: int, j: int) -> tf.Tensor | None:
        """C_lj C_kj^T, or None where either block does not exist."""
        C_l, C_k = self._factor(layer, j), self._factor(earlier, j)
        if C_l is None or C_k is None:
            return None
        if layer != earlier:
            return tf.matmul(C_l, C_k, transpose_b=True)
        return lower_gram(C_l) if j == layer else gram(C_l)

    def _factor(self, layer: int, earlier: int) -> tf.Tensor | None:
        return self.q.diagonal[layer] if layer == earlier else self.q.couplings.get((layer, earlier))


class _DenseMarginals:
    """Theorem 1 for any structure, by a Cholesky factor of S~ that grows layer by layer (paper, Eqs. 121-125).

    With S~ + jitter = R R^T over the sampled nodes, f^{1:l-1} - mu~^{1:l-1} = R e for the standard normals e that were
    drawn, so with W = R^{-1} S~^{1:l-1,l}: mu^ = mu~ + W^T e and Sigma^ = S~^{ll} - W^T W, and the next rows of R are
    [W^T, chol(Sigma^ + jitter I)].
    """

    def __init__(self, q: Blocks):
        self.q = q
        columns = block_gram(q.dense_factor(), sum(q.structure.widths))
        self.columns = [tf.unstack(column) for column in columns]  # of S, from the diagonal down
        self.factor: tf.Tensor | None = None  # R, [R, B, n, n]
        self.normals: tf.Tensor | None = None  # e, [R, B, n]
        self.W: tf.Tensor | None = None  # [R, B, n, T_l]

    def conditional(self, features: list[Features]) -> tuple[tf.Tensor, tf.Tensor]:
        """mu^ [T_l, R, B] and Sigma^ of the newest layer; Sigma^ is [R, B, T_l, T_l], for the output [1, R, B]."""
        layer = len(features) - 1
        own = features[layer]
        mean = _unconditional_mean(self.q, layer, own)
        variance = self._within(layer, own)
        if layer > 0:
            cross = tf.concat([self._cross(layer, k, features) for k in range(layer)], axis=-1)  # [R, B, T_l, n]
            self.W = tf.linalg.triangular_solve(self.factor, tf.linalg.matrix_transpose(cross))
            mean += tf.transpose(tf.linalg.matvec(self.W, self.normals, transpose_a=True), [2, 0, 1])
            variance -= tf.matmul(self.W, self.W, transpose_a=True)
        if layer == len(self.q.structure.widths) - 1:
            return mean, tf.transpose(tf.linalg.diag_part(variance), [2, 0, 1])
        return mean, variance

    def sample(self, mean: tf.Tensor, variance: tf.Tensor, normals: tf.Tensor, jitter: float) -> tf.Tensor:
        """f^l = mu^ + chol(Sigma^ + jitter I) e, jointly over the GPs of the layer."""
        e = tf.transpose(normals, [1, 2, 0])
        paths = tf.concat([tf.shape(e)[:2], tf.shape(variance)[2:]], axis=0)
        own = tf.linalg.cholesky(variance + jitter * tf.eye(tf.shape(variance)[-1], dtype=variance.dtype))
        own = tf.broadcast_to(own, paths)
        self._grow(own, e)
        return mean + tf.transpose(tf.linalg.matvec(own, e), [2, 0, 1])

    def _grow(self, own: tf.Tensor, e: tf.Tensor) -> None:
        if self.factor is None:
            self.factor, self.normals = own, e
            return
        above = tf.concat([self.factor, tf.zeros_like(self.W)], axis=-1)
        below = tf.concat([tf.linalg.matrix_transpose(self.W), own], axis=-1)
        self.factor = tf.concat([above, below], axis=-2)
        self.normals = tf.concat([self.normals, e], axis=-1)

    def _cross(self, layer: int, earlier: int, features: list[Features]) -> tf.Tensor:
        """S~ between two layers, [R, B, T_l, T_k]."""
        A = features[layer].A
        T, T_k = self.q.structure.widths[layer], self.q.structure.widths[earlier]
        blocks = [self._block(layer, t, earlier, s) for t in range(T) for s in range(T_k)]
        forms = tf.cast(bilinear(tf.stack(blocks), A, features[earlier].A), features[layer].mean.dtype)
        return _as_matrices(forms, np.arange(T * T_k).reshape(T, T_k))

    def _within(self, layer: int, features: Features) -> tf.Tensor:
        """S~ within a layer, [R, B, T_l, T_l].

        Only one of S_ts and S_st = S_ts^T is needed, and a^T S_ts a is a^T (S_ts + S_ts^T) a / 2, a quadratic form.
        """
        T = self.q.structure.widths[layer]
        pairs = [(t, t) for t in range(T)] + [(t, s) for t in range(T) for s in range(t)]
        forms = _own_variance(tf.stack([self._block(layer, t, layer, t) for t in range(T)]), features)
        if T > 1:
            S = tf.stack([self._block(layer, t, layer, s) for t, s in pairs[T:]])
            cross = quadratic(0.5 * (S + tf.linalg.matrix_transpose(S)), features.A)
            forms = tf.concat([forms, tf.cast(cross, forms.dtype)], axis=0)
        places = np.array([[pairs.index((max(t, s), min(t, s))) for s in range(T)] for t in range(T)])
        return _as_matrices(forms, places)

    def _block(self, layer: int, t: int, earlier: int, s: int) -> tf.Tensor:
        """S[(l, t), (k, s)], [M, M], for a node that does not precede the other."""
        column = self.q.structure.first_node[earlier] + s
        return self.columns[column][self.q.structure.first_node[layer] + t - column]


def _as_matrices(forms: tf.Tensor, places: np.ndarray) -> tf.Tensor:
    """Forms [P, R, B] as a matrix for each path and row, [R, B, *places.shape]: places[t, s] is the form's number."""
    grid = tf.gather(forms, places.ravel())
    shape = tf.concat([places.shape, tf.shape(forms)[1:]], axis=0)
    return tf.transpose(tf.reshape(grid, shape), [2, 3, 0, 1])
