"""Predictions in pieces of bounded memory: what the sampled predictors share."""

from collections.abc import Callable

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.datasets.scaling import Regression
from dgpbench.predictive import GaussianMixture
from dgpbench.training.minibatches import base_seed

Moments = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def compiled(moments: Moments, num_features: int) -> Moments:
    """One graph for any number of rows.

    :param moments: (X [B, D], seed [2], number of the piece) -> means and variances of y, [S, B] each
    """
    signature = [
        tf.TensorSpec([None, num_features], gpflow.default_float()),
        tf.TensorSpec([2], tf.int32),
        tf.TensorSpec([], tf.int64),
    ]
    return tf.function(moments, input_signature=signature, autograph=False)


def validation_score(predictor, held_out: Regression, seed: int) -> float:
    """The mean log-density of held-out rows, in standard units."""
    return float(np.mean(predictor.predict(held_out.X, seed).log_density(held_out.Y)))


def predict_in_pieces(moments: Moments, X: np.ndarray, seed: int, rows_at_once: int) -> GaussianMixture:
    """The mixture of S components at each of the rows X [N, D]."""
    pieces = [
        moments(X[start : start + rows_at_once], base_seed(seed), tf.constant(index, tf.int64))
        for index, start in enumerate(range(0, len(X), rows_at_once))
    ]
    means, variances = (np.concatenate([piece[i].numpy() for piece in pieces], axis=1) for i in (0, 1))
    return GaussianMixture(means[..., None].astype(float), variances[..., None].astype(float))
