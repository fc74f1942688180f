"""Deep GPs with a subset of the training rows as inducing points (Jain et al. 2021, Eq. 11).

Reference: docs/methods.md, "Subset of data".

The inducing inputs of layer l + 1 are the subset's own sampled values Z_S = F_S + eps, so every path r has its own
kernel matrices. A leading R is 1 in the first layer: its inputs are data.
"""

from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels import SquaredExponential, build_kernel
from dgpbench.gp.linear_algebra import (
    lower_gram,
    quadratic_of_paths,
    summed_moments,
    sums_of_squares,
    trace_of_solution,
)
from dgpbench.gp.objectives import LOG_2PI, expected_log_density
from dgpbench.gp.prior import Architecture

MIN_LAYER_NOISE = 1e-8


class SubsetGaussian(NamedTuple):
    """q(f_S^t) = N(mu^t, C^t C^tT) for the GPs t of one layer, in the values' own coordinates.

    :param mean: mu, [T, M]
    :param factor: C, lower triangular, [T, M, M]
    """

    mean: tf.Tensor
    factor: tf.Tensor

    @property
    def covariance(self) -> tf.Tensor:
        """Sig = C C^T, [T, M, M]."""
        return lower_gram(self.factor)

    @property
    def log_determinant(self) -> tf.Tensor:
        """log|Sig|, [T]."""
        return 2.0 * tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(self.factor))), axis=-1)


class Labelled(NamedTuple):
    """q^(F_S) = N(mu^, Sig^), the last layer's q conditioned on the subset's labels.

    :param mean: mu^, [M]
    :param covariance: Sig^, [M, M]
    :param log_determinant: log|Sig^|
    """

    mean: tf.Tensor
    covariance: tf.Tensor
    log_determinant: tf.Tensor


class SubsetFeatures(NamedTuple):
    """What a layer needs of its rows, given the subset's inputs of each path.

    :param Lk: Cholesky factor of K = k(Z_S, Z_S) + jitter I, [R, M, M]
    :param A: Lk^{-1} k(Z_S, z_b), [R, M, B]
    :param residual: k_bb - k(z_b, Z_S) K^{-1} k(Z_S, z_b), [R, B]
    """

    Lk: tf.Tensor
    A: tf.Tensor
    residual: tf.Tensor


class SubsetPaths(NamedTuple):
    """R paths of B rows, and what the bound needs of the subset.

    :param mean: of f^L given the path, [R, B]
    :param variance: of f^L given the path, without the likelihood's noise, [R, B]
    :param labelled: q^ of the last layer
    :param kl: the KL divergences of all layers, of each path or the same for all, [R] or [1]
    """

    mean: tf.Tensor
    variance: tf.Tensor
    labelled: Labelled
    kl: list[tf.Tensor]


def batched_kernel(kernel: gpflow.kernels.IsotropicStationary, H: tf.Tensor, H2: tf.Tensor) -> tf.Tensor:
    """k(h, h') within each path, [R, M, D] and [R, B, D] -> [R, M, B].

    GPflow's own kernels would give the outer product over paths, [R, M, R, B].
    """
    if isinstance(kernel, SquaredExponential):
        return tf.exp(tf.matmul(*kernel.log_factors(H, H2), transpose_b=True))
    H, H2 = H / kernel.lengthscales, H2 / kernel.lengthscales
    squares = tf.reduce_sum(tf.square(H), axis=-1)[..., None] + tf.reduce_sum(tf.square(H2), axis=-1)[..., None, :]
    return kernel.K_r2(tf.maximum(squares - 2.0 * tf.matmul(H, H2, transpose_b=True), 0.0))


def features(kernel, Z_S: tf.Tensor, z: tf.Tensor, jitter: float) -> SubsetFeatures:
    """Lk, A and the residual variance of rows z [R, B, D] given the subset's inputs Z_S [R, M, D]."""
    K = batched_kernel(kernel, Z_S, Z_S)
    K = tf.linalg.set_diag(K, tf.fill(tf.shape(K)[:-1], kernel.variance + tf.cast(jitter, K.dtype)))
    Lk = tf.linalg.cholesky(K)
    A = tf.linalg.triangular_solve(Lk, batched_kernel(kernel, Z_S, z))
    return SubsetFeatures(Lk, A, tf.maximum(kernel.variance - sums_of_squares(A), 0.0))


def condition_on_labels(q: SubsetGaussian, y_S: tf.Tensor, s2: tf.Tensor) -> Labelled:
    """q^(F_S) ∝ N(y_S; F_S, s2 I) q(F_S), without inverses (docs/methods.md, "Subset of data").

        Sig^ = Sig - Sig (Sig + s2 I)^{-1} Sig;   mu^ = mu + Sig (Sig + s2 I)^{-1} (y_S - mu)
        log|Sig^| = log|Sig| + M log s2 - log|Sig + s2 I|

    :param q: of the last layer, T = 1
    :param y_S: labels of the subset, [M]
    """
    Sig, mu = q.covariance[0], q.mean[0]
    J = tf.linalg.cholesky(tf.linalg.set_diag(Sig, tf.linalg.diag_part(Sig) + s2))
    V = tf.linalg.triangular_solve(J, Sig)
    weights = tf.linalg.triangular_solve(J, (y_S - mu)[:, None])
    M = tf.cast(tf.shape(mu)[0], mu.dtype)
    log_J = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(J)))
    return Labelled(
        mu + tf.matmul(V, weights, transpose_a=True)[:, 0],
        Sig - tf.matmul(V, V, transpose_a=True),
        q.log_determinant[0] + M * tf.math.log(s2) - log_J,
    )


def joint_layer(
    q: SubsetGaussian, rows: SubsetFeatures, s2: tf.Tensor, e_S: tf.Tensor, e_noise: tf.Tensor, e: tf.Tensor
):
    """Draw (Z_S', z_b') from their exact joint, for every b, at O(B M^2) (docs/methods.md, "Subset of data").

        F_S = mu + C e_S;   Z_S' = F_S + sqrt(s2_l) e_noise;   z_b' = t_b^T F_S + sqrt(k_bb - t_b^T k_b + s2_l) e_b

    with t_b = K^{-1} k(Z_S, z_b). The noises of f_b and of z_b' are drawn as one.

    :param e_S: [R, T, M]; ``e_noise`` likewise
    :param e: [R, T, B]
    :return: Z_S' [R, M, T], z' [R, B, T]
    """
    F_S = q.mean + tf.linalg.matvec(q.factor, e_S)
    Lk = tf.broadcast_to(rows.Lk, tf.concat([tf.shape(F_S)[:1], tf.shape(rows.Lk)[1:]], axis=0))  # of each path
    weights = tf.linalg.triangular_solve(Lk, tf.linalg.matrix_transpose(F_S))  # Lk^{-1} F_S, [R, M, T]
    f = tf.matmul(rows.A, weights, transpose_a=True)  # [R, B, T]
    z = f + tf.sqrt(rows.residual + s2)[..., None] * tf.linalg.matrix_transpose(e)
    return tf.linalg.matrix_transpose(F_S + tf.sqrt(s2) * e_noise), z


def diagonal_layer(
    q: SubsetGaussian, rows: SubsetFeatures, s2: tf.Tensor, e_S: tf.Tensor, e_noise: tf.Tensor, e: tf.Tensor
):
    """Draw every row, in the subset or not, from its own marginal: the published code, not the paper's bound.

    Z_S,m' ~ N(mu_m, Sig_mm + s2_l);   z_b' ~ N(t_b^T mu, k_bb - t_b^T k_b + t_b^T Sig t_b + s2_l)
    """
    del e_noise
    Z_S = q.mean + tf.sqrt(tf.reduce_sum(tf.square(q.factor), axis=-1) + s2) * e_S
    mean = tf.matmul(rows.A, _solve(rows.Lk, tf.transpose(q.mean)), transpose_a=True)
    spread = [  # one GP at a time bounds the memory
        tf.reduce_sum(tf.square(tf.matmul(_solve(rows.Lk, q.factor[t]), rows.A, transpose_a=True)), axis=1)
        for t in range(q.mean.shape[0])
    ]
    variance = rows.residual[..., None] + tf.stack(spread, axis=-1) + s2
    return tf.linalg.matrix_transpose(Z_S), mean + tf.sqrt(variance) * tf.linalg.matrix_transpose(e)


def output_layer(q: Labelled, rows: SubsetFeatures) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Mean and variance of f_b^L, [R, B] each, and KL(q^ || N(0, K)), [R].

    f_b^L ~ N(t_b^T mu^, k_bb - t_b^T k_b + t_b^T Sig^ t_b)
    """
    weights = _solve(rows.Lk, q.mean[:, None])
    half = _solve(rows.Lk, q.covariance)
    P = tf.linalg.triangular_solve(rows.Lk, tf.linalg.matrix_transpose(half))  # Lk^{-1} Sig^ Lk^{-T}
    mean = tf.matmul(rows.A, weights, transpose_a=True)[..., 0]
    trace = tf.linalg.trace(P) + tf.reduce_sum(tf.square(weights), axis=[1, 2])
    kl = _kl_divergence(trace, rows.Lk, q.log_determinant)
    return mean, rows.residual + quadratic_of_paths(P, rows.A), kl


def kl_divergence(q: SubsetGaussian, Lk: tf.Tensor) -> tf.Tensor:
    """sum_t KL(q_t || N(0, K)) for each path, [R].

        = 1/2 [ tr(K^{-1} sum_t (Sig_t + mu_t mu_t^T)) - T M + T log|K| - sum_t log|Sig_t| ]

    :param Lk: of K, [R, M, M]
    """
    second, log_determinants = summed_moments(q.factor, q.mean)
    return _kl_divergence(trace_of_solution(Lk, second), Lk, log_determinants, q.mean.shape[0])


def _kl_divergence(trace: tf.Tensor, Lk: tf.Tensor, log_determinants: tf.Tensor, T: int = 1) -> tf.Tensor:
    log_K = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(Lk)), axis=-1)
    return 0.5 * (trace - T * Lk.shape[-1] + T * log_K - log_determinants)


def _solve(Lk: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Lk^{-1} times one matrix, for each path."""
    repeated = tf.broadcast_to(values, tf.concat([tf.shape(Lk)[:1], tf.shape(values)], axis=0))
    return tf.linalg.triangular_solve(Lk, repeated)


PROPAGATIONS = {"joint": joint_layer, "diagonal": diagonal_layer}


class SubsetDeepGP(gpflow.Module):
    """A deep GP with zero means and noisy layers z^l = f^l + eps, and training rows as inducing points.

    :param architecture: widths, kernels, likelihood and jitter; its Z, mean maps and white noise play no part
    :param X_S: inputs of the subset, [M, D]
    :param y_S: labels of the subset, [M]
    :param means: mu of each layer at the start, [T_l, M]
    :param scales: C of each layer's GPs starts at scale * I
    :param layer_noise: s2_l of hidden layers at the start
    :param propagation: ``joint`` (the paper's bound) or ``diagonal`` (the published code's)
    """

    def __init__(self, architecture: Architecture, X_S, y_S, means, scales, *, layer_noise=1e-5, propagation="joint"):
        super().__init__(name="subset_deep_gp")
        self.X_S, self.y_S = tf.constant(X_S), tf.constant(y_S)
        self.widths = architecture.widths
        self.jitter = architecture.jitter
        self.propagation = propagation
        dims = (X_S.shape[1], *self.widths[:-1])
        self.kernels = [build_kernel(architecture, dim) for dim in dims]
        self.means = [gpflow.Parameter(mean) for mean in means]
        eye = np.eye(len(X_S))
        self.factors = [
            gpflow.Parameter(scale * np.tile(eye, [T, 1, 1])) for T, scale in zip(self.widths, scales, strict=True)
        ]
        transform = gpflow.utilities.positive(lower=MIN_LAYER_NOISE)
        self.layer_noises = [gpflow.Parameter(layer_noise, transform=transform) for _ in self.widths[:-1]]
        self.likelihood = gpflow.likelihoods.Gaussian(architecture.likelihood_variance)

    @property
    def noise_variance(self) -> tf.Tensor:
        """s2, the variance of the likelihood."""
        return tf.convert_to_tensor(self.likelihood.variance)

    def posterior(self, layer: int) -> SubsetGaussian:
        """q(f_S^l) at the present parameters."""
        factor = tf.linalg.band_part(tf.convert_to_tensor(self.factors[layer]), -1, 0)
        return SubsetGaussian(tf.convert_to_tensor(self.means[layer]), factor)

    def normal_shapes(self, num_samples: int, num_rows) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Shapes of the standard normals that ``paths`` takes: of the subset and of the rows."""
        M = self.X_S.shape[0]
        hidden = self.widths[:-1]
        subset = [tf.stack([num_samples, T, M]) for T in hidden for _ in range(2)]
        return subset, [tf.stack([num_samples, T, num_rows]) for T in hidden]

    def paths(self, X: tf.Tensor, subset_normals: list[tf.Tensor], row_normals: list[tf.Tensor]) -> SubsetPaths:
        """Propagate the subset and the rows X [B, D] together, layer by layer."""
        Z_S, z, kls = self.X_S[None], X[None], []
        draw = PROPAGATIONS[self.propagation]
        for layer, kernel in enumerate(self.kernels[:-1]):
            rows, q = features(kernel, Z_S, z, self.jitter), self.posterior(layer)
            kls.append(kl_divergence(q, rows.Lk))
            e_S, e_noise = subset_normals[2 * layer : 2 * layer + 2]
            s2 = tf.convert_to_tensor(self.layer_noises[layer])
            Z_S, z = draw(q, rows, s2, e_S, e_noise, row_normals[layer])
        labelled = condition_on_labels(self.posterior(len(self.widths) - 1), self.y_S, self.noise_variance)
        mean, variance, kl = output_layer(labelled, features(self.kernels[-1], Z_S, z, self.jitter))
        return SubsetPaths(mean, variance, labelled, [*kls, kl])

    def bound(self, paths: SubsetPaths, y: tf.Tensor, num_others: int) -> tf.Tensor:
        """The ELBO of Jain et al., Eq. 11 (docs/methods.md, "Subset of data").

            (N-M)/B sum_{b not in S} mean_r E[log N(y_b; f_b^L, s2)] + E_{q^}[log N(y_S; F_S^L, s2 I)]
            - sum_{l < L} sum_d mean_r KL(q(f_S^{l,d}) || N(0, K^l)) - mean_r KL(q^(F_S^L) || N(0, K^L))

        :param y: targets of the batch, [B]
        :param num_others: N - M, the training rows outside the subset
        """
        s2, q = self.noise_variance, paths.labelled
        fit = num_others * tf.reduce_mean(expected_log_density(y, paths.mean, paths.variance, s2))
        M = self.X_S.shape[0]
        error = tf.reduce_sum(tf.square(self.y_S - q.mean)) + tf.linalg.trace(q.covariance)
        own = -0.5 * (M * (LOG_2PI + tf.math.log(s2)) + error / s2)
        return fit + own - tf.add_n([tf.reduce_mean(kl) for kl in paths.kl])
