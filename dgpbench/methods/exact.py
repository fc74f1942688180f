"""Single-layer references from GPflow, fitted by L-BFGS: exact GP regression, SGPR (Titsias 2009) and FITC.

    gpr    log N(y; 0, K + s2 I)
    sgpr   log N(y; 0, Q + s2 I) - tr(K - Q) / (2 s2),    Q = K_nM K_MM^{-1} K_Mn
    fitc   log N(y; 0, Q + diag(K - Q) + s2 I)            (Snelson & Ghahramani 2006)

GPflow's own models do the work (METHODS Sec. 3).
"""

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.datasets.scaling import Regression
from dgpbench.errors import Diverged
from dgpbench.gp.prior import KERNELS
from dgpbench.methods.choices import Choices, Seeds
from dgpbench.methods.initialisation import kmeans_centres
from dgpbench.predictive import GaussianMixture
from dgpbench.training.clock import Clock

ROWS_AT_ONCE = 1024


def fit(train: Regression, choices: Choices, seeds: Seeds, clock: Clock) -> "ExactPredictor":
    """Fit the single-layer model that ``method.model`` names by L-BFGS on its own objective."""
    model = _build(train, choices.method, seeds.initial)
    loss = model.training_loss_closure(compile=True)
    clock.tracing(loss)
    max_iterations = choices.training["max_iterations"]
    count = iter(range(1, max_iterations + 1))

    def record(_step, _variables, _values) -> None:
        clock.check()
        clock.record(next(count, max_iterations), -float(loss()), None, max_iterations)

    result = clock.training(
        lambda: gpflow.optimizers.Scipy().minimize(
            loss,
            model.trainable_variables,
            options={"maxiter": max_iterations},
            step_callback=record,
            compile=True,
            allow_unused_variables=True,
        )
    )
    if not np.isfinite(result.fun):
        raise Diverged(f"the objective became {-result.fun} after {result.nit} L-BFGS iterations")
    return ExactPredictor(model, _diagnostics(model, result))


def _build(train: Regression, method: dict, seed: int):
    data = (train.X, train.Y)
    dim = train.X.shape[1]
    lengthscales = np.full(dim, method["lengthscale"]) if method["ard"] else method["lengthscale"]
    kernel = KERNELS[method["kernel"]](variance=method["kernel_variance"], lengthscales=lengthscales)
    noise = method["likelihood_variance"]
    if method["model"] == "gpr":
        return gpflow.models.GPR(data, kernel, noise_variance=noise)
    Z = kmeans_centres(train.X, method["num_inducing"], seed)
    sparse = {"sgpr": gpflow.models.SGPR, "fitc": gpflow.models.GPRFITC}[method["model"]]
    model = sparse(data, kernel, Z, noise_variance=noise)
    gpflow.set_trainable(model.inducing_variable, method["train_inducing_inputs"])
    return model


def _diagnostics(model, result) -> dict:
    """FITC's training may drive s2 to its lower limit without converging: the record says so."""
    message = result.message if isinstance(result.message, str) else result.message.decode()
    return {
        "iterations": int(result.nit),
        "converged": bool(result.success),
        "optimiser_message": message,
        "likelihood_variance": float(model.likelihood.variance.numpy()),
    }


class ExactPredictor:
    """Predicts one Gaussian a row from a fitted GPflow model."""

    def __init__(self, model, diagnostics: dict):
        self.model = model
        self.diagnostics = diagnostics
        self._predict = tf.function(
            model.predict_y, input_signature=[tf.TensorSpec([None, None], gpflow.default_float())]
        )

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """The predictive Gaussian at standardised inputs X [N, D]."""
        del seed  # nothing is drawn
        chunks = [self._predict(X[start : start + ROWS_AT_ONCE]) for start in range(0, len(X), ROWS_AT_ONCE)]
        means, variances = (np.concatenate([part[i].numpy() for part in chunks]) for i in (0, 1))
        return GaussianMixture(means[None].astype(float), variances[None].astype(float))

    def posterior(self) -> dict[str, np.ndarray]:
        """The fitted parameters, by GPflow's names."""
        return {name: p.numpy() for name, p in gpflow.utilities.parameter_dict(self.model).items()}
