"""Stochastic-gradient Hamiltonian Monte Carlo for deep GPs (Havasi, Hernandez-Lobato & Murillo-Fuentes 2018).

    draw v ~ p(v | X, y) ∝ exp(-U(v)),   -U = sum_n log N(y_n; mu^_n, Sigma^_n + s2) - |v|^2 / 2
    p(y* | x*) = 1/S sum_s p(y* | x*, v_s)

Reference: docs/methods.md, "SGHMC".

v holds the whitened inducing outputs of all layers, [T M]. Kernel, likelihood and Z follow by moving-window Monte Carlo
EM. Departures from the published runs, each with its switch: the preconditioner is frozen at the mean of grad^2 over
the second half of the burn-in (``method.freeze=last`` is a random snapshot, as published); ``method.noise=corrected``
subtracts the variance that minibatches add (published: plain). The chain starts at v = 0.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.gp.layers import FeatureRows
from dgpbench.gp.objectives import log_joint
from dgpbench.gp.prior import Architecture, DeepGP, build_prior, read_once
from dgpbench.gp.propagation import Paths, given, path_shapes, split_layers
from dgpbench.methods.inducing_points import kmeans_centres
from dgpbench.methods.interface import FitSettings, Seeds, pick
from dgpbench.methods.predictor import COLUMNS_AT_ONCE, FIRST_Z, MixturePredictor, assign, normals_of_rows
from dgpbench.methods.settings import SamplingSettings
from dgpbench.predictive import posterior_file
from dgpbench.training.loops import adam
from dgpbench.training.minibatches import Minibatches, base_seed, stateless_normals
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import SamplerSettings
from dgpbench.training.sghmc import Chain, MovingWindow, Sampler, SamplerConstants, Schedule, run

MAX_TRACES = 64  # training rows with traced predictions
MAX_FEATURES = 2**25  # numbers: 128 MB in float32, beyond which they are computed for each minibatch


def fit(
    train: Regression, settings: FitSettings[SamplingSettings, SamplerSettings], seeds: Seeds, monitor: Monitor
) -> MixturePredictor:
    """Sample a deep GP's inducing outputs."""
    method, training = settings.method, settings.training
    architecture = pick(Architecture, method, precision=settings.precision)
    prior = build_prior(architecture, train.X, kmeans_centres(train.X, method.num_inducing, seeds.initial))
    schedule = Schedule(
        max_iterations=training.max_iterations,
        burn_in=training.steps(training.burn_in),
        thinning=training.steps(training.thinning),
        num_samples=settings.num_samples,
    )
    chain = build_chain(prior, train, method, training, seeds)
    taken, samples = run(chain, schedule, monitor)
    model = SampledDeepGP(prior, samples)
    predictor = predictor_of(model, common_normals=settings.common_normals)
    rows = np.random.default_rng(seeds.prediction).permutation(len(train.X))[:MAX_TRACES]
    traces = trace_predictions(model, train.X[rows], seeds.prediction)
    predictor.diagnostics |= {"iterations": taken} | chain_summary(traces, schedule.thinning)
    return predictor


def restore(settings: FitSettings[SamplingSettings, Any], arrays: Mapping[str, np.ndarray]) -> MixturePredictor:
    """Return the predictor that the arrays were taken from."""
    Z, architecture = arrays[FIRST_Z], pick(Architecture, settings.method, precision=settings.precision)
    model = SampledDeepGP(build_prior(architecture, Z, Z), arrays[".samples"])
    return predictor_of(assign(arrays, model), common_normals=settings.common_normals)


def build_chain(
    prior: DeepGP, rows: Regression, method: SamplingSettings, training: SamplerSettings, seeds: Seeds
) -> Chain:
    """Build the chain at v = 0, its window and the optimiser of the parameters."""
    N, widths = len(rows.X), prior.widths
    start = np.zeros([1, sum(widths) * prior.layers[0].Z.shape[0]], rows.X.dtype)

    def density(v, X, y, seed, step):
        normals = stateless_normals(path_shapes(widths, tf.shape(v)[0], tf.shape(y)[-1]), seed, step, v.dtype)
        return log_joint(read_once(prior), v, X, y, N, normals)

    return Chain(
        density,
        partial(first_layer, prior, rows.X),
        Sampler(start, N, pick(SamplerConstants, method)),
        MovingWindow(training.steps(training.window), start[0]) if training.window else None,
        prior.trainable_variables,
        adam(training, likelihood=prior.likelihood),
        tf.constant(rows.X),
        tf.constant(rows.Y[:, 0]),
        Minibatches(N, training.batch_size, seeds.batches),
        base_seed(seeds.samples),
    )


def first_layer(prior: DeepGP, X: np.ndarray) -> FeatureRows | None:
    """Return the first layer's features of all rows; None where they are more than ``MAX_FEATURES`` numbers."""
    layer = prior.layers[0]
    if len(X) * layer.Z.shape[0] > MAX_FEATURES:
        return None
    Lk = layer.cholesky()
    pieces = [X[start : start + COLUMNS_AT_ONCE] for start in range(0, len(X), COLUMNS_AT_ONCE)]
    features = [FeatureRows.of(layer.features(tf.constant(piece[None]), Lk)) for piece in pieces]
    return FeatureRows(*(tf.concat(values, axis=0) for values in zip(*features, strict=True)))


class SampledDeepGP(gpflow.Module):
    """A prior and samples of its whitened inducing outputs.

    :param samples: v_s, [S, T M]
    """

    def __init__(self, prior: DeepGP, samples: np.ndarray):
        super().__init__(name="sampled_deep_gp")
        self.prior = prior
        self.samples = tf.Variable(samples, trainable=False, name="samples")

    def paths(self, X: tf.Tensor, normals: list[tf.Tensor]) -> Paths:
        """Return one path of each row for each sample, [S, B]."""
        layers = split_layers(tf.convert_to_tensor(self.samples), self.prior.widths)
        return given(self.prior, layers, self.prior.choleskys(), X, normals)


def predictor_of(model: SampledDeepGP, *, common_normals: bool) -> MixturePredictor:
    """Return the predictor of one Gaussian for each sample of v; its posterior is the samples."""
    S = model.samples.shape[0]

    def moments(X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shapes = path_shapes(model.prior.widths, S, tf.shape(X)[0])
        paths = model.paths(X, normals_of_rows(shapes, seed, chunk, X.dtype, common=common_normals))
        return paths.mean, paths.variance + model.prior.noise_variance

    def posterior() -> dict[str, np.ndarray]:
        """Return the samples, [S, T_l, M] a layer (Lindinger et al. 2020, Fig. S6)."""
        layers = split_layers(tf.constant(model.samples.numpy()), model.prior.widths)
        return posterior_file.of_samples([v.numpy() for v in layers])

    num_features = model.prior.layers[0].Z.shape[1]
    return MixturePredictor(model, moments, num_features, COLUMNS_AT_ONCE // S, posterior)


def trace_predictions(model: SampledDeepGP, X: np.ndarray, seed: int) -> np.ndarray:
    """Return the predicted mean at each row for each sample in turn, [S, B].

    All samples share their normals, so the trace varies with v alone and shows how v mixes.
    """

    def means(X: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        shapes = path_shapes(model.prior.widths, 1, tf.shape(X)[0])
        return model.paths(X, stateless_normals(shapes, seed, tf.constant(0, tf.int64), X.dtype)).mean

    return tf.function(means, autograph=False)(X, base_seed(seed)).numpy()


def chain_summary(traces: np.ndarray, thinning: int) -> dict[str, float | int]:
    """Summarise the mixing of a chain's predictions for the record.

    :param traces: the predicted mean at some rows for each collected draw, [S, n]
    :param thinning: sampler steps between two draws
    """
    tau = autocorrelation_time(traces)
    return {
        "collected_samples": len(traces),
        "steps_between_samples": thinning,
        "autocorrelation_steps_median": float(np.median(tau) * thinning),
        "autocorrelation_steps_max": float(tau.max() * thinning),
        "effective_samples_median": float(np.median(len(traces) / tau)),
        "effective_samples_min": float((len(traces) / tau).min()),
    }


def autocorrelation_time(traces: np.ndarray) -> np.ndarray:
    """tau = 1 + 2 sum_{k=1}^{m} rho_k for each trace, with the smallest m >= 5 tau(m) (Sokal 1997).

    :param traces: successive draws, [S, n]
    :return: tau in units of one draw, at least 1, [n]; 1 for a constant trace
    """
    rho = autocorrelation(traces)
    sums = 2.0 * np.cumsum(rho, axis=0) - 1.0
    lags = np.arange(len(rho))[:, None]
    enough = lags >= 5.0 * sums
    last = np.where(enough.any(axis=0), enough.argmax(axis=0), len(rho) - 1)
    return np.maximum(sums[last, np.arange(rho.shape[1])], 1.0)


def autocorrelation(traces: np.ndarray) -> np.ndarray:
    """rho_k of each trace for k = 0 .. S - 1, by the Fourier transform, [S, n]; rho_k = 0 for a constant trace."""
    S = len(traces)
    centred = traces - traces.mean(axis=0)
    spectrum = np.fft.rfft(centred, n=2 * S, axis=0)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:S]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = covariance / covariance[0]
    rho = np.nan_to_num(rho, nan=0.0, posinf=0.0, neginf=0.0)
    rho[0] = 1.0
    return rho
