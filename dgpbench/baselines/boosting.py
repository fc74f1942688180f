"""Gradient boosting: quantiles one by one (scikit-learn), and a Gaussian by natural gradients (NGBoost)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.data.standardise import Regression
from dgpbench.methods.interface import Seeds
from dgpbench.plugins import Gaussian, GaussianMixture, Method, Quantiles, Settings, setting
from dgpbench.training.monitor import Monitor

LEVELS = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.975, 0.99])


@dataclass(frozen=True)
class BoostingSettings(Settings):
    """scikit-learn's defaults."""

    max_iter: int = setting("trees for each level", low=1, default=100)
    learning_rate: float = setting("shrinkage", above=0, default=0.1)


@dataclass
class BoostedQuantiles:
    """One ``HistGradientBoostingRegressor`` for each level, and one for the mean."""

    levels: list[Any]
    mean: Any

    def predict(self, X: np.ndarray, seed: int) -> Quantiles:
        """Return the quantiles, sorted where they cross, and the mean."""
        del seed
        return Quantiles(LEVELS, np.array([each.predict(X) for each in self.levels]), self.mean.predict(X))


def fit_quantiles(train: Regression, settings: BoostingSettings, seeds: Seeds, monitor: Monitor) -> BoostedQuantiles:
    """Boost trees for the pinball loss of each level."""
    from sklearn.ensemble import HistGradientBoostingRegressor as Booster

    del monitor
    options = {"max_iter": settings.max_iter, "learning_rate": settings.learning_rate}
    options["random_state"] = seeds.initial % 2**32
    X, y = train.X, train.Y[:, 0]
    levels = [Booster(loss="quantile", quantile=level, **options).fit(X, y) for level in LEVELS]
    return BoostedQuantiles(levels, Booster(**options).fit(X, y))


GRADIENT_BOOSTING_QUANTILES = Method(
    "gradient_boosting_quantiles",
    fit_quantiles,
    BoostingSettings,
    title="Gradient boosting of 17 quantiles (scikit-learn)",
    citation="friedman2001",
)


@dataclass(frozen=True)
class NGBoostSettings(Settings):
    """Those of the paper's experiments (Duan et al. 2020, Sec. 4)."""

    max_stages: int = setting("most boosting stages", low=1, default=2000)
    learning_rate: float = setting("shrinkage", above=0, default=0.01)
    minibatch: float = setting("share of the rows that each stage sees", above=0, high=1, default=1.0)
    holdout: float = setting("share of the rows that chooses the number of stages", above=0, below=1, default=0.2)


class NGBoosted:
    """A fitted ``NGBRegressor``."""

    def __init__(self, regressor: Any, stages: int):
        self.regressor, self.diagnostics = regressor, {"stages": stages}

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """A Gaussian for each row."""
        del seed
        parameters = self.regressor.pred_dist(X).params
        return Gaussian(parameters["loc"], np.square(parameters["scale"]))


def fit_ngboost(train: Regression, settings: NGBoostSettings, seeds: Seeds, monitor: Monitor) -> NGBoosted:
    """Choose the number of stages on a fifth of the training rows; then fit that many to all of them."""
    from ngboost import NGBRegressor
    from ngboost.distns import Normal
    from sklearn.tree import DecisionTreeRegressor

    del monitor
    X, y = train.X, train.Y[:, 0]
    seed = seeds.initial % 2**32
    tree = DecisionTreeRegressor(max_depth=3, random_state=seed)  # NGBoost's, with a seed
    options = {"Dist": Normal, "Base": tree, "learning_rate": settings.learning_rate, "random_state": seed}
    options |= {"minibatch_frac": settings.minibatch, "verbose": False}
    order = np.random.default_rng(seeds.holdout).permutation(len(X))
    held_out = max(1, round(settings.holdout * len(X)))
    fitting, held = order[held_out:], order[:held_out]
    tried = NGBRegressor(n_estimators=settings.max_stages, **options).fit(
        X[fitting], y[fitting], X_val=X[held], Y_val=y[held]
    )
    stages = int(tried.best_val_loss_itr or 0) + 1
    return NGBoosted(NGBRegressor(n_estimators=stages, **options).fit(X, y), stages)


NGBOOST = Method(
    "ngboost",
    fit_ngboost,
    NGBoostSettings,
    title="Natural gradient boosting of a Gaussian (NGBoost)",
    packages={"ngboost": "pip install 'dgpbench[ngboost]'"},
    citation="duan2020",
    budgets={"smoke": {"max_stages": 50, "learning_rate": 0.1}},
)
