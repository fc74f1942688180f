"""Inducing inputs start at k-means centres of the training inputs, the same for every family."""

import fit_once
import numpy as np
import pytest

N, M, D = 40, 5, 2
rng = np.random.default_rng(0)
X = rng.normal(size=(N, D)) * [3.0, 1.0]
Y = rng.normal(size=N)
STILL = ("training.max_iterations=1", "training.learning_rate=1e-30", "training.early_stopping=false")


def started(*overrides, seed=1):
    """The inducing inputs of each layer of a fit that moved nothing."""
    seeds = fit_once.Seeds(initial=seed, holdout=2, batches=3, samples=4, prediction=5)
    parameters = fit_once.fit(X, Y, *STILL, f"method.num_inducing={M}", *overrides, seeds=seeds).parameters
    return [parameters[path] for path in sorted(parameters) if path.endswith(".Z")]


@pytest.fixture(scope="module")
def layers():
    return started("method=mf", "method.num_layers=2", "method.width=3")


@pytest.mark.full
def test_every_centre_is_the_mean_of_the_rows_nearest_to_it(layers):
    Z = layers[0]
    nearest = np.argmin(((X[:, None] - Z) ** 2).sum(axis=-1), axis=1)
    assert Z.shape == (M, D)
    np.testing.assert_allclose(Z, [X[nearest == index].mean(axis=0) for index in range(M)], rtol=0, atol=1e-12)


def test_later_layers_start_at_the_centres_through_the_mean_map(layers):
    first, second = layers
    np.testing.assert_allclose(second, np.pad(first, [(0, 0), (0, 1)]), rtol=0, atol=1e-12)  # D = 2 inputs, 3 GPs


@pytest.mark.full
def test_the_seed_alone_decides_the_centres(layers):
    (same,), (other,) = started("method=sgp"), started("method=sgp", seed=9)
    assert np.array_equal(layers[0], same)
    ordered = [Z[np.lexsort(Z.T)] for Z in (same, other)]
    assert np.abs(ordered[0] - ordered[1]).max() > 1e-3
