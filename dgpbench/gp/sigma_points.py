"""Learned quadrature in place of sampled paths (docs/methods.md, "Sigma points")."""

import gpflow
import numpy as np
import tensorflow as tf


class SigmaPoints(gpflow.Module):
    """Q quadrature sites of the hidden layers, the same for every row, and their weights (Jankowiak et al. 2020).

    :param widths: T_l of each layer
    :param num_sites: Q; a single layer has one path and no sites
    :param seed: of the sites at the start, which are standard normals; the weights are equal then
    """

    def __init__(self, widths: tuple[int, ...], num_sites: int, seed: int):
        super().__init__(name="sigma_points")
        draws, Q = np.random.default_rng(seed), num_sites if len(widths) > 1 else 1
        self.sites = [gpflow.Parameter(draws.standard_normal([width, Q])) for width in widths[:-1]]
        self.logits = gpflow.Parameter(np.zeros(Q), trainable=Q > 1)

    def normals(self, num_rows: tf.Tensor) -> list[tf.Tensor]:
        """The sites in place of the hidden layers' standard normals, [T_l, Q, B]."""
        return [tf.tile(tf.convert_to_tensor(site)[..., None], [1, 1, num_rows]) for site in self.sites]

    def log_weights(self) -> tf.Tensor:
        """log w, [Q]."""
        return tf.nn.log_softmax(tf.convert_to_tensor(self.logits))
