"""CatBoost and XGBoost: moments and quantiles of a known distribution."""

import fit_once
import numpy as np
import pytest
from scipy.stats import expon

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.methods import plugins
from dgpbench.runs.resolve import resolve_overrides

groups.find_by(plugins.__name__)


def test_catboost_predicts_the_mean_and_the_variance_of_each_row():
    pytest.importorskip("catboost", reason="needs pip install '.[catboost]'")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 2))
    scale = np.where(X[:, 0] > 0, 2.0, 0.2)
    y = 3 * X[:, 1] + scale * rng.normal(size=len(X))
    found = fit_once.fit(X, y, "method=catboost", "budget=smoke").predict(X)
    assert np.median(found.variance[X[:, 0] > 0.1]) == pytest.approx(4.0, rel=0.25)
    assert np.median(found.variance[X[:, 0] < -0.1]) == pytest.approx(0.04, rel=0.5)
    assert np.median(np.abs(found.mean[:, 0] - 3 * X[:, 1])) < 0.2


def test_catboost_has_few_trees_where_there_is_nothing_to_learn():
    pytest.importorskip("catboost", reason="needs pip install '.[catboost]'")
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    fitted = fit_once.fit(X, y, "method=catboost", "method.max_trees=300", "method.learning_rate=0.1")
    assert 1 <= fitted.predictor.diagnostics["trees"] < 50


def test_xgboost_predicts_the_quantiles_and_the_mean_of_skewed_noise():
    pytest.importorskip("xgboost", reason="needs pip install '.[xgboost]'")
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, size=(4000, 1)).astype(float)
    y = 5 * X[:, 0] + rng.exponential(size=len(X))
    found = fit_once.fit(X, y, "method=xgboost_quantiles").predict(np.array([[0.0], [1.0]]))
    for level, values in zip(found.levels, found.values[..., 0], strict=True):
        expected = expon.ppf(level)
        assert values - [0, 5] == pytest.approx([expected, expected], rel=0.15, abs=0.05), level
    assert found.mean[:, 0] == pytest.approx([1, 6], abs=0.1)


@pytest.mark.parametrize(
    ("method", "share"), [("catboost", "holdout"), ("mc_dropout", "holdout"), ("conformal", "calibration")]
)
def test_rows_to_fit_to_are_left_however_many_are_held_out(method, share):
    for package in {"catboost": ["catboost"], "conformal": ["crepes"]}.get(method, []):
        pytest.importorskip(package)
    base = ["method.base=bayesian_ridge"] if method == "conformal" else []
    X = np.linspace(-1, 1, 20)[:, None]
    fitted = fit_once.fit(X, X[:, 0], f"method={method}", f"method.{share}=0.99", "budget=smoke", *base)
    assert np.isfinite(fitted.predict(X).mean).all()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("rates=[]", "dropout rates from 0 to below 1"),
        ("rates=[2]", "dropout rates"),
        ("noises=[x]", "variances above 0"),
    ],
)
def test_lists_to_choose_from_are_of_numbers_in_range(setting, sentence):
    with pytest.raises(UserError, match=f"method.{setting.partition('=')[0]} must be a list of {sentence}"):
        resolve_overrides(["method=mc_dropout", f"method.{setting}"])


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "package"), [("catboost", "catboost"), ("xgboost_quantiles", "xgboost"), ("conformal", "crepes")]
)
def test_methods_of_extras_keep_the_contract(method, package, capsys):
    pytest.importorskip(package)
    assert fit_once.command("check-method", method) == 0, capsys.readouterr().out
