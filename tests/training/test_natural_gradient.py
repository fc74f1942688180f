"""Natural gradients against a conjugate model and GPflow's own (docs/methods.md, "Natural gradients")."""

import fit_once
import gpflow
import numpy as np
import pytest
import small
import tensorflow as tf
from gpflow.keras import tf_keras

from dgpbench.errors import UserError
from dgpbench.gp import structures
from dgpbench.gp.objectives import elbo
from dgpbench.gp.propagation import marginalise
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.training.natural_gradient import NaturalGradientAdam, natural_step

T, M = 2, 4


def state(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    C = scale * np.tril(0.3 * rng.normal(size=(T, M, M)) + np.eye(M))
    return [
        tf.constant(values)
        for values in (rng.normal(size=(T, M)), C, rng.normal(size=(T, M)), rng.normal(size=(T, M, M)))
    ]


def test_own_step_equals_gpflows_at_a_factor_of_order_one():
    m, C, _, _ = state()
    target = tf.constant(np.random.default_rng(1).normal(size=(M, T)))

    def loss(q_mu, q_sqrt):
        S = tf.matmul(q_sqrt, q_sqrt, transpose_b=True)
        return (
            tf.reduce_sum(tf.square(q_mu - target)) + tf.reduce_sum(tf.sin(S)) + tf.reduce_sum(q_mu[:, 0] * S[0, :, 1])
        )

    q_mu = gpflow.Parameter(tf.transpose(m))
    q_sqrt = gpflow.Parameter(C, transform=gpflow.utilities.triangular())
    gpflow.optimizers.NaturalGradient(0.05).minimize(lambda: loss(q_mu, q_sqrt), [(q_mu, q_sqrt)])
    with tf.GradientTape() as tape:
        tape.watch([m, C])
        value = loss(tf.transpose(m), C)
    ours = natural_step(m, C, *tape.gradient(value, [m, C]), tf.constant(0.05, tf.float64))
    np.testing.assert_allclose(ours[0], tf.transpose(q_mu), rtol=0, atol=1e-12)
    # A factor is known up to the signs of its columns: its covariance is what must agree.
    ours, theirs = (tf.matmul(C, C, transpose_b=True) for C in (ours[1], tf.convert_to_tensor(q_sqrt)))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_own_step_equals_its_formula_in_as_many_dimensions_as_a_fully_coupled_model_has():
    rng, n, gamma = np.random.default_rng(3), 601, np.float64(0.3)
    m, dm = rng.normal(size=(2, 1, n))
    C, dC = (np.tril(rng.normal(size=(n, n))) / (4 * np.sqrt(n)) + np.eye(n) for _ in range(2))
    P = np.tril(C.T @ dC)
    P = P + P.T - np.diag(np.diag(P))  # positive definite with the identity: no step is halved
    inverse = np.linalg.inv(C)
    S = np.linalg.inv(inverse.T @ (np.eye(n) + gamma * P) @ inverse)
    new_m, new_C = natural_step(*map(tf.constant, (m, C[None], dm, dC[None], gamma)))
    np.testing.assert_array_equal(new_C[0], np.tril(new_C[0]))
    np.testing.assert_allclose(new_C[0] @ tf.transpose(new_C[0]), S, rtol=0, atol=1e-11 * np.abs(S).max())
    np.testing.assert_allclose(new_m[0], m[0] - gamma * S @ dm[0], rtol=0, atol=1e-10)


def optimiser(q, gamma, learning_rate=1e-12):
    return NaturalGradientAdam(
        q, tf_keras.optimizers.legacy.Adam(learning_rate, epsilon=1e-8), lambda step: tf.constant(gamma, tf.float64)
    )


def step_on_elbo(name, num_layers, width, gamma):
    arch = small.architecture(num_layers, width)
    prior, (X, y) = small.prior(arch), small.rows()
    q = small.posterior(structures.STRUCTURES[name](arch.widths))
    variables = [*prior.trainable_variables, *q.trainable_variables]
    bound = lambda: _bound(prior, q, X, y, small.normals(arch))
    step = optimiser(q, gamma)
    step.build(variables)
    with tf.GradientTape() as tape:
        before = bound()
        loss = -before
    step.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return prior, q, float(before), float(bound())


def _bound(prior, posterior, X, y, normals):
    choleskys = prior.choleskys()
    q = posterior.blocks(choleskys)
    paths = marginalise(prior, q, choleskys, tf.constant(X), normals)
    return elbo(q, paths, tf.constant(y), prior.noise_variance, len(X))


@pytest.mark.parametrize("name", ["mean_field", "fully_coupled"])
def test_a_step_of_one_solves_depth_one(name):
    prior, q, _, _ = step_on_elbo(name, 1, 1, 1.0)
    X, y = small.rows()
    A = prior.layers[0].features(tf.constant(X)[None], prior.choleskys()[0]).A.numpy()[:, 0]
    s2 = prior.noise_variance.numpy()
    covariance = np.linalg.inv(np.eye(small.M) + A @ A.T / s2)
    C = q.diagonal[0].numpy()[0]
    np.testing.assert_allclose(C @ C.T, covariance, rtol=0, atol=1e-9)
    np.testing.assert_allclose(q.means[0].numpy()[0], covariance @ A @ y / s2, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["mean_field", "fully_coupled"])
def test_a_short_step_raises_the_bound_of_a_deep_gp(name):
    _, _, before, after = step_on_elbo(name, 3, 2, 0.01)
    assert after > before


def test_fully_coupled_steps_as_one_dense_gaussian():
    arch = small.architecture(2, 2)
    q = small.posterior(structures.fully_coupled(arch.widths))
    variables, rng = list(q.trainable_variables), np.random.default_rng(3)
    a, b = rng.normal(size=(3 * small.M, 3 * small.M)), rng.normal(size=3 * small.M)

    def loss(m, C):
        return tf.reduce_sum(b * m) + 0.1 * tf.reduce_sum(a * (C @ tf.transpose(C)))

    blocks = q.blocks([])
    m, C = tf.concat([tf.reshape(mean, [-1]) for mean in blocks.means], 0), blocks.dense_factor()
    with tf.GradientTape() as tape:
        tape.watch([m, C])
        value = loss(m, C)
    expected = natural_step(
        m[None], C[None], *(g[None] for g in tape.gradient(value, [m, C])), tf.constant(0.02, tf.float64)
    )
    with tf.GradientTape() as tape:
        blocks = q.blocks([])
        value = loss(tf.concat([tf.reshape(mean, [-1]) for mean in blocks.means], 0), blocks.dense_factor())
    step = optimiser(q, 0.02)
    step.build(variables)
    step.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
    blocks = q.blocks([])
    np.testing.assert_allclose(blocks.dense_factor(), expected[1][0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(blocks.dense()[0], expected[0][0], rtol=0, atol=1e-12)


def test_a_step_is_halved_until_the_precision_is_positive_definite():
    m, C, dm, _ = state()
    dC = -100.0 * C  # the precision falls: a step of 1 would make it negative
    new_m, new_C = natural_step(m, C, dm, dC, tf.constant(1.0))
    halved = natural_step(m, C, dm, dC, tf.constant(2.0**-8))  # the longest of these that needs no halving
    np.testing.assert_allclose(new_m, halved[0], rtol=1e-12)
    np.testing.assert_allclose(new_C, halved[1], rtol=1e-12)
    assert np.all(np.diagonal(new_C, axis1=1, axis2=2) > np.diagonal(C, axis1=1, axis2=2))


def test_no_cancellation_at_the_papers_starting_value():
    """At C = 1e-5 I and |m| = 100 a step with dl/dC of KL = 1/2 (|C|^2 - 2 sum log C_ii) is known in closed form."""
    c, gamma = 1e-5, 0.005
    m, C = tf.fill([1, M], tf.constant(100.0, tf.float64)), c * tf.eye(M, batch_shape=[1], dtype=tf.float64)
    new_m, new_C = natural_step(m, C, m, C - tf.linalg.inv(C), tf.constant(gamma, tf.float64))
    precision = (1 - gamma) / c**2 + gamma
    np.testing.assert_allclose(new_C[0], np.eye(M) / np.sqrt(precision), rtol=1e-10)
    np.testing.assert_allclose(new_m, 100.0 * ((1 - gamma) / c**2) / precision, rtol=1e-10)


@pytest.mark.parametrize("method", ["star", "stripes", "arrow", "chain", "custom", "sod"])
def test_other_posteriors_refuse_natural_gradients_with_the_reason(method):
    with pytest.raises(UserError, match="natural") as refusal:
        resolve_overrides([f"method={method}", "optimiser=natgrad_adam"])
    assert "mf" in str(refusal.value)


@pytest.mark.parametrize("method", ["mf", "sgp", "fc"])
def test_mean_field_and_fully_coupled_accept_natural_gradients(method):
    run = resolve_overrides([f"method={method}", "optimiser=natgrad_adam"])
    assert run.training.natgrad_gamma == 0.005


@pytest.mark.full
@pytest.mark.parametrize("whiten", ["true", "false"])
@pytest.mark.parametrize("method", ["mf", "fc"])
def test_natural_gradients_train_through_the_shared_loop(method, whiten):
    sizes = ["method.num_layers=2", "method.width=2", "method.num_inducing=4", f"method.whiten={whiten}"]
    short = ["natgrad_gamma=0.1", "decay_steps=20", "max_iterations=40", "num_samples=2", "early_stopping=false"]
    given = [f"method={method}", "optimiser=natgrad_adam", *sizes, *(f"training.{text}" for text in short)]
    X = np.random.default_rng(0).normal(size=(20, 2))
    trace = fit_once.fit(X, np.sin(X[:, 0]), *given).trace
    assert trace[-1].elbo > trace[0].elbo
