"""``gpr``, ``sgpr`` and ``fitc`` as a run fits and predicts with them, against their formulas in dense matrices."""

from functools import cache

import by_hand
import fit_once
import numpy as np
import pytest

N, M, D = 24, 6, 2
JITTER = by_hand.JITTER  # GPflow's, on k(Z, Z); its exact GP has none


def rows(num, seed):
    """Inputs [num, D] and noisy targets [num] of a smooth function."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(num, D))
    return X, np.sin(2 * X[:, 0]) + 0.4 * X[:, 1] + 0.3 * rng.normal(size=num)


X, Y = rows(N, seed=0)
X_TEST, Y_TEST = rows(2500, seed=1)  # more than predictions take at a time

AT_THE_DATA = (f"method.num_inducing={N}", "method.train_inducing_inputs=false", "training.max_iterations=5")
FITTED = {
    "gpr": ("method=gpr",),
    "gpr, one lengthscale, Matern": ("method=gpr", "method.ard=false", "method.kernel=matern32"),
    "sgpr": ("method=sgpr", f"method.num_inducing={M}"),
    "fitc, fixed Z": ("method=fitc", f"method.num_inducing={M}", "method.train_inducing_inputs=false"),
    "sgpr, Z = X": ("method=sgpr", *AT_THE_DATA),
    "fitc, Z = X": ("method=fitc", *AT_THE_DATA),
}


@pytest.fixture(scope="module")
def fitted():
    """Return a function that fits each of ``FITTED`` once, on first use."""
    return cache(lambda name: fit_once.fit(X, Y, "method.likelihood_variance=0.1", *FITTED[name]))


def hyperparameters(parameters):
    """(kernel variance, lengthscales, s2)."""
    names = (".kernel.variance", ".kernel.lengthscales", ".likelihood.variance")
    return tuple(parameters[name] for name in names)


def kernel_of(name):
    return by_hand.matern32 if "Matern" in name else by_hand.squared_exponential


def exact(kernel, theta, X_new):
    """log p(y), and the mean and variance of new targets, noise included (Rasmussen & Williams 2006, Sec. 2.2)."""
    variance, lengthscales, s2 = theta
    K, cross = kernel(X, X, variance, lengthscales) + s2 * np.eye(N), kernel(X, X_new, variance, lengthscales)
    solved = np.linalg.solve(K, cross)
    return by_hand.log_dense_normal(Y, K), solved.T @ Y, variance + s2 - np.sum(cross * solved, axis=0)


def sparse(theta, Z, X_new, *, fitc):
    """The objective of SGPR (Titsias 2009, Eq. 9) or FITC (Snelson & Ghahramani 2006, Sec. 2), and its predictions.

    Both are the exact GP with covariance Q = Kfu Kuu^-1 Kuf and noise Lam: s2 I, or diag(K - Q) + s2 I; new targets
    keep their own k(x, x).
    """
    variance, lengthscales, s2 = theta
    k = lambda A, B: by_hand.squared_exponential(A, B, variance, lengthscales)
    Kuu_inverse = np.linalg.inv(k(Z, Z) + JITTER * np.eye(len(Z)))
    Q = k(X, Z) @ Kuu_inverse @ k(Z, X)
    missing = variance - np.diag(Q)
    covariance = Q + np.diag(missing * fitc + s2)
    cross = k(X, Z) @ Kuu_inverse @ k(Z, X_new)
    solved = np.linalg.solve(covariance, cross)
    objective = by_hand.log_dense_normal(Y, covariance) - (0 if fitc else np.sum(missing) / (2 * s2))
    return objective, solved.T @ Y, variance + s2 - np.sum(cross * solved, axis=0)


def expected(name, parameters, X_new):
    """The method's own formula at these parameters."""
    theta = hyperparameters(parameters)
    if name.startswith("gpr"):
        return exact(kernel_of(name), theta, X_new)
    return sparse(theta, parameters[".inducing_variable.Z"], X_new, fitc=name.startswith("fitc"))


@pytest.mark.parametrize("name", FITTED)
def test_predictions_have_the_mean_variance_and_density_of_the_formula(name, fitted):
    _, mean, variance = expected(name, fitted(name).parameters, X_TEST)
    mixture = fitted(name).predict(X_TEST)
    assert mixture.means.shape == (1, len(X_TEST), 1)
    np.testing.assert_allclose(mixture.mean[:, 0], mean, rtol=0, atol=1e-7)
    np.testing.assert_allclose(mixture.variance[:, 0], variance, rtol=0, atol=1e-7)
    density = by_hand.log_normal(Y_TEST, mean, variance)
    np.testing.assert_allclose(mixture.log_density(Y_TEST[:, None])[:, 0], density, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["sgpr, Z = X", "fitc, Z = X"])
def test_inducing_inputs_at_the_data_give_the_exact_posterior(name, fitted):
    evidence, mean, variance = exact(kernel_of(name), hyperparameters(fitted(name).parameters), X_TEST)
    mixture = fitted(name).predict(X_TEST)
    np.testing.assert_allclose(mixture.mean[:, 0], mean, rtol=0, atol=5e-4)  # the jitter on k(Z, Z) is between them
    np.testing.assert_allclose(mixture.variance[:, 0], variance, rtol=0, atol=5e-4)
    assert fitted(name).trace[-1].elbo == pytest.approx(evidence, abs=1e-3)


@pytest.mark.parametrize("name", FITTED)
def test_the_traces_last_row_is_the_objective_at_the_fitted_parameters(name, fitted):
    objective, _, _ = expected(name, fitted(name).parameters, X_TEST[:1])
    assert fitted(name).trace[-1].elbo == pytest.approx(objective, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in FITTED if "Z = X" not in name])
def test_no_hyperparameter_can_be_moved_to_a_better_objective(name, fitted):
    best = dict(fitted(name).parameters)
    top, _, _ = expected(name, best, X_TEST[:1])
    for path in (".kernel.variance", ".kernel.lengthscales", ".likelihood.variance"):
        for index, factor in [(i, f) for i in np.ndindex(np.shape(best[path])) for f in (0.97, 1.03)]:
            moved = np.array(best[path], float)
            moved[index] *= factor
            value, _, _ = expected(name, best | {path: moved}, X_TEST[:1])
            assert value < top, (path, index, factor)


def test_inducing_inputs_move_only_if_they_are_trainable(fitted):
    centres, trained = (fitted(name).parameters[".inducing_variable.Z"] for name in ("fitc, fixed Z", "sgpr"))
    nearest = np.argmin(((X[:, None] - centres) ** 2).sum(axis=-1), axis=1)
    means = [X[nearest == index].mean(axis=0) for index in range(M)]
    np.testing.assert_allclose(centres, means, rtol=0, atol=1e-12)
    assert np.abs(trained - centres).max() > 0.01


def test_the_iterations_are_counted_and_limited():
    short = fit_once.fit(X, Y, "method=gpr", "training.max_iterations=3")
    assert [row.iteration for row in short.trace] == [1, 2, 3]
    assert short.predictor.diagnostics["iterations"] == 3
    assert not short.predictor.diagnostics["converged"]


def test_a_fit_reports_how_it_converged(fitted):
    diagnostics = fitted("gpr").predictor.diagnostics
    assert diagnostics["converged"]
    assert diagnostics["iterations"] == fitted("gpr").trace[-1].iteration < 1000
    assert diagnostics["likelihood_variance"] == fitted("gpr").parameters[".likelihood.variance"]
