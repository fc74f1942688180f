"""Single-layer references: exact GP regression, SGPR (Titsias 2009) and FITC (Snelson & Ghahramani 2006).

L-BFGS maximises the log marginal likelihood, or the bound:

    gpr    log N(y; 0, K + s2 I)
    sgpr   log N(y; 0, Q + s2 I) - tr(K - Q) / (2 s2),    Q = K_nM K_MM^{-1} K_Mn
    fitc   log N(y; 0, Q + diag(K - Q) + s2 I)

GPflow's own models do the work (docs/methods.md, "Single-layer references"). FITC's training may drive s2 to its lower
limit without converging; ``converged`` in the record is then false.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.gp.kernels import build_kernel
from dgpbench.methods.inducing_points import kmeans_centres
from dgpbench.methods.interface import FitSettings, Seeds
from dgpbench.methods.predictor import MixturePredictor, assign
from dgpbench.methods.settings import ROWS, TARGETS, ExactSettings, SparseSettings
from dgpbench.training.loops import maximise_by_lbfgs
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import LbfgsSettings

MODELS = {"sgpr": gpflow.models.SGPR, "fitc": gpflow.models.GPRFITC}
ROWS_AT_ONCE = 1024  # of a prediction


def fit(
    train: Regression,
    settings: FitSettings[ExactSettings | SparseSettings, LbfgsSettings],
    seeds: Seeds,
    monitor: Monitor,
) -> MixturePredictor:
    """Fit the kernel's parameters, the noise variance and Z, which starts at k-means centres."""
    method, Z = settings.method, None
    if isinstance(method, SparseSettings):
        Z = kmeans_centres(train.X, method.num_inducing, seeds.initial)
    predictor = predictor_of(build_model(method, train, Z))
    predictor.diagnostics |= maximise_by_lbfgs(predictor.model, settings.training, monitor)
    return predictor


def restore(
    settings: FitSettings[ExactSettings | SparseSettings, Any], arrays: Mapping[str, np.ndarray]
) -> MixturePredictor:
    """Return the predictor that the arrays were taken from."""
    rows, method = Regression(arrays[ROWS], arrays[TARGETS]), settings.method
    Z = rows.X[: method.num_inducing] if isinstance(method, SparseSettings) else None
    return predictor_of(assign(arrays, build_model(method, rows, Z)))


def build_model(method: ExactSettings | SparseSettings, rows: Regression, Z: np.ndarray | None) -> Any:
    """Return GPflow's model at its starting values.

    :param Z: [M, D]; None for the exact GP
    """
    data, kernel, noise = (rows.X, rows.Y), build_kernel(method, rows.X.shape[1]), method.likelihood_variance
    if isinstance(method, ExactSettings):
        return gpflow.models.GPR(data, kernel, noise_variance=noise)
    model = MODELS[method.approximation](data, kernel, Z, noise_variance=noise)
    gpflow.set_trainable(model.inducing_variable, method.train_inducing_inputs)
    return model


def predictor_of(model: Any) -> MixturePredictor:
    """Return the predictor of one Gaussian for each row; the training rows and the parameters are its posterior."""
    X, Y = model.data

    def moments(X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        del seed, chunk  # nothing is drawn
        mean, variance = model.predict_y(X)
        return tf.transpose(mean), tf.transpose(variance)

    posterior, data = partial(gpflow.utilities.read_values, model), {ROWS: X.numpy(), TARGETS: Y.numpy()}
    return MixturePredictor(model, moments, X.shape[1], ROWS_AT_ONCE, posterior, data)
