"""Gaussian processes and deep ones from their formulas, in NumPy alone, as references for the tests of this folder.

A model is read from a fitted method's parameters, which ``parameters.npz`` of a run holds under the same names.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

JITTER = 1e-6  # added to the diagonal of k(Z, Z), as conf/ and GPflow have it
LOG_2PI = np.log(2 * np.pi)


def squared_exponential(X, Z, variance, lengthscales):
    """s^2 exp(-|x - z|^2 / 2), in lengthscales, [N, M]."""
    apart = (X[:, None] - Z[None]) / lengthscales
    return variance * np.exp(-0.5 * np.sum(apart**2, axis=-1))


def matern32(X, Z, variance, lengthscales):
    """s^2 (1 + sqrt(3) r) exp(-sqrt(3) r), [N, M]."""
    r = np.sqrt(3.0 * np.sum(((X[:, None] - Z[None]) / lengthscales) ** 2, axis=-1))
    return variance * (1.0 + r) * np.exp(-r)


def log_normal(y, mean, variance):
    return -0.5 * (LOG_2PI + np.log(variance) + (y - mean) ** 2 / variance)


def log_dense_normal(y, covariance):
    """log N(y; 0, covariance)."""
    return -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])


def expected_log_normal(y, mean, variance, s2):
    """E log N(y; f, s2) for f of these moments."""
    return -0.5 * (LOG_2PI + np.log(s2) + ((y - mean) ** 2 + variance) / s2)


@dataclass(frozen=True)
class Layer:
    """One layer's prior.

    :param white: w, also on the inducing outputs
    :param added: s2_l, the noise that a hidden layer adds to its outputs alone
    :param W: the mean map, or None
    """

    variance: float
    lengthscales: np.ndarray
    Z: np.ndarray
    white: float
    added: float
    W: np.ndarray | None

    def cholesky(self):
        K = squared_exponential(self.Z, self.Z, self.variance, self.lengthscales)
        return np.linalg.cholesky(K + (self.white + JITTER) * np.eye(len(self.Z)))

    def features(self, H):
        """Lk^{-1} k(Z, h) [n, M] and the residual variance [n], s2_l left out, at the inputs H [n, D]."""
        a = np.linalg.solve(self.cholesky(), squared_exponential(self.Z, H, self.variance, self.lengthscales)).T
        return a, self.variance + self.white - np.sum(a**2, axis=1)

    def mean(self, H, width):
        return np.zeros((len(H), width)) if self.W is None else H @ self.W


def layers_of(parameters):
    """The layers, first to last, and the noise variance s2."""
    layers = []
    while f".prior.layers[{len(layers)}].Z" in parameters:
        own = f".prior.layers[{len(layers)}]."
        layers.append(
            Layer(
                parameters[own + "kernel.variance"],
                parameters[own + "kernel.lengthscales"],
                parameters[own + "Z"],
                parameters.get(own + "noise", 0.0),
                parameters.get(own + "added_noise", 0.0),
                parameters.get(own + "mean_function.A"),
            )
        )
    return layers, parameters[".prior.likelihood.variance"]


def node_pairs(structure, widths):
    """The blocks below the diagonal that a structure has, {((l, t), (k, s)), ..}, layers and GPs from 1."""
    nodes = [(layer + 1, t + 1) for layer, width in enumerate(widths) for t in range(width)]
    L = len(widths)
    stripes = {(a, b) for a, b in product(nodes, nodes) if b[0] < a[0] < L and a[1] == b[1]}
    arrow = {(a, b) for a, b in product(nodes, nodes) if b[0] < a[0] == L}
    return {
        "mf": set(),
        "stripes": stripes,
        "arrow": arrow,
        "star": stripes | arrow,
        "chain": {(a, b) for a, b in product(nodes, nodes) if a[0] == b[0] + 1},
        "fc": {(a, b) for a, b in product(nodes, nodes) if b < a},
    }[structure]


def posterior_of(arrays):
    """Mean [T M], factor C [T M, T M], widths and the pairs of coupled nodes, from ``posterior.npz``'s arrays."""
    num_layers = sum(name.startswith("mean_") for name in arrays)
    means = [arrays[f"mean_{layer}"] for layer in range(1, num_layers + 1)]
    widths, M = [len(m) for m in means], means[0].shape[1]
    place = {node: i for i, node in enumerate((a + 1, t + 1) for a, width in enumerate(widths) for t in range(width))}
    C, coupled = np.zeros((len(place), M, len(place), M)), set()
    for (layer, t), i in place.items():
        C[i, :, i, :] = np.tril(arrays[f"diagonal_{layer}"][t - 1])
    for name in (name for name in arrays if name.startswith("coupling_")):
        layer, earlier = (int(part) for part in name.split("_")[1:])
        for block, (t, s) in zip(arrays[name], arrays[f"pairs_{layer}_{earlier}"], strict=True):
            pair = ((layer, int(t) + 1), (earlier, int(s) + 1))
            C[place[pair[0]], :, place[pair[1]], :] = block
            coupled.add(pair)
    return np.concatenate([m.ravel() for m in means]), C.reshape(len(place) * M, -1), widths, coupled


def kl_from_standard_normal(m, C):
    """KL(N(m, C C^T) || N(0, I)) from dense matrices."""
    S = C @ C.T
    return 0.5 * (np.trace(S) + m @ m - len(m) - np.linalg.slogdet(S)[1])


def theorem_one(layers, widths, m, C, X, normals):
    """Mean and variance [R, B] of the output, without the likelihood's noise, for rows X [B, D]."""
    return theorem_one_and_residual(layers, widths, m, C, X, normals)[:2]


def theorem_one_and_residual(layers, widths, m, C, X, normals):
    """Mean, variance and, of the variance, the part k - a^T a of the output layer, [R, B] each, for rows X [B, D].

    Lindinger et al. 2020, Theorem 1: q(f^l | f^1 .. f^{l-1}) from the joint Gaussian of all layers, v integrated out.

    :param normals: of the hidden layers, [T_l, R, B] each
    """
    R, B = normals[0].shape[1:] if normals else (1, len(X))
    n, M, num_nodes = R * B, layers[0].Z.shape[0], sum(widths)
    S = (C @ C.T).reshape(num_nodes, M, num_nodes, M)
    m = m.reshape(num_nodes, M)
    H, a, residuals = np.tile(X, (R, 1)), [], []
    mu, f = np.zeros((n, 0)), np.zeros((n, 0))
    for index, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        own, residual = layer.features(H)
        first = len(a)
        mu = np.concatenate([mu, layer.mean(H, width) + own @ m[first : first + width].T], axis=1)
        a, residuals = a + [own] * width, residuals + [residual] * width
        size = len(a)
        covariance = np.empty((n, size, size))
        for i, j in product(range(size), range(size)):
            covariance[:, i, j] = np.einsum("nm,mk,nk->n", a[i], S[i, :, j, :], a[j]) + (i == j) * residuals[i]
        old, cross = covariance[:, :first, :first] + JITTER * np.eye(first), covariance[:, first:, :first]
        gain = np.linalg.solve(old, cross.transpose(0, 2, 1)).transpose(0, 2, 1)
        mean = mu[:, first:] + np.einsum("nij,nj->ni", gain, f - mu[:, :first])
        conditional = covariance[:, first:, first:] - gain @ cross.transpose(0, 2, 1)
        if index == len(layers) - 1:
            return mean.reshape(R, B), conditional.reshape(R, B), residual.reshape(R, B)
        factor = np.linalg.cholesky(conditional + JITTER * np.eye(width))
        H = mean + np.einsum("nij,nj->ni", factor, normals[index].reshape(width, n).T)
        f = np.concatenate([f, H], axis=1)
    raise ValueError("a deep GP has at least one layer")


def paths_given_draws(layers, widths, m, C, X, num, rng):
    """Output mean and variance [num, B] for draws of v from q and of the hidden layers from the prior conditional."""
    M, B = layers[0].Z.shape[0], len(X)
    v = (m + rng.normal(size=(num, len(m))) @ C.T).reshape(num, -1, M)
    H, first = np.tile(X, (num, 1)), 0
    for index, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        a, residual = layer.features(H)
        own = np.einsum("rbm,rtm->rbt", a.reshape(num, B, M), v[:, first : first + width])
        mean = layer.mean(H, width) + own.reshape(num * B, width)
        if index == len(layers) - 1:
            return mean.reshape(num, B), residual.reshape(num, B)
        H = mean + np.sqrt(residual + JITTER)[:, None] * rng.normal(size=mean.shape)
        first += width
    raise ValueError("a deep GP has at least one layer")


def moments_given_inputs(layer, m, C, H):
    """Mean and variance [n, T] of f(h) under a mean-field q, m [T, M] and C [T, M, M], without the layer's noise."""
    a, residual = layer.features(H)
    variance = np.stack([np.sum((a @ np.tril(factor)) ** 2, axis=1) for factor in C], axis=1) + residual[:, None]
    return layer.mean(H, len(m)) + a @ m.T, variance


def gaussian_grid(mean, variance, order=24):
    """Gauss-Hermite nodes [n, D] and weights [n] of N(mean, diag variance), for few dimensions."""
    x, w = np.polynomial.hermite_e.hermegauss(order)
    nodes = np.stack(np.meshgrid(*[x] * len(mean), indexing="ij"), axis=-1).reshape(-1, len(mean))
    weights = np.prod(np.stack(np.meshgrid(*[w] * len(mean), indexing="ij"), axis=-1), axis=-1).ravel()
    return mean + np.sqrt(variance) * nodes, weights / weights.sum()
