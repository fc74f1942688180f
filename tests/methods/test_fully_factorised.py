"""The fully factorised variational deep GP (docs/methods.md, "Fully factorised")."""

import math

import gpflow
import numpy as np
import pytest
import small
import tensorflow as tf
from small import M, N

from dgpbench.gp.block_gaussian import BlockGaussian
from dgpbench.gp.moment_matching import deterministic_moments
from dgpbench.gp.objectives import hidden_bound
from dgpbench.gp.structures import mean_field
from dgpbench.methods.fully_factorised import FullyFactorisedModel, HiddenRows, principal_rows


def architecture(num_layers, width=2, **changes):
    return small.architecture(num_layers, width, **({"white_noise": None, "output_noise": 0.1} | changes))


def hidden(widths, seed=5, num_rows=N):
    """(m, s) of each hidden layer's rows."""
    rng = np.random.default_rng(seed)
    draw = lambda T: (rng.normal(size=(num_rows, T)), rng.uniform(0.05, 0.4, size=(num_rows, T)))
    return [tuple(tf.constant(values) for values in draw(T)) for T in widths[:-1]]


def test_depth_one_equals_gpflow_svgp():
    arch = architecture(1, 1)
    prior, (X, y), q = small.prior(arch), small.rows(), small.posterior(mean_field((1,)))
    layer = prior.layers[0]
    gpflow.config.set_default_jitter(layer.jitter)
    svgp = gpflow.models.SVGP(
        layer.kernel,
        prior.likelihood,
        layer.Z.numpy(),
        q_mu=q.means[0].numpy().T,
        q_sqrt=np.tril(q.diagonal[0].numpy()),
        num_data=3 * N,
    )
    ours = hidden_bound(prior, q.blocks([]), prior.choleskys(), tf.constant(X), tf.constant(y), [], 3 * N)
    np.testing.assert_allclose(ours, svgp.elbo((X, y[:, None])), rtol=0, atol=1e-8)


def test_minibatches_average_to_the_whole():
    arch = architecture(3)
    prior, (X, y), q = small.prior(arch), small.rows(), small.posterior(mean_field(arch.widths)).blocks([])
    rows = hidden(arch.widths)

    def bound(n):
        at = [tuple(tf.gather(values, n) for values in pair) for pair in rows]
        return hidden_bound(prior, q, prior.choleskys(), tf.constant(X[n]), tf.constant(y[n]), at, N)

    np.testing.assert_allclose(np.mean([bound([n]) for n in range(N)]), bound(list(range(N))), rtol=0, atol=1e-10)


def moments_at(prior, q, layer: int, H):
    """E f and Var f of one layer at known inputs, without the layer's noise."""
    mean, variance = deterministic_moments(
        prior.layers[layer], prior.choleskys()[layer], q.means[layer], q.covariance(layer), tf.constant(H)
    )
    return mean.numpy(), variance.numpy() - prior.layers[layer].output_noise.numpy()


def test_bound_equals_monte_carlo():
    """E_q log p(y, h | v) + H[q(h)] - KL, with h drawn and f integrated given h."""
    arch, num = architecture(3), 100_000
    prior, (X, y), q = small.prior(arch), small.rows(), small.posterior(mean_field(arch.widths)).blocks([])
    rows, rng = hidden(arch.widths), np.random.default_rng(0)
    exact = hidden_bound(prior, q, prior.choleskys(), tf.constant(X), tf.constant(y), rows, N)
    total = np.zeros(num)
    for n in range(N):
        H = np.tile(X[n], [num, 1])
        for layer in range(3):
            mean, variance = moments_at(prior, q, layer, H)
            if layer == 2:
                h, s2, entropy = np.full((num, 1), y[n]), prior.noise_variance.numpy(), 0.0
            else:
                m, s = (values.numpy()[n] for values in rows[layer])
                h, s2 = m + np.sqrt(s) * rng.normal(size=(num, len(m))), prior.layers[layer].output_noise.numpy()
                entropy = 0.5 * np.sum(np.log(2 * math.pi * math.e * s))
            total += np.sum(-0.5 * (np.log(2 * math.pi * s2) + ((h - mean) ** 2 + variance) / s2), axis=1) + entropy
            H = h
    estimate, error = total.mean() - q.kl().numpy(), total.std() / math.sqrt(num)
    assert abs(exact - estimate) < 4 * error


@pytest.mark.full
def test_bound_is_below_the_evidence():
    """log p(y) of two rows and two layers, estimated by averaging p(y | f^1 = h) over draws from the prior."""
    num = 400_000
    arch = architecture(2, 1, likelihood_variance=0.3)
    prior, (X, y) = small.prior(arch), small.rows()
    X, y, rng = X[:2], y[:2], np.random.default_rng(0)
    choleskys, layers = prior.choleskys(), prior.layers
    A = layers[0].features(tf.constant(X[None]), choleskys[0])
    v = rng.normal(size=(num, M))
    noise = np.sqrt(A.residual.numpy()[0]) * rng.normal(size=(num, 2))
    h = A.mean.numpy()[0, 0] + v @ A.A.numpy()[:, 0] + noise
    top = layers[1].features(tf.constant(h.reshape(1, -1, 1)), choleskys[1])
    a, r = top.A.numpy()[:, 0].T.reshape(num, 2, M), top.residual.numpy().reshape(num, 2)
    cov = a @ a.transpose(0, 2, 1) + (r + prior.noise_variance.numpy())[:, :, None] * np.eye(2)
    logs = -0.5 * (np.einsum("n,snm,m->s", y, np.linalg.inv(cov), y) + np.linalg.slogdet(2 * math.pi * cov)[1])
    weights = np.exp(logs)
    evidence, error = np.log(weights.mean()), weights.std() / weights.mean() / math.sqrt(num)
    bound, start = maximal_bound(arch, prior, X, y)
    assert start < bound < evidence + 4 * error


def maximal_bound(arch, prior, X, y, steps=400):
    """The bound after maximising it over q alone, and before."""
    q = BlockGaussian(mean_field(arch.widths), M, [0.9, 0.9])
    model = FullyFactorisedModel(prior, q, HiddenRows(principal_rows(X, arch.widths[:-1], 0, X), 0.1))
    variables = [*q.trainable_variables, *model.hidden.trainable_variables]
    optimiser = tf.optimizers.Adam(0.02)
    objective = lambda: model.bound(tf.constant(X), tf.constant(y), tf.range(2), 2)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = -objective()
        optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    start = float(objective())
    for _ in range(steps):
        step()
    return float(objective()), start


@pytest.mark.full
def test_every_trainable_variable_receives_a_gradient():
    arch = architecture(3)
    prior, (X, y) = small.prior(arch), small.rows()
    model = FullyFactorisedModel(
        prior, small.posterior(mean_field(arch.widths)), HiddenRows(principal_rows(X, arch.widths[:-1], 0, X), 0.1)
    )
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        value = model.bound(tf.constant(X), tf.constant(y), tf.range(N), N)
    for variable, gradient in zip(variables, tape.gradient(value, variables), strict=True):
        assert gradient is not None, variable.name
        dense = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(dense).all(), variable.name
        assert dense.any(), variable.name


def test_a_batch_trains_the_parameters_of_its_own_rows_alone():
    arch = architecture(2)
    prior, (X, y) = small.prior(arch), small.rows()
    rows = HiddenRows(principal_rows(X, arch.widths[:-1], 0, X), 0.1)
    model = FullyFactorisedModel(prior, small.posterior(mean_field(arch.widths)), rows)
    chosen = tf.constant([0, 3])
    with tf.GradientTape() as tape:
        value = model.bound(tf.gather(X, chosen), tf.gather(y, chosen), chosen, N)
    gradient = tf.convert_to_tensor(tape.gradient(value, rows.means[0].unconstrained_variable)).numpy()
    assert np.array_equal(np.flatnonzero(np.abs(gradient).sum(axis=1)), [0, 3])
