"""``dgpbench check-method``: methods that keep the contract pass, and each violation is named."""

import fit_once
import pytest

from dgpbench.config import groups

GOOD = """
from dataclasses import dataclass
import numpy as np
from dgpbench.plugins import Gaussian, Method, Settings, setting

@dataclass(frozen=True)
class Ridge(Settings):
    num_features: int = setting("random features", low=1, default=100)
    noise: float = setting("noise variance", above=0, default=0.1)

class Fitted:
    def __init__(self, train, settings, rng):
        self.W = rng.normal(size=(train.X.shape[1], settings.num_features)) / 2
        self.b = rng.uniform(0, 2 * np.pi, settings.num_features)
        self.noise, F = settings.noise, self.features(train.X)
        self.A = F.T @ F / self.noise + np.eye(settings.num_features)
        self.w = np.linalg.solve(self.A, F.T @ train.Y[:, 0] / self.noise)

    def features(self, X):
        return np.sqrt(2 / len(self.b)) * np.cos(X @ self.W + self.b)

    def predict(self, X, seed):
        F = self.features(X)
        return Gaussian(F @ self.w, self.noise + (F * np.linalg.solve(self.A, F.T).T).sum(axis=1))

def fit(train, settings, seeds, log):
    return Fitted(train, settings, np.random.default_rng(seeds.initial))

METHOD = Method("NAME", fit, Ridge)
"""
# name -> what is broken, and the sentence
BROKEN = {
    "wrong_units": ("Gaussian(F @ self.w,", "Gaussian(25.0 + 9.0 * F @ self.w,", "standard deviations off"),
    "ignores_seed": ("np.random.default_rng(seeds.initial)", "np.random", "it draws from a generator that all share"),
    "own_seed": ("np.random.default_rng(seeds.initial)", "np.random.default_rng()", "two fits with the same seeds"),
    "ends_python": ("    return Fitted(", "    raise SystemExit(0)\n    Fitted(", "SystemExit: 0"),
    "gives_nan": ("Gaussian(F @ self.w,", "Gaussian(F @ self.w / np.inf * np.inf,", "not finite"),
    "wrong_shape": (
        "F = self.features(X)\n        return",
        "F = self.features(X)[1:]\n        return",
        "predictions have shape",
    ),
    "peeks": ("F = self.features(X)\n", "F = self.features((X - X.mean(axis=0)) / X.std(axis=0))\n", "test rows reach"),
    "looks_back": (
        "        F = self.features(X)\n",
        "        F = self.features((X + np.roll(X, 1, axis=0)) / 2 if len(X) == 17 else X)\n",
        "test rows reach",
    ),
    "from_the_first": (
        "        F = self.features(X)\n",
        "        F = self.features(X - X[:1] if len(X) == 17 else X)\n",
        "test rows reach",
    ),
    "variance_of_other_units": (
        "self.noise + (F * ",
        "1000.0 * self.noise + (F * ",
        "90 % intervals are 33 standard deviations wide",
    ),
    "small_seeds_alone": (
        "np.random.default_rng(seeds.initial)",
        "np.random.default_rng(np.random.RandomState(seeds.initial).randint(9))",
        "Seed must be between 0 and 2**32 - 1",
    ),
    "needs_two": (
        "def fit(train, settings, seeds, log):\n",
        "def fit(train, settings, seeds, log):\n    train.X[:, 1]\n",
        "IndexError",
    ),
    "overwrites": (
        "F = self.features(X)\n",
        "X += 1.0\n        F = self.features(X)\n",
        "it changes the array of rows",
    ),
    "returns_nothing": (
        "    return Fitted(",
        "    Fitted(",
        "fit returned NoneType; it needs a method predict",
    ),
}
OF_QUANTILES = """

class OfQuantiles(Fitted):
    def predict(self, X, seed):
        found, levels = super().predict(X, seed), np.array(LEVELS)
        values = found.mean[:, 0] + np.sqrt(found.variance[:, 0]) * (levels[:, None] - 0.5)
        return Quantiles(levels, VALUES, MEAN)

def fit(train, settings, seeds, log):
    return OfQuantiles(train, settings, np.random.default_rng(seeds.initial))

METHOD = Method("NAME", fit, Ridge)
"""
# name -> levels, values and mean, and the message
QUANTILES = {
    "good_quantiles": ("[0.05, 0.5, 0.95]", "values", "None", "keeps the contract"),
    "without_a_middle": ("[0.9, 0.95]", "values", "None", "keeps the contract"),
    "of_no_units": ("[0.9, 0.95]", "25 + values", "None", "skipped standard units: its quantiles give no mean, no"),
    "levels_in_other_units": ("[0.05, 0.5, 0.95]", "25 + 9 * values", "found.mean", "its median is"),
    "a_mean_of_all_rows": ("[0.05, 0.5, 0.95]", "values", "found.mean - found.mean.mean()", "test rows reach"),
}
ESTIMATORS = {
    "LinearRegression()": "has neither predict(X, return_std=True) nor predict_quantiles(X, q)",
    "BayesianRidge": "build returned the class BayesianRidge; it must return an estimator",
    "None": "build returned NoneType; it must return an estimator",
}


def plugin(folder, name: str, old: str = "", new: str = ""):
    """Write the file of a method, with a fault if one is named."""
    assert old in GOOD
    path = folder / f"{name}.py"
    path.write_text(GOOD.replace("NAME", name).replace(old, new) if old else GOOD.replace("NAME", name))
    return path


def test_a_method_that_keeps_the_contract_passes(tmp_path, capsys):
    assert fit_once.command("check-method", "keeps_it", "--plugin", str(plugin(tmp_path, "keeps_it"))) == 0
    printed = capsys.readouterr().out
    assert printed.count("ok      ") == 6
    assert "skipped what it saves predicts the same: it has no restore, so it saves nothing\n" in printed
    assert "keeps_it keeps the contract; 1 of 7 demands were skipped\n" in printed


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_method_fails_and_the_reason_is_named(name, tmp_path, capsys):
    old, new, reason = BROKEN[name]
    assert fit_once.command("check-method", name, f"--plugin={plugin(tmp_path, name, old, new)}") == 1
    (line, *_) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    assert reason in line


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_keep_the_contract_or_the_reason_is_named(name, tmp_path, capsys):
    levels, values, mean, expected = QUANTILES[name]
    text = OF_QUANTILES.replace("LEVELS", levels).replace("VALUES", values).replace("MEAN", mean)
    path = tmp_path / f"{name}.py"
    good = GOOD.split("METHOD =")[0].replace("Method, ", "Method, Quantiles, ")
    path.write_text(good + text.replace("NAME", name))
    assert fit_once.command("check-method", name, f"--plugin={path}") == (
        0 if "keeps" in expected or "skipped" in expected else 1
    )
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("built", ESTIMATORS)
def test_an_estimator_without_uncertainty_is_refused_by_name(built, tmp_path, capsys):
    path, name = tmp_path / "own.py", f"own_{[*ESTIMATORS].index(built)}"
    path.write_text(
        "from dgpbench.plugins import from_sklearn\n"
        "from sklearn.linear_model import BayesianRidge, LinearRegression\n"
        f"METHOD = from_sklearn({name!r}, lambda settings, seed: {built})\n"
    )
    assert fit_once.command("check-method", name, f"--plugin={path}") == 1
    assert ESTIMATORS[built] in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.parametrize("method", groups.names("method"))
def test_methods_of_this_package_pass(method, capsys):
    assert fit_once.command("check-method", method) == 0, capsys.readouterr().out


@pytest.mark.full
def test_iterations_that_are_given_are_those_of_the_check(capsys):
    """After 50, a subset by leverage scores is worse at the training rows than their mean is; after 400 it is not."""
    assert fit_once.command("check-method", "sod_leverage", "training.max_iterations=50") == 1
    assert "FAILED  standard units: at the rows it was trained on its mean is " in capsys.readouterr().out
