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
from dgpbench.gp.prior import Architecture, mean_map, read_once
from dgpbench.gp.subset_model import SubsetDeepGP
from dgpbench.methods.inducing_points import choose
from dgpbench.methods.interface import FitSettings, Seeds, pick
from dgpbench.methods.predictor import MixturePredictor, assign, held_out_score, normals_of_rows
from dgpbench.methods.settings import ROWS, TARGETS, SubsetSettings
from dgpbench.predictive import posterior_file
from dgpbench.training.early_stopping import hold_out
from dgpbench.training.loops import adam, maximise
from dgpbench.training.minibatches import base_seed, stateless_normals
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import AdamSettings

# Rows x samples of one prediction graph call: bounds its memory. Each call factorises every path's kernel matrices.
COLUMNS_AT_ONCE = 32768


def fit(
    train: Regression, settings: FitSettings[SubsetSettings, AdamSettings], seeds: Seeds, monitor: Monitor
) -> MixturePredictor:
    """Fit a deep GP with training rows as inducing points."""
    method, training = settings.method, settings.training
    fitting, held_out = hold_out(train, training, seeds.holdout)
    rows = choose(method.subset, fitting.X, method.num_inducing, seeds.initial)
    model = build_model(method, fitting, rows, seeds.initial)
    others = np.setdiff1d(np.arange(len(fitting.X)), rows)
    num_others, R, seed = len(others), training.paths, base_seed(seeds.samples)
    # With every row in the subset none is left to draw from; the batch then has weight 0, so any rows will do.
    drawn = others if num_others else np.arange(len(fitting.X))
    factors = [factor.unconstrained_variable for factor in model.factors]
    validator = predictor_of(model, training.validation_samples)
    predictor = predictor_of(model, settings.num_samples, rows, common_normals=settings.common_normals)
    predictor.diagnostics["iterations"] = maximise(
        lambda step, X, y, _rows: elbo(model, X, y, num_others, R, seed, step),
        model.trainable_variables,
        Regression(fitting.X[drawn], fitting.Y[drawn]),
        training,
        seeds.batches,
        monitor,
        optimiser=adam(training, likelihood=model.likelihood, slow=factors, share=method.covariance_rate),
        predict=predictor.predict,
        score=held_out_score(validator, held_out, seeds.holdout),
    )
    return predictor


def restore(settings: FitSettings[SubsetSettings, Any], arrays: Mapping[str, np.ndarray]) -> MixturePredictor:
    """Return the predictor that the arrays were taken from; their rows are the subset."""
    subset = Regression(arrays[ROWS], arrays[TARGETS][:, None])
    model = assign(arrays, build_model(settings.method, subset, np.arange(len(subset.X)), 0))
    return predictor_of(model, settings.num_samples, common_normals=settings.common_normals)


def build_model(method: SubsetSettings, train: Regression, rows: np.ndarray, seed: int) -> SubsetDeepGP:
    """Build the model at its starting values: mu of ``start``, hidden Sig = ``hidden_variance`` I, the last Sig = I."""
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
    """mu of each layer, uniform on [0, 1): as published. Training needs thousands of steps to smooth them."""
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
    """Return an unbiased draw of the bound from ``num_samples`` paths of the batch X [B, D], y [B]."""
    model = read_once(model)
    subset, rows = model.normal_shapes(num_samples, tf.shape(X)[0])
    normals = stateless_normals([*subset, *rows], seed, step, X.dtype)
    return model.bound(model.paths(X, normals[: len(subset)], normals[len(subset) :]), y, num_others)


def predictor_of(
    model: SubsetDeepGP, num_samples: int, rows: np.ndarray | None = None, *, common_normals: bool = False
) -> MixturePredictor:
    """Return the predictor of one Gaussian for each path; its posterior is q(f_S) and the subset's row numbers.

    :param num_samples: S; a single layer has one path
    :param rows: numbers of the subset's rows among the fitted rows
    """
    S = num_samples if len(model.widths) > 1 else 1

    def moments(X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shapes, row_shapes = model.normal_shapes(S, tf.shape(X)[0])
        # The subset's draws are those of chunk 0 in every chunk: path s is one function for all rows.
        normals = stateless_normals(shapes, seed, tf.constant(0, tf.int64), X.dtype)
        row_normals = normals_of_rows(row_shapes, seed, chunk + 1, X.dtype, common=common_normals)
        paths = model.paths(X, normals, row_normals)
        return paths.mean, paths.variance + model.noise_variance

    def posterior() -> dict[str, np.ndarray]:
        layers = [model.posterior(layer) for layer in range(len(model.widths))]
        return posterior_file.of_subset([q.mean.numpy() for q in layers], [q.factor.numpy() for q in layers], rows)

    data = {ROWS: model.X_S.numpy(), TARGETS: model.y_S.numpy()}
    return MixturePredictor(model, moments, model.X_S.shape[1], COLUMNS_AT_ONCE // S, posterior, data)
