"""Small deep GPs with every parameter away from its starting value, shared by the tests of this folder."""

import numpy as np
import tensorflow as tf

from dgpbench.gp.block_gaussian import BlockGaussian, Blocks
from dgpbench.gp.prior import Architecture, DeepGP, build_prior
from dgpbench.gp.structures import Structure

N, D, M, R = 5, 3, 4, 2


def architecture(num_layers=3, width=2, **changes) -> Architecture:
    return Architecture(num_layers=num_layers, width=width, num_inducing=M, **changes)


def rows(seed=0):
    """Inputs [N, D] and targets [N]."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, D)), rng.normal(size=N)


def prior(arch: Architecture, seed=1) -> DeepGP:
    """Prior with all trainable parameters perturbed."""
    X, _ = rows()
    rng = np.random.default_rng(seed)
    built = build_prior(arch, X, rng.normal(size=(arch.num_inducing, D)))
    for parameter in built.trainable_parameters:
        parameter.assign(parameter.numpy() * rng.uniform(0.7, 1.3, size=parameter.shape))
    return built


def posterior(structure: Structure, seed=2, num_inducing=M, whiten=True) -> BlockGaussian:
    """q with random means and blocks, C_ii well away from zero."""
    rng = np.random.default_rng(seed)
    q = BlockGaussian(structure, num_inducing, [0.7] * len(structure.widths), whiten=whiten)
    for parameter in q.trainable_parameters:
        parameter.assign(parameter.numpy() + 0.3 * rng.normal(size=parameter.shape))
    return q


def normals(arch: Architecture, seed=3, num_rows=N, num_paths=R):
    rng = np.random.default_rng(seed)
    return [tf.constant(rng.normal(size=(T, num_paths, num_rows))) for T in arch.widths[:-1]]


def embedded(q: Blocks, structure: Structure) -> Blocks:
    """The same posterior written in a larger structure, its extra blocks zero."""
    couplings = {}
    for key, pairs in structure.couplings.items():
        old = dict(
            zip(
                q.structure.couplings.get(key, ()),
                tf.unstack(q.couplings[key]) if key in q.couplings else (),
                strict=True,
            )
        )
        zero = tf.zeros_like(q.diagonal[0][0])
        couplings[key] = tf.stack([old.get(pair, zero) for pair in pairs])
    return Blocks(structure, q.means, q.diagonal, couplings)


def features_of_a_row(layer, Lk, h):
    """a = Lk^{-1} k(Z, h), the residual variance and the mean at one input, from the formulas in NumPy."""
    Z, scale = layer.Z.numpy(), layer.kernel.lengthscales.numpy()
    variance, w = layer.kernel.variance.numpy(), layer.white_noise.numpy()
    k = variance * np.exp(-0.5 * np.sum(((Z - h) / scale) ** 2, axis=1))
    a = np.linalg.solve(Lk, k)
    W = getattr(layer.mean_function, "A", None)
    mean = np.zeros(layer.num_gps) if W is None else h @ W.numpy()
    return a, variance + w - a @ a, mean


def dense_moments(prior: DeepGP, q: Blocks, choleskys, X, paths_normals):
    """Theorem 1 written out with dense matrices, one row and one path at a time, in NumPy: slow and obvious."""
    m, S = (value.numpy() for value in q.dense())
    shape = paths_normals[0].shape[1:] if paths_normals else (1, len(X))
    means, variances = np.zeros(shape), np.zeros(shape)
    factors = [Lk.numpy() for Lk in choleskys]
    for r, b in np.ndindex(*shape):
        noise = [normals.numpy()[:, r, b] for normals in paths_normals]
        means[r, b], variances[r, b] = dense_row(prior, q.structure.widths, m, S, factors, X[b], noise)
    return means, variances


def dense_row(prior, widths, m, S, factors, h, noise):
    """The output's moments for one row along one path."""
    M, f, mu, rows, residuals = len(factors[0]), np.zeros(0), np.zeros(0), [], []
    for index, layer in enumerate(prior.layers):
        a, residual, mean = features_of_a_row(layer, factors[index], h)
        for t in range(widths[index]):
            row = np.zeros(len(m))
            row[len(rows) * M : (len(rows) + 1) * M] = a
            mu = np.append(mu, mean[t] + row @ m)
            rows.append(row)
            residuals.append(residual)
        P, old = np.array(rows), len(f)
        covariance = P @ S @ P.T + np.diag(residuals)
        gain = np.linalg.solve(covariance[:old, :old] + layer.jitter * np.eye(old), covariance[:old, old:]).T
        conditional_mean = mu[old:] + gain @ (f - mu[:old])
        conditional = covariance[old:, old:] - gain @ covariance[:old, old:]
        if index == len(widths) - 1:
            return conditional_mean[0], conditional[0, 0]
        h = conditional_mean + np.linalg.cholesky(conditional + layer.jitter * np.eye(widths[index])) @ noise[index]
        f = np.append(f, h)
    raise ValueError("a deep GP has at least one layer")
