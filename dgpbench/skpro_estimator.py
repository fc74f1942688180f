"""skpro's interface: ``DeepGPProbaRegressor`` predicts a normal mixture for each row (extra ``skpro``)."""

from typing import Any, Self

import numpy as np
import pandas as pd
from skpro.distributions.normal_mixture import NormalMixture
from skpro.regression.base import BaseProbaRegressor

from dgpbench.estimator import DeepGPRegressor, settings_by_key
from dgpbench.predictive.mixture import GaussianMixture


class DeepGPProbaRegressor(BaseProbaRegressor):
    """``DeepGPRegressor`` for skpro; the parameters are the same.

    >>> from dgpbench.skpro_estimator import DeepGPProbaRegressor
    >>> regressor = DeepGPProbaRegressor("gpr", budget="laptop")
    """

    _tags = {"capability:missing": False, "capability:multioutput": False}  # noqa: RUF012 (skpro reads this name)

    def __init__(
        self,
        method: str = "star",
        num_layers: int | None = None,
        budget: str = "laptop",
        protocol: str = "lindinger2020",
        settings: dict[str, Any] | None = None,
        random_state: int | None = 0,
        num_threads: int = 1,
        verbose: bool = False,
    ):
        self.method = method
        self.num_layers = num_layers
        self.budget = budget
        self.protocol = protocol
        self.settings = settings
        self.random_state = random_state
        self.num_threads = num_threads
        self.verbose = verbose
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> Self:
        if settings_by_key(self.settings).get("dataset.target_transform", "none") != "none":
            raise ValueError(
                "skpro's normal mixture has no dataset.target_transform: leave it out, or take DeepGPRegressor"
            )
        self.regressor_ = DeepGPRegressor(**self.get_params(deep=False)).fit(_named(X), y.iloc[:, 0])
        return self

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(self.regressor_.predict(_named(X)), index=X.index, columns=self._get_columns("predict"))

    def _predict_proba(self, X: pd.DataFrame) -> NormalMixture:
        mixture = self.regressor_.predict_dist(_named(X)).mixture
        if not isinstance(mixture, GaussianMixture):  # a plug-in may predict anything
            raise ValueError(f"method={self.method} does not predict a normal mixture, which skpro requires")
        S, N, _ = mixture.means.shape
        mu, sigma = (np.swapaxes(values, 0, 1) for values in (mixture.means, np.sqrt(mixture.variances)))
        weights = np.full(S, 1 / S) if mixture.weights is None else mixture.weights
        return NormalMixture(np.tile(weights, (N, 1)), mu, sigma, X.index, self._get_columns("predict"))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Parameters for skpro's own checks: fits of a second or so."""
        del parameter_set
        quick = {"training.max_iterations": 2}
        return [{"method": method, "budget": "smoke", "settings": quick} for method in ("gpr", "sgp")]


def _named(X: pd.DataFrame) -> pd.DataFrame:  # with texts as names, as scikit-learn requires
    return X.set_axis([str(name) for name in X.columns], axis=1)
