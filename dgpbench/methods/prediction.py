"""Predictors: what the families' fitted models have in common."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.gp.gaussians import Blocks
from dgpbench.gp.prior import DeepGP
from dgpbench.gp.propagate import Paths
from dgpbench.gp.structures import Structure
from dgpbench.methods.arrays import arrays_of
from dgpbench.methods.settings import INDUCING, ROWS, TARGETS
from dgpbench.predictive import posterior
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.training.early_stopping import Validation, stopping_rule
from dgpbench.training.minibatches import base_seed, stateless_normals
from dgpbench.training.settings import AdamSettings

COLUMNS_AT_ONCE = 8192  # rows x samples of one prediction graph call: bounds its memory
ROWS_AT_ONCE = 1024  # of a single-layer model
COMMON = 2**31 - 1  # in place of a chunk's number, which is smaller
FIRST_Z = INDUCING.format(0)
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


def predict_in_pieces(moments: Moments, X: np.ndarray, seed: int, rows_at_once: int) -> GaussianMixture:
    """The mixture of S components at each of the rows X [N, D]."""
    pieces = [
        moments(X[start : start + rows_at_once], base_seed(seed), tf.constant(index, tf.int64))
        for index, start in enumerate(range(0, len(X), rows_at_once))
    ]
    means, variances = (np.concatenate([piece[i].numpy() for piece in pieces], axis=1) for i in (0, 1))
    return GaussianMixture(means[..., None].astype(float), variances[..., None].astype(float))


def normals_of_rows(shapes: Sequence, seed: tf.Tensor, chunk: tf.Tensor, dtype, *, common: bool) -> list[tf.Tensor]:
    """Standard normals whose last axis is the rows of a chunk.

    :param common: the same for every row and chunk, so that a row's prediction depends on no other row
    """
    if not common:
        return stateless_normals(shapes, seed, chunk, dtype)
    of_one_row = [tf.concat([shape[:-1], [1]], axis=0) for shape in shapes]
    drawn = stateless_normals(of_one_row, seed, tf.constant(COMMON, tf.int64), dtype)
    return [tf.broadcast_to(normals, shape) for normals, shape in zip(drawn, shapes, strict=True)]


class Posterior(Protocol):
    """q of a deep model."""

    structure: Structure

    def blocks(self, choleskys: list[tf.Tensor]) -> Blocks:
        """Its mean and the blocks of its factor, whitened."""
        ...


class Model(Protocol):
    """A prior and a Gaussian posterior that rows can be propagated under."""

    prior: DeepGP
    q: Posterior
    columns_at_once: int

    def paths(
        self, X: tf.Tensor, num_samples: int, seed: tf.Tensor, chunk: tf.Tensor, *, common: bool = False
    ) -> Paths:
        """Paths of the rows X under q; ``common`` as of ``normals_of_rows``."""
        ...


class DeepPredictor:
    """Predicts one Gaussian for each path: a mixture of S components a row.

    :param model: a trained model
    :param num_samples: S
    :param diagnostics: what the record should keep about the fit
    :param common_normals: as of ``FitSettings``
    """

    def __init__(self, model: Model, num_samples: int, diagnostics: dict[str, Any], *, common_normals: bool = False):
        self.model = model
        self.common_normals = common_normals
        self.num_samples = num_samples if len(model.q.structure.widths) > 1 else 1
        self.diagnostics = diagnostics
        self._moments = compiled(self._compute_moments, model.prior.layers[0].Z.shape[1])

    def _compute_moments(self, X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        paths = self.model.paths(X, self.num_samples, seed, chunk, common=self.common_normals)
        return paths.mean, paths.variance + self.model.prior.noise_variance

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """The predictive mixture at standardised inputs X [N, D], in chunks of bounded memory."""
        size = max(1, self.model.columns_at_once // self.num_samples)
        return predict_in_pieces(self._moments, X, seed, size)

    def posterior(self) -> dict[str, np.ndarray]:
        """q's mean and the blocks of its factor (Lindinger et al. 2020, Fig. 1)."""
        q = self.model.q.blocks(self.model.prior.choleskys())
        return posterior.of_blocks(
            [m.numpy() for m in q.means],
            [C.numpy() for C in q.diagonal],
            {key: C.numpy() for key, C in q.couplings.items()},
            q.structure.couplings,
        )

    def parameters(self) -> dict[str, np.ndarray]:
        """Every parameter by path."""
        return arrays_of(self.model)


class SingleLayerPredictor:
    """Predicts one Gaussian a row from a fitted model of GPflow's."""

    def __init__(self, model: Any, diagnostics: dict[str, Any]):
        self.model = model
        self.diagnostics = diagnostics
        signature = [tf.TensorSpec([None, None], gpflow.default_float())]
        self._predict = tf.function(model.predict_y, input_signature=signature, autograph=False)

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """The predictive Gaussian at standardised inputs X [N, D]."""
        del seed  # nothing is drawn
        chunks = [self._predict(X[start : start + ROWS_AT_ONCE]) for start in range(0, len(X), ROWS_AT_ONCE)]
        means, variances = (np.concatenate([part[i].numpy() for part in chunks]) for i in (0, 1))
        return GaussianMixture(means[None].astype(float), variances[None].astype(float))

    def posterior(self) -> dict[str, np.ndarray]:
        """The fitted parameters: with the training rows, they are the posterior."""
        return gpflow.utilities.read_values(self.model)

    def parameters(self) -> dict[str, np.ndarray]:
        """Every parameter by path, and the training rows, which every prediction is conditioned on."""
        X, Y = self.model.data
        return arrays_of(self.model) | {ROWS: X.numpy(), TARGETS: Y.numpy()}


def validation(predictor, held_out: Regression | None, training: AdamSettings, seed: int) -> Validation | None:
    """How a run is watched while it trains; None where no rows are held out.

    :param predictor: of the model in training, whose parameters it follows
    """
    rule = stopping_rule(training)
    if held_out is None or rule is None:
        return None
    return Validation(rule, lambda: validation_score(predictor, held_out, seed))


def validation_score(predictor, held_out: Regression, seed: int) -> float:
    """The mean log-density of held-out rows, in standard units."""
    return float(np.mean(predictor.predict(held_out.X, seed).log_density(held_out.Y)))
