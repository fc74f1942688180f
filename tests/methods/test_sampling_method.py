"""SGHMC as the method runs it: burn-in, freezing, thinning, minibatches, Monte Carlo EM, predictions.

Reference: docs/methods.md, "SGHMC".

At depth 1 everything is known. The posterior of v is Gaussian (FITC's). Where friction vanishes, so does the injected
noise, and a chain of fixed or of learning parameters is one sequence of numbers, which NumPy repeats step by step.
"""

import fit_once
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

NOISE, JITTER = 0.1, 1e-6
FIXED = "training.learning_rate=1e-30"  # Adam moves each parameter by less than rounding
WITHOUT_NOISE = "method.friction=1e-24"
LAYER = ".prior.layers[0]"


def rows(num_rows=40, num_features=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_rows, num_features))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=num_rows)


def sghmc(X, y, *overrides, num_inducing=3, **more):
    settings = ("method=sghmc", "method.num_layers=1", f"method.likelihood_variance={NOISE}", f"method.jitter={JITTER}")
    return fit_once.fit(X, y, *settings, f"method.num_inducing={num_inducing}", *overrides, **more)


def parameters(fitted, layer=LAYER):
    found = fitted.parameters
    names = {"Z": ".Z", "lengthscales": ".kernel.lengthscales", "variance": ".kernel.variance"}
    return {name: found[layer + path] for name, path in names.items()} | {"s2": found[".prior.likelihood.variance"]}


def features(p, X, white=0.0):
    """A = Lk^{-1} k(Z, X) [M, N] and the residual variance k - a^T a [N]; white noise is in k(Z, Z) and k(x, x)."""

    def k(H, H2):
        return p["variance"] * np.exp(-0.5 * np.sum(((H[:, None] - H2) / p["lengthscales"]) ** 2, axis=-1))

    A = np.linalg.solve(np.linalg.cholesky(k(p["Z"], p["Z"]) + (JITTER + white) * np.eye(len(p["Z"]))), k(p["Z"], X))
    return A, p["variance"] + white - np.sum(A**2, axis=0)


def log_joint(p, v, X, y):
    """sum_n log N(y_n; a_n^T v, r_n + s2) - |v|^2 / 2."""
    A, residual = features(p, X)
    return np.sum(norm.logpdf(y, v @ A, np.sqrt(residual + p["s2"]))) - 0.5 * v @ v


def exact_posterior(p, X, y):
    A, residual = features(p, X)
    precision = np.eye(len(A)) + (A / (residual + p["s2"])) @ A.T
    return np.linalg.solve(precision, (A / (residual + p["s2"])) @ y), precision


def chain_without_noise(gradient, size, *, burn_in, steps, step_size, freeze):
    """Positions before each step and after the last, from docs/methods.md, "SGHMC" with alpha = 0; gradient(v) = dU/dv
    / N.
    """
    v, p = np.zeros(size), np.zeros(size)
    xi, g, g2, squares, positions = np.ones(size), np.ones(size), np.ones(size), [], [v]
    for step in range(steps):
        if step == burn_in and freeze == "mean":
            g2 = np.mean(squares[burn_in // 2 :], axis=0)
        slope = gradient(v)
        squares.append(slope**2)
        p = p - step_size**2 * slope / np.sqrt(g2 + 1e-16)
        if step < burn_in:
            r, xi_old = 1 / (xi + 1), xi
            xi = 1 + xi_old * (1 - g**2 / g2)
            g, g2 = g + r * (slope - g), g2 + r * (slope**2 - g2)
        v = v + p
        positions.append(v)
    return np.array(positions)


LONG = (
    FIXED, "method.step_size=0.1", "method.friction=0.2", "training.max_iterations=600", "training.thinning=0.025",
    "prediction.num_samples=600",
)  # fmt: skip


@pytest.fixture(scope="module")
def long_chain():
    X, y = rows()
    return sghmc(X, y, *LONG), X, y


@pytest.mark.full
@pytest.mark.parametrize(("freeze", "batch_size"), [("mean", 40), ("last", 8)])
def test_a_chain_adapts_in_burn_in_then_freezes_and_thins(freeze, batch_size):
    """Minibatches are the same problem where all rows are equal: each must count for N / B rows."""
    X, y = rows()
    if batch_size < len(X):
        X, y = np.repeat(X[:1], len(X), axis=0), np.full(len(X), 0.7)
    fitted = sghmc(
        X, y, FIXED, WITHOUT_NOISE, f"method.freeze={freeze}", "method.step_size=0.05",
        f"training.batch_size={batch_size}", "training.max_iterations=60", "training.burn_in=0.4",
        "training.thinning=0.05", "prediction.num_samples=6", num_inducing=3 if batch_size == len(X) else 1,
    )  # fmt: skip
    p = parameters(fitted)
    A, residual = features(p, X)

    def gradient(v):
        return (v - (A / (residual + NOISE)) @ (y - v @ A)) / len(X)

    expected = chain_without_noise(gradient, len(A), burn_in=24, steps=60 + 6 * 3, step_size=0.05, freeze=freeze)
    samples = fitted.predictor.posterior()["samples_1"][:, 0]
    np.testing.assert_allclose(samples, expected[63::3], rtol=0, atol=1e-8)
    assert [row.iteration for row in fitted.trace] == [10, 12, 20, 24, 30, 40, 50, 60, 63, 66, 69, 72, 75, 78]
    edges = [0, *(row.iteration for row in fitted.trace)]
    for first, last, row in zip(edges, edges[1:], fitted.trace, strict=False):
        values = [log_joint(p, v, X, y) for v in expected[first:last]]
        np.testing.assert_allclose(row.elbo, np.mean(values), rtol=1e-8)


@pytest.mark.full
@pytest.mark.parametrize("window", [0.1, 0.0])
def test_adam_ascends_the_log_joint_at_the_newest_position_with_decay(window, long_chain):
    """Three steps, with slopes by finite differences: the sampler's and Adam's in turn, or without a window both at the
    same position, as docs/methods.md, "SGHMC" has them.
    """
    still, X, y = long_chain
    fitted = sghmc(
        X, y, "training.learning_rate=0.05", "training.decay_rate=0.5", "training.decay_steps=2", WITHOUT_NOISE,
        "method.step_size=0.1", "training.max_iterations=3", f"training.window={window}", "prediction.num_samples=1",
    )  # fmt: skip
    start = parameters(still)
    expected = adam_and_sampler(start, X, y, rates=[0.05, 0.05, 0.025], at_once=window == 0)
    for name, value in parameters(fitted).items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-6, err_msg=name)
        assert np.all(np.abs(value - start[name]) > 1e-3), name


def adam_and_sampler(p, X, y, rates, *, at_once):
    """Parameters after alternating or joint sampler and Adam steps; Adam acts on softplus^{-1}(value) and on Z."""
    sizes = {name: np.size(value) for name, value in p.items()}
    free = np.concatenate([np.ravel(value if name == "Z" else unconstrained(name, value)) for name, value in p.items()])

    def constrained(flat):
        parts = dict(zip(sizes, np.split(flat, np.cumsum(list(sizes.values()))[:-1]), strict=True))
        return {
            name: (part if name == "Z" else np.logaddexp(0, part) + (1e-6 if name == "s2" else 0)).reshape(
                np.shape(p[name])
            )
            for name, part in parts.items()
        }

    v, momentum, M = np.zeros(len(p["Z"])), np.zeros(len(p["Z"])), len(p["Z"])
    xi, g, g2 = np.ones(M), np.ones(M), np.ones(M)
    first, second = np.zeros(len(free)), np.zeros(len(free))
    for step, rate in enumerate(rates, start=1):
        now = constrained(free)
        slope = -slopes(lambda w, now=now: log_joint(now, w, X, y), v) / len(X)
        momentum = momentum - 0.1**2 * slope / np.sqrt(g2 + 1e-16)
        r, old = 1 / (xi + 1), (g, g2)
        xi = 1 + xi * (1 - old[0] ** 2 / old[1])
        g, g2 = old[0] + r * (slope - old[0]), old[1] + r * (slope**2 - old[1])
        before, v = v, v + momentum
        up = slopes(lambda w, at=before if at_once else v: log_joint(constrained(w), at, X, y), free)
        first, second = 0.9 * first + 0.1 * up, 0.999 * second + 0.001 * up**2
        free = free + rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return constrained(free)


def unconstrained(name, value):
    return np.log(np.expm1(value - (1e-6 if name == "s2" else 0)))


def slopes(function, x):
    steps = 1e-6 * np.eye(len(x))
    return np.array([(function(x + step) - function(x - step)) / 2e-6 for step in steps])


@pytest.mark.full
def test_monte_carlo_em_finds_the_noise_of_the_data():
    rng = np.random.default_rng(1)
    X = np.linspace(-2, 2, 100)[:, None]
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=100)
    fitted = sghmc(
        X, y, "method.likelihood_variance=1.0", "method.step_size=0.1", "method.friction=0.2",
        "training.learning_rate=0.02", "training.max_iterations=1000", "training.batch_size=50",
        "prediction.num_samples=2", num_inducing=10,
    )  # fmt: skip
    # The estimate's own standard error with 100 residuals is 0.09 sqrt(2 / 100) = 0.013.
    assert abs(parameters(fitted)["s2"] - 0.09) < 4 * 0.013


def standardised(fitted, X, y):
    """Samples less the exact mean, in units of the exact posterior: independent standard normals, [S, M]."""
    mean, precision = exact_posterior(parameters(fitted), X, y)
    return (fitted.predictor.posterior()["samples_1"][:, 0] - mean) @ np.linalg.cholesky(precision)


def assert_standard_normal(w, share):
    """Mean 0 and covariance I within 4 standard errors, where S draws are worth ``share`` S independent ones.

    Steps of this length add 2 % to the variance.
    """
    S = share * len(w)
    assert np.abs(w.mean(axis=0)).max() < 4 / np.sqrt(S)
    assert np.abs(np.cov(w.T) - np.eye(w.shape[1])).max() < 4 * np.sqrt(2 / S) + 0.02
    assert abs(np.mean(w**2) - 1) < 4 * np.sqrt(2 / (S * w.shape[1])) + 0.02


@pytest.mark.full
def test_samples_have_the_exact_posteriors_mean_and_covariance(long_chain):
    assert_standard_normal(standardised(*long_chain), share=0.7)


@pytest.mark.full
def test_corrected_minibatches_sample_the_exact_posterior_too():
    """Many chains in plain NumPy have 0.95 times the exact variance with these settings, 1.5 times without the
    correction, and 0.5 times with it where batches share an epoch: their errors cancel, and nothing is to be taken off.
    """
    X, y = rows()
    fitted = sghmc(X, y, *LONG, "method.friction=0.1", "training.batch_size=8", "method.noise=corrected")
    assert_standard_normal(standardised(fitted, X, y), share=0.6)


def test_each_sample_predicts_its_own_gaussian_with_the_noise(long_chain):
    fitted, _, _ = long_chain
    X, y = np.random.default_rng(5).normal(size=(6, 2)), np.linspace(-1, 1, 6)
    mixture = fitted.predict(X)
    A, residual = features(parameters(fitted), X)
    means = fitted.predictor.posterior()["samples_1"][:, 0] @ A
    np.testing.assert_allclose(mixture.means[..., 0], means, rtol=0, atol=1e-9)
    np.testing.assert_allclose(mixture.variances[..., 0], np.tile(residual + NOISE, [600, 1]), rtol=0, atol=1e-9)
    each = norm.logpdf(y, means, np.sqrt(residual + NOISE))
    expected = logsumexp(each, axis=0) - np.log(600)
    np.testing.assert_allclose(mixture.log_density(y[:, None])[:, 0], expected, rtol=0, atol=1e-8)


def test_diagnostics_are_of_the_predicted_means_at_training_rows(long_chain):
    fitted, X, _ = long_chain
    A, _ = features(parameters(fitted), X)
    tau = np.array([autocorrelation_time(trace) for trace in (fitted.predictor.posterior()["samples_1"][:, 0] @ A).T])
    expected = {
        "collected_samples": 600, "steps_between_samples": 15, "iterations": 600,
        "autocorrelation_steps_median": 15 * np.median(tau), "autocorrelation_steps_max": 15 * tau.max(),
        "effective_samples_median": np.median(600 / tau), "effective_samples_min": 600 / tau.max(),
    }  # fmt: skip
    found = {key: fitted.predictor.diagnostics[key] for key in expected}
    assert found == pytest.approx(expected, rel=1e-8)
    assert tau.max() > 1.1  # else tau = 1 would pass for any of them


def autocorrelation_time(trace):
    """1 + 2 sum_{k <= m} rho_k with the smallest m >= 5 tau(m) (Sokal 1997), at least 1, lag by lag."""
    centred, tau = trace - trace.mean(), 1.0
    for lag in range(len(trace)):
        if lag > 0:
            tau += 2 * centred[lag:] @ centred[:-lag] / (centred @ centred)
        if lag >= 5 * tau:
            break
    return max(tau, 1.0)


@pytest.mark.full
def test_two_layers_predict_a_path_for_each_sample():
    """One hidden GP: over many copies of a row, a sample's component has the moments of a one-dimensional integral."""
    X, y = rows()
    fitted = sghmc(
        X, y, "method.num_layers=2", "method.width=1", "method.step_size=0.1", "training.max_iterations=50",
        "training.learning_rate=0.02", "prediction.num_samples=3", "method.white_noise=0.05",
    )  # fmt: skip
    samples, copies = fitted.predictor.posterior(), 20_000
    first, second = parameters(fitted), parameters(fitted, ".prior.layers[1]")
    white, slope = fitted.parameters[f"{LAYER}.noise"], fitted.parameters[f"{LAYER}.mean_function.A"]
    X = np.random.default_rng(5).normal(size=(2, 2))
    a, residual = features(first, X, white)
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    mixture = fitted.predict(np.repeat(X, copies, axis=0))
    for s, n in np.ndindex(3, 2):
        h = X[n] @ slope[:, 0] + samples["samples_1"][s, 0] @ a[:, n] + np.sqrt(residual[n] + JITTER) * nodes
        A, left = features(second, h[:, None])
        exact_mean, exact_variance = samples["samples_2"][s, 0] @ A, left + second["s2"]
        for ours, exact in (
            (mixture.means, exact_mean), (mixture.variances, exact_variance), (mixture.means**2, exact_mean**2),
        ):  # fmt: skip
            draws = ours[s, n * copies : (n + 1) * copies, 0]
            error = draws.std() / np.sqrt(copies)
            assert abs(draws.mean() - exact @ weights / weights.sum()) < 4.5 * error + 1e-9


@pytest.mark.full
def test_a_chain_that_leaves_the_posterior_has_diverged_though_finite(tmp_path):
    """Steps ten times too long: positions grow without bound, and such predictions are none."""
    record = fit_once.run(
        tmp_path, "method=sghmc", "method.num_layers=1", "dataset=diabetes", "budget=smoke", "method.step_size=1",
        "training.max_iterations=400", status="diverged",
    ).record  # fmt: skip
    assert "the chain left the posterior by step" in record["reason"]
    assert not record.get("scores")


@pytest.mark.full
@pytest.mark.parametrize(
    "settings", fit_once.first_of([("method.num_layers=3",), ("method.num_layers=1",), ("method.noise=corrected",)])
)
def test_a_table_with_features_that_are_not_cached_is_sampled_alike(settings, monkeypatch):
    """Once parameters are fixed the first layer's features are, and of large tables they are not kept."""
    from dgpbench.methods import sampling

    X, y = rows()
    short = ("training.max_iterations=6", "training.batch_size=16", "training.thinning=0.3", "prediction.num_samples=4")
    fits = []
    for most in (2**25, 0):
        monkeypatch.setattr(sampling, "MAX_FEATURES", most)
        fits.append(sghmc(X, y, *short, *settings).parameters)
    kept, computed = fits
    assert np.ptp(kept[".samples"], axis=0).max() > 1e-3
    for name, values in kept.items():
        np.testing.assert_allclose(values, computed[name], rtol=1e-9, atol=1e-9)
