"""Stochastic-gradient Hamiltonian Monte Carlo for deep GPs (Havasi, Hernandez-Lobato & Murillo-Fuentes 2018).

    draw v ~ p(v | X, y) ∝ exp(-U(v)),   -U = sum_n log N(y_n; mu^_n, Sigma^_n + s2) - |v|^2 / 2     (METHODS Sec. 6)
    p(y* | x*) = 1/S sum_s p(y* | x*, v_s)

v holds the whitened inducing outputs of all layers, [T M]. Kernel, likelihood and Z follow by moving-window Monte Carlo
EM. Departures from the published runs, each with its switch: the preconditioner is frozen at the mean of grad^2 over
the second half of the burn-in (``method.freeze=last`` is a random snapshot, as published); ``method.noise=corrected``
takes off the variance that minibatches add (published: plain). The chain starts at v = 0.
"""

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.datasets.scaling import Regression
from dgpbench.gp.particles import log_joint, split_layers
from dgpbench.gp.prior import Architecture, DeepGP, build_prior
from dgpbench.gp.propagate import Paths, given
from dgpbench.methods.choices import Choices, Seeds, pick
from dgpbench.methods.initialisation import kmeans_centres
from dgpbench.methods.prediction import compiled, predict_in_pieces
from dgpbench.methods.variational import path_shapes
from dgpbench.predictive import GaussianMixture
from dgpbench.training.clock import Clock
from dgpbench.training.diagnostics import MAX_TRACES, chain_summary
from dgpbench.training.loops import AdamSettings
from dgpbench.training.mcem import Chain, Schedule, run
from dgpbench.training.minibatches import Minibatches, base_seed, stateless_normals
from dgpbench.training.sghmc import MovingWindow, Sampler, SamplerSettings

COLUMNS_AT_ONCE = 8192  # rows x samples of one prediction graph call: bounds its memory
MAX_STORED = 4_000_000  # numbers in the samples that the record keeps


def fit(train_rows: Regression, choices: Choices, seeds: Seeds, clock: Clock) -> "SampledPredictor":
    """Sample a deep GP's inducing outputs.

    :param train_rows: standardised rows X [N, D], Y [N, 1]
    :param choices: ``method`` holds the architecture and the sampler's settings, ``training`` the schedule
    """
    architecture = pick(Architecture, choices.method)
    prior = build_prior(
        architecture, train_rows.X, kmeans_centres(train_rows.X, architecture.num_inducing, seeds.initial)
    )
    schedule = build_schedule(choices)
    chain = build_chain(prior, train_rows, choices, schedule, seeds)
    taken, samples = run(chain, schedule, clock)
    predictor = SampledPredictor(SampledDeepGP(prior, samples), {"iterations": taken})
    rows = np.random.default_rng(seeds.prediction).permutation(len(train_rows.X))[:MAX_TRACES]
    traces = predictor.traces(train_rows.X[rows], seeds.prediction)
    predictor.diagnostics |= chain_summary(traces, schedule.thinning)
    return predictor


def build_schedule(choices: Choices) -> Schedule:
    """The counts of steps from their shares of max_iterations."""
    total = choices.training["max_iterations"]
    return Schedule(
        max_iterations=total,
        burn_in=_share(choices.training["burn_in"], total),
        thinning=_share(choices.training["thinning"], total),
        num_samples=choices.prediction["num_samples"],
    )


def build_chain(prior: DeepGP, rows: Regression, choices: Choices, schedule: Schedule, seeds: Seeds) -> Chain:
    """The chain at v = 0, its window and the optimiser of the parameters."""
    training, N = choices.training, len(rows.X)
    widths = tuple(layer.num_gps for layer in prior.layers)
    start = np.zeros([1, sum(widths) * prior.layers[0].Z.shape[0]], rows.X.dtype)

    def density(v, X, y, seed, step):
        normals = stateless_normals(path_shapes(widths, tf.shape(v)[0], tf.shape(X)[-2]), seed, step, X.dtype)
        return log_joint(prior, v, X, y, N, normals)

    return Chain(
        density,
        Sampler(start, N, pick(SamplerSettings, choices.method)),
        MovingWindow(_share(training["window"], schedule.max_iterations), start[0]),
        prior.trainable_variables,
        AdamSettings(training["learning_rate"], training["decay_rate"], training["decay_steps"]).build(),
        (rows.X, rows.Y[:, 0]),
        Minibatches(N, training["batch_size"], seeds.batches),
        base_seed(seeds.samples),
    )


def _share(share: float, total: int) -> int:
    return max(1, round(share * total))


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
    """

    def __init__(self, model: SampledDeepGP, diagnostics: dict):
        self.model = model
        self.diagnostics = diagnostics
        self._moments = compiled(self._compute_moments, model.prior.layers[0].Z.shape[1])
        self._traces = tf.function(self._compute_traces, autograph=False)

    def _compute_moments(self, X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shapes = path_shapes(self.model.widths, self.model.samples.shape[0], tf.shape(X)[0])
        paths = self.model.paths(X, stateless_normals(shapes, seed, chunk, X.dtype))
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
        """The samples of v, [S, T_l, M] a layer, evenly thinned where they would be too many to keep (Fig. S6)."""
        samples = self.model.samples.numpy()
        samples = samples[:: max(1, -(-samples.size // MAX_STORED))]
        layers = split_layers(tf.constant(samples), self.model.widths)
        return {f"samples_{index + 1}": v.numpy() for index, v in enumerate(layers)}
