"""The wrapper for ScoringBench, in a stand-in for its package with the signatures of its wrappers."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest

from dgpbench import DeepGPRegressor

# The package has no release and no licence: only its signatures are used here.
STAND_IN = """
from dataclasses import dataclass
import numpy as np

@dataclass
class DistributionPrediction:
    q: np.ndarray
    alphas: np.ndarray
    mean: np.ndarray
    train_range: tuple

class ProbabilisticWrapper:
    _y_train_range = None

    def _set_train_range(self, y):
        self._y_train_range = (float(np.min(y)), float(np.max(y)))
        return self._y_train_range

def quantiles_to_distribution(q, alphas, mean=None, y_range=None, *, train_range):
    return DistributionPrediction(q, alphas, mean, train_range)
"""


@pytest.fixture
def wrapper(tmp_path, monkeypatch):
    folder = tmp_path / "scoringbench" / "univariate" / "wrappers"
    folder.mkdir(parents=True)
    for package in (folder.parents[1], folder.parent):
        (package / "__init__.py").touch()
    (folder / "__init__.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "dgpbench.scoringbench", raising=False)
    yield importlib.import_module("dgpbench.scoringbench").DeepGPWrapper
    for name in [name for name in sys.modules if name.partition(".")[0] == "scoringbench"]:
        del sys.modules[name]


def fold() -> tuple[pd.DataFrame, pd.Series]:
    """Rows as a fold has them: numbers and texts, and an index with gaps."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=80), "colour": rng.choice(["red", "blue"], 80)}, index=np.arange(80) * 3)
    return X, 100 + 20 * np.sin(X["size"]) + 10 * (X["colour"] == "red") + rng.normal(size=80)


def test_a_fold_gets_the_quantiles_of_the_regressor_in_units_of_y(wrapper):
    X, y = fold()
    model = wrapper("gpr", budget="smoke", random_state=3)
    assert model.fit(X.iloc[:60], y.iloc[:60]) is model
    found = model.predict_distribution(X.iloc[60:])
    settings = {"dataset.categorical": "auto"}
    same = DeepGPRegressor("gpr", budget="smoke", random_state=3, settings=settings).fit(X.iloc[:60], y.iloc[:60])
    assert found.q.shape == (20, 199)
    assert found.q == pytest.approx(same.predict_quantiles(X.iloc[60:], found.alphas), rel=1e-9)
    assert found.mean == pytest.approx(same.predict(X.iloc[60:]), rel=1e-9)
    assert found.train_range == (y.iloc[:60].min(), y.iloc[:60].max())
    assert model.predict(X.iloc[60:]) == pytest.approx(found.mean)
    assert np.mean(np.abs(found.mean - y.iloc[60:])) < 5


def test_settings_are_added_to_those_of_columns(wrapper):
    X, y = fold()
    model = wrapper("sgp", budget="smoke", settings={"method.num_inducing": 5}).fit(X, y)
    assert model.regressor.settings["method.num_inducing"] == 5
    assert model.predict_distribution(X).q.shape == (80, 199)
