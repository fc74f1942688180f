"""The predictive grid of one-feature tables."""

import numpy as np
import pytest

from dgpbench.data.standardise import Standardiser
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.runs.figure_data import predictive_grid


class _Line:
    """Predicts N(x, 0.25) in standardised units."""

    def predict(self, X, seed):
        return GaussianMixture(X[None], np.full((1, *X.shape), 0.25))


def scaled(D=1):
    rng = np.random.default_rng(0)
    X = 10.0 + 3.0 * rng.normal(size=(200, D))
    y = 100.0 + 5.0 * rng.normal(size=200)
    scaler = Standardiser.fit(X, y, [f"x{i}" for i in range(D)])
    return scaler, scaler.transform(X, y).X


def test_a_density_on_the_grid_integrates_to_one_in_original_units():
    scaler, X = scaled()
    grid = predictive_grid(_Line(), scaler, X, seed=1)
    step = grid["grid_y"][1] - grid["grid_y"][0]
    middle = grid["grid_density"][len(grid["grid_x"]) // 2]
    np.testing.assert_allclose(middle.sum() * step, 1.0, atol=1e-3)


def test_samples_on_the_grid_have_the_predictive_mean():
    scaler, X = scaled()
    grid = predictive_grid(_Line(), scaler, X, seed=1)
    expected = 100.0 + (grid["grid_x"] - scaler.mean_X[0]) / scaler.scale_X[0] * scaler.scale_y
    assert np.abs(grid["grid_samples"].mean(axis=0) - expected).max() < 2.0


@pytest.mark.full
def test_a_table_of_two_features_has_no_grid():
    scaler, X = scaled(D=2)
    assert predictive_grid(_Line(), scaler, X, seed=1) == {}
