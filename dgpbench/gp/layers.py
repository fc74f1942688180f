"""One layer of a deep GP: T_l sparse GPs that share a kernel, a mean map and M inducing inputs."""

from typing import NamedTuple

import gpflow
import tensorflow as tf
from check_shapes import check_shapes

from dgpbench.gp.linear_algebra import sums_of_squares, whiten, whiten_exponentials


class Features(NamedTuple):
    """The features of a layer's inputs h, which depend on no posterior (docs/methods.md, "Whitening").

    :param A: a_n = Lk^{-1} k(Z, h_n), [M, R, B], of the layer's type for columns
    :param residual: k(h_n, h_n) + w + s2_l - a_n^T a_n, the variance of the layer's output given v, [R, B]
    :param mean: m(h_n), [T, R, B]
    """

    A: tf.Tensor
    prior_variance: tf.Tensor
    residual: tf.Tensor
    mean: tf.Tensor


class FeatureRows(NamedTuple):
    """``Features`` with rows first, so that minibatches can be taken from them.

    :param A: [N, M], of a minibatch [R, B, M]
    :param prior_variance: [N], of a minibatch [R, B]
    :param residual: likewise
    :param mean: [N, T], of a minibatch [R, B, T]
    """

    A: tf.Tensor
    prior_variance: tf.Tensor
    residual: tf.Tensor
    mean: tf.Tensor

    @classmethod
    def of(cls, features: Features) -> "FeatureRows":
        """All rows of features with R = 1."""
        A, mean = tf.transpose(features.A[:, 0]), tf.transpose(features.mean[:, 0])
        return cls(A, features.prior_variance[0], features.residual[0], mean)

    def features(self) -> Features:
        """Return the features of a minibatch."""
        A, mean = tf.transpose(self.A, [2, 0, 1]), tf.transpose(self.mean, [2, 0, 1])
        return Features(A, self.prior_variance, self.residual, mean)


class GPLayer(gpflow.Module):
    """The prior of one layer, f_t ~ GP(m(.)_t, k + w delta), with inducing inputs Z.

    Inducing outputs are u_t = m(Z)_t + Lk v_t with Lk Lk^T = k(Z, Z) + (w + jitter) I and p(v_t) = N(0, I)
    (docs/methods.md, "Whitening"). k(Z, h) holds no noise; k(h, h) holds w but no jitter.

    :param kernel: GPflow kernel over the layer's inputs
    :param Z: inducing inputs, [M, T_{l-1}]
    :param mean_function: fixed map to the layer's T_l outputs
    :param num_gps: T_l
    :param white_noise: w at the start (trainable), or None for a layer without it
    :param jitter: added to the diagonal of k(Z, Z)
    :param output_noise: s2_l at the start (trainable), the noise that h^l = f^l + eps adds to the layer's outputs and
        not to its inducing outputs (Bui et al. 2016), or None for a layer without it
    :param columns: the type in which A, M numbers for every row and path, is kept; GPflow's default float by default
    """

    def __init__(
        self, kernel, Z, mean_function, num_gps, *, white_noise=None, jitter=1e-6, output_noise=None, columns=None
    ):
        super().__init__(name="gp_layer")
        self.kernel = kernel
        self.Z = gpflow.Parameter(Z)
        self.mean_function = mean_function
        self.num_gps = num_gps
        self.noise = _positive(white_noise)
        self.added_noise = _positive(output_noise)
        self.jitter = jitter
        self.columns = gpflow.default_float() if columns is None else columns

    @property
    def white_noise(self) -> tf.Tensor:
        """w, the variance of the layer's white noise; 0 where it has none."""
        return tf.zeros([], gpflow.default_float()) if self.noise is None else tf.convert_to_tensor(self.noise)

    @property
    def output_noise(self) -> tf.Tensor:
        """s2_l, the variance of the noise on the layer's outputs; 0 where it has none."""
        return (
            tf.zeros([], gpflow.default_float()) if self.added_noise is None else tf.convert_to_tensor(self.added_noise)
        )

    @check_shapes("return: [M, M]")
    def cholesky(self) -> tf.Tensor:
        """Lk, the lower Cholesky factor of k(Z, Z) + (w + jitter) I."""
        K = self.kernel(self.Z)
        return tf.linalg.cholesky(tf.linalg.set_diag(K, tf.linalg.diag_part(K) + self.white_noise + self.jitter))

    @check_shapes("H: [R, B, D]", "Lk: [M, M]")
    def features(self, H: tf.Tensor, Lk: tf.Tensor) -> Features:
        """A, the residual variance and the prior mean at the inputs H [R, B, T_{l-1}]."""
        R, B = tf.shape(H)[0], tf.shape(H)[1]
        rows = tf.reshape(H, [R * B, H.shape[-1]])
        if self.columns == gpflow.default_float():
            A = whiten(Lk, self.kernel(self.Z, rows))
            squares = sums_of_squares(A)
        else:
            left, right = self.kernel.log_factors(tf.convert_to_tensor(self.Z), rows)
            A, squares = whiten_exponentials(Lk, left, right, self.columns)
        prior_variance = self.kernel(rows, full_cov=False) + self.white_noise + self.output_noise
        mean = tf.transpose(self.mean_function(rows))
        return Features(
            tf.reshape(A, [A.shape[0], R, B]),
            tf.reshape(prior_variance, [R, B]),
            tf.reshape(prior_variance - squares, [R, B]),
            tf.reshape(mean, [self.num_gps, R, B]),
        )


def _positive(variance: float | None) -> gpflow.Parameter | None:
    return None if variance is None else gpflow.Parameter(variance, transform=gpflow.utilities.positive())
