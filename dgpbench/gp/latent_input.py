"""A latent input of each row, for conditional densities of any shape (docs/methods.md, "Latent input")."""

from itertools import pairwise

import gpflow
import numpy as np
import tensorflow as tf

UNITS = (20, 20)  # tanh units in the hidden layers of the network, as published
FIRST_DEVIATION = -3.0  # s starts near softplus(-3) = 0.05, so that w depends on y from the first step


class LatentInput(gpflow.Module):
    """w_n ~ N(0, 1) beside the features of row n, with q(w_n) = N(m, s^2) by a network of (x_n, y_n).

    Reference: Salimbeni et al. 2019.

    :param num_features: D
    :param num_importance_samples: K
    :param seed: of the network's weights at the start
    """

    def __init__(self, num_features: int, num_importance_samples: int, seed: int):
        super().__init__(name="latent_input")
        self.num_importance_samples = num_importance_samples
        draws, sizes = np.random.default_rng(seed), (num_features + 1, *UNITS, 2)
        self.weights = [
            gpflow.Parameter(np.sqrt(2.0 / (before + after)) * draws.standard_normal([before, after]))
            for before, after in pairwise(sizes)
        ]
        self.biases = [gpflow.Parameter(np.zeros(size)) for size in sizes[1:]]

    def sample(self, X: tf.Tensor, y: tf.Tensor, normals: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return w = m + s e for the rows X [B, D], y [B], and log p(w) - log q(w), [R, B] each.

        :param normals: e, [R, B]
        """
        H = tf.concat([X, y[:, None]], axis=1)
        *hidden, (W, b) = zip(self.weights, self.biases, strict=True)
        for W_l, b_l in hidden:
            H = tf.tanh(H @ W_l + b_l)
        m, raw = tf.unstack(H @ W + b, axis=1)
        s = tf.nn.softplus(raw + FIRST_DEVIATION)
        w = m + s * normals
        return w, 0.5 * (tf.square(normals) - tf.square(w)) + tf.math.log(s)


def with_latent(X: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Return the rows X [B, D] of every path with their latent inputs w [R, B] as the last column, [R, B, D + 1]."""
    rows = tf.broadcast_to(X, tf.concat([tf.shape(w), [X.shape[1]]], axis=0))
    return tf.concat([rows, w[..., None]], axis=-1)


def with_prior_draws(X: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows X [N, D] with a draw from the latent input's prior as the last column, [N, D + 1]."""
    w = np.random.default_rng(seed).standard_normal([len(X), 1])
    return np.concatenate([X, w.astype(X.dtype)], axis=1)
