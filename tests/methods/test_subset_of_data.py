"""Subset of data through its fit and predict: the bound, predictions and choices of rows in NumPy.

Reference: docs/methods.md, "Subset of data".

The bound is read from the trace and q from the fitted parameters: ten steps at a real learning rate take q away from
its start, then the rate vanishes, and all later rows of the trace belong to the last parameters.
"""

import fit_once
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import multivariate_normal, norm
from sklearn.cluster import KMeans

from dgpbench.methods.inducing_points import choose
from dgpbench.methods.interface import Seeds

N, M, B, JITTER = 9, 3, 2, 0.1  # so large a jitter keeps the sampled K_SS from being nearly singular: no heavy tails
STAY = ("training.decay_rate=1e-30", "training.decay_steps=10", "training.learning_rate=0.1")


def rows(num_rows=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_rows, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=num_rows)


def fit(X, y, *overrides, method="sod", num_inducing=M, seeds=fit_once.SEEDS):
    return fit_once.fit(
        X, y, f"method={method}", f"method.num_inducing={num_inducing}", f"method.jitter={JITTER}", "method.width=1",
        "method.likelihood_variance=0.2", "method.layer_noise=0.05", "method.hidden_variance=0.3",
        "method.output_variance=0.5", "method.kernel_variance=1.3", "training.early_stopping=false", *overrides,
        seeds=seeds,
    )  # fmt: skip


class Layer:
    """One GP's kernel and q(f_S) = N(mu, C C^T), from the fitted parameters."""

    def __init__(self, fitted, index):
        p = fitted.parameters
        self.variance, self.lengthscales = (p[f".kernels[{index}].{name}"] for name in ("variance", "lengthscales"))
        self.mu, C = p[f".means[{index}]"][0], p[f".factors[{index}]"][0]
        self.C, self.Sig = C, C @ C.T
        self.s2 = p.get(f".layer_noises[{index}]")

    def k(self, H, H2):
        """[..., n, D] and [..., n', D] -> [..., n, n']."""
        squares = np.sum(((H[..., :, None, :] - H2[..., None, :, :]) / self.lengthscales) ** 2, axis=-1)
        return self.variance * np.exp(-0.5 * squares)

    def K(self, Z_S):
        return self.k(Z_S, Z_S) + JITTER * np.eye(Z_S.shape[-2])


def labelled(layer, y_S, s2):
    """q^: q conditioned on the subset's labels, by the formula with inverses."""
    Sig = np.linalg.inv(np.linalg.inv(layer.Sig) + np.eye(len(y_S)) / s2)
    return Sig @ (y_S / s2 + np.linalg.solve(layer.Sig, layer.mu)), Sig


def output(layer, Z_S, z, mean, Sig):
    """Mean and variance of f(z) [..., n] without noise, for q(F_S) = N(mean, Sig)."""
    k = layer.k(Z_S, z)
    t = np.linalg.solve(layer.K(Z_S), k)
    variance = layer.variance - np.sum(t * k, axis=-2) + np.sum(t * (Sig @ t), axis=-2)
    return np.sum(t * mean[:, None], axis=-2), variance


def kl(mean, Sig, K):
    """KL(N(mean, Sig) || N(0, K)) for each of the matrices K [..., M, M]."""
    trace = np.trace(np.linalg.inv(K) @ (Sig + np.outer(mean, mean)), axis1=-2, axis2=-1)
    return 0.5 * (trace - len(mean) + np.linalg.slogdet(K)[1] - np.linalg.slogdet(Sig)[1])


def hidden_draws(layer, X_S, X, num, propagation, seed=0):
    """``num`` draws of (Z_S', z') [num, ..., 1] of a first layer with one GP, from dense covariances.

    ``joint``: each row's value given the subset's, as the paper. ``diagonal``: every value by itself.
    """
    rng = np.random.default_rng(seed)
    k = layer.k(X_S, X)
    t = np.linalg.solve(layer.K(X_S), k)
    own = layer.variance - np.sum(t * k, axis=0)
    noise = np.sqrt(layer.s2) * rng.normal(size=(num, len(X_S) + len(X)))
    if propagation == "joint":
        F_S = layer.mu + rng.normal(size=(num, len(X_S))) @ layer.C.T
        f = F_S @ t + np.sqrt(own) * rng.normal(size=(num, len(X)))
    else:
        F_S = layer.mu + np.sqrt(np.diag(layer.Sig)) * rng.normal(size=(num, len(X_S)))
        f = layer.mu @ t + np.sqrt(own + np.sum(t * (layer.Sig @ t), axis=0)) * rng.normal(size=(num, len(X)))
    return F_S[..., None] + noise[:, : len(X_S), None], f[..., None] + noise[:, len(X_S) :, None]


def bound(fitted, X, y, num, propagation):
    """The ELBO of Jain et al. (2021), Eq. 11, at two layers: its value on each of ``num`` paths."""
    S = fitted.predictor.posterior()["subset_rows"]
    others = np.setdiff1d(np.arange(len(X)), S)
    first, last, s2 = Layer(fitted, 0), Layer(fitted, 1), fitted.parameters[".likelihood.variance"]
    Z_S, z = hidden_draws(first, X[S], X[others], num, propagation)
    mean, Sig = labelled(last, y[S], s2)
    m, v = output(last, Z_S, z, mean, Sig)
    fit_term = np.sum(norm.logpdf(y[others], m, np.sqrt(s2)) - 0.5 * v / s2, axis=1)
    own = np.sum(norm.logpdf(y[S], mean, np.sqrt(s2))) - 0.5 * np.trace(Sig) / s2
    return fit_term + own - kl(first.mu, first.Sig, first.K(X[S])) - kl(mean, Sig, last.K(Z_S))


@pytest.fixture(scope="module", params=fit_once.first_of(["joint", "diagonal"]))
def two_layers(request):
    """Six rows outside the subset in batches of 2: ten rows of the trace after the first ten are 33 epochs."""
    X, y = rows()
    settings = (*STAY, "training.max_iterations=610", f"training.batch_size={B}", "training.num_samples=100")
    depth = ("method.num_layers=2", "method.start=uniform", "prediction.num_samples=20000")
    return fit(X, y, *settings, *depth, f"method.propagation={request.param}"), X, y, request.param


@pytest.mark.full
def test_the_two_layer_bound_has_rows_outside_the_subset_and_every_kl(two_layers):
    fitted, X, y, propagation = two_layers
    ours = np.array([row.elbo for row in fitted.trace[1:]])
    exact = bound(fitted, X, y, 100_000, propagation)
    error = np.hypot(ours.std() / np.sqrt(len(ours)), exact.std() / np.sqrt(len(exact)))
    assert error < 0.05
    assert abs(ours.mean() - exact.mean()) < 4 * error


@pytest.mark.full
def test_two_layers_predict_a_path_a_component_with_the_noise(two_layers):
    fitted, X, y, propagation = two_layers
    S, last, s2 = (
        fitted.predictor.posterior()["subset_rows"],
        Layer(fitted, 1),
        fitted.parameters[".likelihood.variance"],
    )
    X_new = np.random.default_rng(5).normal(size=(3, 2))
    Z_S, z = hidden_draws(Layer(fitted, 0), X[S], X_new, 100_000, propagation)
    m, v = output(last, Z_S, z, *labelled(last, y[S], s2))
    mixture = fitted.predict(X_new)
    for ours, exact in (
        (mixture.means, m), (mixture.variances, v + s2), (mixture.means**2, m**2),
        (mixture.means[:, 1:] * mixture.means[:, :1], m[:, 1:] * m[:, :1]),  # a path is one function of all rows
    ):  # fmt: skip
        error = np.hypot(ours[..., 0].std(axis=0) / np.sqrt(len(ours)), exact.std(axis=0) / np.sqrt(len(exact)))
        assert np.all(np.abs(ours[..., 0].mean(axis=0) - exact.mean(axis=0)) < 4 * error)


@pytest.mark.full
def test_depth_one_has_the_exact_bound_and_predictions_of_its_q():
    X, y = rows()
    settings = (*STAY, "training.max_iterations=40", f"training.batch_size={B}", "method.num_layers=1")
    fitted = fit(X, y, *settings)
    S, layer, s2 = (
        fitted.predictor.posterior()["subset_rows"],
        Layer(fitted, 0),
        fitted.parameters[".likelihood.variance"],
    )
    others = np.setdiff1d(np.arange(N), S)
    mean, Sig = labelled(layer, y[S], s2)
    m, v = output(layer, X[S], X[others], mean, Sig)
    exact = np.sum(norm.logpdf(y[others], m, np.sqrt(s2)) - 0.5 * v / s2)
    exact += np.sum(norm.logpdf(y[S], mean, np.sqrt(s2))) - 0.5 * np.trace(Sig) / s2 - kl(mean, Sig, layer.K(X[S]))
    # Thirty steps of batches of 2 are ten epochs of the 6 rows outside the subset.
    np.testing.assert_allclose(np.mean([row.elbo for row in fitted.trace[1:]]), exact, rtol=0, atol=1e-7)
    X_new, y_new = np.random.default_rng(5).normal(size=(4, 2)), np.linspace(-1, 1, 4)
    assert_predicts(fitted, X_new, y_new, *output(layer, X[S], X_new, mean, Sig), atol=1e-7)


def assert_predicts(fitted, X, y, mean, variance, atol):
    """One Gaussian a row, of f's moments and the noise."""
    mixture, deviation = fitted.predict(X), np.sqrt(variance + fitted.parameters[".likelihood.variance"])
    np.testing.assert_allclose(mixture.mean[:, 0], mean, rtol=0, atol=atol)
    np.testing.assert_allclose(mixture.variance[:, 0], deviation**2, rtol=0, atol=atol)
    np.testing.assert_allclose(mixture.log_density(y[:, None])[:, 0], norm.logpdf(y, mean, deviation), atol=10 * atol)


@pytest.mark.full
def test_with_every_row_in_the_subset_training_ends_at_exact_regression():
    """The bound is then at most the evidence, and reaches it where q is the prior: an ordinary GP's predictions."""
    X, y = rows(6)
    settings = ("training.learning_rate=0.05", "training.decay_rate=0.5", "training.decay_steps=500")
    fitted = fit(X, y, *settings, "training.max_iterations=4000", "method.num_layers=1", num_inducing=6)
    layer, s2 = Layer(fitted, 0), fitted.parameters[".likelihood.variance"]
    K = layer.K(X) + s2 * np.eye(6)
    evidence = multivariate_normal.logpdf(y, np.zeros(6), K)
    np.testing.assert_allclose(fitted.trace[-1].elbo, evidence, rtol=0, atol=1e-4)
    X_new, y_new = np.random.default_rng(5).normal(size=(4, 2)), np.linspace(-1, 1, 4)
    k = layer.k(X, X_new)
    variance = layer.variance - np.sum(k * np.linalg.solve(K, k), axis=0)
    assert_predicts(fitted, X_new, y_new, k.T @ np.linalg.solve(K, y), variance, atol=5e-3)


ONE_STEP = ("training.max_iterations=1", "training.learning_rate=1e-30", "method.num_layers=2")


@pytest.mark.full
def test_hidden_values_start_along_the_first_principal_direction():
    X, y = rows()
    fitted = fit(X, y, *ONE_STEP, "method.start=projected")
    _, _, directions = np.linalg.svd(X)
    expected = X[fitted.predictor.posterior()["subset_rows"]] @ directions[0]
    mu = Layer(fitted, 0).mu
    np.testing.assert_allclose(mu, np.sign(mu @ expected) * expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(Layer(fitted, 0).Sig, 0.3 * np.eye(M), rtol=0, atol=1e-12)
    np.testing.assert_allclose(Layer(fitted, 1).Sig, 0.5 * np.eye(M), rtol=0, atol=1e-12)
    np.testing.assert_allclose(Layer(fitted, 1).mu, 0, rtol=0, atol=1e-12)


def groups():
    """Three groups far apart; each has one row in its middle, where the centre is, and two duplicates."""
    corners = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    offsets = np.array([[0.3, 0.0], [0.0, 0.0], [-0.3, 0.0], [0.0, 0.3], [0.0, -0.3]])
    X = (corners[:, None] + offsets).reshape(-1, 2)
    return X, np.sin(X[:, 0])


@pytest.mark.full
@pytest.mark.parametrize("method", ["sod", "sod_random", "sod_leverage", "sod_dpp"])
def test_each_method_takes_the_rows_of_its_choice_by_the_initial_seed(method):
    X, y = groups()
    seeds = Seeds(initial=7, holdout=2, batches=3, samples=4, prediction=5)
    taken = fit(X, y, "method.num_layers=1", *ONE_STEP[:2], method=method, seeds=seeds).predictor.posterior()[
        "subset_rows"
    ]
    name = {"sod": "kmeans"}.get(method, method.removeprefix("sod_"))
    assert taken.tolist() == choose(name, X, M, 7).tolist()
    if method == "sod":
        assert sorted(taken) == [1, 6, 11]  # the middle of each group
    if method == "sod_dpp":
        assert sorted(row // 5 for row in taken) == [0, 1, 2]  # one of each group


def test_kmeans_takes_the_row_nearest_to_each_of_scikit_learns_centres():
    X = np.random.default_rng(0).normal(size=(60, 2))
    centres = KMeans(8, n_init=1, max_iter=30, random_state=4).fit(X).cluster_centers_
    expected = []
    for centre in centres:
        order = np.argsort(np.linalg.norm(X - centre, axis=1))
        expected.append(next(row for row in order if row not in expected))
    assert choose("kmeans", X, 8, 4).tolist() == expected


def test_kmeans_takes_the_next_nearest_row_where_the_nearest_is_taken():
    X = np.array([[0.0], [0.0], [0.0], [5.0], [5.0], [9.0]])  # three places for five centres
    assert len(set(choose("kmeans", X, 5, 0).tolist())) == 5


def test_random_takes_every_row_equally_often_and_none_twice():
    X, num = np.zeros((10, 1)), 3000
    draws = np.array([choose("random", X, 4, seed) for seed in range(10_000, 10_000 + num)])
    assert all(len(set(draw)) == 4 for draw in draws.tolist())
    counts = np.bincount(draws.ravel(), minlength=10) / num
    assert np.abs(counts - 0.4).max() < 4 * np.sqrt(0.4 * 0.6 / num)


def corners():
    """Six corners of a simplex and three near copies of the first: half of all distances are sqrt(2), their median."""
    X = np.vstack([np.eye(6), np.array([[1.05], [1.1], [1.15]]) * np.eye(6)[0]])
    return X, np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=-1) / 2.0)


@pytest.mark.full
def test_rows_are_drawn_by_leverage_without_replacement():
    X, K = corners()
    scores = lambda log_ridge: np.diag(K @ np.linalg.inv(K + np.exp(log_ridge) * np.eye(9)))
    w = scores(brentq(lambda log_ridge: scores(log_ridge).sum() - 2, -12, 5))
    later = [sum(w[i] / w.sum() * w[j] / (w.sum() - w[i]) for i in range(9) if i != j) for j in range(9)]
    probability, num = w / w.sum() + later, 2000
    draws = np.array([choose("leverage", X, 2, seed) for seed in range(num)])
    frequency, error = np.bincount(draws.ravel(), minlength=9) / num, np.sqrt(probability * (1 - probability) / num)
    assert np.all(np.abs(frequency - probability) < 4 * error)
    assert np.abs(probability - 2 / 9).max() > 6 * error.max()  # uniform draws would not pass


def test_dpp_adds_the_row_that_most_increases_the_determinant_each_time():
    X, K = corners()
    for seed in range(5):
        chosen = choose("dpp", X, 7, seed).tolist()
        for size in range(1, 7):
            gains = {
                row: np.linalg.det(K[np.ix_([*chosen[:size], row], [*chosen[:size], row])])
                for row in set(range(9)) - set(chosen[:size])
            }
            assert gains[chosen[size]] == pytest.approx(max(gains.values()), rel=1e-9)
    assert {choose("dpp", X, 1, seed)[0] for seed in range(80)} == set(range(9))  # the first row is the seed's
