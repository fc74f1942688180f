"""method.bound=tight lies between the usual bound and the evidence (docs/methods.md, "Tight bound")."""

import by_hand
import fit_once
import numpy as np
import pytest

STILL = ("training.learning_rate=1e-30", "training.max_iterations=1")  # nothing moves
COMMON = ("training.early_stopping=false", "training.batch_size=100")
S2, VARIANCE, LENGTHSCALE = 0.1, 1.7, 0.5
PRIOR = (f"method.likelihood_variance={S2}", f"method.kernel_variance={VARIANCE}", f"method.lengthscale={LENGTHSCALE}")


def objective(X, y, start, *settings):
    """The objective of all rows at given parameters."""
    return fit_once.fit(X, y, *settings, *COMMON, *STILL, initial=start.parameters).trace[0].elbo


def test_at_depth_one_and_the_optimal_q_it_is_the_tightened_collapsed_bound():
    """One natural step reaches the optimal q(v) of Titsias (2009), which the other term does not change."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(12, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=12)
    sgp = ("method=sgp", "method.num_inducing=4", *PRIOR)
    natural = ("optimiser=natgrad_adam", "training.natgrad_gamma=1.0", *COMMON, *STILL)
    start = fit_once.fit(X, y, *sgp, *natural, "method.bound=tight")
    tight, standard = (objective(X, y, start, *sgp, f"method.bound={bound}") for bound in ("tight", "standard"))
    (layer,), s2 = by_hand.layers_of(start.parameters)
    a, residual = layer.features(X)
    assert residual.mean() > s2  # Z leaves much unexplained
    explained = by_hand.log_dense_normal(y, a @ a.T + s2 * np.eye(12))
    assert tight == pytest.approx(explained - 0.5 * np.log(1 + residual / s2).sum(), abs=1e-8)
    assert standard == pytest.approx(explained - 0.5 * (residual / s2).sum(), abs=1e-8)
    K = by_hand.squared_exponential(X, X, layer.variance, layer.lengthscales)
    assert standard < tight < by_hand.log_dense_normal(y, K + s2 * np.eye(12))


@pytest.mark.full
@pytest.mark.parametrize("method", ["mf", "star", "fc"])
def test_in_a_deep_model_it_is_below_the_evidence_by_quadrature(method):
    """Two rows, one GP in each of two layers: log p(y) is a quadrature over the two hidden values."""
    X, y = np.array([[-0.7], [0.9]]), np.array([0.8, -0.5])
    deep = (f"method={method}", "method.num_layers=2", "method.width=1", "method.num_inducing=1",
            "method.white_noise=0.05", "method.hidden_scale=0.5", *PRIOR)  # fmt: skip
    training = ("training.max_iterations=100", "training.learning_rate=0.02", "training.num_samples=20", *COMMON)
    start = fit_once.fit(X, y, *deep, *training, "method.bound=tight")
    many = "training.num_samples=40000"
    tight, standard = (objective(X, y, start, *deep, many, f"method.bound={bound}") for bound in ("tight", "standard"))
    (first, second), s2 = by_hand.layers_of(start.parameters)
    prior = by_hand.squared_exponential(X, X, first.variance, first.lengthscales) + first.white * np.eye(2)
    nodes, weights = by_hand.gaussian_grid(np.zeros(2), np.ones(2), order=60)
    hidden = first.mean(X, 1)[:, 0] + nodes @ np.linalg.cholesky(prior).T
    k = lambda h: by_hand.squared_exponential(h[:, None], h[:, None], second.variance, second.lengthscales)
    densities = [by_hand.log_dense_normal(y, k(h) + s2 * np.eye(2)) for h in hidden]
    evidence = np.log(weights @ np.exp(densities))
    assert standard + 0.05 < tight < evidence - 0.05  # the objectives' Monte Carlo error is below 0.02
