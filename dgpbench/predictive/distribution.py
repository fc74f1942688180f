"""The predictive distribution of the Python interface, one output for each row, and scorers for scikit-learn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.predictive.mixture import ShortRepr
from dgpbench.predictive.warped import Densities


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveDistribution(ShortRepr):
    """p(y_n) = sum_s w_s N(y_n; m_sn, v_sn) for each of N rows, in the original units of y, noise included.

    With ``dataset.target_transform`` the transform of y has this density.

    :param mixture: its components, [S, N, 1]
    """

    mixture: Densities

    @property
    def mean(self) -> np.ndarray:
        """E[y], [N], units of y."""
        return self.mixture.mean[:, 0]

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of y, [N], units of y."""
        return np.sqrt(self.mixture.variance[:, 0])

    def log_prob(self, y: float | np.ndarray) -> np.ndarray:
        """log p(y) for y [..., N] in original units, or one y for all rows, in nats."""
        return self.mixture.log_density(self._column(y))[..., 0]

    def crps(self, y: float | np.ndarray) -> np.ndarray:
        """Continuous ranked probability score of y [..., N] in original units, or one y for all rows, units of y."""
        return self.mixture.crps(self._column(y))[..., 0]

    def cdf(self, y: float | np.ndarray) -> np.ndarray:
        """P(Y <= y) for y [..., N] in original units, or one y for all rows; at an observed y, its PIT."""
        return self.mixture.cdf(self._column(y))[..., 0]

    def quantile(self, q: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """The y at which the distribution function is q, [..., N] for q of shape [...], 0 < q < 1."""
        return self.mixture.quantile(q)[..., 0]

    def sample(self, num: int = 1, random_state: int | np.random.Generator | None = None) -> np.ndarray:
        """Draws of each row by itself, [num, N], units of y."""
        return self.mixture.sample(np.random.default_rng(random_state), num)[..., 0]

    def _column(self, y: float | np.ndarray) -> np.ndarray:
        y, rows = np.asarray(y, dtype=np.float64), len(self.mean)
        if y.ndim and y.shape[-1] != rows:
            raise ValueError(f"y takes one number, or one of each row, [{rows}] or [..., {rows}], not shape {y.shape}")
        return (y if y.ndim else np.full(rows, y))[..., None]


def log_score(estimator: Any, X: Any, y: Any) -> float:
    """Mean log p(y) of the rows of X, in nats: a scorer for scikit-learn, as ``GridSearchCV(..., scoring=log_score)``.

    :param estimator: a fitted ``DeepGPRegressor``, or a pipeline that ends in one
    """
    return float(_predicted(estimator, X).log_prob(np.ravel(y)).mean())


def neg_crps(estimator: Any, X: Any, y: Any) -> float:
    """Mean CRPS of the rows of X with its sign changed, in units of y: a scorer for scikit-learn, as ``log_score``."""
    return -float(_predicted(estimator, X).crps(np.ravel(y)).mean())


def _predicted(estimator: Any, X: Any) -> PredictiveDistribution:
    """Return the predictive distribution of the rows of X.

    :raises TypeError: for an estimator without one
    """
    *before, last = [step for _, step in getattr(estimator, "steps", [(None, estimator)])]
    if not hasattr(last, "predict_dist"):
        raise TypeError(f"{type(last).__name__} has no predict_dist(X); log_score and neg_crps score a DeepGPRegressor")
    return last.predict_dist(estimator[:-1].transform(X) if before else X)
