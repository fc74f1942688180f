"""The ladder: every method against a closed form or a slow, obvious one.

Reference: docs/methods.md, "Structured posteriors" and "Single-layer references".
"""

from contextlib import contextmanager

import fit_once
import gpflow
import numpy as np
import pytest
import small
import tensorflow as tf
import tensorflow_probability as tfp
from small import D, M, N

from dgpbench.gp import structures
from dgpbench.gp.block_gaussian import BlockGaussian
from dgpbench.gp.linear_algebra import (
    bilinear,
    block_gram,
    half_square_minus_log,
    lower_gram,
    quadratic,
    quadratic_of_paths,
    summed_moments,
    sums_of_squares,
    trace_of_solution,
)
from dgpbench.gp.objectives import elbo
from dgpbench.gp.propagation import given, marginalise
from dgpbench.methods.structured import DeepModel

DEPTHS = [(2, 2), (3, 2), (4, 2), (5, 3)]
NESTED = ["mean_field", "stripes", "arrow", "star"]
ALL = [*NESTED, "chain", "fully_coupled"]


@contextmanager
def gpflow_jitter(jitter):
    """GPflow's own jitter for a moment: identities hold with equal jitter on both sides."""
    before = gpflow.config.default_jitter()
    gpflow.config.set_default_jitter(jitter)
    yield
    gpflow.config.set_default_jitter(before)


def case(name, num_layers, width, whiten=True):
    arch = small.architecture(num_layers, width)
    prior = small.prior(arch)
    choleskys = prior.choleskys()
    q = small.posterior(structures.STRUCTURES[name](arch.widths), whiten=whiten)
    return arch, prior, choleskys, q.blocks(choleskys)


@pytest.mark.parametrize("whiten", [True, False])
def test_depth_one_equals_gpflow_svgp(whiten):
    arch = small.architecture(1, 1, jitter=1e-6)
    prior, (X, y) = small.prior(arch), small.rows()
    layer, choleskys = prior.layers[0], prior.choleskys()
    q = small.posterior(structures.mean_field((1,)), whiten=whiten)
    blocks = q.blocks(choleskys)
    q_mu = q.means[0].numpy().T
    q_sqrt = np.tril(q.diagonal[0].numpy())
    svgp = gpflow.models.SVGP(
        layer.kernel, prior.likelihood, layer.Z.numpy(), q_mu=q_mu, q_sqrt=q_sqrt, whiten=whiten, num_data=3 * N
    )
    with gpflow_jitter(layer.jitter):
        theirs, (mean, variance) = svgp.elbo((X, y[:, None])), svgp.predict_f(X)
    paths = marginalise(prior, blocks, choleskys, tf.constant(X), [])
    ours = elbo(blocks, paths, tf.constant(y), prior.noise_variance, 3 * N)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8)
    np.testing.assert_allclose(paths.mean[0], mean[:, 0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(paths.variance[0], variance[:, 0], rtol=0, atol=1e-8)


def test_z_at_the_data_with_the_optimal_q_gives_the_evidence_of_gpr():
    jitter, s2 = 1e-10, 0.1
    X, y = small.rows()
    arch = small.architecture(1, 1, jitter=jitter)
    prior = small.prior(arch)
    layer = prior.layers[0]
    layer.Z = gpflow.Parameter(X)
    prior.likelihood.variance.assign(s2)
    choleskys = prior.choleskys()
    Lk = choleskys[0].numpy()
    S = np.linalg.inv(np.eye(N) + Lk.T @ Lk / s2)  # with A = Lk^T the precision of v given y
    q = BlockGaussian(structures.mean_field((1,)), N, [1.0])
    q.means[0].assign((S @ Lk.T @ y / s2)[None])
    q.diagonal[0].assign(np.linalg.cholesky(S)[None])
    blocks = q.blocks(choleskys)
    bound = elbo(
        blocks,
        marginalise(prior, blocks, choleskys, tf.constant(X), []),
        tf.constant(y),
        tf.constant(s2, tf.float64),
        N,
    )
    gpr = gpflow.models.GPR((X, y[:, None]), layer.kernel, noise_variance=s2)
    np.testing.assert_allclose(bound, gpr.log_marginal_likelihood(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_block_kl_equals_the_dense_kl(name):
    _, _, _, q = case(name, 3, 2)
    mean, _ = q.dense()
    size = mean.shape[0]
    # TFP wants a positive diagonal: flip the sign of columns, which leaves C C^T as it is
    C = q.dense_factor()
    C = C * tf.sign(tf.linalg.diag_part(C))[None]
    dense = tfp.distributions.MultivariateNormalTriL(mean, C)
    standard = tfp.distributions.MultivariateNormalDiag(tf.zeros(size, tf.float64), tf.ones(size, tf.float64))
    np.testing.assert_allclose(q.kl(), tfp.distributions.kl_divergence(dense, standard), rtol=0, atol=1e-9)


@pytest.mark.parametrize("whiten", fit_once.first_of([True, False]))
@pytest.mark.parametrize("depth", fit_once.some_of(DEPTHS, DEPTHS[-1]))
@pytest.mark.parametrize("name", ALL)
def test_paths_equal_theorem_one_written_with_dense_matrices(name, depth, whiten):
    num_layers, width = depth
    arch, prior, choleskys, q = case(name, num_layers, width, whiten)
    X, _ = small.rows()
    normals = small.normals(arch)
    paths = marginalise(prior, q, choleskys, tf.constant(X), normals)
    means, variances = small.dense_moments(prior, q, choleskys, X, normals)
    np.testing.assert_allclose(paths.mean, means, rtol=0, atol=1e-10)
    np.testing.assert_allclose(paths.variance, variances, rtol=0, atol=1e-10)


@pytest.mark.full
@pytest.mark.parametrize(("num_layers", "width"), DEPTHS)
@pytest.mark.parametrize("name", [*NESTED, "chain"])
def test_a_structure_inside_fully_coupled_gives_the_same_paths(name, num_layers, width):
    arch, prior, choleskys, q = case(name, num_layers, width)
    X, _ = small.rows()
    normals = small.normals(arch)
    inside = small.embedded(q, structures.fully_coupled(arch.widths))
    ours = marginalise(prior, q, choleskys, tf.constant(X), normals)
    full = marginalise(prior, inside, choleskys, tf.constant(X), normals)
    for a, b in zip((ours.mean, ours.variance, *ours.hidden), (full.mean, full.variance, *full.hidden), strict=True):
        np.testing.assert_allclose(*np.broadcast_arrays(a, b), rtol=0, atol=1e-10)


def test_theorem_one_has_the_moments_of_sampling_v_and_then_f():
    """An independent derivation: the moments of E[y] and Var[y] over many paths, within four standard errors."""
    arch, prior, choleskys, q = case("fully_coupled", 2, 2)
    X, _ = small.rows()
    num, rng = 200_000, np.random.default_rng(5)
    row = tf.constant(X[:1])
    normals = [tf.constant(rng.normal(size=(T, num, 1))) for T in arch.widths[:-1]]
    analytic = marginalise(prior, q, choleskys, row, normals)
    v = q.sample([tf.constant(rng.normal(size=(num, T, M))) for T in arch.widths])
    sampled = given(prior, v, choleskys, row, [tf.constant(rng.normal(size=(T, num, 1))) for T in arch.widths[:-1]])
    for paths in (analytic, sampled):
        assert paths.mean.shape == (num, 1)
    output = [p.mean.numpy() + np.sqrt(p.variance.numpy()) * rng.normal(size=(num, 1)) for p in (analytic, sampled)]
    error = np.sqrt(sum(f.var() for f in output) / num)
    assert abs(output[0].mean() - output[1].mean()) < 4 * error
    assert abs(output[0].var() / output[1].var() - 1) < 0.03
    with_hidden = [
        np.cov(np.vstack([p.hidden[0][:, :, 0], f[:, 0]])) for p, f in zip((analytic, sampled), output, strict=True)
    ]
    scale = np.sqrt(np.outer(np.diag(with_hidden[0]), np.diag(with_hidden[0])))
    assert np.abs((with_hidden[0] - with_hidden[1]) / scale).max() < 0.03


def test_identity_mean_layers_of_vanishing_variance_are_one_layer():
    X, _ = small.rows()
    arch = small.architecture(3, D, white_noise=1e-12, jitter=1e-12)
    prior = small.prior(arch)
    for layer in prior.layers[:-1]:
        layer.kernel.variance.assign(1e-12)
        layer.noise.assign(1e-12)
    choleskys = prior.choleskys()
    q = BlockGaussian(structures.mean_field(arch.widths), M, [1e-6, 1e-6, 0.5]).blocks(choleskys)
    deep = marginalise(prior, q, choleskys, tf.constant(X), small.normals(arch))
    last = prior.layers[-1]
    single = type(prior)([last], prior.likelihood)
    q1 = BlockGaussian(structures.mean_field((1,)), M, [0.5]).blocks(choleskys[-1:])
    flat = marginalise(single, q1, choleskys[-1:], tf.constant(X), [])
    np.testing.assert_allclose(deep.mean, np.broadcast_to(flat.mean, deep.mean.shape), rtol=0, atol=1e-5)
    np.testing.assert_allclose(deep.variance, np.broadcast_to(flat.variance, deep.variance.shape), rtol=0, atol=1e-5)


def test_quadratic_and_bilinear_forms_equal_einsum_with_their_gradients():
    rng = np.random.default_rng(0)
    S = rng.normal(size=(2, M, M))
    S = tf.Variable(S + S.transpose(0, 2, 1))
    A, A1 = tf.Variable(rng.normal(size=(M, 3, 5))), tf.Variable(rng.normal(size=(M, 1, 5)))
    A2, g = tf.Variable(rng.normal(size=(M, 3, 5))), tf.constant(rng.normal(size=(2, 3, 5)))
    with tf.GradientTape(persistent=True) as tape:
        ours = [quadratic(S, A), bilinear(S, A, A1), bilinear(S, A, A2)]
        plain = [
            tf.einsum("mrb,pmk,krb->prb", A, S, A),
            tf.einsum("mrb,pmk,krb->prb", A, S, tf.tile(A1, [1, 3, 1])),
            tf.einsum("mrb,pmk,krb->prb", A, S, A2),
        ]
        ours_sum, plain_sum = ([tf.reduce_sum(g * form) for form in forms] for forms in (ours, plain))
    for index, sources in enumerate([[S, A], [S, A, A1], [S, A, A2]]):
        np.testing.assert_allclose(ours[index], plain[index], rtol=0, atol=1e-12)
        for a, b in zip(tape.gradient(ours_sum[index], sources), tape.gradient(plain_sum[index], sources), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


def test_block_gram_gives_the_lower_blocks_and_their_gradients():
    n, rng = 4, np.random.default_rng(1)
    lower = np.kron(np.tril(np.ones((n, n))), np.ones((M, M)))
    C = tf.Variable(rng.normal(size=(n * M, n * M)) * lower)
    weights = [tf.constant(rng.normal(size=(n - s, M, M))) for s in range(n)]
    with tf.GradientTape(persistent=True) as tape:
        S = tf.matmul(C, C, transpose_b=True)
        plain = [tf.reshape(S[s * M :, s * M : (s + 1) * M], [n - s, M, M]) for s in range(n)]
        ours = block_gram(C, n)
        sums = [
            tf.add_n([tf.reduce_sum(w * column) for w, column in zip(weights, c, strict=True)]) for c in (ours, plain)
        ]
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    np.testing.assert_allclose(tape.gradient(sums[0], C), tape.gradient(sums[1], C) * lower, rtol=0, atol=1e-11)


def test_subset_and_kl_products_equal_plain_ones_with_their_gradients():
    rng = np.random.default_rng(3)
    C = tf.Variable(np.tril(rng.normal(size=(2, M, M))) + 2.0 * np.eye(M))
    Lk = tf.Variable(np.tril(rng.normal(size=(3, M, M))) + 3.0 * np.eye(M))
    A, mean = tf.Variable(rng.normal(size=(3, M, 5))), tf.Variable(rng.normal(size=(2, M)))
    symmetric = [tf.matmul(S, S, transpose_b=True) for S in (rng.normal(size=(3, M, M)), rng.normal(size=(M, M)))]
    paths, shared = map(tf.Variable, symmetric)
    with tf.GradientTape(persistent=True) as tape:
        covariance, log_diagonal = C @ tf.linalg.matrix_transpose(C), tf.reduce_sum(tf.math.log(tf.linalg.diag_part(C)))
        second, log_determinants = summed_moments(C, mean)
        cases = [
            (quadratic_of_paths(paths, A), tf.einsum("rmb,rmk,rkb->rb", A, paths, A), [paths, A]),
            (
                trace_of_solution(Lk, shared),
                tf.linalg.trace(tf.linalg.cholesky_solve(Lk, tf.stack([shared] * 3))),
                [Lk, shared],
            ),
            (sums_of_squares(A), tf.einsum("rmb,rmb->rb", A, A), [A]),
            (second, tf.reduce_sum(covariance, axis=0) + tf.transpose(mean) @ mean, [C, mean]),
            (log_determinants, 2.0 * log_diagonal, [C]),
            (half_square_minus_log(C), 0.5 * tf.reduce_sum(C**2) - log_diagonal, [C]),
        ]
        weighted = [
            [tf.reduce_sum(tf.constant(np.random.default_rng(4).normal(size=form.shape)) * form) for form in case[:2]]
            for case in cases
        ]
    for (ours, plain, sources), (our_sum, plain_sum) in zip(cases, weighted, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-11)
        for a, b in zip(tape.gradient(our_sum, sources), tape.gradient(plain_sum, sources), strict=True):
            a, b = (np.tril(each) if each.shape[-2:] == (M, M) else each for each in (a, b))  # C and Lk are lower
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


def test_a_step_reads_each_variable_once():
    arch = small.architecture(3, 2)
    model, (X, y) = DeepModel(small.prior(arch), small.posterior(structures.star(arch.widths))), small.rows()
    normals = model.normals(2, len(X), tf.constant([0, 1]), tf.constant(0), tf.float64)
    step = tf.function(lambda: model.objective(tf.constant(X), tf.constant(y), N, normals))
    graph = step.get_concrete_function().graph
    reads = [operation.inputs[0].name for operation in graph.get_operations() if operation.type == "ReadVariableOp"]
    assert len(reads) == len(set(reads)) >= len(model.trainable_variables)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_lower_gram_and_its_gradient_equal_the_plain_product(size):
    rng = np.random.default_rng(size)
    C = tf.Variable(np.tril(rng.normal(size=(3, size, size))))
    weights = tf.constant(rng.normal(size=(3, size, size)))
    with tf.GradientTape(persistent=True) as tape:
        ours, plain = lower_gram(C), tf.matmul(C, C, transpose_b=True)
        ours_sum, plain_sum = tf.reduce_sum(weights * ours), tf.reduce_sum(weights * plain)
    np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-13)
    found, expected = (np.tril(tape.gradient(value, C)) for value in (ours_sum, plain_sum))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_lower_gram_of_an_unwhitened_factor_has_exact_gradients():
    """What ``lower_gram`` leaves out of dC above the diagonal reaches neither the factor nor Lk (whiten=False)."""
    rng = np.random.default_rng(0)
    weights, C = (tf.constant(rng.normal(size=(3, 6, 6))) for _ in range(2))
    Lk = tf.constant(np.tril(rng.normal(size=(3, 6, 6))) + 3.0 * np.eye(6))
    found = []
    for product in (lower_gram, lambda C: tf.matmul(C, C, transpose_b=True)):
        with tf.GradientTape() as tape:
            tape.watch([Lk, C])
            whitened = tf.linalg.triangular_solve(Lk, tf.linalg.band_part(C, -1, 0))
            loss = tf.reduce_sum(weights * product(whitened))
        found.append(tape.gradient(loss, [Lk, C]))
    for ours, plain in zip(*found, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("name", ALL)
def test_every_trainable_variable_receives_a_gradient(name):
    arch = small.architecture(3, 2)
    prior, (X, y) = small.prior(arch), small.rows()
    posterior = small.posterior(structures.STRUCTURES[name](arch.widths))
    normals = small.normals(arch)
    variables = [*prior.trainable_variables, *posterior.trainable_variables]
    with tf.GradientTape() as tape:
        choleskys = prior.choleskys()
        q = posterior.blocks(choleskys)
        paths = marginalise(prior, q, choleskys, tf.constant(X), normals)
        value = elbo(q, paths, tf.constant(y), prior.noise_variance, N)
    for variable, gradient in zip(variables, tape.gradient(value, variables), strict=True):
        assert gradient is not None, variable.name
        assert np.all(np.isfinite(gradient)), variable.name
        assert np.any(gradient != 0), variable.name
