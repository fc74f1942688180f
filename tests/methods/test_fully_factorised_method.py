"""``fully_factorised`` as a run trains and predicts, against its bound and moments by Gauss-Hermite quadrature."""

from functools import cache
from itertools import combinations

import by_hand
import fit_once
import numpy as np
import pytest

N, B, M, D, WIDTH = 5, 2, 3, 2, 2
rng = np.random.default_rng(3)
X, Y = rng.uniform(-2, 2, size=(N, D)), rng.normal(size=N)
X_TEST, Y_TEST = rng.uniform(-2, 2, size=(6, D)), rng.normal(size=6)

# Ten steps away from the start; at the eleventh the rate is nothing, so that the trace's last row is the objective of
# one batch at the parameters that the fit ends with.
STEPS = 11
SETTINGS = (
    "method=fully_factorised",
    f"method.num_inducing={M}",
    f"method.width={WIDTH}",
    "method.hidden_scale=0.3",
    "method.likelihood_variance=0.3",
    "method.output_noise=0.2",
    "method.lengthscale=1.4",
    "method.row_variance=0.05",
    f"training.max_iterations={STEPS}",
    f"training.batch_size={B}",
    "training.learning_rate=0.05",
    f"training.decay_steps={STEPS - 1}",
    "training.decay_rate=1e-30",
    "training.early_stopping=false",
)


def fit(num_layers, *more):
    return fit_once.fit(X, Y, *SETTINGS, f"method.num_layers={num_layers}", *more)


@pytest.fixture(scope="module")
def fitted():
    """Return a function that fits each depth once, on first use."""
    return cache(fit)


def model_of(fit):
    """(layers, s2, [(m, C)] of each layer's q)."""
    layers, s2 = by_hand.layers_of(fit.parameters)
    arrays = fit.predictor.posterior()
    return layers, s2, [(arrays[f"mean_{i}"], arrays[f"diagonal_{i}"]) for i in range(1, len(layers) + 1)]


def divergence(fit):
    m, C, _, coupled = by_hand.posterior_of(fit.predictor.posterior())
    assert not coupled
    return by_hand.kl_from_standard_normal(m, C)


def hidden_rows(fit, num_layers):
    """(m, s) [N, T] of each hidden layer's rows."""
    names = [(f".hidden.means[{i}]", f".hidden.log_variances[{i}]") for i in range(num_layers - 1)]
    return [(fit.parameters[mean], np.exp(fit.parameters[log])) for mean, log in names]


def terms_of_rows(fit, num_layers):
    """sum_l E log N(h^l; f^l, s2_l) + H[q(h)] + E log N(y; f^L, s2) of each row (Damianou & Lawrence 2013), [N]."""
    layers, s2, q = model_of(fit)
    hidden, terms = hidden_rows(fit, num_layers), np.zeros(N)
    for n in range(N):
        H, weights = X[n : n + 1], np.ones(1)
        for index, (layer, (m, C)) in enumerate(zip(layers, q, strict=True)):
            mean, variance = by_hand.moments_given_inputs(layer, m, C, H)
            if index == num_layers - 1:
                terms[n] += weights @ by_hand.expected_log_normal(Y[n], mean[:, 0], variance[:, 0], s2)
                break
            own, spread = (values[n] for values in hidden[index])
            # h of this layer has its own moments, independent of its inputs
            each = by_hand.expected_log_normal(own, mean, variance + spread, layer.added)
            terms[n] += weights @ each.sum(axis=1) + 0.5 * np.sum(np.log(2 * np.pi * np.e * spread))
            H, weights = by_hand.gaussian_grid(own, spread)
    return terms


def matched(fit, X_new):
    """Mean and variance of new targets, each layer's output replaced by a Gaussian of its mean and variances."""
    layers, s2, q = model_of(fit)
    means, variances = [], []
    for x in X_new:
        H, weights = x[None], np.ones(1)
        for layer, (m, C) in zip(layers, q, strict=True):
            given_mean, given_variance = by_hand.moments_given_inputs(layer, m, C, H)
            mean = weights @ given_mean
            variance = weights @ (given_variance + given_mean**2) - mean**2 + layer.added
            if layer is not layers[-1]:
                H, weights = by_hand.gaussian_grid(mean, variance, order=40)
        means.append(mean[0])
        variances.append(variance[0] + s2)
    return np.array(means), np.array(variances)


@pytest.mark.full
@pytest.mark.parametrize("num_layers", [1, 3])
def test_the_bound_of_a_minibatch_counts_every_row(num_layers, fitted):
    terms, kl = terms_of_rows(fitted(num_layers), num_layers), divergence(fitted(num_layers))
    of_batches = [N / B * terms[list(rows)].sum() - kl for rows in combinations(range(N), B)]  # one was the last
    assert np.abs(np.array(of_batches) - fitted(num_layers).trace[-1].elbo).min() < 1e-7


@pytest.mark.parametrize("num_layers", [1, 3])
def test_predictions_are_the_matched_moments_with_the_noise(num_layers, fitted):
    mean, variance = matched(fitted(num_layers), X_TEST)
    mixture = fitted(num_layers).predict(X_TEST)
    assert mixture.means.shape == (1, len(X_TEST), 1)  # one Gaussian per row for any prediction.num_samples
    np.testing.assert_allclose(mixture.mean[:, 0], mean, rtol=0, atol=1e-7)
    np.testing.assert_allclose(mixture.variance[:, 0], variance, rtol=0, atol=1e-7)
    density = mixture.log_density(Y_TEST[:, None])[:, 0]
    np.testing.assert_allclose(density, by_hand.log_normal(Y_TEST, mean, variance), rtol=0, atol=1e-6)


def test_nothing_is_drawn_and_pieces_do_not_matter(fitted):
    X_many = np.resize(X_TEST, (1100, D))  # more than predictions take at a time
    many = fitted(3).predict(X_many, 1).means
    np.testing.assert_allclose(many, np.resize(fitted(3).predict(X_TEST, 2).means, many.shape), rtol=0, atol=1e-12)


@pytest.mark.full
def test_rows_and_inducing_inputs_start_as_documented_and_every_row_trains(fitted):
    start = fit(2, "training.max_iterations=1", "training.learning_rate=1e-30")
    ((m, s),), (trained, trained_s) = hidden_rows(start, 2), hidden_rows(fitted(3), 3)[0]
    assert 1e-4 < np.abs(m - X).max() < 0.05  # the map of two inputs to two GPs is the identity; noise of 0.01
    np.testing.assert_allclose(s, 0.05, rtol=1e-12)
    assert np.abs(trained - m).max(axis=1).min() > 1e-3
    assert np.abs(trained_s - s).max(axis=1).min() > 1e-4
    Z = start.parameters[".prior.layers[0].Z"]
    nearest = np.argmin(((X[:, None] - Z) ** 2).sum(axis=-1), axis=1)
    np.testing.assert_allclose(Z, [X[nearest == index].mean(axis=0) for index in range(M)], rtol=0, atol=1e-12)


@pytest.mark.full
def test_rows_start_at_their_layers_mean_map_where_others_are_held_out():
    """Three inputs of nearly equal variances: the principal components of fewer rows are others."""
    inputs = np.random.default_rng(0).normal(size=(60, 3))
    still = ("training.early_stopping=true", "training.max_iterations=400", "training.learning_rate=1e-30")
    start = fit_once.fit(inputs, inputs[:, 0], *SETTINGS, "method.num_layers=2", *still)
    (m, _), mapped = hidden_rows(start, 2)[0], inputs @ start.parameters[".prior.layers[0].mean_function.A"]
    assert m.shape == (54, 2)
    assert np.abs(m[:, None] - mapped).max(axis=-1).min(axis=1).max() < 0.05
