"""Structured variational inference: mean field, stripes, arrow, STAR, chain, fully coupled and custom.

The ELBO of Lindinger et al. 2020 (Eq. 5, Theorem 1; METHODS Sec. 2), maximised by Adam:

    ELBO = (N/B) sum_b mean_r E[log N(y_b; f^L, s2)] - KL(q(v) || N(0, I)),   q(v) = N(m, C C^T)

Mean field is DSVI (Salimbeni & Deisenroth 2017); depth 1 is the sparse GP of Hensman et al. 2013 ("SGP").
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.datasets.scaling import Regression
from dgpbench.errors import Refused
from dgpbench.gp.gaussians import BlockGaussian
from dgpbench.gp.objectives import elbo
from dgpbench.gp.prior import Architecture, DeepGP, build_prior
from dgpbench.gp.propagate import Paths, given, marginalise
from dgpbench.gp.structures import STRUCTURES, Structure
from dgpbench.methods.choices import Choices, Seeds, pick
from dgpbench.methods.initialisation import kmeans_centres
from dgpbench.methods.prediction import compiled, predict_in_pieces, validation_score
from dgpbench.predictive import GaussianMixture
from dgpbench.training.clock import Clock
from dgpbench.training.early_stopping import StoppingRule
from dgpbench.training.loops import RECORD_EVERY, AdamSettings, maximise
from dgpbench.training.minibatches import Minibatches, base_seed, stateless_normals
from dgpbench.training.natural_gradient import NaturalGradientAdam

COLUMNS_AT_ONCE = 8192  # rows x samples of one prediction graph call: bounds its memory


def fit(train: Regression, choices: Choices, seeds: Seeds, clock: Clock) -> "DeepPredictor":
    """Fit a deep GP with a structured Gaussian posterior.

    :param train: standardised rows X [N, D], Y [N, 1]
    :param choices: ``method.structure`` names the blocks; ``method.marginalise`` chooses Theorem 1 or sampling v
    """
    architecture = pick(Architecture, choices.method)
    prior = build_prior(architecture, train.X, kmeans_centres(train.X, architecture.num_inducing, seeds.initial))
    q = build_posterior(choices.method, architecture)
    model = DeepModel(prior, q, sample_inducing=not choices.method["marginalise"])
    if choices.initial is not None:
        start_from(model, choices.initial)
    rule = stopping_rule(choices.training)
    fitting, held_out = hold_out(train, rule, choices.training, seeds.holdout)
    iterations = train_by_adam(model, fitting, held_out, rule, choices.training, seeds, clock)
    return DeepPredictor(model, choices.prediction["num_samples"], {"iterations": iterations})


def start_from(model: "DeepModel", initial: dict[str, np.ndarray]) -> None:
    """Put a finished run's parameters into a model whose structure holds the other's, as fc holds mf (Table S5).

    Blocks of C that a mean-field run does not have stay at zero.

    :raises Refused: where the two runs differ in layers, widths, inducing points or features, or in their couplings
    """
    parameters = gpflow.utilities.parameter_dict(model)
    couplings, theirs = ({name for name in names if ".couplings" in name} for names in (parameters, initial))
    wanted = set(parameters) - (couplings - theirs)
    fits = theirs in (set(), couplings) and all(
        name in initial and initial[name].shape == tuple(parameters[name].shape) for name in wanted
    )
    if not fits:
        raise Refused(
            "init_from= names a run of another architecture; start from a mean-field run, or one of the same "
            "structure, with the same method.num_layers, method.width and method.num_inducing on the same data set"
        )
    for name in wanted:
        parameters[name].assign(initial[name])


def build_posterior(method: dict, architecture: Architecture) -> BlockGaussian:
    """q at its starting values: m = 0, nearly deterministic hidden layers, the output layer's C = I."""
    scales = [method["hidden_scale"]] * (architecture.num_layers - 1) + [method["output_scale"]]
    return BlockGaussian(
        build_structure(method, architecture.widths), architecture.num_inducing, scales, whiten=method["whiten"]
    )


def build_structure(method: dict, widths: tuple[int, ...]) -> Structure:
    """The structure that ``method.structure`` names, with ``method.blocks`` for a custom one."""
    if method["structure"] == "custom":
        return STRUCTURES["custom"](widths, method["blocks"])
    return STRUCTURES[method["structure"]](widths)


class DeepModel(gpflow.Module):
    """A prior and a structured posterior, trained together.

    :param sample_inducing: draw v for each path (``fc_mc``; paper, Eq. 12) where False integrates it out (Theorem 1)
    """

    columns_at_once = COLUMNS_AT_ONCE

    def __init__(self, prior: DeepGP, q: BlockGaussian, *, sample_inducing: bool = False):
        super().__init__(name="deep_model")
        self.prior = prior
        self.q = q
        self.sample_inducing = sample_inducing

    def elbo(self, X: tf.Tensor, y: tf.Tensor, num_data: int, num_samples: int, seed: tf.Tensor, step: tf.Tensor):
        """One unbiased draw of the ELBO from ``num_samples`` paths of the batch X [B, D], y [B]."""
        choleskys = self.prior.choleskys()
        q = self.q.blocks(choleskys)
        shapes = path_shapes(self.q.structure.widths, num_samples, tf.shape(X)[0])
        if self.sample_inducing:
            inducing_shapes = [(num_samples, *mean.shape) for mean in self.q.means]
            normals = stateless_normals([*shapes, *inducing_shapes], seed, step, X.dtype)
            paths = given(self.prior, q.sample(normals[len(shapes) :]), choleskys, X, normals[: len(shapes)])
        else:
            paths = marginalise(self.prior, q, choleskys, X, stateless_normals(shapes, seed, step, X.dtype))
        return elbo(q, paths, y, self.prior.noise_variance, num_data)

    def paths(self, X: tf.Tensor, num_samples: int, seed: tf.Tensor, step: tf.Tensor) -> Paths:
        """Paths of the rows X under q, by Theorem 1 whichever way q was trained."""
        choleskys = self.prior.choleskys()
        shapes = path_shapes(self.q.structure.widths, num_samples, tf.shape(X)[0])
        normals = stateless_normals(shapes, seed, step, X.dtype)
        return marginalise(self.prior, self.q.blocks(choleskys), choleskys, X, normals)


def path_shapes(widths: tuple[int, ...], num_samples: int, num_rows) -> list[tf.Tensor]:
    """The shapes [T_l, R, B] of the hidden layers' standard normals."""
    return [tf.stack([width, num_samples, num_rows]) for width in widths[:-1]]


def train_by_adam(
    model: DeepModel,
    fitting: Regression,
    held_out: Regression | None,
    rule: StoppingRule | None,
    training: dict,
    seeds: Seeds,
    clock: Clock,
    objective: Callable[..., tf.Tensor] | None = None,
) -> int:
    """Maximise the ELBO by Adam; returns the iterations run.

    :param objective: (step, X [B, D], y [B], row numbers [B]) -> scalar, for families with another one than the ELBO
    """
    N, seed = len(fitting.X), base_seed(seeds.samples)
    settings = pick(AdamSettings, training)
    validate = None
    if held_out is not None:
        monitor = DeepPredictor(model, training["validation_samples"], {})
        validate = partial(validation_score, monitor, held_out, seeds.holdout)

    def bound(step, X, y, _rows):
        return model.elbo(X, y, N, training["num_samples"], seed, step)

    return maximise(
        objective or bound,
        model.trainable_variables,
        build_optimiser(settings, model.q, training),
        (fitting.X, fitting.Y[:, 0], np.arange(N)),
        Minibatches(N, training["batch_size"], seeds.batches),
        training["max_iterations"],
        clock,
        validate=validate,
        rule=rule,
    )


def build_optimiser(settings: AdamSettings, q: BlockGaussian, training: dict):
    """Adam for everything, or natural gradients on q with Adam on the rest (METHODS Sec. 9)."""
    if training.get("optimiser") != "natgrad_adam":
        return settings.build()
    return NaturalGradientAdam(
        q, settings.build(), replace(settings, learning_rate=training["natgrad_gamma"]).schedule()
    )


def stopping_rule(training: dict) -> StoppingRule | None:
    """The run's early-stopping rule, or None where it is off or could never trigger in so few iterations.

    The published rule smooths over 50 records, a tenth of the part that never stops. A smaller budget scales both:
    smoothed over all of a short run, a score that has fallen and now rises still looks as if it fell.
    """
    if not training["early_stopping"]:
        return None
    start = round(training["early_stopping_start"] * training["max_iterations"])
    smoothing = max(1, min(50, start // (10 * RECORD_EVERY)))
    rule = StoppingRule(start, interval=RECORD_EVERY, smoothing=smoothing)
    return rule if rule.can_trigger(training["max_iterations"]) else None


def hold_out(
    train: Regression, rule: StoppingRule | None, training: dict, seed: int
) -> tuple[Regression, Regression | None]:
    """Training rows and the rows held out for early stopping; all rows and None without a rule."""
    if rule is None:
        return train, None
    rows = np.random.default_rng(seed).permutation(len(train.X))
    count = max(1, round(training["holdout_fraction"] * len(rows)))
    held, kept = rows[:count], np.sort(rows[count:])
    return Regression(train.X[kept], train.Y[kept]), Regression(train.X[held], train.Y[held])


class DeepPredictor:
    """Predicts one Gaussian for each path: a mixture of S components a row.

    :param model: a trained model
    :param num_samples: S
    :param diagnostics: what the record should keep about the fit
    """

    def __init__(self, model: DeepModel, num_samples: int, diagnostics: dict):
        self.model = model
        self.num_samples = num_samples if model.q.structure.widths[:-1] else 1
        self.diagnostics = diagnostics
        self._moments = compiled(self._compute_moments, model.prior.layers[0].Z.shape[1])

    def _compute_moments(self, X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        paths = self.model.paths(X, self.num_samples, seed, chunk)
        return paths.mean, paths.variance + self.model.prior.noise_variance

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """The predictive mixture at standardised inputs X [N, D], in chunks of bounded memory."""
        size = max(1, self.model.columns_at_once // self.num_samples)
        return predict_in_pieces(self._moments, X, seed, size)

    def posterior(self) -> dict[str, np.ndarray]:
        """q's mean and blocks, and the prior's parameters, for the record (paper, Fig. 1)."""
        choleskys = self.model.prior.choleskys()
        q = self.model.q.blocks(choleskys)
        arrays = {f"mean_{layer + 1}": m.numpy() for layer, m in enumerate(q.means)}
        arrays |= {f"diagonal_{layer + 1}": C.numpy() for layer, C in enumerate(q.diagonal)}
        for (layer, earlier), C in q.couplings.items():
            arrays[f"coupling_{layer + 1}_{earlier + 1}"] = C.numpy()
            arrays[f"pairs_{layer + 1}_{earlier + 1}"] = np.array(q.structure.couplings[layer, earlier])
        return arrays
