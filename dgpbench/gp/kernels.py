"""Kernels by name, the squared exponential in a form with few passes over memory."""

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf


class SquaredExponential(gpflow.kernels.SquaredExponential):
    """k(x, z) = s^2 exp(-1/2 sum_d (x_d - z_d)^2 / l_d^2) between two sets of rows, as one product and one exponential.

    The logarithm is linear in either side, so a product over D + 2 columns gives it whole:

        log k = [x~, log s^2 - |x~|^2 / 2, 1] . [z~, 1, -|z~|^2 / 2],   x~ = x / l

    Inputs may be of lower precision than the parameters; k then has the inputs' precision.
    """

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        """k(x, z) for every pair of rows, [N, M]."""
        X = tf.convert_to_tensor(X)
        if X.shape.rank != 2 or (X2 is not None and tf.convert_to_tensor(X2).shape.rank != 2):
            return super().K(X, X2)
        return tf.exp(tf.matmul(*self.log_factors(X, X if X2 is None else tf.convert_to_tensor(X2)), transpose_b=True))

    def log_factors(self, X: tf.Tensor, X2: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The two factors of log k, [.., N, D + 2] and [.., M, D + 2]."""
        per_length = tf.cast(1.0 / self.lengthscales, X.dtype)
        x, z = X * per_length, X2 * per_length
        log_variance = tf.cast(tf.math.log(self.variance), X.dtype)
        left = tf.concat([x, log_variance + _half_square(x), tf.ones_like(x[..., :1])], axis=-1)
        return left, tf.concat([z, tf.ones_like(z[..., :1]), _half_square(z)], axis=-1)


def _half_square(x: tf.Tensor) -> tf.Tensor:
    """-|x|^2 / 2 of each row, [.., N, 1]."""
    return -0.5 * tf.reduce_sum(tf.square(x), axis=-1, keepdims=True)


KERNELS = {
    "squared_exponential": SquaredExponential,
    "matern12": gpflow.kernels.Matern12,
    "matern32": gpflow.kernels.Matern32,
    "matern52": gpflow.kernels.Matern52,
}


def build_kernel(choices: Any, num_features: int) -> gpflow.kernels.IsotropicStationary:
    """Return the kernel at its starting values.

    :param choices: with ``kernel``, ``kernel_variance``, ``lengthscale`` and ``ard``, as ``Architecture`` has them
    """
    lengthscales = np.full(num_features, choices.lengthscale) if choices.ard else choices.lengthscale
    return KERNELS[choices.kernel](variance=choices.kernel_variance, lengthscales=lengthscales)
