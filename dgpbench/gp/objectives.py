"""Objectives: (prior, q, batch) -> scalar, each with its equation."""

import math

import tensorflow as tf

from dgpbench.gp.gaussians import Blocks
from dgpbench.gp.propagate import Paths

LOG_2PI = math.log(2.0 * math.pi)


def log_normal(y: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """log N(y; mean, variance), elementwise."""
    return -0.5 * (LOG_2PI + tf.math.log(variance) + tf.square(y - mean) / variance)


def expected_log_density(y: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, s2: tf.Tensor) -> tf.Tensor:
    """E[log N(y; f, s2)] for f ~ N(mean, variance) = -1/2 log(2 pi s2) - ((y - mean)^2 + variance) / (2 s2)."""
    return -0.5 * (LOG_2PI + tf.math.log(s2)) - 0.5 * (tf.square(y - mean) + variance) / s2


def elbo(q: Blocks, paths: Paths, y: tf.Tensor, s2: tf.Tensor, num_data: int) -> tf.Tensor:
    """ELBO = (N/B) sum_b mean_r E[log N(y_b; f^L_b, s2)] - KL(q(v) || N(0, I)).

    Reference: docs/methods.md, "Structured posteriors".

    :param paths: R paths of the batch's B rows
    :param y: targets of the batch, [B]
    :param num_data: N
    """
    fit = tf.reduce_mean(expected_log_density(y, paths.mean, paths.variance, s2))
    return num_data * fit - q.kl()
