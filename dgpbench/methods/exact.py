"""Exact GP regression (Rasmussen & Williams 2006), fitted by L-BFGS on its log marginal likelihood.

    log N(y; 0, K + s2 I)

GPflow's own model does the work (docs/methods.md, "Single-layer references").
"""

import gpflow
import numpy as np

from dgpbench.datasets.scaling import Regression
from dgpbench.gp.kernels import KERNELS
from dgpbench.methods.contract import FitSettings, Seeds
from dgpbench.methods.exact_settings import ExactSettings
from dgpbench.methods.prediction import SingleLayerPredictor
from dgpbench.methods.settings import MethodSettings
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
    method = settings.method
    kernel = build_kernel(method, train.X.shape[1])
    model = gpflow.models.GPR((train.X, train.Y), kernel, noise_variance=method.likelihood_variance)
    return SingleLayerPredictor(model, maximise(model, settings.training, log))


def build_kernel(method: MethodSettings, num_features: int) -> gpflow.kernels.Kernel:
    """The kernel at its starting values."""
    lengthscales = np.full(num_features, method.lengthscale) if method.ard else method.lengthscale
    return KERNELS[method.kernel](variance=method.kernel_variance, lengthscales=lengthscales)
