"""mf_lv: a latent input of each row and the importance-weighted bound (docs/methods.md, "Latent input")."""

from dataclasses import replace

import by_hand
import fit_once
import numpy as np
import pytest
from scipy.special import logsumexp

from dgpbench.methods.settings import Sizes
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.training.minibatches import base_seed, stateless_normals

N, M, D, WIDTH = 6, 4, 2, 2
rng = np.random.default_rng(0)
X, Y = rng.uniform(-2, 2, size=(N, D)), rng.normal(size=N)
X_TEST = rng.uniform(-2, 2, size=(7, D))
SETTINGS = (f"method.num_inducing={M}", f"method.width={WIDTH}", "method.hidden_scale=0.3",
            "method.likelihood_variance=0.3", "training.batch_size=100", "training.early_stopping=false")  # fmt: skip
STILL = ("training.max_iterations=1", "training.learning_rate=1e-30")  # nothing moves
K, R = 3, 2


def fit(num_layers, *more, **kwargs):
    return fit_once.fit(X, Y, "method=mf_lv", f"method.num_layers={num_layers}", *SETTINGS, *more, **kwargs)


@pytest.fixture(scope="module")
def fitted():
    """One model of each depth, some steps away from where it started."""
    steps = ("training.max_iterations=30", "training.learning_rate=0.03", "training.num_samples=1")
    return {num_layers: fit(num_layers, *steps).parameters for num_layers in (1, 3)}


def objective(parameters, num_layers, num_importance_samples, num_samples, seed=fit_once.SEEDS.samples):
    """The objective of all rows at given parameters."""
    counts = (
        f"method.num_importance_samples={num_importance_samples}",
        f"training.num_samples={num_samples}",
    )
    seeds = replace(fit_once.SEEDS, samples=seed)
    return fit(num_layers, *counts, *STILL, initial=parameters, seeds=seeds).trace[0].elbo


def q_of_w(parameters, rows, y):
    """m and s [B] of each row: two layers of tanh units; s is softplus(. - 3)."""
    H = np.column_stack([rows, y])
    for layer in range(3):
        H = H @ parameters[f".latent.weights[{layer}]"] + parameters[f".latent.biases[{layer}]"]
        H = np.tanh(H) if layer < 2 else H
    return H[:, 0], np.log1p(np.exp(H[:, 1] - 3))


def model_of(parameters, num_layers):
    layers, s2 = by_hand.layers_of(parameters)
    m = [parameters[f".q.means[{layer}]"] for layer in range(num_layers)]
    C = [np.tril(parameters[f".q.diagonal[{layer}]"]) for layer in range(num_layers)]
    gps = [gp for of_layer in zip(m, C, strict=True) for gp in zip(*of_layer, strict=True)]
    kl = sum(by_hand.kl_from_standard_normal(*gp) for gp in gps)
    return layers, m, C, s2, kl


def normals_of(widths, num_paths, num_rows, seed):
    """Of the hidden layers and, last, of the latent inputs."""
    shapes = [*([width, num_paths, num_rows] for width in widths[:-1]), [num_paths, num_rows]]
    return [draw.numpy() for draw in stateless_normals(shapes, base_seed(seed), 0, np.float64)]


@pytest.mark.parametrize("num_layers", [1, 3])
def test_the_bound_is_the_mean_of_weights_over_joint_draws_of_a_rows_inputs(num_layers, fitted):
    """Row by row: hidden layers are one Gaussian over the K inputs of a row, the output's expectation is exact."""
    parameters = fitted[num_layers]
    layers, m, C, s2, kl = model_of(parameters, num_layers)
    mean, s = q_of_w(parameters, X, Y)
    *hidden, e = normals_of([len(each) for each in m], R * K, N, fit_once.SEEDS.samples)
    w = mean + s * e
    log_weights = by_hand.log_normal(w, 0.0, 1.0) - by_hand.log_normal(w, mean, s**2)
    value = 0.0
    for n in range(N):
        for r in range(R):
            paths = slice(r * K, (r + 1) * K)
            H = np.column_stack([np.tile(X[n], (K, 1)), w[paths, n]])
            for layer, m_l, C_l, draws in zip(layers[:-1], m, C, hidden, strict=False):
                a, _ = layer.features(H)
                prior = by_hand.squared_exponential(H, H, layer.variance, layer.lengthscales) - a @ a.T
                f = layer.mean(H, len(m_l)) + a @ m_l.T
                for t, factor in enumerate(C_l):
                    covariance = prior + a @ factor @ factor.T @ a.T + (layer.white + by_hand.JITTER) * np.eye(K)
                    f[:, t] += np.linalg.cholesky(covariance) @ draws[t, paths, n]
                H = f
            f, variance = by_hand.moments_given_inputs(layers[-1], m[-1], C[-1], H)
            terms = by_hand.expected_log_normal(Y[n], f[:, 0], variance[:, 0], s2) + log_weights[paths, n]
            value += (logsumexp(terms) - np.log(K)) / R
    assert objective(parameters, num_layers, K, R) == pytest.approx(value - kl, abs=1e-8)


@pytest.mark.parametrize("num_layers", [1, 3])
def test_one_importance_sample_is_the_elbo_of_mf_at_the_rows_with_their_latent_inputs(num_layers, fitted):
    parameters = fitted[num_layers]
    mean, s = q_of_w(parameters, X, Y)
    *_, e = normals_of([WIDTH] * (num_layers - 1) + [1], 1, N, fit_once.SEEDS.samples)
    w = (mean + s * e)[0]
    kl = by_hand.log_normal(w, mean, s**2) - by_hand.log_normal(w, 0.0, 1.0)
    settings = ("method=mf", f"method.num_layers={num_layers}", *SETTINGS, "training.num_samples=1", *STILL)
    shared = {name: value for name, value in parameters.items() if not name.startswith(".latent")}
    elbo = fit_once.fit(np.column_stack([X, w]), Y, *settings, initial=shared).trace[0].elbo
    assert objective(parameters, num_layers, 1, 1) == pytest.approx(elbo - kl.sum(), rel=1e-12)


def test_more_importance_samples_raise_the_bound_to_its_value_by_quadrature_over_w(fitted):
    """At depth 1 the limit is sum_n log of the integral of p(w) exp(E log N(y_n; f(x_n, w), s2)) less the KL."""
    wide = np.array([0.3, 3.2])  # s near 0.8: with 0.05, as it starts, thousands of samples are not enough
    parameters = fitted[1] | {".latent.biases[2]": wide}
    assert q_of_w(parameters, X, Y)[1].min() > 0.6
    layers, m, C, s2, kl = model_of(parameters, 1)
    nodes, weights = by_hand.gaussian_grid(np.zeros(1), np.ones(1), order=120)
    exact = -kl
    for x, y in zip(X, Y, strict=True):
        H = np.column_stack([np.tile(x, (len(nodes), 1)), nodes[:, 0]])
        f, variance = by_hand.moments_given_inputs(layers[0], m[0], C[0], H)
        exact += np.log(weights @ np.exp(by_hand.expected_log_normal(y, f[:, 0], variance[:, 0], s2)))
    bounds = [objective(parameters, 1, number, 200_000 // number) for number in (1, 3, 1000)]
    assert np.diff([*bounds[:2], exact]).min() > 0.1
    assert bounds[-1] == pytest.approx(exact, abs=0.04)  # four standard errors


@pytest.mark.full
def test_more_importance_samples_raise_the_bound_of_a_deep_model(fitted):
    """The mean of ten draws for each K and its standard error; each row of the trace is a draw, for nothing moves."""
    many = ("training.max_iterations=100", "training.learning_rate=1e-30")
    means, errors = [], []
    for number in (1, 5, 20):
        counts = (f"method.num_importance_samples={number}", f"training.num_samples={1000 // number}")
        draws = [row.elbo for row in fit(3, *counts, *many, initial=fitted[3]).trace]
        means.append(np.mean(draws))
        errors.append(np.std(draws, ddof=1) / np.sqrt(len(draws)))
    assert len(draws) == 10
    assert np.all(np.diff(means) > 3 * np.hypot(errors[1:], errors[:-1]))


@pytest.mark.parametrize("num_layers", [1, 3])
def test_predictions_are_independent_paths_of_draws_of_w_from_its_prior(num_layers, fitted):
    S, seed = 5, 123456789
    model = fit(num_layers, *STILL, f"prediction.num_samples={S}", initial=fitted[num_layers])
    mixture = model.predict(X_TEST, seed)
    layers, s2 = by_hand.layers_of(model.parameters)
    m, C, widths, _ = by_hand.posterior_of(model.predictor.posterior())
    *hidden, w = normals_of(widths, S, len(X_TEST), seed)
    rows = np.column_stack([np.tile(X_TEST, (S, 1)), w.ravel()])
    paths = by_hand.theorem_one(layers, widths, m, C, rows, [each.reshape(WIDTH, 1, -1) for each in hidden])
    shape = (S, len(X_TEST))
    np.testing.assert_allclose(mixture.means[..., 0], paths[0].reshape(shape), rtol=0, atol=1e-8)
    np.testing.assert_allclose(mixture.variances[..., 0], paths[1].reshape(shape) + s2, rtol=0, atol=1e-8)


def test_inducing_inputs_and_the_network_start_at_draws_of_the_seed():
    first, second = (fit(1, *STILL, seeds=replace(fit_once.SEEDS, initial=seed)).parameters for seed in (1, 2))
    for parameters in (first, second):
        assert parameters[".prior.layers[0].Z"].shape == (M, D + 1)
        assert 0.2 < parameters[".prior.layers[0].Z"][:, -1].std() < 2
        assert 0 < q_of_w(parameters, X, Y)[1].max() < 0.5
    for name in (".prior.layers[0].Z", ".latent.weights[0]"):
        assert np.abs(first[name] - second[name]).max() > 0.1


@pytest.mark.full
def test_two_modes_are_found_where_mf_has_one():
    """y is 1 or -1, each with probability 1/2; the best Gaussian has a log-density of -1.42."""
    draws = np.random.default_rng(1)
    rows, new = (draws.uniform(-1, 1, size=(number, 1)) for number in (200, 200))
    y, y_new = (draws.choice([-1.0, 1.0], size=200) + 0.1 * draws.normal(size=200) for _ in range(2))
    training = ("method.num_layers=2", "method.num_inducing=10", "method.width=2", "training.max_iterations=1000",
                "training.learning_rate=0.02", "training.num_samples=1", "training.early_stopping=false")  # fmt: skip
    mf, mf_lv = (fit_once.fit(rows, y, f"method={method}", *training).predict(new) for method in ("mf", "mf_lv"))
    score = lambda mixture: float(mixture.log_density(y_new[:, None]).mean())
    assert score(mf) < -1.35
    assert score(mf_lv) > score(mf) + 0.8  # the density that drew the rows: 1.6 more
    assert np.exp(mf_lv.log_density(np.zeros([200, 1]))).mean() < 0.1  # mf: 0.4


def test_memory_counts_the_importance_samples():
    method = resolve_overrides(["method=mf_lv", "dataset=boston"])
    sized = method.sized((100, D))
    needs = [
        replace(sized.method, num_importance_samples=number).memory(Sizes(100, D, 10, 8), sized.training, 10)
        for number in (1, 7)
    ]
    batch = next(name for name in needs[0] if name.startswith("a batch"))
    assert needs[1].pop(batch) == 7 * needs[0].pop(batch)
    assert needs[0] == needs[1]


@pytest.mark.parametrize("setting", ["structure=star", "bound=tight", "marginalise=false", "output_start=sgpr"])
def test_a_latent_input_is_refused_where_its_bound_does_not_hold(setting, tmp_path, capsys):
    command = ("run", "method=mf_lv", "dataset=boston", "budget=smoke", f"method.{setting}", f"results_dir={tmp_path}")
    assert fit_once.command(*command) == 2
    assert "method.num_importance_samples takes method.structure=mean_field" in capsys.readouterr().err


def test_memory_counts_the_sites_of_a_sigma_point_model():
    sized = resolve_overrides(["method=dspp", "dataset=boston"]).sized((100, D))
    many = replace(sized.method, num_sites=80).memory(Sizes(100, D, 10, 8), sized.training, 10)
    few = sized.method.memory(Sizes(100, D, 10, 8), sized.training, 10)
    grown = [name for name in few if many[name] == 10 * few[name]]
    assert [name.split(" (")[0] for name in grown] == ["a batch", "the predictions"]
