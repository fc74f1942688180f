"""``bench peers`` times the same computation: each peer's loss is -ELBO / N. Skipped without the peers."""

import numpy as np
import pytest

from dgpbench.benchmarks import peers
from dgpbench.benchmarks.timing import Cell
from dgpbench.data.standardise import Regression

CELL = Cell("gpflux", "mf", "toy", "lindinger2020", M=5, L=2, tau=3, B=7, R=4000, precision="float64", threads=1)
NUM_ROWS = 40


@pytest.fixture
def data():
    draws = np.random.default_rng(0)
    X = draws.normal(size=(NUM_ROWS, 2))
    return Regression(X, np.sin(X[:, :1]) + 0.1 * draws.normal(size=(NUM_ROWS, 1)))


def layer(Z, lengthscales, variance, means, factors, mean_function, jitter):
    """A layer in words that this file knows: q(v_t) = N(means[t], C_t C_t^T), C_t = factors[t]."""
    kernel = {"Z": Z, "scales": np.ravel(lengthscales), "variance": float(variance), "jitter": jitter}
    q = {"means": means, "factors": [np.tril(C) for C in factors]}
    return kernel | q | {"mean_function": mean_function}


def moments(layer, H):
    """Mean and variance of each GP at the rows H [n, D]: [n, T] each."""

    def k(A, B):
        squares = (((A[:, None] - B[None]) / layer["scales"]) ** 2).sum(-1)
        return layer["variance"] * np.exp(-squares / 2)

    Z = layer["Z"]
    A = np.linalg.solve(np.linalg.cholesky(k(Z, Z) + layer["jitter"] * np.eye(len(Z))), k(Z, H))
    mean = layer["mean_function"](H) + np.stack([A.T @ m for m in layer["means"]], axis=1)
    residual = layer["variance"] - (A**2).sum(0)
    return mean, np.stack([residual + ((C.T @ A) ** 2).sum(0) for C in layer["factors"]], axis=1)


def divergence(layer):
    """KL[q(v) || N(0, I)]."""
    return sum(
        0.5 * ((C**2).sum() + m @ m - len(m)) - np.log(np.abs(np.diag(C))).sum()
        for m, C in zip(layer["means"], layer["factors"], strict=True)
    )


def loss_by_hand(layers, noise, X, Y, num_paths=4000):
    """-ELBO / N on a minibatch, and the standard error of its mean over paths."""
    draws, H = np.random.default_rng(1), np.repeat(X, num_paths, axis=0)
    for each in layers[:-1]:
        mean, variance = moments(each, H)
        H = mean + np.sqrt(variance) * draws.normal(size=mean.shape)
    mean, variance = moments(layers[-1], H)
    y = np.repeat(Y, num_paths, axis=0)
    terms = -0.5 * np.log(2 * np.pi * noise) - ((y - mean) ** 2 + variance) / (2 * noise)
    of_paths = terms.reshape(len(X), num_paths).mean(0)
    loss = -of_paths.mean() + sum(map(divergence, layers)) / NUM_ROWS
    return loss, of_paths.std() / np.sqrt(num_paths)


def random_q(width, seed):
    """Means [T, M] and factors [T, M, M] of a q that is not the prior."""
    draws = np.random.default_rng(seed)
    factors = 0.3 * np.tril(draws.normal(size=(width, CELL.M, CELL.M)), -1) + 0.5 * np.eye(CELL.M)
    return 0.5 * draws.normal(size=(width, CELL.M)), factors


def check(found, layers, noise, X, Y):
    expected, error = loss_by_hand(layers, noise, X, Y)
    assert error < 0.02 * abs(expected)
    assert found == pytest.approx(expected, abs=8 * error)  # both are means over as many paths


def test_gpflux_minimises_minus_elbo_by_row_with_one_first_layer_pass(data):
    pytest.importorskip("gpflux")
    import tensorflow as tf

    from dgpbench.system import tf_session

    tf_session.start(1, "float64")
    tf.keras.utils.set_random_seed(0)
    model = peers.gpflux_model(CELL, data)
    found = [each for each in model.layers if hasattr(each, "q_mu")]
    layers = []
    for index, each in enumerate(found):
        means, factors = random_q(len(each.q_sqrt), index)
        each.q_mu.assign(means.T)
        each.q_sqrt.assign(factors)
        kernel = each.kernel.kernel
        Z = each.inducing_variable.inducing_variable.Z.numpy()
        zero = index == CELL.L - 1
        mean_function = (lambda H: np.zeros((len(H), 1))) if zero else (lambda H: H @ np.eye(2, CELL.tau))
        scales, variance = kernel.lengthscales.numpy(), kernel.variance.numpy()
        layers.append(layer(Z, scales, variance, means, factors, mean_function, 1e-6))
    X, Y = data.X[: CELL.B], data.Y[: CELL.B]
    model((tf.constant(X), tf.constant(Y)), training=True)
    assert found[0](tf.constant(X)).shape == (CELL.R, CELL.B, CELL.tau)
    model((tf.constant(X), tf.constant(Y)), training=True)
    check(float(tf.add_n(model.losses)), layers, 0.01, X, Y)


def test_gpytorch_minimises_minus_the_elbo_by_row(data):
    library = pytest.importorskip("gpytorch")
    import torch

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    model, likelihood = peers.gpytorch_parts(CELL, data.X.shape[1])
    bound = library.mlls.DeepApproximateMLL(library.mlls.VariationalELBO(likelihood, model, NUM_ROWS))
    X, y = torch.as_tensor(data.X[: CELL.B]), torch.as_tensor(data.Y[: CELL.B, 0])
    with library.settings.num_likelihood_samples(CELL.R):
        model(X)  # its first call sets q
        layers = []
        for index, each in enumerate(model.layers):
            strategy = each.variational_strategy
            q, last = strategy._variational_distribution, index == CELL.L - 1
            means, factors = random_q(1 if last else CELL.tau, index)
            q.variational_mean.data = torch.as_tensor(means[0] if last else means)
            q.chol_variational_covar.data = torch.as_tensor(factors[0] if last else factors)
            kernel, Z = each.covar_module, strategy.inducing_points.detach().numpy()
            scales = kernel.base_kernel.lengthscale.detach().numpy()
            mean_function = _mean_of(each.mean_module, 1 if last else CELL.tau)
            variance = kernel.outputscale.detach().numpy()
            layers.append(layer(Z, scales, variance, means, factors, mean_function, strategy.jitter_val))
        loss = -bound(model(X), y)
    check(loss.item(), layers, likelihood.noise.item(), data.X[: CELL.B], data.Y[: CELL.B])


def _mean_of(module, width):
    import torch

    def mean(H):
        with torch.no_grad():
            return np.repeat(module(torch.as_tensor(H)).numpy()[:, None], width, axis=1)

    return mean
