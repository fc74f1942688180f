"""Exact GP regression (Rasmussen & Williams 2006), fitted by L-BFGS on its log marginal likelihood.

    log N(y; 0, K + s2 I)

GPflow's own model does the work (docs/methods.md, "Single-layer references").
"""

from collections.abc import Mapping
from typing import Any

import gpflow
import numpy as np

from dgpbench.data.standardise import Regression
from dgpbench.gp.kernels import KERNELS
from dgpbench.methods.arrays import put
from dgpbench.methods.contract import FitSettings, Seeds
from dgpbench.methods.exact_settings import ExactSettings
from dgpbench.methods.prediction import ROWS, TARGETS, SingleLayerPredictor
from dgpbench.methods.settings import GPSettings
from dgpbench.training.lbfgs import maximise
from dgpbench.training.log import TrainingLog
from dgpbench.training.settings import LbfgsSettings


def fit(
    train: Regression, settings: FitSettings[ExactSettings, LbfgsSettings], seeds: Seeds, log: TrainingLog
) -> SingleLayerPredictor:
    """Fit the kernel's parameters and the noise variance.

    :param train: standardised rows X [N, D], Y [N, 1]
    """
    del seeds  # nothing is drawn
    model = build_model(settings.method, train)
    return SingleLayerPredictor(model, maximise(model, settings.training, log))


def restore(settings: FitSettings[ExactSettings, Any], arrays: Mapping[str, np.ndarray]) -> SingleLayerPredictor:
    """The predictor that ``arrays`` were taken from."""
    model = build_model(settings.method, Regression(arrays[ROWS], arrays[TARGETS]))
    return SingleLayerPredictor(put(arrays, model), {})


def build_model(method: ExactSettings, rows: Regression) -> gpflow.models.GPR:
    """The model at its starting values."""
    kernel = build_kernel(method, rows.X.shape[1])
    return gpflow.models.GPR((rows.X, rows.Y), kernel, noise_variance=method.likelihood_variance)


def build_kernel(method: GPSettings, num_features: int) -> gpflow.kernels.Kernel:
    """The kernel at its starting values."""
    lengthscales = np.full(num_features, method.lengthscale) if method.ard else method.lengthscale
    return KERNELS[method.kernel](variance=method.kernel_variance, lengthscales=lengthscales)
