"""GP methods as models of ScoringBench (arXiv 2603.29928): ``DeepGPWrapper`` has the interface of its wrappers."""

from typing import Any, Self

import numpy as np
import pandas as pd
from scoringbench.univariate.wrappers import (
    DistributionPrediction,
    ProbabilisticWrapper,
    quantiles_to_distribution,
)

from dgpbench.estimator import DeepGPRegressor, settings_by_key

LEVELS = np.arange(1, 200) / 200
COLUMNS = {"dataset.categorical": "auto", "dataset.dates": "auto"}  # data sets of ScoringBench have columns of texts


class DeepGPWrapper(ProbabilisticWrapper):
    """``DeepGPRegressor`` for ScoringBench; the parameters are the same, and each distribution has 199 quantiles.

    >>> MODELS = {"dgpbench_star_v0_9": lambda: DeepGPWrapper("star", budget="laptop")}
    """

    def __init__(self, method: str = "star", *, settings: dict[str, Any] | None = None, **parameters: Any):
        self.regressor = DeepGPRegressor(method, settings=COLUMNS | settings_by_key(settings), **parameters)

    def fit(self, X: pd.DataFrame, y: pd.Series) -> Self:
        """Fit to the training rows of a fold."""
        self._set_train_range(y)
        self.regressor.fit(X, y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Return the predictive mean of y, [N]."""
        return self.regressor.predict(X)

    def predict_distribution(self, X: pd.DataFrame) -> DistributionPrediction:
        """Return the predictive quantiles of y with its mean."""
        quantiles = self.regressor.predict_quantiles(X, list(LEVELS))
        mean = self.predict(X)
        return quantiles_to_distribution(quantiles, LEVELS, mean=mean, train_range=self._y_train_range)
