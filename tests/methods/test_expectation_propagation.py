"""Power EP as aep and aepmcm run it, against its formulas in NumPy (docs/methods.md, "Power EP").

The objective is read from the trace, the sites from the fitted parameters: a few steps at a real learning rate take
them away from their start, then the rate vanishes, and the later rows of the trace belong to the last parameters.
One hidden GP leaves one-dimensional integrals, which quadrature does exactly.
"""

import fit_once
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

N, B, JITTER = 10, 2, 1e-4
STAY = ("training.decay_rate=1e-30", "training.decay_steps=10", "training.learning_rate=0.1")
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def rows(num_rows=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_rows, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=num_rows)


def fit(method, X, y, *overrides, num_layers=1, num_inducing=3):
    return fit_once.fit(
        X, y, f"method={method}", f"method.num_layers={num_layers}", "method.width=1", "training.early_stopping=false",
        f"method.num_inducing={num_inducing}", "method.likelihood_variance=0.2", f"method.jitter={JITTER}",
        "method.hidden_scale=0.4", "method.output_scale=0.7", "method.hidden_mean_spread=0.5", *overrides,
    )  # fmt: skip


class Layer:
    """One GP's prior and sites: G = U^T diag(d) U and the mean m of q, from the fitted parameters."""

    def __init__(self, fitted, index, num_data=N):
        p, prior = fitted.parameters, f".prior.layers[{index}]"
        self.Z, self.num_data = p[f"{prior}.Z"], num_data
        self.lengthscales, self.variance = p[f"{prior}.kernel.lengthscales"], p[f"{prior}.kernel.variance"]
        self.noise = p.get(f"{prior}.added_noise", 0.0)
        self.slope = p.get(f"{prior}.mean_function.A")
        self.eye = np.eye(len(self.Z))
        U = np.triu(p[f".q.mixings[{index}]"][0], 1) + self.eye
        self.G = U.T @ np.diag(np.exp(p[f".q.log_precisions[{index}]"][0])) @ U
        self.eta = (self.eye + self.G) @ p[f".q.means[{index}]"][0]
        self.Lk = np.linalg.cholesky(self.k(self.Z, self.Z) + JITTER * self.eye)

    def k(self, H, H2):
        return self.variance * np.exp(-0.5 * np.sum(((H[:, None] - H2) / self.lengthscales) ** 2, axis=-1))

    def without(self, removed):
        """Mean and covariance of q without some of its N sites; all of them leave the prior."""
        weight = 1 - removed / self.num_data
        S = np.linalg.inv(self.eye + weight * self.G)
        return S @ (weight * self.eta), S

    def phi(self, removed):
        mean, S = self.without(removed)
        quadratic = mean @ np.linalg.solve(S, mean)
        return 0.5 * (quadratic + np.linalg.slogdet(S)[1] + len(mean) * np.log(2 * np.pi))

    def moments(self, H, removed):
        """Of the layer's output at the inputs H [..., D], its noise included."""
        H = np.asarray(H)
        flat = H.reshape(-1, H.shape[-1])
        mean, S = self.without(removed)
        a = np.linalg.solve(self.Lk, self.k(self.Z, flat))
        m = a.T @ mean + (0.0 if self.slope is None else flat @ self.slope[:, 0])
        v = self.variance - np.sum(a**2, axis=0) + np.sum(a * (S @ a), axis=0) + self.noise
        return m.reshape(H.shape[:-1]), v.reshape(H.shape[:-1])


def noise_variance(fitted):
    return fitted.parameters[".prior.likelihood.variance"]


def energy(layers, log_Z, power):
    """sum_GPs [(1 - N/power) Phi(q) - Phi(prior) + (N/power) Phi(cavity)] + sum_n log Z_n / power."""
    n = len(log_Z) / power
    parts = [(1 - n) * each.phi(0) - each.phi(each.num_data) + n * each.phi(power) for each in layers]
    return sum(parts) + log_Z.sum() / power


def scaled(power, s2):
    """log Z has N(y; f, s2)^power = N(y; f, s2/power) times this."""
    return 0.5 * (1 - power) * np.log(2 * np.pi * s2) - 0.5 * np.log(power)


def matched_moments(layers, X, removed):
    """A Gaussian in, a Gaussian out: the second layer's mean and variance by quadrature over the first's output."""
    mean, variance = layers[0].moments(X, removed)
    if len(layers) == 1:
        return mean, variance
    m, v = layers[1].moments((mean[:, None] + np.sqrt(variance)[:, None] * NODES)[..., None], removed)
    return m @ WEIGHTS, (v + m**2) @ WEIGHTS - (m @ WEIGHTS) ** 2


@pytest.fixture(scope="module")
def aep():
    """Two layers by matched moments, power 0.5, minibatches; the second row of the trace is the last parameters'."""
    X, y = rows()
    settings = (*STAY, "training.max_iterations=20", f"training.batch_size={B}", "method.power=0.5")
    return fit("aep", X, y, *settings, num_layers=2), X, y


@pytest.mark.full
def test_aeps_training_energy_uses_the_cavity_and_the_power(aep):
    fitted, X, y = aep
    layers, s2, power = [Layer(fitted, 0), Layer(fitted, 1)], noise_variance(fitted), 0.5
    mean, variance = matched_moments(layers, X, power)
    log_Z = norm.logpdf(y, mean, np.sqrt(variance + s2 / power)) + scaled(power, s2)
    # Ten steps of batches of 2 are two epochs of 10 rows: their mean is the energy of all rows.
    np.testing.assert_allclose(fitted.trace[1].elbo, energy(layers, log_Z, power), rtol=0, atol=1e-7)


@pytest.mark.full
def test_aeps_energy_counts_the_rows_that_are_not_held_out():
    """Two of twelve rows are held out, so that the cavity and the sum are of ten."""
    X, y = rows(N + 2)
    kept = np.sort(np.random.default_rng(fit_once.SEEDS.holdout).permutation(N + 2)[2:])
    stopping = ("training.early_stopping=true", "training.holdout_fraction=0.17", "training.max_iterations=301")
    fitted = fit("aep", X, y, *STAY, *stopping, f"training.batch_size={N}", "method.power=0.5", num_layers=2)
    layers, s2, power = [Layer(fitted, 0), Layer(fitted, 1)], noise_variance(fitted), 0.5
    mean, variance = matched_moments(layers, X[kept], power)
    log_Z = norm.logpdf(y[kept], mean, np.sqrt(variance + s2 / power)) + scaled(power, s2)
    np.testing.assert_allclose(fitted.trace[-1].elbo, energy(layers, log_Z, power), rtol=0, atol=1e-7)


def test_aep_predicts_the_matched_gaussian_under_q_with_both_noises(aep):
    fitted, _, _ = aep
    X = np.random.default_rng(5).normal(size=(6, 2))
    layers = [Layer(fitted, 0), Layer(fitted, 1)]
    mean, variance = matched_moments(layers, X, 0)
    assert_predicts(fitted, X, mean, variance + noise_variance(fitted))


def assert_predicts(fitted, X, mean, variance, atol=1e-7):
    """One Gaussian a row."""
    mixture, y = fitted.predict(X), np.linspace(-1, 1, len(X))
    np.testing.assert_allclose(mixture.mean[:, 0], mean, rtol=0, atol=atol)
    np.testing.assert_allclose(mixture.variance[:, 0], variance, rtol=0, atol=atol)
    expected = norm.logpdf(y, mean, np.sqrt(variance))
    np.testing.assert_allclose(mixture.log_density(y[:, None])[:, 0], expected, rtol=0, atol=10 * atol)


@pytest.fixture(scope="module")
def aepmcm():
    """Two layers by samples, two paths a row, 500 epochs at fixed parameters."""
    X, y = rows()
    settings = (*STAY, "training.max_iterations=2510", f"training.batch_size={B}", "training.num_samples=2")
    return fit("aepmcm", X, y, *settings, "prediction.num_samples=1000", num_layers=2), X, y


@pytest.mark.full
def test_aepmcms_energy_is_the_log_of_the_mean_of_its_paths_densities(aepmcm):
    """Both paths of a row are one normal each: the expected log of their mean density is a sum over 80 x 80 nodes."""
    fitted, X, y = aepmcm
    layers, s2 = [Layer(fitted, 0), Layer(fitted, 1)], noise_variance(fitted)
    mean, variance = layers[0].moments(X, 1)
    m, v = layers[1].moments((mean[:, None] + np.sqrt(variance + JITTER)[:, None] * NODES)[..., None], 1)
    each = norm.logpdf(y[:, None], m, np.sqrt(v + s2))
    pairs = logsumexp([np.broadcast_to(e, (N, 80, 80)) for e in (each[:, :, None], each[:, None, :])], axis=0)
    log_Z = np.einsum("nij,i,j->n", pairs - np.log(2), WEIGHTS, WEIGHTS)
    values = np.array([row.elbo for row in fitted.trace[1:]])
    error = values.std() / np.sqrt(len(values))
    assert error < 0.05
    assert abs(values.mean() - energy(layers, log_Z, 1.0)) < 4 * error


@pytest.mark.full
def test_aepmcm_predicts_paths_under_q_with_both_noises(aepmcm):
    fitted, _, _ = aepmcm
    X = np.random.default_rng(5).normal(size=(4, 2))
    layers, s2 = [Layer(fitted, 0), Layer(fitted, 1)], noise_variance(fitted)
    mean, variance = layers[0].moments(X, 0)
    m, v = layers[1].moments((mean[:, None] + np.sqrt(variance + JITTER)[:, None] * NODES)[..., None], 0)
    # The same rows many times: 1,000 components each, drawn independently for every copy.
    copies = 50
    mixture = fitted.predict(np.tile(X, [copies, 1]))
    for ours, exact in ((mixture.means, m), (mixture.variances, v + s2), (mixture.means**2, m**2)):
        draws = ours[..., 0].reshape(1000, copies, len(X))
        error = draws.std(axis=(0, 1)) / np.sqrt(1000 * copies)
        assert np.all(np.abs(draws.mean(axis=(0, 1)) - exact @ WEIGHTS) < 4 * error + 1e-9)


@pytest.mark.parametrize("method", ["aep", "aepmcm"])
def test_depth_one_predicts_the_exact_gaussian_of_its_fitted_sites(method):
    X, y = rows()
    fitted = fit(method, X, y, "training.max_iterations=10", "training.learning_rate=0.1")
    X = np.random.default_rng(5).normal(size=(6, 2))
    mean, variance = Layer(fitted, 0).moments(X, 0)
    assert_predicts(fitted, X, mean, variance + noise_variance(fitted), atol=1e-9)


@pytest.mark.full
def test_the_energy_tends_to_the_elbo_as_the_power_vanishes():
    X, y = rows()
    power = 1e-5
    settings = ("training.learning_rate=1e-30", "training.max_iterations=5", f"training.batch_size={B}")
    first, second = (fit("aep", X, y, *settings, f"method.power={each}") for each in (power, 2 * power))
    layer, s2 = Layer(first, 0), noise_variance(first)
    mean, S = layer.without(0)
    m, v = layer.moments(X, 0)
    kl = 0.5 * (np.trace(S) + mean @ mean - len(mean) - np.linalg.slogdet(S)[1])
    elbo = np.sum(norm.logpdf(y, m, np.sqrt(s2)) - 0.5 * v / s2) - kl
    np.testing.assert_allclose(2 * first.trace[0].elbo - second.trace[0].elbo, elbo, rtol=0, atol=1e-5)


@pytest.mark.full
def test_one_point_repeated_is_trained_to_fitcs_evidence_and_posterior():
    """With one inducing input the sites hold the exact posterior, so that at the maximum F is log N(y; 0, Q + D)."""
    count, y0 = 4, 0.7
    X, y = np.full((count, 1), 0.3), np.full(count, y0)
    settings = ("training.learning_rate=0.05", "training.decay_rate=0.5", "training.decay_steps=400")
    fitted = fit("aep", X, y, *settings, "training.max_iterations=3000", "method.jitter=0.1", num_inducing=1)
    layer = Layer(fitted, 0, count)
    k, s2 = layer.variance, noise_variance(fitted)
    a2 = layer.k(X[:1], layer.Z)[0, 0] ** 2 / (k + 0.1)
    covariance = a2 * np.ones((count, count)) + (s2 + k - a2) * np.eye(count)
    evidence = multivariate_normal.logpdf(y, np.zeros(count), covariance)
    np.testing.assert_allclose(fitted.trace[-1].elbo, evidence, rtol=0, atol=1e-5)
    gain = a2 * np.linalg.solve(covariance, np.ones(count))
    assert_predicts(fitted, X[:1], [gain @ y], [k - a2 * gain.sum() + s2], atol=1e-3)


@pytest.mark.full
def test_sites_start_at_their_stated_deviations():
    X, y = rows()
    fitted = fit("aep", X, y, "training.learning_rate=1e-30", "training.max_iterations=1", num_layers=2)
    for index, scale in enumerate((0.4, 0.7)):
        np.testing.assert_allclose(Layer(fitted, index).without(0)[1], scale**2 * np.eye(3), rtol=0, atol=1e-12)
    np.testing.assert_allclose(fitted.parameters[".q.means[1]"], 0, rtol=0, atol=1e-12)
    assert np.all(np.abs(fitted.parameters[".q.means[0]"]) > 1e-3)  # drawn at random
