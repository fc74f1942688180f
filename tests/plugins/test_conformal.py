"""Conformal calibration around a method: by hand, its coverage, records and refusals."""

import fit_once
import numpy as np
import pytest
from plugin_files import QUICK, run
from sklearn.linear_model import BayesianRidge
from test_check_method import plugin

from dgpbench.config import groups
from dgpbench.experiments.engine import engine
from dgpbench.methods import plugins
from dgpbench.predictive.scores import all_scores, per_row
from dgpbench.runs.resolve import resolve_overrides

pytest.importorskip("crepes", reason="needs pip install '.[conformal]'")
groups.find_by(plugins.__name__)


def heavy_tailed(num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num, 2))
    return X, X[:, 0] + rng.standard_t(2, size=num)


@pytest.mark.parametrize("normalise", ["true", "false"])
@pytest.mark.parametrize("num", [80, 2000])
def test_quantiles_are_those_of_the_calibration_residuals(num, normalise):
    """Values are mean + deviation * r_(i) at i / (n + 1), r of rows that the base was not fitted to."""
    X, y = heavy_tailed(num, 0)
    X_new, _ = heavy_tailed(7, 1)
    settings = ("method=conformal", "method.base=bayesian_ridge", f"method.normalise={normalise}")
    found = fit_once.fit(X, y, *settings).predict(X_new)

    order = np.random.default_rng(fit_once.SEEDS.holdout).permutation(num)
    n = num // 4
    base = BayesianRidge().fit(X[order[n:]], y[order[n:]])
    (at, spread), (mean, deviation) = (base.predict(rows, return_std=True) for rows in (X[order[:n]], X_new))
    if normalise == "false":
        spread, deviation = np.ones(n), np.ones(7)
    residuals = np.sort((y[order[:n]] - at) / spread)
    ranks = np.rint(found.levels * (n + 1)).astype(int)
    assert found.levels == pytest.approx(ranks / (n + 1), rel=1e-12)
    assert len(found.levels) == min(n, 199)
    assert found.levels[0] == pytest.approx(max(1 / (n + 1), 0.005), rel=0.25)
    assert found.values[..., 0] == pytest.approx(mean + deviation * residuals[ranks - 1][:, None], rel=1e-9)
    assert found.mean[:, 0] == pytest.approx(mean, rel=1e-12)


def test_intervals_hold_their_share_where_those_of_the_base_do_not():
    """A Gaussian fitted to noise of two degrees of freedom is too wide in the middle."""
    (X, y), (X_new, y_new) = heavy_tailed(4000, 2), heavy_tailed(5000, 3)
    base, calibrated = (
        all_scores(per_row(fit_once.fit(X, y, *settings).predict(X_new), y_new[:, None]))
        for settings in (("method=bayesian_ridge",), ("method=conformal", "method.base=bayesian_ridge"))
    )
    assert base["coverage_50"] > 0.65
    for share in (50, 80, 90, 95):
        assert calibrated[f"coverage_{share}"] == pytest.approx(share / 100, abs=0.04)
    assert calibrated["crps"] < base["crps"]


def test_a_base_of_quantiles_is_calibrated_by_its_mean_without_a_deviation():
    X, y = heavy_tailed(200, 4)
    fitted = fit_once.fit(X, y, "method=conformal", "method.base=gradient_boosting_quantiles")
    assert fitted.predictor.diagnostics == {"calibration_rows": 50, "normalised": False}
    values = fitted.predict(X[:3]).values[..., 0]
    assert values - values[0] == pytest.approx(np.repeat((values - values[0])[:, :1], 3, axis=1), abs=1e-9)


def test_a_run_names_its_base_and_lacks_the_scores_of_a_density(tmp_path):
    words = ("method.base=mf", 'method.base_settings=["method.num_layers=2"]')
    record = run(tmp_path, "conformal", *words).record
    overrides = {"method.base": "mf", "method.base_settings": ["method.num_layers=2"]}
    assert record["identity"]["overrides"] == overrides
    assert record["config"]["method"]["base_budget"] == "smoke"
    assert {"tll", "nlpp", "sharpness"} & set(record["scores"]) == set()
    assert {"rmse", "crps", "coverage_95", "pinball"} <= set(record["scores"])
    seconds = record["seconds"]
    assert seconds["training"] <= seconds["total"]


@pytest.mark.full
def test_workers_know_a_base_from_a_file(tmp_path):
    path, results = plugin(tmp_path, "based_on"), f"results_dir={tmp_path}/results"
    plugins.load_file(path)
    words = ["method=conformal", "method.base=based_on", *QUICK, results, *fit_once.QUIET]
    runs = [resolve_overrides([*words, f"split={split}"]) for split in (0, 1)]
    assert [outcome.status for outcome in engine(runs, workers=2)] == ["done", "done"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (("method.base=nothing",), "unknown method 'nothing'"),
        (("method.base=mf", 'method.base_settings=["method.nose=1"]'), "mf has no setting 'method.nose'"),
        (("method.base=gpr", 'method.base_settings=["method.num_layers=2"]'), "gpr has one layer"),
        (('method.base_settings=["method=mf"]',), "has 'method=mf', which is not a setting of the base"),
        (('method.base_settings=["seed=3"]',), "has 'seed=3', which is not a setting of the base"),
    ],
)
@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_base_that_cannot_be_used_is_refused_before_the_run(command, settings, sentence, tmp_path, capsys):
    words = ("method=conformal", *settings, *QUICK, *fit_once.QUIET, f"results_dir={tmp_path}")
    assert fit_once.command(command, *words) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.rglob("record.json"))
