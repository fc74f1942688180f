"""The subset-of-data deep GP: its parameters, its paths and its bound (Jain et al. 2021, Eq. 11).

Reference: docs/methods.md, "Subset of data".
"""

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels import KERNELS
from dgpbench.gp.objectives import LOG_2PI, expected_log_density
from dgpbench.gp.prior import Architecture
from dgpbench.gp.subset_moments import (
    SubsetGaussian,
    SubsetPaths,
    condition_on_labels,
    diagonal_layer,
    features,
    joint_layer,
    kl_divergence,
    output_moments,
)

PROPAGATIONS = {"joint": joint_layer, "diagonal": diagonal_layer}
MIN_LAYER_NOISE = 1e-8


class SubsetDeepGP(gpflow.Module):
    """A deep GP with zero means and noisy layers z^l = f^l + eps, whose inducing points are training rows.

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
        self.kernels = [_kernel(architecture, dim) for dim in dims]
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
        """Propagate the subset and the rows X [B, D] together, layer by layer (``gp.subset_moments``)."""
        Z_S, z, choleskys = self.X_S[None], X[None], []
        draw = PROPAGATIONS[self.propagation]
        for layer, kernel in enumerate(self.kernels):
            rows = features(kernel, Z_S, z, self.jitter)
            choleskys.append(rows.Lk)
            if layer < len(self.widths) - 1:
                e_S, e_noise = subset_normals[2 * layer : 2 * layer + 2]
                s2 = tf.convert_to_tensor(self.layer_noises[layer])
                Z_S, z = draw(self.posterior(layer), rows, s2, e_S, e_noise, row_normals[layer])
        labelled = condition_on_labels(self.posterior(len(self.widths) - 1), self.y_S, self.noise_variance)
        return SubsetPaths(*output_moments(labelled, rows), choleskys, labelled)

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
        kls = [kl_divergence(paths.choleskys[-1], q.mean[None], q.covariance[None], q.log_determinant[None])]
        for layer, Lk in enumerate(paths.choleskys[:-1]):
            hidden = self.posterior(layer)
            kls.append(kl_divergence(Lk, hidden.mean, hidden.covariance, hidden.log_determinant))
        return fit + own - tf.add_n([tf.reduce_mean(kl) for kl in kls])


def _kernel(architecture: Architecture, dim: int):
    lengthscales = np.full(dim, architecture.lengthscale) if architecture.ard else architecture.lengthscale
    return KERNELS[architecture.kernel](variance=architecture.kernel_variance, lengthscales=lengthscales)
