"""Gradient boosting: quantiles (scikit-learn, XGBoost), and a Gaussian for each row (NGBoost, CatBoost)."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dgpbench.baselines.held_out import held_out_rows
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
class Boosted:
    """Fitted trees: their predictions of rows X [N, D], and facts for the record."""

    predictions: Callable[[np.ndarray], Quantiles | GaussianMixture]
    diagnostics: dict[str, int] = field(default_factory=dict)

    def predict(self, X: np.ndarray, seed: int) -> Quantiles | GaussianMixture:
        """Return the predictions; nothing is drawn."""
        del seed
        return self.predictions(X)


def fit_quantiles(train: Regression, settings: BoostingSettings, seeds: Seeds, monitor: Monitor) -> Boosted:
    """Boost trees for the pinball loss of each level, and for the mean."""
    from sklearn.ensemble import HistGradientBoostingRegressor as Booster

    del monitor
    options = {"max_iter": settings.max_iter, "learning_rate": settings.learning_rate}
    options["random_state"] = seeds.initial % 2**32
    X, y = train.X, train.Y[:, 0]
    levels = [Booster(loss="quantile", quantile=level, **options).fit(X, y) for level in LEVELS]
    mean = Booster(**options).fit(X, y)
    return Boosted(lambda X: Quantiles(LEVELS, np.array([each.predict(X) for each in levels]), mean.predict(X)))


GRADIENT_BOOSTING_QUANTILES = Method(
    "gradient_boosting_quantiles",
    fit_quantiles,
    BoostingSettings,
    title="Gradient boosting of 17 quantiles (scikit-learn)",
    citation="friedman2001",
)


@dataclass(frozen=True)
class XGBoostSettings(Settings):
    """XGBoost's defaults."""

    max_trees: int = setting("trees for each level", low=1, default=100)
    learning_rate: float = setting("shrinkage", above=0, default=0.3)


def fit_xgboost(train: Regression, settings: XGBoostSettings, seeds: Seeds, monitor: Monitor) -> Boosted:
    """Boost trees for the pinball losses of all levels in one model, and for the mean in another."""
    from xgboost import XGBRegressor

    del monitor
    options = {"n_estimators": settings.max_trees, "learning_rate": settings.learning_rate}
    options |= {"n_jobs": 1, "random_state": seeds.initial % 2**31}
    X, y = train.X, train.Y[:, 0]
    levels = XGBRegressor(objective="reg:quantileerror", quantile_alpha=LEVELS, **options).fit(X, y)
    mean = XGBRegressor(**options).fit(X, y)
    return Boosted(lambda X: Quantiles(LEVELS, levels.predict(X).T, mean.predict(X)))


XGBOOST_QUANTILES = Method(
    "xgboost_quantiles",
    fit_xgboost,
    XGBoostSettings,
    title="Gradient boosting of 17 quantiles (XGBoost)",
    packages={"xgboost": "pip install 'dgpbench[xgboost]'"},
    citation="chen2016",
)


@dataclass(frozen=True)
class NGBoostSettings(Settings):
    """Those of the paper's experiments (Duan et al. 2020, Sec. 4)."""

    max_stages: int = setting("most boosting stages", low=1, default=2000)
    learning_rate: float = setting("shrinkage", above=0, default=0.01)
    minibatch: float = setting("share of the rows that each stage sees", above=0, high=1, default=1.0)
    holdout: float = setting("share of the rows that chooses the number of stages", above=0, below=1, default=0.2)


def fit_ngboost(train: Regression, settings: NGBoostSettings, seeds: Seeds, monitor: Monitor) -> Boosted:
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
    fitting, held = held_out_rows(len(X), settings.holdout, seeds.holdout)
    tried = NGBRegressor(n_estimators=settings.max_stages, **options).fit(
        X[fitting], y[fitting], X_val=X[held], Y_val=y[held]
    )
    stages = int(tried.best_val_loss_itr or 0) + 1
    fitted = NGBRegressor(n_estimators=stages, **options).fit(X, y)

    def gaussian(X: np.ndarray) -> GaussianMixture:
        parameters = fitted.pred_dist(X).params
        return Gaussian(parameters["loc"], np.square(parameters["scale"]))

    return Boosted(gaussian, {"stages": stages})


NGBOOST = Method(
    "ngboost",
    fit_ngboost,
    NGBoostSettings,
    title="Natural gradient boosting of a Gaussian (NGBoost)",
    packages={"ngboost": "pip install 'dgpbench[ngboost]'"},
    citation="duan2020",
    budgets={"smoke": {"max_stages": 50, "learning_rate": 0.1}},
)


@dataclass(frozen=True)
class CatBoostSettings(Settings):
    """CatBoost's defaults; the number of trees is chosen on held-out rows, as for NGBoost."""

    max_trees: int = setting("most trees", low=1, default=1000)
    learning_rate: float = setting("shrinkage", above=0, default=0.03)
    holdout: float = setting("share of the rows that chooses the number of trees", above=0, below=1, default=0.2)


def fit_catboost(train: Regression, settings: CatBoostSettings, seeds: Seeds, monitor: Monitor) -> Boosted:
    """Choose the number of trees on a fifth of the training rows; then fit that many to all of them.

    The loss is the negative log-likelihood of a Gaussian, and trees predict its mean and variance.
    """
    from catboost import CatBoostRegressor

    del monitor
    X, y = train.X, train.Y[:, 0]
    fitting, held = held_out_rows(len(X), settings.holdout, seeds.holdout)
    options = {"loss_function": "RMSEWithUncertainty", "learning_rate": settings.learning_rate}
    options |= {"random_seed": seeds.initial % 2**31, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    tried = CatBoostRegressor(iterations=settings.max_trees, **options)
    tried.fit(X[fitting], y[fitting], eval_set=(X[held], y[held]))  # keeps the best number of trees
    fitted = CatBoostRegressor(iterations=tried.tree_count_, **options).fit(X, y)
    return Boosted(lambda X: Gaussian(*fitted.predict(X).T), {"trees": fitted.tree_count_})


CATBOOST = Method(
    "catboost",
    fit_catboost,
    CatBoostSettings,
    title="Gradient boosting of a Gaussian (CatBoost)",
    packages={"catboost": "pip install 'dgpbench[catboost]'"},
    citation="malinin2021",
    budgets={"smoke": {"max_trees": 50, "learning_rate": 0.1}},
)
