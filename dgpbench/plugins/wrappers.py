"""Estimators with scikit-learn's interface as methods, in three lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from dgpbench.data.standardise import Regression
from dgpbench.methods.contract import Seeds
from dgpbench.plugins.method import Method, Settings
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.predictive import Gaussian, Quantiles
from dgpbench.training.log import TrainingLog

LEVELS = tuple(np.round(np.concatenate([[0.005, 0.01, 0.025], np.arange(1, 20) / 20, [0.975, 0.99, 0.995]]), 3))


def from_sklearn(
    name: str,
    build: Callable[[Any, int], Any],
    settings: type[Settings] = Settings,
    *,
    levels: Sequence[float] = LEVELS,
    **more: Any,
) -> Method:
    """A method of anything with ``fit(X, y)`` and ``predict(X, return_std=True)`` or ``predict_quantiles(X, q)``.

        METHOD = from_sklearn("bayesian_ridge", lambda settings, seed: BayesianRidge())

    The standard deviation is that of y, noise included, and makes a Gaussian of each row; quantiles, which come before
    it, are asked for at ``levels``. Where an estimator learns the noise apart from the standard deviation of its mean,
    as scikit-learn's ``GaussianProcessRegressor`` without a ``WhiteKernel`` does, its intervals are too narrow.

    :param build: the estimator, from the settings and a seed below 2^32
    :param more: ``title``, ``citation``, ``budgets`` of ``Method``
    """

    def fit(train: Regression, chosen: Settings, seeds: Seeds, log: TrainingLog) -> "Estimated":
        del log
        estimator = build(chosen, seeds.samples % 2**32)
        _check_estimator(name, estimator)
        estimator.fit(train.X, train.Y[:, 0])
        return Estimated(estimator, tuple(levels))

    return Method(name, fit, settings, **more)


def _check_estimator(name: str, estimator: Any) -> None:
    """
    :raises TypeError: for what cannot be fitted, or says nothing of its uncertainty
    """
    if isinstance(estimator, type) or not callable(getattr(estimator, "fit", None)):
        what = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"{name}: build returned {what}; it returns an estimator, such as BayesianRidge()")
    if callable(getattr(estimator, "predict_quantiles", None)):
        return
    taken = signature(estimator.predict).parameters.values()
    if not any(each.name == "return_std" or each.kind is each.VAR_KEYWORD for each in taken):
        raise TypeError(
            f"{name}: {type(estimator).__name__} has neither predict(X, return_std=True) nor predict_quantiles(X, q), "
            "so that it gives no predictive distribution; a fit function of your own may add one"
        )


@dataclass
class Estimated:
    """A fitted estimator."""

    estimator: Any
    levels: tuple[float, ...]

    def predict(self, X: np.ndarray, seed: int) -> Quantiles | GaussianMixture:
        """Quantiles where the estimator has them, else Gaussians."""
        del seed
        if hasattr(self.estimator, "predict_quantiles"):
            values = np.asarray(self.estimator.predict_quantiles(X, list(self.levels)))  # [N, K]
            return Quantiles(np.array(self.levels), values.T)
        mean, deviation = self.estimator.predict(X, return_std=True)
        return Gaussian(mean, np.square(deviation))
