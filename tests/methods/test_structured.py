"""The structured family (sgp, mf, star, fc, fc_mc ..) as a run trains and predicts, against its formulas in NumPy."""

from functools import cache
from itertools import combinations, permutations

import by_hand
import fit_once
import numpy as np
import pytest

from dgpbench.training.minibatches import base_seed, stateless_normals

N, B, M, D, R, S = 5, 2, 3, 2, 3, 4
WIDTH = 2
rng = np.random.default_rng(0)
X, Y = rng.uniform(-2, 2, size=(N, D)), rng.normal(size=N)
X_TEST, Y_TEST = rng.uniform(-2, 2, size=(7, D)), rng.normal(size=7)

# Ten steps take every parameter away from where it starts; at the eleventh the rate has decayed to nothing, so that
# the trace's last row is the objective of its one batch at the parameters that the fit ends with.
STEPS = 11
SETTINGS = (
    f"method.num_inducing={M}",
    "method.hidden_scale=0.3",
    "method.likelihood_variance=0.3",
    "method.lengthscale=1.4",
    f"training.max_iterations={STEPS}",
    f"training.batch_size={B}",
    f"training.num_samples={R}",
    "training.learning_rate=0.05",
    f"training.decay_steps={STEPS - 1}",
    "training.decay_rate=1e-30",
    "training.early_stopping=false",
    f"prediction.num_samples={S}",
)
STILL = ("training.max_iterations=1", "training.learning_rate=1e-30")  # nothing moves
DEPTHS = {"mf": 2, "star": 3, "fc": 3, "fc_mc": 2}
STRUCTURES = {"fc_mc": "fc"}


def deep(method, num_layers, *more, **kwargs):
    settings = (*SETTINGS, f"method={method}", f"method.num_layers={num_layers}", f"method.width={WIDTH}")
    return fit_once.fit(X, Y, *settings, *more, **kwargs)


@pytest.fixture(scope="module")
def fitted():
    """Return a function that fits each of ``DEPTHS`` once, on first use."""
    return cache(lambda method: deep(method, DEPTHS[method]))


@pytest.fixture(scope="module")
def shallow():
    """Methods of the family that share their formula at depth 1."""
    return cache(lambda method: deep(method, 1))


def normals(widths, num_samples, num_rows, seed, step):
    """The hidden layers' standard normals, [T_l, R, B] each: a function of the seed and the step alone."""
    shapes = [[width, num_samples, num_rows] for width in widths[:-1]]
    return [draw.numpy() for draw in stateless_normals(shapes, base_seed(seed), step, np.float64)]


def model_of(method):
    """(layers, s2, m, C, widths) of a fitted method."""
    layers, s2 = by_hand.layers_of(method.parameters)
    m, C, widths, _ = by_hand.posterior_of(method.predictor.posterior())
    return layers, s2, m, C, widths


def sparse_gp(fit, X_new):
    """Depth 1: m(x) and v(x) of q(f), the noise s2 and KL(q(v) || p(v)) (Hensman et al. 2013)."""
    (layer,), s2, m, C, _ = model_of(fit)
    mean, variance = by_hand.theorem_one([layer], [1], m, C, X_new, [])
    return mean[0], variance[0], s2, by_hand.kl_from_standard_normal(m, C)


@pytest.mark.full
@pytest.mark.parametrize("method", DEPTHS)
def test_a_fitted_posterior_has_the_blocks_of_its_structure(method, fitted):
    m, C, widths, coupled = by_hand.posterior_of(fitted(method).predictor.posterior())
    assert widths == [WIDTH] * (DEPTHS[method] - 1) + [1]
    assert coupled == by_hand.node_pairs(STRUCTURES.get(method, method), widths)
    at_start = np.kron(np.diag([0.3] * (len(m) // M - 1) + [1.0]), np.eye(M))
    assert np.abs(m).min() > 1e-4  # ten steps moved all of q: the comparisons below see each of its blocks
    blocks = np.abs(C - at_start).reshape(len(m) // M, M, -1, M).max(axis=(1, 3))
    nodes = [(layer + 1, t + 1) for layer, width in enumerate(widths) for t in range(width)]
    exist = np.array([[a == b or (a, b) in coupled for b in nodes] for a in nodes])
    assert blocks[exist].min() > 1e-3
    assert blocks[~exist].max(initial=0.0) == 0.0


@pytest.mark.full
@pytest.mark.parametrize("method", DEPTHS)
def test_each_predicted_component_is_a_path_of_theorem_one_with_noise(method, fitted):
    layers, s2, m, C, widths = model_of(fitted(method))
    seed = 123456789
    mixture = fitted(method).predict(X_TEST, seed)
    paths = by_hand.theorem_one(layers, widths, m, C, X_TEST, normals(widths, S, len(X_TEST), seed, 0))
    np.testing.assert_allclose(mixture.means[..., 0], paths[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(mixture.variances[..., 0], paths[1] + s2, rtol=0, atol=1e-8)
    densities = np.exp(by_hand.log_normal(Y_TEST, paths[0], paths[1] + s2))
    density = mixture.log_density(Y_TEST[:, None])[:, 0]
    np.testing.assert_allclose(density, np.log(densities.mean(axis=0)), rtol=0, atol=1e-7)


@pytest.mark.parametrize("method", ["mf", "star", "fc"])
def test_a_minibatch_objective_is_n_over_b_times_its_fit_minus_the_kl(method, fitted):
    layers, s2, m, C, widths = model_of(fitted(method))
    at_step = normals(widths, R, B, fit_once.SEEDS.samples, STEPS - 1)

    def bound(rows):
        mean, variance = by_hand.theorem_one(layers, widths, m, C, X[rows], at_step)
        fit = by_hand.expected_log_normal(Y[rows], mean, variance, s2).mean(axis=0).sum()
        return N / B * fit - by_hand.kl_from_standard_normal(m, C)

    of_batches = [bound(list(rows)) for rows in permutations(range(N), B)]  # one of them was the last
    assert np.abs(np.array(of_batches) - fitted(method).trace[-1].elbo).min() < 1e-8


@pytest.mark.parametrize("method", ["mf", "star", "fc"])
def test_the_tight_objective_has_the_logarithm_of_the_outputs_residual(method, fitted):
    start = fitted(method)
    value = deep(method, DEPTHS[method], *STILL, "method.bound=tight", initial=start.parameters).trace[0].elbo
    layers, s2, m, C, widths = model_of(start)
    at_step = normals(widths, R, B, fit_once.SEEDS.samples, 0)

    def bound(rows):
        mean, variance, residual = by_hand.theorem_one_and_residual(layers, widths, m, C, X[rows], at_step)
        explained = by_hand.expected_log_normal(Y[rows], mean, variance - residual, s2)
        fit = (explained - 0.5 * np.log(1 + residual / s2)).mean(axis=0).sum()
        return N / B * fit - by_hand.kl_from_standard_normal(m, C)

    of_batches = [bound(list(rows)) for rows in permutations(range(N), B)]
    assert np.abs(np.array(of_batches) - value).min() < 1e-8


@pytest.mark.full
@pytest.mark.parametrize("num_layers", [1, 2])
def test_drawing_the_inducing_outputs_has_the_expectation_of_draws_by_hand(num_layers, fitted, shallow):
    """fc_mc's objective as a mean over many draws of v, one for all rows of a path, within 4 standard errors."""
    num, start = 4000, fitted("fc_mc") if num_layers == 2 else shallow("fc")
    settings = (*STILL, f"training.num_samples={num}", f"training.batch_size={N}")
    elbo = deep("fc_mc", num_layers, *settings, initial=start.parameters).trace[0].elbo
    layers, s2, m, C, widths = model_of(start)
    mean, variance = by_hand.paths_given_draws(layers, widths, m, C, X, 20 * num, np.random.default_rng(1))
    fit = by_hand.expected_log_normal(Y, mean, variance, s2).sum(axis=1)
    error = np.sqrt(fit.var() / num + fit.var() / len(fit))
    expected = fit.mean() - by_hand.kl_from_standard_normal(m, C)
    assert abs(elbo - expected) < 4 * error
    if num_layers == 1:  # where the expectation is the sparse GP's bound in closed form
        mean, variance, s2, kl = sparse_gp(shallow("fc"), X)
        exact = by_hand.expected_log_normal(Y, mean, variance, s2).sum() - kl
        assert abs(elbo - exact) < 4 * error
        with_means_alone = by_hand.expected_log_normal(Y, mean, layers[0].features(X)[1], s2).sum() - kl
        assert abs(with_means_alone - exact) > 20 * error  # what it would be without q's covariance


@pytest.mark.full
@pytest.mark.parametrize("method", ["mf", "star", "fc"])
def test_at_depth_one_every_structure_is_the_sparse_gp(method, shallow):
    fit = shallow(method)
    many = np.random.default_rng(2).uniform(-2, 2, size=(8200, D))  # more than predictions take at a time
    mean, variance, s2, _ = sparse_gp(fit, many)
    mixture = fit.predict(many)
    assert mixture.means.shape == (1, len(many), 1)
    np.testing.assert_allclose(mixture.mean[:, 0], mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(mixture.variance[:, 0], variance + s2, rtol=0, atol=1e-9)
    mean, variance, s2, kl = sparse_gp(fit, X)
    terms = by_hand.expected_log_normal(Y, mean, variance, s2)
    of_batches = [N / B * terms[list(rows)].sum() - kl for rows in combinations(range(N), B)]
    assert np.abs(np.array(of_batches) - fit.trace[-1].elbo).min() < 1e-9


@pytest.mark.full
@pytest.mark.parametrize("method", ["sgp", "fc"])
def test_one_natural_step_with_z_at_the_data_gives_the_exact_posterior(method):
    s2, variance, lengthscale, targets = 0.2, 1.7, 0.8, np.sin(2 * X[:, 0])
    fit = fit_once.fit(
        X,
        targets,
        f"method={method}",
        "method.num_layers=1",
        "optimiser=natgrad_adam",
        *STILL,
        "training.natgrad_gamma=1.0",
        "training.early_stopping=false",
        f"method.num_inducing={N}",
        f"method.likelihood_variance={s2}",
        f"method.kernel_variance={variance}",
        f"method.lengthscale={lengthscale}",
    )
    k = lambda A, B: by_hand.squared_exponential(A, B, variance, lengthscale)
    solved = np.linalg.solve(k(X, X) + s2 * np.eye(N), k(X, X_TEST))
    mean, new = solved.T @ targets, variance + s2 - np.sum(k(X, X_TEST) * solved, axis=0)
    mixture = fit.predict(X_TEST)
    np.testing.assert_allclose(mixture.mean[:, 0], mean, rtol=0, atol=1e-4)  # the jitter on k(Z, Z) is between them
    np.testing.assert_allclose(mixture.variance[:, 0], new, rtol=0, atol=1e-4)
    density = mixture.log_density(Y_TEST[:, None])[:, 0]
    np.testing.assert_allclose(density, by_hand.log_normal(Y_TEST, mean, new), rtol=0, atol=2e-3)


def test_predictions_depend_on_the_seed_and_each_piece_draws_its_own(fitted):
    fit, row = fitted("mf"), np.tile(X_TEST[:1], (4200, 1))  # at S = 4, rows of three pieces
    first, again, other = (fit.predict(row, seed).means for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert len(np.unique(np.concatenate([first, other]))) == 2 * first.size


@pytest.mark.full
def test_a_fit_started_from_parameters_stays_there_at_a_vanishing_rate(fitted):
    start = fitted("fc_mc").parameters
    fit = deep("fc_mc", 2, *STILL, initial=start)
    for path, value in fit.parameters.items():
        np.testing.assert_allclose(value, start[path], rtol=0, atol=1e-12, err_msg=path)
    np.testing.assert_allclose(fit.predict(X_TEST).means, fitted("fc_mc").predict(X_TEST).means, rtol=0, atol=1e-10)


@pytest.mark.full
def test_held_out_rows_leave_the_bound_and_are_scored_in_the_trace():
    """The ELBO is of the rows that stay, with their number as N; the score is the mean log-density of the others."""
    steps, held = 301, 2  # the rule may act at iteration 300 alone, and does not
    fit = deep(
        "mf",
        1,
        "training.early_stopping=true",
        "training.early_stopping_start=0.97",
        f"training.holdout_fraction={held / N}",
        f"training.max_iterations={steps}",
        f"training.decay_steps={steps - 1}",
        f"training.batch_size={N}",
    )
    mean, variance, s2, kl = sparse_gp(fit, X)
    terms, densities = by_hand.expected_log_normal(Y, mean, variance, s2), by_hand.log_normal(Y, mean, variance + s2)
    pairs = [
        (terms.sum() - terms[list(rows)].sum() - kl, densities[list(rows)].mean())
        for rows in combinations(range(N), held)
    ]
    row = fit.trace[-1]
    assert row.iteration == steps
    assert np.abs(np.array(pairs) - [row.elbo, row.validation_tll]).max(axis=1).min() < 1e-8


@pytest.mark.full
def test_only_the_inducing_inputs_that_may_train_move(fitted):
    trained, fixed = fitted("mf"), deep("mf_fixed_z", 2)
    path = ".prior.layers[0].Z"
    moved = np.abs(trained.parameters[path] - fixed.parameters[path])
    assert moved.min() > 1e-3
    # Five rows of three clusters, each centre the mean of the rows that are nearest to it.
    centres = fixed.parameters[path]
    nearest = np.argmin(((X[:, None] - centres) ** 2).sum(axis=-1), axis=1)
    np.testing.assert_allclose(centres, [X[nearest == index].mean(axis=0) for index in range(M)], rtol=0, atol=1e-12)


@pytest.mark.full
def test_nothing_is_held_out_of_a_long_run_without_early_stopping():
    """As many iterations as let the rule trigger, were it on."""
    fit = deep("mf", 1, "training.max_iterations=260")
    assert all(row.validation_tll is None for row in fit.trace)
    # Nor are rows left out without being scored: the share that would be held out makes no difference.
    little, much = (
        deep("mf", 1, "training.max_iterations=20", f"training.holdout_fraction={share}") for share in (0.1, 0.5)
    )
    assert [row.elbo for row in little.trace] == [row.elbo for row in much.trace]


@pytest.mark.full
def test_q_starts_at_the_scales_of_the_settings():
    m, C, _, _ = by_hand.posterior_of(deep("mf", 2, *STILL, "method.output_scale=0.6").predictor.posterior())
    np.testing.assert_allclose(m, 0.0, atol=1e-20)
    np.testing.assert_allclose(C, np.diag([0.3] * WIDTH * M + [0.6] * M), rtol=0, atol=1e-12)


@pytest.mark.full
def test_fc_mc_draws_the_inducing_outputs_of_its_paths(shallow):
    """At depth 1 nothing else is drawn: with few samples the objective is a random number, not the closed form."""
    start, whole = shallow("fc"), f"training.batch_size={N}"
    mean, variance, s2, kl = sparse_gp(start, X)
    exact = by_hand.expected_log_normal(Y, mean, variance, s2).sum() - kl
    values = [
        deep(method, 1, *STILL, whole, "training.num_samples=1", initial=start.parameters).trace[0].elbo
        for method in ("fc", "fc_mc")
    ]
    assert abs(values[0] - exact) < 1e-9
    assert abs(values[1] - exact) > 1e-3
