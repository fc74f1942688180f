"""Single-layer sparse references, fitted by L-BFGS: SGPR (Titsias 2009) and FITC (Snelson & Ghahramani 2006).

    sgpr   log N(y; 0, Q + s2 I) - tr(K - Q) / (2 s2),    Q = K_nM K_MM^{-1} K_Mn
    fitc   log N(y; 0, Q + diag(K - Q) + s2 I)

GPflow's own models do the work (docs/methods.md, "Single-layer references"). FITC's training may drive s2 to its lower
limit without converging: the record says so.
"""

from collections.abc import Mapping
from typing import Any

import gpflow
import numpy as np

from dgpbench.data.standardise import Regression
from dgpbench.methods.arrays import put
from dgpbench.methods.contract import FitSettings, Seeds
from dgpbench.methods.exact import build_kernel
from dgpbench.methods.initialisation import kmeans_centres
from dgpbench.methods.prediction import ROWS, TARGETS, SingleLayerPredictor
from dgpbench.methods.sparse_settings import SparseSettings
from dgpbench.training.lbfgs import maximise
from dgpbench.training.log import TrainingLog
from dgpbench.training.settings import LbfgsSettings

MODELS = {"sgpr": gpflow.models.SGPR, "fitc": gpflow.models.GPRFITC}


def fit(
    train: Regression, settings: FitSettings[SparseSettings, LbfgsSettings], seeds: Seeds, log: TrainingLog
) -> SingleLayerPredictor:
    """Fit the kernel's parameters, the noise variance and Z, which starts at k-means centres.

    :param train: standardised rows X [N, D], Y [N, 1]
    """
    method = settings.method
    model = build_model(method, train, kmeans_centres(train.X, method.num_inducing, seeds.initial))
    return SingleLayerPredictor(model, maximise(model, settings.training, log))


def restore(settings: FitSettings[SparseSettings, Any], arrays: Mapping[str, np.ndarray]) -> SingleLayerPredictor:
    """The predictor that ``arrays`` were taken from."""
    rows = Regression(arrays[ROWS], arrays[TARGETS])
    model = build_model(settings.method, rows, rows.X[: settings.method.num_inducing])
    return SingleLayerPredictor(put(arrays, model), {})


def build_model(method: SparseSettings, rows: Regression, Z: np.ndarray) -> Any:
    """GPflow's model at its starting values.

    :param Z: [M, D]
    """
    kernel = build_kernel(method, rows.X.shape[1])
    model = MODELS[method.approximation]((rows.X, rows.Y), kernel, Z, noise_variance=method.likelihood_variance)
    gpflow.set_trainable(model.inducing_variable, method.train_inducing_inputs)
    return model
