"""Start of q with ``method.output_start=sgpr``: the output layer at a sparse GP fitted to its inputs."""

from dataclasses import replace
from itertools import combinations

import by_hand
import fit_once
import numpy as np
import pytest

from dgpbench.errors import UserError
from dgpbench.methods import structured

N, M, D = 24, 4, 2
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(N, D))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=N)
STILL = ("training.max_iterations=1", "training.learning_rate=1e-30", "training.early_stopping=false")
START = ("method.output_start=sgpr", f"method.num_inducing={M}")


def started(*overrides):
    return fit_once.fit(X, Y, *STILL, *START, *overrides)


def collapsed_bound(layer, s2, H, y):
    """log N(y; 0, Q + s2 I) - tr(K - Q) / (2 s2) (Titsias 2009)."""
    a, residual = layer.features(H)
    return by_hand.log_dense_normal(y, a @ a.T + s2 * np.eye(len(y))) - residual.sum() / (2 * s2)


@pytest.fixture(scope="module")
def shallow():
    return started("method=sgp")


@pytest.mark.full
def test_one_layer_starts_at_the_optimal_q(shallow):
    (layer,), s2 = by_hand.layers_of(shallow.parameters)
    np.testing.assert_allclose(shallow.trace[-1].elbo, collapsed_bound(layer, s2, X, Y), rtol=1e-8)


@pytest.mark.full
def test_one_layer_starts_where_no_kernel_parameter_improves_the_bound(shallow):
    (layer,), s2 = by_hand.layers_of(shallow.parameters)
    best = collapsed_bound(layer, s2, X, Y)
    for factor in (0.99, 1.01):
        scaled = [
            collapsed_bound(layer, factor * s2, X, Y),
            collapsed_bound(replace(layer, variance=factor * layer.variance), s2, X, Y),
            collapsed_bound(replace(layer, lengthscales=layer.lengthscales * [factor, 1]), s2, X, Y),
            collapsed_bound(replace(layer, lengthscales=layer.lengthscales * [1, factor]), s2, X, Y),
            collapsed_bound(replace(layer, Z=factor * layer.Z), s2, X, Y),
        ]
        assert max(scaled) < best


@pytest.mark.full
def test_a_subset_of_rows_counts_for_all(monkeypatch):
    """q's precision holds twelve times that of the two rows that were chosen."""
    monkeypatch.setattr(structured, "START_ROWS", 2)
    fitted = started("method=sgp")
    (layer,), s2 = by_hand.layers_of(fitted.parameters)
    a, _ = layer.features(X)
    C = fitted.parameters[".q.diagonal[0]"][0]
    given = np.linalg.inv(C @ C.T) - np.eye(M)
    pairs = (N / 2 * (np.outer(a[i], a[i]) + np.outer(a[j], a[j])) / s2 for i, j in combinations(range(N), 2))
    assert sum(np.allclose(given, each, rtol=1e-5, atol=1e-6) for each in pairs) == 1


@pytest.mark.full
def test_an_output_layer_is_fitted_to_what_it_sees_through_the_others():
    """Behind a hidden layer of next to no variance, that is the mean map of the inputs."""
    settings = ("method.num_layers=2", f"method.width={D}", "method.lengthscale=30", "method.white_noise=1e-6")
    fitted = started("method=mf", *settings)
    (_, last), s2 = by_hand.layers_of(fitted.parameters)
    a, _ = last.features(X)  # D GPs of D inputs: the map is the identity
    C, m = fitted.parameters[".q.diagonal[1]"][0], fitted.parameters[".q.means[1]"][0]
    precision = np.eye(M) + a.T @ a / s2
    np.testing.assert_allclose(np.linalg.inv(C @ C.T), precision, rtol=0.1)
    np.testing.assert_allclose(m, np.linalg.solve(precision, a.T @ Y / s2), rtol=0.1)


@pytest.mark.parametrize("setting", ["method.whiten=false", "method.mean_function=zero"])
def test_a_start_that_cannot_be_is_refused(setting):
    with pytest.raises(UserError, match=r"method\.output_start=sgpr"):
        started("method=mf", setting)
