"""Particular inducing outputs v, and the density that a sampler draws them from (docs/methods.md, "SGHMC")."""

import tensorflow as tf

from dgpbench.gp.layers import FeatureRows
from dgpbench.gp.objectives import log_normal
from dgpbench.gp.prior import DeepGP
from dgpbench.gp.propagate import given


def split_layers(flat: tf.Tensor, widths: tuple[int, ...]) -> list[tf.Tensor]:
    """Whitened inducing outputs of all layers, [K, T M], as one [K, T_l, M] a layer."""
    K, M = tf.shape(flat)[0], flat.shape[1] // sum(widths)
    parts = tf.split(flat, [width * M for width in widths], axis=1)
    return [tf.reshape(part, tf.stack([K, width, M])) for part, width in zip(parts, widths, strict=True)]


def log_joint(
    prior: DeepGP, v: tf.Tensor, X: tf.Tensor | FeatureRows, y: tf.Tensor, num_data: int, normals: list[tf.Tensor]
) -> tf.Tensor:
    """-U(v) for each particle, up to a constant (Havasi et al. 2018, Eq. 8; docs/methods.md, "SGHMC").

        -U = (N/B) sum_b log N(y_b; mu^_b, Sigma^_b + s2) - |v|^2 / 2

    with mu^, Sigma^ the output's moments given v and one path through the hidden layers; at depth 1 they are a^T v and
    k - a^T a, and -U is exact. Deeper, it is an unbiased draw of E[log p(y | v, path)] - |v|^2 / 2.

    :param v: particles, [K, T M]
    :param X: rows [B, D] for every particle, or each particle's own [K, B, D]; or what the first layer says about them
    :param y: [B] or [K, B]
    :param normals: of the hidden layers, [T_l, K, B]
    :return: [K]
    """
    widths = tuple(layer.num_gps for layer in prior.layers)
    paths = given(prior, split_layers(v, widths), prior.choleskys(), X, normals)
    fit = tf.reduce_mean(log_normal(y, paths.mean, paths.variance + prior.noise_variance), axis=1)
    return num_data * fit - 0.5 * tf.reduce_sum(tf.square(v), axis=1)
