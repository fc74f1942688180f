"""Psi statistics and one layer's moments under Gaussian inputs (docs/methods.md, "Psi statistics")."""

import gpflow
import numpy as np
import pytest
import small
import tensorflow as tf
from gpflow.expectations import expectation
from gpflow.probability_distributions import DiagonalGaussian

from dgpbench.gp import psi_statistics
from dgpbench.gp.block_gaussian import BlockGaussian
from dgpbench.gp.moment_matching import deterministic_moments, gaussian_moments, match_moments
from dgpbench.gp.structures import mean_field

B, D, M, T = 5, 2, 6, 3


def case(D=D, ard=True, seed=0):
    rng = np.random.default_rng(seed)
    lengthscales = rng.uniform(0.5, 1.5, D) if ard else 0.8
    kernel = gpflow.kernels.SquaredExponential(variance=1.7, lengthscales=lengthscales)
    Z, mu, v = rng.normal(size=(M, D)), rng.normal(size=(B, D)), rng.uniform(0.05, 0.8, size=(B, D))
    return kernel, *(tf.constant(values) for values in (Z, mu, v))


def inputs(mu, v, num=60):
    """The points [B, num^2, 2] and weights [num^2] of Gauss-Hermite quadrature under N(mu, diag v)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(num)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    return mu.numpy()[:, None] + np.sqrt(v.numpy())[:, None] * grid, np.outer(weights, weights).ravel() / (2 * np.pi)


def full_psi2(kernel, Z, mu, v):
    """psi2 [B, M, M], each entry by a contraction with a symmetric matrix that is zero elsewhere."""
    units = np.eye(M * M).reshape(-1, M, M)
    Q = tf.constant(0.5 * (units + units.transpose(0, 2, 1)))
    return tf.reshape(psi_statistics.psi2_contracted(kernel, Z, mu, v, Q), [-1, M, M])


@pytest.mark.parametrize("ard", [True, False])
def test_psi_statistics_equal_gpflow(ard):
    kernel, Z, mu, v = case(ard=ard)
    inducing, p = gpflow.inducing_variables.InducingPoints(Z), DiagonalGaussian(mu, v)
    theirs1 = expectation(p, (kernel, inducing))
    theirs2 = expectation(p, (kernel, inducing), (kernel, inducing))
    np.testing.assert_allclose(psi_statistics.psi1(kernel, Z, mu, v), theirs1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(full_psi2(kernel, Z, mu, v), theirs2, rtol=0, atol=1e-12)


def test_cross_term_equals_gpflow():
    kernel, Z, mu, v = case()
    rng = np.random.default_rng(1)
    b, W = tf.constant(rng.normal(size=(T, M))), tf.constant(rng.normal(size=(D, T)))
    psi = psi_statistics.psi1(kernel, Z, mu, v)
    ours = psi_statistics.cross_contracted(kernel, Z, mu, v, psi, b, W)
    identity = gpflow.functions.Linear(np.eye(D), np.zeros(D))
    p, inducing = DiagonalGaussian(mu, v), gpflow.inducing_variables.InducingPoints(Z)
    joint = expectation(p, identity, (kernel, inducing))  # E h_d k(h, z_m), [B, D, M]
    c = joint - psi[:, None, :] * mu[:, :, None]
    np.testing.assert_allclose(ours, tf.einsum("tm,bdm,dt->bt", b, c, W), rtol=0, atol=1e-12)


def test_psi_statistics_equal_quadrature():
    kernel, Z, mu, v = case()
    points, weights = inputs(mu, v)
    k = np.stack([kernel(Z, tf.constant(row)).numpy() for row in points])  # [B, M, num]
    np.testing.assert_allclose(psi_statistics.psi1(kernel, Z, mu, v), k @ weights, rtol=0, atol=1e-7)
    full = np.einsum("bmn,bkn,n->bmk", k, k, weights)
    np.testing.assert_allclose(full_psi2(kernel, Z, mu, v), full, rtol=0, atol=1e-7)


def plain_psi2(kernel, Z, mu, v):
    """psi2 with its [B, M, M, D] in memory: slow and obvious."""
    squares = tf.square(tf.convert_to_tensor(kernel.lengthscales))
    middle, apart = 0.5 * (Z[:, None] + Z), Z[:, None] - Z
    mu, v = mu[:, None, None], v[:, None, None]
    exponent = -tf.square(apart) / (4 * squares) - tf.square(mu - middle) / (squares + 2 * v)
    return kernel.variance**2 * tf.exp(tf.reduce_sum(exponent - 0.5 * tf.math.log(1 + 2 * v / squares), axis=-1))


def test_contracted_psi2_equals_einsum_with_its_gradients():
    kernel, Z, mu, v = case(D=4)
    rng = np.random.default_rng(2)
    Q = rng.normal(size=(T, M, M))
    Q, g = tf.constant(Q + Q.transpose(0, 2, 1)), tf.constant(rng.normal(size=(B, T)))
    sources = [Q, Z, mu, v, *(p.unconstrained_variable for p in kernel.trainable_parameters)]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        ours = psi_statistics.psi2_contracted(kernel, Z, mu, v, Q)
        plain = tf.einsum("bmk,tmk->bt", plain_psi2(kernel, Z, mu, v), Q)
        sums = tf.reduce_sum(g * ours), tf.reduce_sum(g * plain)
    np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-12)
    for index, source in enumerate(sources):
        a, b = (tf.convert_to_tensor(tape.gradient(value, source)) for value in sums)
        a, b = (0.5 * (x + tf.linalg.matrix_transpose(x)) if index == 0 else x for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


@pytest.mark.parametrize("mean_function", ["zero", "pca"])
def test_one_layers_moments_equal_quadrature(mean_function):
    arch = small.architecture(3, 2, mean_function=mean_function, white_noise=None, output_noise=0.03)
    prior = small.prior(arch)
    layer, Lk = prior.layers[1], prior.layers[1].cholesky()
    q = small.posterior(mean_field(arch.widths)).blocks([])
    _, _, mu, v = case()
    mean, variance = gaussian_moments(layer, Lk, q.means[1], q.diagonal[1], mu, v)
    points, weights = inputs(mu, v)
    flat = tf.constant(points.reshape(-1, 2))
    means, variances = (
        values.numpy().reshape(B, -1, 2)
        for values in deterministic_moments(layer, Lk, q.means[1], q.covariance(1), flat)
    )
    first = np.einsum("bnt,n->bt", means, weights)
    second = np.einsum("bnt,n->bt", variances + means**2, weights)
    np.testing.assert_allclose(mean, first, rtol=0, atol=1e-7)
    np.testing.assert_allclose(variance, second - first**2, rtol=0, atol=1e-7)


def test_inputs_without_variance_give_the_deterministic_moments():
    arch = small.architecture(2, 2, white_noise=0.1)
    prior = small.prior(arch)
    layer, Lk = prior.layers[0], prior.layers[0].cholesky()
    q = small.posterior(mean_field(arch.widths)).blocks([])
    X, _ = small.rows()
    X = tf.constant(X)
    exact = deterministic_moments(layer, Lk, q.means[0], q.covariance(0), X)
    matched = gaussian_moments(layer, Lk, q.means[0], q.diagonal[0], X, 1e-14 * tf.ones_like(X))
    for ours, theirs in zip(matched, exact, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def test_moment_matching_is_exact_where_a_deep_gp_is_linear_gaussian():
    """Hidden layers of vanishing kernel variance and a linear mean are Gaussian, and one layer remains."""
    arch = small.architecture(3, small.D, white_noise=None, output_noise=0.2)
    prior = small.prior(arch)
    for layer in prior.layers[:-1]:
        layer.kernel.variance.assign(1e-12)
    q = BlockGaussian(mean_field(arch.widths), small.M, [0.5, 0.5, 0.5]).blocks([])
    X, _ = small.rows()
    choleskys = prior.choleskys()
    paths = match_moments(prior, q, choleskys, tf.constant(X))
    noise = prior.layers[0].output_noise + prior.layers[1].output_noise
    last = gaussian_moments(
        prior.layers[2], choleskys[2], q.means[2], q.diagonal[2], tf.constant(X), noise * tf.ones_like(tf.constant(X))
    )
    np.testing.assert_allclose(paths.mean[0], last[0][:, 0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(paths.variance[0], last[1][:, 0], rtol=0, atol=1e-9)
