"""Objectives: (prior, q, batch) -> scalar, each with its equation.

Reference: docs/methods.md, "Structured posteriors", "Tight bound", "Sigma points", "Latent input", "Power EP", "Fully
factorised" and "SGHMC".
"""

import math

import tensorflow as tf

from dgpbench.gp.block_gaussian import Blocks
from dgpbench.gp.layers import FeatureRows
from dgpbench.gp.moment_matching import deterministic_moments, gaussian_moments
from dgpbench.gp.prior import DeepGP
from dgpbench.gp.propagation import Paths, given, split_layers
from dgpbench.gp.tied_sites import Sites

LOG_2PI = math.log(2.0 * math.pi)


def log_normal(y: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """log N(y; mean, variance), elementwise."""
    return -0.5 * (LOG_2PI + tf.math.log(variance) + tf.square(y - mean) / variance)


def expected_log_density(y: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, s2: tf.Tensor) -> tf.Tensor:
    """E[log N(y; f, s2)] for f ~ N(mean, variance) = -1/2 log(2 pi s2) - ((y - mean)^2 + variance) / (2 s2)."""
    return -0.5 * (LOG_2PI + tf.math.log(s2)) - 0.5 * (tf.square(y - mean) + variance) / s2


def elbo(q: Blocks, paths: Paths, y: tf.Tensor, s2: tf.Tensor, num_data: int) -> tf.Tensor:
    """ELBO = (N/B) sum_b mean_r E[log N(y_b; f^L_b, s2)] - KL(q(v) || N(0, I)).

    Reference: docs/methods.md, "Structured posteriors".

    :param paths: R paths of the batch's B rows
    :param y: targets of the batch, [B]
    :param num_data: N
    """
    fit = tf.reduce_mean(expected_log_density(y, paths.mean, paths.variance, s2))
    return num_data * fit - q.kl()


def tight_elbo(q: Blocks, paths: Paths, y: tf.Tensor, s2: tf.Tensor, num_data: int) -> tf.Tensor:
    """``elbo`` with 1/2 log(1 + r_b / s2) in place of r_b / (2 s2), r_b = k - a^T a of the output layer.

    Each row's conditional variance r_b is scaled by its optimal factor 1 / (1 + r_b / s2) (Titsias 2025, Eq. 18).
    """
    r = paths.residual
    assert r is not None, "matched moments have none"
    explained = expected_log_density(y, paths.mean, paths.variance - r, s2)
    return num_data * tf.reduce_mean(explained - 0.5 * tf.math.log1p(r / s2)) - q.kl()


def importance_weighted_elbo(
    q: Blocks, paths: Paths, y: tf.Tensor, s2: tf.Tensor, num_data: int, num_importance_samples: int
) -> tf.Tensor:
    """(N/B) sum_b mean_r log 1/K sum_k exp(E[log N(y_b; f^L_rkb, s2)]) p(w_rkb) / q(w_rkb) - KL(q(v) || N(0, I)).

    Reference: Salimbeni et al. 2019; docs/methods.md, "Latent input".

    :param paths: of the batch's B rows, the K of one group side by side, with log p(w) / q(w) as weights [R K, B]
    """
    K = num_importance_samples
    assert paths.log_weights is not None
    each = expected_log_density(y, paths.mean, paths.variance, s2) + paths.log_weights
    groups = tf.reshape(each, tf.stack([-1, K, tf.shape(y)[0]]))
    return num_data * (tf.reduce_mean(tf.reduce_logsumexp(groups, axis=1)) - math.log(K)) - q.kl()


def predictive(q: Blocks, paths: Paths, y: tf.Tensor, s2: tf.Tensor, num_data: int, beta: float) -> tf.Tensor:
    """(N/B) sum_b log sum_r w_r N(y_b; mu^_rb, Sigma^_rb + s2) - beta KL(q(v) || N(0, I)).

    Reference: Jankowiak et al. 2020, "Deep sigma point processes"; "Parametric Gaussian process regressors" at depth 1.

    :param paths: with weights
    """
    assert paths.log_weights is not None
    each = log_normal(y, paths.mean, paths.variance + s2) + paths.log_weights[:, None]
    return num_data * tf.reduce_mean(tf.reduce_logsumexp(each, axis=0)) - beta * q.kl()


def log_tilted(paths: Paths, y: tf.Tensor, s2: tf.Tensor, power: float) -> tf.Tensor:
    """log Z_b = log E[N(y_b; f, s2)^power] under the cavity, [B].

        log Z_b = logsumexp_r log N(y_b; m_rb, v_rb + s2/power) - log R
                  + (1 - power)/2 log(2 pi s2) - 1/2 log power

    A mixture over R paths (Hernandez-Munoz 2018, Eq. 4.3.19; biased for finite R), or one Gaussian (Bui et al. 2016).

    :param paths: of the batch's B rows, under the cavity
    :param y: targets, [B]
    """
    R = tf.cast(tf.shape(paths.mean)[0], s2.dtype)
    each = log_normal(y, paths.mean, paths.variance + s2 / power)
    mixture = tf.reduce_logsumexp(each, axis=0) - tf.math.log(R)
    return mixture + 0.5 * (1.0 - power) * (LOG_2PI + tf.math.log(s2)) - 0.5 * math.log(power)


def power_ep_energy(sites: Sites, log_Z: tf.Tensor, power: float) -> tf.Tensor:
    """The power-EP energy with tied sites, to be maximised (docs/methods.md, "Power EP").

        F = sum_{l,GP} [(1 - N/power) Phi(q) - Phi(prior) + (N/power) Phi(cavity)] + (N/B) sum_b log Z_b / power

    power = 1 is stochastic EP (Bui et al. 2016, Eq. 10; Hernandez-Munoz 2018, Eq. 4.3.20); power -> 0 is the ELBO.

    :param log_Z: of the batch under the cavity, [B]
    """
    q, cavity, count = sites.log_normaliser(), sites.log_normaliser(removed=power), sites.num_data / power
    return q - sites.prior_log_normaliser() + count * (cavity - q + tf.reduce_mean(log_Z))


def hidden_bound(prior: DeepGP, q: Blocks, choleskys, X, y: tf.Tensor, hidden: list, num_data: int) -> tf.Tensor:
    """The bound for q(v) q(h), with every row's hidden layers Gaussian (Damianou & Lawrence 2013).

    Reference: docs/methods.md, "Fully factorised".

        F = (N/B) sum_b { sum_{l<L,t} E[log N(h; f, s2_l)] + H[q(h)] + E[log N(y_b; f^L, s2)] } - KL(q(v) || N(0, I))

    :param X: the batch's rows, [B, D]
    :param y: its targets, [B]
    :param hidden: (m, s) of q(h^l) = N(m, diag s) for its rows, [B, T_l] each, one pair for each hidden layer
    """
    mean, variance = deterministic_moments(prior.layers[0], choleskys[0], q.means[0], q.covariance(0), X)
    terms = tf.zeros_like(y)
    above = zip(prior.layers[1:], choleskys[1:], q.means[1:], q.diagonal[1:], strict=True)
    for layer, (m, s), of_layer_above in zip(prior.layers[:-1], hidden, above, strict=True):
        noise = layer.output_noise
        each = expected_log_normal(m, s, mean, variance - noise, noise) + gaussian_entropy(s)
        terms += tf.reduce_sum(each, axis=-1)
        mean, variance = gaussian_moments(*of_layer_above, m, s)
    terms += expected_log_normal(y, 0.0, mean[:, 0], variance[:, 0], prior.noise_variance)
    return num_data * tf.reduce_mean(terms) - q.kl()


def expected_log_normal(m, s, mean: tf.Tensor, variance: tf.Tensor, s2: tf.Tensor) -> tf.Tensor:
    """E[log N(h; f, s2)] for independent h of moments (m, s) and f of moments (mean, variance).

    -1/2 log(2 pi s2) - [m^2 + s - 2 m E1 + E2] / (2 s2) with E1 = E f, E2 = Var f + (E f)^2.
    """
    return -0.5 * (LOG_2PI + tf.math.log(s2) + (tf.square(m - mean) + s + variance) / s2)


def gaussian_entropy(s: tf.Tensor) -> tf.Tensor:
    """1/2 log(2 pi e s)."""
    return 0.5 * (LOG_2PI + 1.0 + tf.math.log(s))


def log_joint(
    prior: DeepGP, v: tf.Tensor, X: tf.Tensor | FeatureRows, y: tf.Tensor, num_data: int, normals: list[tf.Tensor]
) -> tf.Tensor:
    """-U(v) for each particle, up to a constant (Havasi et al. 2018, Eq. 8; docs/methods.md, "SGHMC").

        -U = (N/B) sum_b log N(y_b; mu^_b, Sigma^_b + s2) - |v|^2 / 2

    with mu^, Sigma^ the output's moments given v and one path through the hidden layers; at depth 1 they are a^T v and
    k - a^T a, and -U is exact. Deeper, it is an unbiased draw of E[log p(y | v, path)] - |v|^2 / 2.

    :param v: particles, [K, T M]
    :param X: rows [B, D] for every particle, or each particle's own [K, B, D]; or their features in the first layer
    :param y: [B] or [K, B]
    :param normals: of the hidden layers, [T_l, K, B]
    :return: [K]
    """
    paths = given(prior, split_layers(v, prior.widths), prior.choleskys(), X, normals)
    fit = tf.reduce_mean(log_normal(y, paths.mean, paths.variance + prior.noise_variance), axis=1)
    return num_data * fit - 0.5 * tf.reduce_sum(tf.square(v), axis=1)
