"""Small deep GPs with every parameter away from its starting value, shared by the tests of this folder."""

import numpy as np
import tensorflow as tf

from dgpbench.gp.gaussians import BlockGaussian, Blocks
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
    """A prior whose trainable parameters are all perturbed."""
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
        old = dict(zip(q.structure.couplings.get(key, ()), tf.unstack(q.couplings[key]) if key in q.couplings else (), strict=True))
        zero = tf.zeros_like(q.diagonal[0][0])
        couplings[key] = tf.stack([old.get(pair, zero) for pair in pairs])
    return Blocks(structure, q.means, q.diagonal, couplings)


def dense_moments(prior: DeepGP, q: Blocks, choleskys, X, paths_normals):
    """Theorem 1 written out with dense matrices, one row and one path at a time, in NumPy: slow and obvious."""
    m, S = (value.numpy() for value in q.dense())
    widths, M = q.structure.widths, q.means[0].shape[-1]
    num_paths, num_rows = paths_normals[0].shape[1:] if paths_normals else (1, len(X))
    means, variances = np.zeros((num_paths, num_rows)), np.zeros((num_paths, num_rows))
    for r in range(num_paths):
        for b in range(num_rows):
            H, f, prior_mean, projections, residuals = X[b], np.zeros(0), np.zeros(0), [], []
            for index, layer in enumerate(prior.layers):
                features = layer.features(tf.constant(H)[None, None], choleskys[index])
                a, residual = features.A.numpy()[:, 0, 0], features.residual.numpy()[0, 0]
                prior_mean = np.concatenate([prior_mean, features.mean.numpy()[:, 0, 0]])
                projections += [a] * widths[index]
                residuals += [residual] * widths[index]
                P = np.zeros((len(projections), len(m)))
                for node, vector in enumerate(projections):
                    P[node, node * M : (node + 1) * M] = vector
                mu, cov = prior_mean + P @ m, P @ S @ P.T + np.diag(residuals)
                old = len(f)
                jittered = cov[:old, :old] + layer.jitter * np.eye(old)
                gain = np.linalg.solve(jittered, cov[:old, old:]).T if old else np.zeros((widths[index], 0))
                mean = mu[old:] + gain @ (f - mu[:old])
                variance = cov[old:, old:] - gain @ cov[:old, old:]
                if index == len(widths) - 1:
                    means[r, b], variances[r, b] = mean[0], variance[0, 0]
                else:
                    root = np.linalg.cholesky(variance + layer.jitter * np.eye(widths[index]))
                    H = mean + root @ paths_normals[index].numpy()[:, r, b]
                    f = np.concatenate([f, H])
    return means, variances
