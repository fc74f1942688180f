"""Power expectation propagation with tied sites: aep and aepmcm (docs/methods.md, "Power EP")."""

import math

import gpflow
import numpy as np
import pytest
import small
import tensorflow as tf
from small import D, M, N

from dgpbench.gp.linear_algebra import invert
from dgpbench.gp.moment_matching import deterministic_moments, match_moments
from dgpbench.gp.objectives import elbo, log_normal, power_ep_energy
from dgpbench.gp.propagation import marginalise
from dgpbench.gp.structures import mean_field
from dgpbench.gp.tied_sites import Sites, TiedSites
from dgpbench.methods.power_ep import PowerEPModel


def architecture(num_layers, width=2, **changes):
    return small.architecture(num_layers, width, **({"white_noise": None, "output_noise": 0.1} | changes))


def site_values(widths, scales=(1.0, 1.0, 1.0)):
    """Dense total precisions G = Rg^T Rg and the means of q."""
    rng = np.random.default_rng(4)
    pairs = list(zip(widths, scales[: len(widths)], strict=True))
    factors = [scale * rng.normal(size=(T, M, M)) for T, scale in pairs]
    precisions = [tf.constant(R.transpose(0, 2, 1) @ R) for R in factors]
    return precisions, [tf.constant(scale * rng.normal(size=(T, M))) for T, scale in pairs]


def sites(widths, scales=(1.0, 1.0, 1.0)) -> Sites:
    return Sites(mean_field(widths), *site_values(widths, scales), N)


class FixedSites:
    """Sites with values that do not come from trainable coordinates."""

    def __init__(self, q: Sites):
        self.structure, self.values = q.structure, lambda: q


class GivenPropagation(PowerEPModel):
    """The method's model, with rows that travel by ``propagate`` (q, choleskys, X) -> paths."""

    def __init__(self, prior, q: Sites, power, propagate):
        super().__init__(prior, FixedSites(q), power, matched=True)
        self.propagate = propagate

    def _propagate(self, prior, q, choleskys, X, *_):
        return self.propagate(q, choleskys, X)


def energy(prior, q: Sites, X, y, power, propagate):
    """F_power as the method has it."""
    return GivenPropagation(prior, q, power, propagate).objective(tf.constant(X), tf.constant(y), q.num_data, [])


def matched(prior):
    return lambda cavity, choleskys, X: match_moments(prior, cavity, choleskys, X)


def sampled(prior, normals):
    return lambda cavity, choleskys, X: marginalise(prior, cavity, choleskys, X, normals)


def test_inverses_and_their_gradients_equal_tensorflows():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2, M, M))
    P, g = tf.constant(A @ A.transpose(0, 2, 1) + np.eye(M)), tf.constant(np.tril(rng.normal(size=(2, M, M))))
    b = tf.constant(rng.normal(size=(2, M)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(P)
        S = tf.linalg.inv(P)
        plain = tf.linalg.cholesky(S), S, tf.reduce_sum(tf.linalg.logdet(P)), tf.linalg.matvec(S, b)
        inverse = invert(P)
        ours = inverse.factor, inverse.covariance, inverse.log_determinant, inverse.solve(b)
        weights = g, g, 1.0, b
        sums = [[tf.reduce_sum(w * form) for w, form in zip(weights, forms, strict=True)] for forms in (ours, plain)]
    for index in range(4):
        np.testing.assert_allclose(ours[index], plain[index], rtol=0, atol=1e-11)
        symmetric = [tape.gradient(form[index], P) for form in sums]
        symmetric = [0.5 * (gradient + tf.linalg.matrix_transpose(gradient)) for gradient in symmetric]
        np.testing.assert_allclose(*symmetric, rtol=0, atol=1e-11)


@pytest.mark.parametrize("removed", [0.0, 0.5, 1.0])
def test_moments_and_log_normaliser_equal_the_dense_formulas(removed):
    q = sites((2, 1))
    moments, weight, phi = q.moments(removed), 1 - removed / N, 0.0
    for G, m, mean, C in zip(q.precisions, q.means, moments.means, moments.diagonal, strict=True):
        for t in range(len(G)):
            P = np.eye(M) + weight * G[t].numpy()
            mu = np.linalg.solve(P, weight * (m[t] + G[t].numpy() @ m[t].numpy()))
            np.testing.assert_allclose(mean[t], mu, rtol=0, atol=1e-12)
            np.testing.assert_allclose(C[t] @ tf.transpose(C[t]), np.linalg.inv(P), rtol=0, atol=1e-12)
            phi += 0.5 * mu @ P @ mu - 0.5 * np.linalg.slogdet(P)[1] + 0.5 * M * math.log(2 * math.pi)
    np.testing.assert_allclose(q.log_normaliser(removed), phi, rtol=0, atol=1e-11)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_energy_tends_to_the_elbo_as_the_power_vanishes(num_layers):
    arch = architecture(num_layers, likelihood_variance=0.3)  # the error is O(power^2 / s2^3)
    prior, q, (X, y) = small.prior(arch), sites(arch.widths), small.rows()
    propagate = sampled(prior, small.normals(arch, num_paths=1))
    blocks = q.moments()
    bound = elbo(blocks, propagate(blocks, prior.choleskys(), tf.constant(X)), tf.constant(y), prior.noise_variance, N)
    power = 1e-5  # not smaller: rounding grows as the power falls
    extrapolated = 2 * energy(prior, q, X, y, power, propagate) - energy(prior, q, X, y, 2 * power, propagate)
    assert abs(extrapolated - bound) < 1e-5


def test_matched_energy_of_two_layers_tends_to_the_elbo():
    arch = architecture(2)
    prior, q, (X, y) = small.prior(arch), sites(arch.widths), small.rows()
    power = 1e-5
    F = [energy(prior, q, X, y, a, matched(prior)) for a in (power, 2 * power)]
    draws = np.random.default_rng(0).normal(size=(2, 200_000, N))
    paths = marginalise(prior, q.moments(), prior.choleskys(), tf.constant(X), [tf.constant(draws)])
    bound = elbo(q.moments(), paths, tf.constant(y), prior.noise_variance, N)
    # the expected squared error of each path, for the standard error of the bound
    each = np.sum((y - paths.mean.numpy()) ** 2 + paths.variance.numpy(), axis=1) / (2 * prior.noise_variance.numpy())
    assert abs(2 * F[0] - F[1] - bound) < 4 * each.std() / math.sqrt(len(each)) + 1e-5


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_repeated_point_at_the_stated_maximum_has_the_stated_energy(power):
    count, y0 = 4, 0.7
    arch = architecture(1, 1)
    prior, (X, _) = small.prior(arch), small.rows()
    features = prior.layers[0].features(tf.constant(X[None, :1]), prior.choleskys()[0])
    a, r, s2 = features.A.numpy()[:, 0, 0], features.residual.numpy()[0, 0], prior.noise_variance.numpy()
    G = count * np.outer(a, a) / (s2 + power * r)
    mean = np.linalg.solve(np.eye(M) + G, count * a * y0 / (s2 + power * r))
    q = Sites(mean_field((1,)), [tf.constant(G[None])], [tf.constant(mean[None])], count)
    X, y = np.repeat(X[:1], count, axis=0), np.full(count, y0)
    F = energy(prior, q, X, y, power, matched(prior))
    cov = (a @ a) * np.ones((count, count)) + (s2 + power * r) * np.eye(count)
    evidence = -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2 * math.pi * cov)[1])
    correction = count * (1 - power) / (2 * power) * math.log(1 + power * r / s2)
    np.testing.assert_allclose(F, evidence - correction, rtol=0, atol=1e-8)
    if power == 1.0:
        layer = prior.layers[0]
        gpflow.config.set_default_jitter(layer.jitter)
        fitc = gpflow.models.GPRFITC((X, y[:, None]), layer.kernel, layer.Z.numpy(), noise_variance=s2)
        np.testing.assert_allclose(F, fitc.maximum_log_likelihood_objective(), rtol=0, atol=1e-8)


def test_the_stated_sites_of_a_repeated_point_are_a_maximum():
    count, y0 = 4, 0.7
    arch = architecture(1, 1)
    prior, (X, _) = small.prior(arch), small.rows()
    features = prior.layers[0].features(tf.constant(X[None, :1]), prior.choleskys()[0])
    a, s2 = features.A.numpy()[:, 0, 0], prior.noise_variance.numpy() + features.residual.numpy()[0, 0]
    G = count * np.outer(a, a) / s2
    mean = tf.constant(np.linalg.solve(np.eye(M) + G, count * a * y0 / s2)[None])
    G = tf.constant(G[None])
    with tf.GradientTape() as tape:
        tape.watch([G, mean])
        q = Sites(mean_field((1,)), [G], [mean], count)
        F = energy(prior, q, np.repeat(X[:1], count, axis=0), np.full(count, y0), 1.0, matched(prior))
    for gradient in tape.gradient(F, [G, mean]):
        np.testing.assert_allclose(gradient, 0, rtol=0, atol=1e-9)


@pytest.mark.parametrize("power", [0.3, 1.0])
def test_depth_one_aep_equals_aepmcm(power):
    arch = architecture(1, 1)
    prior, q, (X, y) = small.prior(arch), sites(arch.widths), small.rows()
    np.testing.assert_allclose(
        energy(prior, q, X, y, power, matched(prior)),
        energy(prior, q, X, y, power, sampled(prior, [])),
        rtol=0,
        atol=1e-10,
    )


def test_a_linear_gaussian_toy_has_the_exact_energy():
    """Two layers, the second linear with vanishing kernel and without sites: y is Gaussian under the cavity."""
    power = 1.0
    arch = architecture(2, 1, output_noise=0.3)
    prior, (X, y) = small.prior(arch), small.rows()
    last = prior.layers[1]
    last.kernel.variance.assign(1e-12)
    slope = 1.3
    last.mean_function = gpflow.functions.Linear(np.array([[slope]]), np.zeros(1))
    q = sites(arch.widths)
    q = sites(arch.widths, scales=(1.0, 0.0))
    cavity = q.moments(power)
    mean, variance = deterministic_moments(
        prior.layers[0], prior.choleskys()[0], cavity.means[0], cavity.covariance(0), tf.constant(X)
    )
    exact_Z = log_normal(tf.constant(y), slope * mean[:, 0], slope**2 * variance[:, 0] + prior.noise_variance)
    exact = power_ep_energy(q, exact_Z, power)
    np.testing.assert_allclose(energy(prior, q, X, y, power, matched(prior)), exact, rtol=0, atol=1e-8)
    draws = np.random.default_rng(0).normal(size=(1, 400_000, N))
    approximate = energy(prior, q, X, y, power, sampled(prior, [tf.constant(draws)]))
    np.testing.assert_allclose(approximate, exact, rtol=0, atol=0.05)


@pytest.mark.full
@pytest.mark.parametrize("propagation", ["match_moments", "sample"])
@pytest.mark.parametrize("mean_function", ["pca", "zero"])
def test_every_trainable_variable_receives_a_gradient(propagation, mean_function):
    arch = architecture(3, 2, mean_function=mean_function)
    prior, (X, y) = small.prior(arch), small.rows()
    rng = np.random.default_rng(0)
    q = TiedSites(arch.widths, M, [0.3, 0.3, 0.9], [rng.normal(size=(T, M)) for T in arch.widths], N)
    propagate = matched(prior) if propagation == "match_moments" else sampled(prior, small.normals(arch))
    variables = [*prior.trainable_variables, *q.trainable_variables]
    with tf.GradientTape() as tape:
        value = energy(prior, q.values(), X, y, 1.0, propagate)
    for variable, gradient in zip(variables, tape.gradient(value, variables), strict=True):
        assert gradient is not None, variable.name
        dense = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(dense).all(), variable.name
        assert dense.any(), variable.name


@pytest.mark.full
def test_matched_energy_with_a_minibatch_is_unbiased():
    arch = architecture(2, D)
    prior, q, (X, y) = small.prior(arch), sites(arch.widths), small.rows()
    whole = energy(prior, q, X, y, 1.0, matched(prior))
    parts = [energy(prior, q, X[[n]], y[[n]], 1.0, matched(prior)) for n in range(N)]
    np.testing.assert_allclose(np.mean(parts), whole, rtol=0, atol=1e-10)
