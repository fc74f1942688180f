"""GPflow's own single-layer models, fitted by SciPy's L-BFGS on their own objective."""

from typing import Any

import gpflow
import numpy as np

from dgpbench.errors import Diverged
from dgpbench.training.log import TrainingLog
from dgpbench.training.settings import LbfgsSettings


def maximise(model: Any, training: LbfgsSettings, log: TrainingLog) -> dict[str, Any]:
    """Train a GPflow model to convergence; what the record should say of it.

    :raises Diverged: when the objective is not finite
    """
    loss = model.training_loss_closure(compile=True)
    log.tracing(loss)
    max_iterations = training.max_iterations
    count = iter(range(1, max_iterations + 1))

    def record(_step, _variables, _values) -> None:
        log.check()
        log.record(next(count, max_iterations), -float(loss()), None, max_iterations)

    result = log.training(
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
    message = result.message if isinstance(result.message, str) else result.message.decode()
    return {
        "iterations": int(result.nit),
        "converged": bool(result.success),
        "optimiser_message": message,
        "likelihood_variance": float(model.likelihood.variance.numpy()),
    }
