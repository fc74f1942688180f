"""Stochastic-gradient Hamiltonian Monte Carlo for deep GPs (Havasi, Hernandez-Lobato & Murillo-Fuentes 2018).

    draw v ~ p(v | X, y) ∝ exp(-U(v)),   -U = sum_n log N(y_n; mu^_n, Sigma^_n + s2) - |v|^2 / 2
    p(y* | x*) = 1/S sum_s p(y* | x*, v_s)

Reference: docs/methods.md, "SGHMC".

v holds the whitened inducing outputs of all layers, [T M]. Kernel, likelihood and Z follow by moving-window Monte Carlo
EM. Departures from the published runs, each with its switch: the preconditioner is frozen at the mean of grad^2 over
the second half of the burn-in (``method.freeze=last`` is a random snapshot, as published); ``method.noise=corrected``
takes off the variance that minibatches add (published: plain). The chain starts at v = 0.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.gp.layers import FeatureRows
from dgpbench.gp.particles import log_joint, split_layers
from dgpbench.gp.prior import Architecture, DeepGP, build_prior
from dgpbench.gp.propagate import Paths, given, path_shapes
from dgpbench.methods.arrays import arrays_of, put
from dgpbench.methods.contract import FitSettings, Seeds, pick
from dgpbench.methods.initialisation import kmeans_centres
from dgpbench.methods.prediction import COLUMNS_AT_ONCE, FIRST_Z, compiled, normals_of_rows, predict_in_pieces
from dgpbench.methods.sampling_settings import SamplingSettings
from dgpbench.predictive import posterior
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.training.diagnostics import MAX_TRACES, chain_summary
from dgpbench.training.log import TrainingLog
from dgpbench.training.loops import adam
from dgpbench.training.mcem import Chain, Schedule, run
from dgpbench.training.minibatches import Minibatches, base_seed, stateless_normals
from dgpbench.training.settings import SamplerSettings
from dgpbench.training.sghmc import MovingWindow, Sampler, SamplerConstants

MAX_FEATURES = 2**25  # numbers: 128 MB in float32, beyond which they are computed for each minibatch


def fit(
    train: Regression, settings: FitSettings[SamplingSettings, SamplerSettings], seeds: Seeds, log: TrainingLog
) -> "SampledPredictor":
    """Sample a deep GP's inducing outputs.

    :param train: standardised rows X [N, D], Y [N, 1]
    """
    architecture = architecture_of(settings)
    prior = build_prior(architecture, train.X, kmeans_centres(train.X, architecture.num_inducing, seeds.initial))
    schedule = build_schedule(settings.training, settings.num_samples)
    chain = build_chain(prior, train, settings.method, settings.training, seeds)
    taken, samples = run(chain, schedule, log)
    model = SampledDeepGP(prior, samples)
    predictor = SampledPredictor(model, {"iterations": taken}, common_normals=settings.common_normals)
    rows = np.random.default_rng(seeds.prediction).permutation(len(train.X))[:MAX_TRACES]
    traces = predictor.traces(train.X[rows], seeds.prediction)
    predictor.diagnostics |= chain_summary(traces, schedule.thinning)
    return predictor


def restore(settings: FitSettings[SamplingSettings, Any], arrays: Mapping[str, np.ndarray]) -> "SampledPredictor":
    """The predictor that ``arrays`` were taken from."""
    Z = arrays[FIRST_Z]
    model = SampledDeepGP(build_prior(architecture_of(settings), Z, Z), arrays[".samples"])
    return SampledPredictor(put(arrays, model), {}, common_normals=settings.common_normals)


def architecture_of(settings: FitSettings[SamplingSettings, Any]) -> Architecture:
    """The prior's choices."""
    return pick(Architecture, settings.method, precision=settings.precision)


def build_schedule(training: SamplerSettings, num_samples: int) -> Schedule:
    """The counts of steps from their shares of max_iterations."""
    return Schedule(
        max_iterations=training.max_iterations,
        burn_in=training.steps(training.burn_in),
        thinning=training.steps(training.thinning),
        num_samples=num_samples,
    )


def build_chain(
    prior: DeepGP, rows: Regression, method: SamplingSettings, training: SamplerSettings, seeds: Seeds
) -> Chain:
    """The chain at v = 0, its window and the optimiser of the parameters."""
    N = len(rows.X)
    widths = tuple(layer.num_gps for layer in prior.layers)
    start = np.zeros([1, sum(widths) * prior.layers[0].Z.shape[0]], rows.X.dtype)

    def density(v, X, y, seed, step):
        normals = stateless_normals(path_shapes(widths, tf.shape(v)[0], tf.shape(y)[-1]), seed, step, v.dtype)
        return log_joint(prior, v, X, y, N, normals)

    return Chain(
        density,
        partial(first_layer, prior, rows.X),
        Sampler(start, N, pick(SamplerConstants, method)),
        MovingWindow(training.steps(training.window), start[0]) if training.window else None,
        prior.trainable_variables,
        adam(training, likelihood=prior.likelihood),
        (rows.X, rows.Y[:, 0]),
        Minibatches(N, training.batch_size, seeds.batches),
        base_seed(seeds.samples),
    )


def first_layer(prior: DeepGP, X: np.ndarray) -> FeatureRows | None:
    """What the first layer says about all rows, where that is no more than ``MAX_FEATURES`` numbers, else None."""
    layer = prior.layers[0]
    if len(X) * layer.Z.shape[0] > MAX_FEATURES:
        return None
    Lk = layer.cholesky()
    pieces = [X[start : start + COLUMNS_AT_ONCE] for start in range(0, len(X), COLUMNS_AT_ONCE)]
    found = [FeatureRows.of(layer.features(tf.constant(piece[None]), Lk)) for piece in pieces]
    return FeatureRows(*(tf.concat(values, axis=0) for values in zip(*found, strict=True)))


class SampledDeepGP(gpflow.Module):
    """A prior and samples of its whitened inducing outputs.

    :param samples: v_s, [S, T M]
    """

    def __init__(self, prior: DeepGP, samples: np.ndarray):
        super().__init__(name="sampled_deep_gp")
        self.prior = prior
        self.samples = tf.Variable(samples, trainable=False, name="samples")

    @property
    def widths(self) -> tuple[int, ...]:
        """T_l of each layer."""
        return tuple(layer.num_gps for layer in self.prior.layers)

    def paths(self, X: tf.Tensor, normals: list[tf.Tensor]) -> Paths:
        """One path of each row for each sample, [S, B]."""
        return given(
            self.prior,
            split_layers(tf.convert_to_tensor(self.samples), self.widths),
            self.prior.choleskys(),
            X,
            normals,
        )


class SampledPredictor:
    """Predicts a mixture of one Gaussian for each posterior sample.

    :param model: a prior and its samples
    :param diagnostics: what the record should keep about the fit
    :param common_normals: as of ``FitSettings``
    """

    def __init__(self, model: SampledDeepGP, diagnostics: dict, *, common_normals: bool = False):
        self.model = model
        self.common_normals = common_normals
        self.diagnostics = diagnostics
        self._moments = compiled(self._compute_moments, model.prior.layers[0].Z.shape[1])
        self._traces = tf.function(self._compute_traces, autograph=False)

    def _compute_moments(self, X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shapes = path_shapes(self.model.widths, self.model.samples.shape[0], tf.shape(X)[0])
        paths = self.model.paths(X, normals_of_rows(shapes, seed, chunk, X.dtype, common=self.common_normals))
        return paths.mean, paths.variance + self.model.prior.noise_variance

    def _compute_traces(self, X: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        # The same normals for every sample: the trace then varies with v alone, and shows how v mixes.
        shapes = path_shapes(self.model.widths, 1, tf.shape(X)[0])
        return self.model.paths(X, stateless_normals(shapes, seed, tf.constant(0, tf.int64), X.dtype)).mean

    def traces(self, X: np.ndarray, seed: int) -> np.ndarray:
        """The predicted mean at each row for each sample in turn, [S, B]."""
        return self._traces(X, base_seed(seed)).numpy()

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """The predictive mixture at standardised inputs X [N, D], all samples at once, in chunks of rows."""
        size = max(1, COLUMNS_AT_ONCE // self.model.samples.shape[0])
        return predict_in_pieces(self._moments, X, seed, size)

    def posterior(self) -> dict[str, np.ndarray]:
        """The samples of v, [S, T_l, M] a layer (Lindinger et al. 2020, Fig. S6)."""
        layers = split_layers(tf.constant(self.model.samples.numpy()), self.model.widths)
        return posterior.of_samples([v.numpy() for v in layers])

    def parameters(self) -> dict[str, np.ndarray]:
        """Every parameter by path, and the samples."""
        return arrays_of(self.model)
