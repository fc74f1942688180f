"""Predictions of a deep model for new rows: paths differ, and do not depend on the rows predicted together."""

import numpy as np
import pytest

from dgpbench import DeepGPRegressor

NUM_PATHS = 3


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    settings = {"method.num_inducing": 4, "method.width": 2}
    settings |= {"training.max_iterations": 2, "prediction.num_samples": NUM_PATHS, "method.hidden_scale": 0.5}
    return DeepGPRegressor("mf", num_layers=2, budget="smoke", settings=settings).fit(X, np.sin(X[:, 0]))


@pytest.mark.full
def test_a_rows_mixture_does_not_depend_on_the_other_rows(fitted):
    new = np.random.default_rng(1).normal(size=(9, 2))
    whole, alone = fitted.predict_dist(new).mixture, fitted.predict_dist(new[4:5]).mixture
    assert len(np.unique(whole.means[:, 4].round(12))) == NUM_PATHS
    np.testing.assert_allclose(alone.means[:, 0], whole.means[:, 4], rtol=1e-9)
    np.testing.assert_allclose(alone.variances[:, 0], whole.variances[:, 4], rtol=1e-9)
    twice = fitted.predict_dist(np.repeat(new[4:5], 5000, axis=0)).mixture  # in many pieces
    np.testing.assert_allclose(twice.means[:, [0, -1]], whole.means[:, [4, 4]], rtol=1e-9)


def test_quantiles_of_the_mixture_invert_its_cdf(fitted):
    new = np.random.default_rng(2).normal(size=(4, 2))
    found = fitted.predict_dist(new)
    quantiles = fitted.predict_quantiles(new, [0.05, 0.5, 0.95])
    np.testing.assert_allclose(found.cdf(quantiles.T), np.repeat([[0.05], [0.5], [0.95]], 4, axis=1), rtol=1e-8)
    mean, deviation = fitted.predict(new, return_std=True)
    means, variances = found.mixture.means[..., 0], found.mixture.variances[..., 0]
    np.testing.assert_allclose(mean, means.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(deviation**2, (variances + means**2).mean(axis=0) - mean**2, rtol=1e-8)
