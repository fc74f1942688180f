"""Subset-of-data inference against exact GP regression, full covariances and brute force.

Reference: docs/methods.md, "Subset of data".
"""

from dataclasses import replace

import fit_once
import gpflow
import numpy as np
import pytest
import small
import tensorflow as tf
import tensorflow_probability as tfp

from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.gp.prior import mean_map
from dgpbench.gp.subset_model import (
    PROPAGATIONS,
    SubsetDeepGP,
    batched_kernel,
    condition_on_labels,
    features,
    kl_divergence,
)
from dgpbench.methods import inducing_points, subset
from dgpbench.methods.interface import Seeds
from dgpbench.training.minibatches import base_seed
from dgpbench.training.monitor import Monitor

N, D, M = 9, 2, 4
SEEDS = Seeds(initial=1, holdout=2, batches=3, samples=4, prediction=5)


def toy_rows(num_rows=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num_rows, D))
    return Regression(X, np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(num_rows, 1)))


def toy_model(num_layers=2, width=2, num_inducing=M, propagation="joint", **changes):
    """A model with every parameter away from its starting value."""
    rng = np.random.default_rng(3)
    arch = small.architecture(num_layers, width, likelihood_variance=0.1, **({"jitter": 1e-6} | changes))
    rows = toy_rows()
    means = [rng.normal(size=(T, num_inducing)) for T in arch.widths]
    X_S, y_S = rows.X[:num_inducing], rows.Y[:num_inducing, 0]
    model = SubsetDeepGP(arch, X_S, y_S, means, [0.6] * num_layers, layer_noise=0.05, propagation=propagation)
    for factor in model.factors:
        factor.assign(factor.numpy() + 0.2 * rng.normal(size=factor.shape))
    for kernel in model.kernels:
        kernel.lengthscales.assign(rng.uniform(0.6, 1.4, size=kernel.lengthscales.shape))
        kernel.variance.assign(1.3)
    return model


def with_q_equal_to_the_prior(num_inducing):
    model = toy_model(1, 1, num_inducing)
    K = model.kernels[0](model.X_S).numpy() + model.jitter * np.eye(num_inducing)
    model.means[0].assign(np.zeros((1, num_inducing)))
    model.factors[0].assign(np.linalg.cholesky(K)[None])
    return model


def exact_gp(model):
    """GPR on the subset with the same jitter on its kernel's diagonal: noise s2 and jitter, and y's noise s2."""
    data = (model.X_S.numpy(), model.y_S.numpy()[:, None])
    return gpflow.models.GPR(data, model.kernels[0], noise_variance=float(model.noise_variance) + model.jitter)


def test_depth_one_with_the_prior_as_q_predicts_as_gpr_on_the_subset():
    model = with_q_equal_to_the_prior(M)
    X = np.random.default_rng(1).normal(size=(6, D))
    paths = model.paths(tf.constant(X), [], [])
    mean, variance = exact_gp(model).predict_f(X)
    np.testing.assert_allclose(paths.mean[0], mean[:, 0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(paths.variance[0], variance[:, 0], rtol=0, atol=1e-10)


def test_depth_one_with_every_row_in_the_subset_has_the_evidence_of_gpr():
    model = with_q_equal_to_the_prior(N)
    rows = toy_rows()
    bound = model.bound(model.paths(tf.constant(rows.X), [], []), tf.constant(rows.Y[:, 0]), 0)
    np.testing.assert_allclose(bound, exact_gp(model).log_marginal_likelihood(), rtol=0, atol=1e-10)


def test_conditioning_on_labels_equals_the_formula_with_inverses():
    model = toy_model(1, 1)
    q, s2 = model.posterior(0), 0.1
    ours = condition_on_labels(q, model.y_S, tf.constant(s2, tf.float64))
    Sig = q.covariance[0].numpy()
    expected = np.linalg.inv(np.linalg.inv(Sig) + np.eye(M) / s2)
    np.testing.assert_allclose(ours.covariance, expected, atol=1e-10)
    mean = expected @ (model.y_S.numpy() / s2 + np.linalg.solve(Sig, q.mean[0].numpy()))
    np.testing.assert_allclose(ours.mean, mean, atol=1e-10)
    np.testing.assert_allclose(ours.log_determinant, np.linalg.slogdet(expected)[1], atol=1e-10)


def test_kl_divergence_equals_tensorflow_probabilitys_summed_over_gps():
    model = toy_model(2, 3)
    q = model.posterior(0)
    K = model.kernels[0](model.X_S).numpy() + 0.1 * np.eye(M)
    ours = kl_divergence(q, tf.constant(np.linalg.cholesky(K)[None]))
    normal = tfp.distributions.MultivariateNormalFullCovariance
    theirs = tfp.distributions.kl_divergence(normal(q.mean, q.covariance), normal(tf.zeros(M, tf.float64), K))
    np.testing.assert_allclose(ours[0], tf.reduce_sum(theirs), rtol=1e-10)


@pytest.mark.parametrize("name", ["SquaredExponential", "Matern12", "Matern32", "Matern52"])
def test_batched_kernel_equals_gpflows_path_by_path(name):
    rng = np.random.default_rng(0)
    kernel = getattr(gpflow.kernels, name)(variance=1.7, lengthscales=[0.5, 1.5])
    H, H2 = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 5, 2))
    expected = np.stack([kernel(a, b) for a, b in zip(H, H2, strict=True)])
    np.testing.assert_allclose(batched_kernel(kernel, tf.constant(H), tf.constant(H2)), expected, atol=1e-12)


def full_covariance_draws(model, X, num, seed):
    """(Z_S', z') of all rows from the dense joint Gaussian of the first layer: slow and obvious, [num, M + B]."""
    q = model.posterior(0)
    kernel, jitter = model.kernels[0], model.jitter
    X_S, rng = model.X_S.numpy(), np.random.default_rng(seed)
    K = kernel(X_S).numpy() + jitter * np.eye(M)
    T_b = np.linalg.solve(K, kernel(X_S, X).numpy()).T
    G = np.vstack([np.eye(M), T_b])
    own = kernel(X).numpy() - T_b @ kernel(X_S, X).numpy()
    noise = np.zeros((M + len(X),) * 2)
    noise[M:, M:] = own
    s2 = model.layer_noises[0].numpy()
    mean = G @ q.mean[0].numpy()
    covariance = G @ q.covariance[0].numpy() @ G.T + noise + s2 * np.eye(M + len(X))
    return rng.multivariate_normal(mean, covariance, size=num), mean, covariance


@pytest.mark.full
@pytest.mark.parametrize("jitter", [0.1])  # less gives heavy tails: the sampled K_SS can be nearly singular
def test_the_joint_sampler_has_the_full_covariance_samplers_moments(jitter):
    model, num = toy_model(2, 1, jitter=jitter), 100_000
    X = np.random.default_rng(8).normal(size=(2, D))
    rng = np.random.default_rng(9)
    normals = [tf.constant(rng.normal(size=shape)) for shape in [(num, 1, M)] * 2]
    ours = model.paths(tf.constant(X), normals, [tf.constant(rng.normal(size=(num, 1, 2)))])
    draws, _, _ = full_covariance_draws(model, X, num, 10)
    dense = second_layer(model, draws)
    for a, b in ((ours.mean, dense[0]), (ours.variance, dense[1]), (np.square(ours.mean), np.square(dense[0]))):
        a, b = np.asarray(a), np.asarray(b)
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / num)
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * error)


def second_layer(model, draws):
    """Output moments with explicit inverses, for drawn (Z_S', z') of one GP."""
    kernel, jitter = model.kernels[1], model.jitter
    q = condition_on_labels(model.posterior(1), model.y_S, model.noise_variance)
    Z_S, z = draws[:, :M, None], draws[:, M:, None]
    cover = lambda a, b: 1.3 * np.exp(-0.5 * np.square(a - np.swapaxes(b, 1, 2)) / kernel.lengthscales.numpy()[0] ** 2)
    K, k = cover(Z_S, Z_S) + jitter * np.eye(M), cover(Z_S, z)
    t = np.linalg.solve(K, k)
    variance = 1.3 - np.sum(t * k, axis=1) + np.einsum("rmb,mk,rkb->rb", t, q.covariance.numpy(), t)
    return np.einsum("rmb,m->rb", t, q.mean.numpy()), variance


@pytest.mark.parametrize("propagation", ["joint", "diagonal"])
def test_hidden_draws_have_the_moments_of_the_dense_joint_gaussian(propagation):
    model, num = toy_model(2, 1, jitter=0.1), 200_000
    X = np.random.default_rng(8).normal(size=(1, D))
    rng = np.random.default_rng(11)
    rows = features(model.kernels[0], model.X_S[None], tf.constant(X)[None], model.jitter)
    normals = [tf.constant(rng.normal(size=(num, 1, size))) for size in (M, M, 1)]
    Z_S, z = PROPAGATIONS[propagation](model.posterior(0), rows, tf.convert_to_tensor(model.layer_noises[0]), *normals)
    draws = np.concatenate([Z_S[..., 0], z[..., 0]], axis=1)
    _, mean, covariance = full_covariance_draws(model, X, 1, 0)
    if propagation == "diagonal":
        covariance = np.diag(np.diag(covariance))
    deviation = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * deviation / np.sqrt(num))
    assert np.abs((np.cov(draws.T) - covariance) / np.outer(deviation, deviation)).max() < 4 * np.sqrt(2 / num)


@pytest.mark.full
@pytest.mark.parametrize("propagation", ["joint", "diagonal"])
@pytest.mark.parametrize("num_layers", [1, 2, 3, 5])
def test_every_trainable_variable_receives_a_gradient(num_layers, propagation):
    model, rows = toy_model(num_layers, 2, propagation=propagation), toy_rows()
    X, y = tf.constant(rows.X[M:]), tf.constant(rows.Y[M:, 0])
    with tf.GradientTape() as tape:
        value = subset.elbo(model, X, y, N - M, 3, base_seed(1), tf.constant(0, tf.int64))
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(value, model.trainable_variables), strict=True
    ):
        assert gradient is not None, variable.name
        assert np.all(np.isfinite(gradient)), variable.name
        assert np.any(gradient != 0), variable.name


def choices(num_layers=2, num_inducing=M, *more):
    sizes = [f"method.num_layers={num_layers}", "method.width=2", f"method.num_inducing={num_inducing}"]
    short = ["max_iterations=10", "batch_size=4", "num_samples=2", "learning_rate=0.01", "early_stopping=false"]
    given = ["method=sod", *sizes, "method.lengthscale=0.5", *(f"training.{text}" for text in short)]
    return fit_once.settings(toy_rows(), *given, "method.jitter=1e-5", "prediction.num_samples=5", *more)


@pytest.mark.full
@pytest.mark.parametrize(("num_layers", "num_inducing"), [(3, M), (2, N)])
def test_fit_predicts_one_component_per_sample(num_layers, num_inducing):
    predictor = subset.fit(toy_rows(), choices(num_layers, num_inducing), SEEDS, Monitor())
    mixture = predictor.predict(np.zeros((7, D)), 3)
    assert mixture.means.shape == (5, 7, 1)
    assert len(set(predictor.posterior()["subset_rows"])) == num_inducing


def test_hidden_values_start_at_mean_maps_or_uniform():
    train, rows = toy_rows(), np.array([3, 0, 5, 2])
    method = choices(3, 4).method
    model = subset.build_model(method, train, rows, 0)
    np.testing.assert_allclose(model.means[0], (train.X @ mean_map(train.X, model.widths[0]))[rows].T)
    assert not np.any(model.means[-1])
    published = subset.build_model(replace(method, start="uniform"), train, rows, 0)
    assert all(0.0 <= np.min(mean) <= np.max(mean) < 1.0 for mean in map(np.asarray, published.means))


def test_a_path_is_one_function_across_chunks_of_rows(monkeypatch):
    model, S = toy_model(2, 2), 400
    monkeypatch.setattr(subset, "COLUMNS_AT_ONCE", 2 * S)
    predictor = subset.predictor_of(model, S)
    means = predictor.predict(np.tile(model.X_S[:1], [4, 1]), 3).means[..., 0]
    assert np.corrcoef(means[:, 0], means[:, 3])[0, 1] > 0.3  # rows 0 and 3 are in different chunks


@pytest.mark.parametrize("name", inducing_points.CHOICES)
@pytest.mark.parametrize("num_inducing", [1, 7, 40])
def test_choices_are_distinct_rows_fixed_by_the_seed(name, num_inducing):
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[20:] = X[:20]  # every row twice
    first, again, other = (inducing_points.choose(name, X, num_inducing, seed) for seed in (5, 5, 6))
    assert len(set(first.tolist())) == num_inducing
    assert np.array_equal(first, again)
    assert num_inducing != 7 or not np.array_equal(first, other)


def test_more_inducing_points_than_rows_are_refused():
    with pytest.raises(UserError, match=r"num_inducing=5"):
        inducing_points.choose("random", np.zeros((4, 1)), 5, 0)


def test_leverage_scores_equal_the_diagonal_of_the_smoother():
    X = np.random.default_rng(0).normal(size=(12, 2))
    Phi = inducing_points.kernel_features(X, np.arange(12), 1.0)
    K = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=-1))
    ridge = inducing_points.ridge_for(Phi, 4.0)
    scores = inducing_points.leverage_scores(Phi, ridge)
    np.testing.assert_allclose(scores, np.diag(K @ np.linalg.inv(K + ridge * np.eye(12))), atol=1e-5)
    assert scores.sum() == pytest.approx(4.0, abs=1e-6)
