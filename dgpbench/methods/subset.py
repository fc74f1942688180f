"""Subset-of-data variational inference: sod, sod_random, sod_leverage, sod_dpp (Jain, Srijith & Khan 2021).

A fixed subset S of the training rows plays the inducing points of every layer; the last layer's q is conditioned on the
subset's labels (docs/methods.md, "Subset of data"). The bound, maximised by Adam, is ``SubsetDeepGP.bound``;
minibatches hold rows outside S alone. Default: the exact joint of (Z_S, z_b), the paper's bound. Departures of the
published code from the text: ``method.propagation=diagonal`` (rows drawn from their marginals), jitter 1e-6, and test
metrics at the step of highest training likelihood, which is not offered. ``method.start=projected``, smooth hidden
values to start from, is ours.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.gp.prior import Architecture, mean_map
from dgpbench.gp.subset_model import SubsetDeepGP
from dgpbench.methods.arrays import arrays_of, put
from dgpbench.methods.contract import FitSettings, Seeds, pick
from dgpbench.methods.prediction import ROWS, TARGETS, compiled, normals_of_rows, predict_in_pieces, validation
from dgpbench.methods.subset_choice import choose
from dgpbench.methods.subset_settings import SubsetSettings
from dgpbench.predictive import posterior
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.training.early_stopping import hold_out
from dgpbench.training.log import TrainingLog
from dgpbench.training.loops import adam, maximise
from dgpbench.training.minibatches import base_seed, stateless_normals
from dgpbench.training.settings import AdamSettings

# Rows x samples of one prediction graph call: bounds its memory. Each call factorises every path's kernel matrices.
COLUMNS_AT_ONCE = 32768


def fit(
    train: Regression, settings: FitSettings[SubsetSettings, AdamSettings], seeds: Seeds, log: TrainingLog
) -> "SubsetPredictor":
    """Fit a deep GP whose inducing points are training rows.

    :param train: standardised rows X [N, D], Y [N, 1]
    """
    method, training = settings.method, settings.training
    fitting, held_out = hold_out(train, training, seeds.holdout)
    rows = choose(method.subset, fitting.X, method.num_inducing, seeds.initial)
    model = build_model(method, fitting, rows, seeds.initial)
    others = np.setdiff1d(np.arange(len(fitting.X)), rows)
    num_others, R, seed = len(others), training.paths, base_seed(seeds.samples)
    # With every row in the subset nothing is left to draw from: rows that count for nothing stand in.
    drawn = others if num_others else np.arange(len(fitting.X))
    monitor = SubsetPredictor(model, training.validation_samples, {})
    predictor = SubsetPredictor(model, settings.num_samples, {}, rows, common_normals=settings.common_normals)
    predictor.diagnostics["iterations"] = maximise(
        lambda step, X, y, _rows: elbo(model, X, y, num_others, R, seed, step),
        model.trainable_variables,
        Regression(fitting.X[drawn], fitting.Y[drawn]),
        training,
        seeds.batches,
        log,
        optimiser=adam(
            training,
            likelihood=model.likelihood,
            slow=[factor.unconstrained_variable for factor in model.factors],
            share=method.covariance_rate,
        ),
        predict=predictor.predict,
        validation=validation(monitor, held_out, training, seeds.holdout),
    )
    return predictor


def restore(settings: FitSettings[SubsetSettings, Any], arrays: Mapping[str, np.ndarray]) -> "SubsetPredictor":
    """The predictor that ``arrays`` were taken from; its subset is all the rows that they hold."""
    subset = Regression(arrays[ROWS], arrays[TARGETS][:, None])
    model = put(arrays, build_model(settings.method, subset, np.arange(len(subset.X)), 0))
    return SubsetPredictor(model, settings.num_samples, {}, common_normals=settings.common_normals)


def build_model(method: SubsetSettings, train: Regression, rows: np.ndarray, seed: int) -> SubsetDeepGP:
    """The model at its starting values: mu of ``start``, hidden Sig = ``hidden_variance`` I, the last Sig = I."""
    architecture = pick(Architecture, method)
    means = STARTS[method.start](architecture.widths, train.X, rows, seed)
    scales = [np.sqrt(method.hidden_variance)] * (architecture.num_layers - 1) + [np.sqrt(method.output_variance)]
    return SubsetDeepGP(
        architecture,
        train.X[rows],
        train.Y[rows, 0],
        means,
        scales,
        layer_noise=method.layer_noise,
        propagation=method.propagation,
    )


def uniform(widths: tuple[int, ...], X: np.ndarray, rows: np.ndarray, seed: int) -> list[np.ndarray]:
    """mu of each layer, uniform on [0, 1): as published. Values so rough take thousands of steps to leave."""
    rng = np.random.default_rng([seed, 1])
    return [rng.uniform(size=(width, len(rows))).astype(X.dtype) for width in widths]


def projected(widths: tuple[int, ...], X: np.ndarray, rows: np.ndarray, seed: int) -> list[np.ndarray]:
    """mu of hidden layers: the subset's inputs through the linear maps that other methods have as mean functions."""
    del seed
    means = []
    for width in widths[:-1]:
        X = X @ mean_map(X, width).astype(X.dtype)
        means.append(X[rows].T)
    return [*means, np.zeros((1, len(rows)), X.dtype)]


STARTS = {"projected": projected, "uniform": uniform}


def elbo(model: SubsetDeepGP, X, y, num_others: int, num_samples: int, seed, step) -> tf.Tensor:
    """One unbiased draw of the bound from ``num_samples`` paths of the batch X [B, D], y [B]."""
    subset, rows = model.normal_shapes(num_samples, tf.shape(X)[0])
    normals = stateless_normals([*subset, *rows], seed, step, X.dtype)
    return model.bound(model.paths(X, normals[: len(subset)], normals[len(subset) :]), y, num_others)


class SubsetPredictor:
    """Predicts one Gaussian for each path: a mixture of S components a row.

    :param model: a trained model
    :param num_samples: S
    :param diagnostics: what the record should keep about the fit
    :param rows: numbers of the subset's rows among those that were fitted to
    :param common_normals: as of ``FitSettings``
    """

    def __init__(
        self,
        model: SubsetDeepGP,
        num_samples: int,
        diagnostics: dict,
        rows: np.ndarray | None = None,
        *,
        common_normals: bool = False,
    ):
        self.model = model
        self.common_normals = common_normals
        self.num_samples = num_samples if len(model.widths) > 1 else 1
        self.diagnostics = diagnostics
        self.rows = rows
        self._moments = compiled(self._compute_moments, model.X_S.shape[1])

    def _compute_moments(self, X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        subset, rows = self.model.normal_shapes(self.num_samples, tf.shape(X)[0])
        # The subset's draws are those of chunk 0 whatever the chunk: path s is one function for all rows.
        drawn = stateless_normals(subset, seed, tf.constant(0, tf.int64), X.dtype)
        of_rows = normals_of_rows(rows, seed, chunk + 1, X.dtype, common=self.common_normals)
        paths = self.model.paths(X, drawn, of_rows)
        return paths.mean, paths.variance + self.model.noise_variance

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """The predictive mixture at standardised inputs X [N, D], in chunks of bounded memory."""
        size = max(1, COLUMNS_AT_ONCE // self.num_samples)
        return predict_in_pieces(self._moments, X, seed, size)

    def posterior(self) -> dict[str, np.ndarray]:
        """q's means and factors in the values' own coordinates, and which rows are the subset."""
        layers = [self.model.posterior(layer) for layer in range(len(self.model.widths))]
        return posterior.of_subset([q.mean.numpy() for q in layers], [q.factor.numpy() for q in layers], self.rows)

    def parameters(self) -> dict[str, np.ndarray]:
        """Every parameter by path, and the subset's rows."""
        return arrays_of(self.model) | {ROWS: self.model.X_S.numpy(), TARGETS: self.model.y_S.numpy()}
