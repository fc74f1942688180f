"""Structured variational inference: mean field, stripes, arrow, STAR, chain, fully coupled and custom.

The ELBO of Lindinger et al. 2020 (Eq. 5, Theorem 1; docs/methods.md, "Structured posteriors"), maximised by Adam:

    ELBO = (N/B) sum_b mean_r E[log N(y_b; f^L, s2)] - KL(q(v) || N(0, I)),   q(v) = N(m, C C^T)

Mean field is DSVI (Salimbeni & Deisenroth 2017); depth 1 is the sparse GP of Hensman et al. 2013 ("SGP"). Other
objectives of the same posterior are the tight bound and the predictive log-likelihood (``method.bound``).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.gp.block_gaussian import BlockGaussian, Blocks
from dgpbench.gp.latent_input import LatentInput, with_latent, with_prior_draws
from dgpbench.gp.linear_algebra import whiten
from dgpbench.gp.objectives import elbo, importance_weighted_elbo, predictive, tight_elbo
from dgpbench.gp.prior import Architecture, DeepGP, build_prior, read_once
from dgpbench.gp.propagation import Paths, given, marginalise, marginalise_jointly, path_shapes
from dgpbench.gp.sigma_points import SigmaPoints
from dgpbench.gp.structures import STRUCTURES
from dgpbench.methods.deep_fit import DeepFit
from dgpbench.methods.inducing_points import kmeans_centres
from dgpbench.methods.interface import FitSettings, Seeds, pick
from dgpbench.methods.predictor import (
    COLUMNS_AT_ONCE,
    FIRST_Z,
    MixturePredictor,
    assign,
    deep_predictor,
    normals_of_rows,
)
from dgpbench.methods.settings import StructuredSettings
from dgpbench.training.loops import adam, decayed
from dgpbench.training.minibatches import base_seed, stateless_normals
from dgpbench.training.monitor import Monitor
from dgpbench.training.natural_gradient import NaturalGradientAdam
from dgpbench.training.settings import AdamSettings, NaturalGradientSettings

START_ROWS, START_ITERATIONS = 10_000, 200  # of the sparse GP that the output layer starts from


def restore(settings: FitSettings[StructuredSettings, Any], arrays: Mapping[str, np.ndarray]) -> MixturePredictor:
    """Return the predictor that the arrays were taken from."""
    Z = arrays[FIRST_Z]
    return predictor_of(assign(arrays, build_model(settings, Z, Z)), settings)


def predictor_of(model: "DeepModel", settings: FitSettings[StructuredSettings, Any]) -> MixturePredictor:
    """Return the predictor of a mixture of as many Gaussians as there are paths of a row."""
    return deep_predictor(model, settings.num_samples, common_normals=settings.common_normals)


def start_model(
    train: Regression,
    fitting: Regression,
    settings: FitSettings[StructuredSettings, AdamSettings],
    seeds: Seeds,
    monitor: Monitor,
) -> "DeepModel":
    """Build the model that training starts at."""
    method = settings.method
    X, Z = train.X, kmeans_centres(train.X, method.num_inducing, seeds.initial)
    if method.num_importance_samples is not None:
        X, Z = (with_prior_draws(rows, seeds.initial) for rows in (X, Z))
    model = build_model(settings, X, Z, seeds.initial)
    if method.output_start == "sgpr":
        start_output_layer(model, fitting, seeds.initial, monitor)
    if settings.initial is not None:
        start_from(model, settings.initial)
    return model


def build_model(
    settings: FitSettings[StructuredSettings, Any], X: np.ndarray, Z: np.ndarray, seed: int = 0
) -> "DeepModel":
    """Build the model at its starting values; X [N, D] and Z [M, D] as ``build_prior`` takes them.

    :param seed: of the quadrature sites, or of the network of latent inputs, if there are any
    """
    method = settings.method
    prior, q = build_prior(pick(Architecture, method, precision=settings.precision), X, Z), build_posterior(method)
    if method.bound == "predictive":
        points = SigmaPoints(method.widths(), method.num_sites, seed)
        return DeepModel(prior, q, bound=partial(predictive, beta=method.beta), points=points)
    if (K := method.num_importance_samples) is not None:
        latent = LatentInput(X.shape[1] - 1, K, seed)
        return DeepModel(prior, q, bound=partial(importance_weighted_elbo, num_importance_samples=K), latent=latent)
    bound = tight_elbo if method.bound == "tight" else elbo
    return DeepModel(prior, q, bound=bound, sample_inducing=not method.marginalise)


def start_from(model: "DeepModel", initial: dict[str, np.ndarray]) -> None:
    """Assign a finished run's parameters to a model with the same or a larger structure, as fc contains mf (Table S5).

    Blocks of C that a mean-field run does not have stay at zero.

    :raises UserError: for runs that differ in layers, widths, inducing points, features or couplings
    """
    parameters = gpflow.utilities.parameter_dict(model)
    couplings, theirs = ({name for name in names if ".couplings" in name} for names in (parameters, initial))
    wanted = set(parameters) - (couplings - theirs)
    fits = theirs in (set(), couplings) and all(
        name in initial and initial[name].shape == tuple(parameters[name].shape) for name in wanted
    )
    if not fits:
        raise UserError(
            "init_from= names a run of another architecture; start from a mean-field run, or one of the same "
            "structure, with the same method.num_layers, method.width and method.num_inducing on the same data set"
        )
    for name in wanted:
        parameters[name].assign(initial[name])


def start_output_layer(model: "DeepModel", rows: Regression, seed: int, monitor: Monitor) -> None:
    """Start the output layer at a sparse GP fitted to what it sees of some training rows, one path each."""
    chosen = np.random.default_rng(seed).permutation(len(rows.X))[:START_ROWS]
    X = tf.constant(rows.X[chosen])
    hidden = model.paths(X, 1, base_seed(seed), tf.constant(0, tf.int64)).hidden
    H = tf.transpose(hidden[-1][:, 0]) if hidden else X
    mean, factor = fit_output_layer(model.prior, H, rows.Y[chosen], len(rows.X) / len(chosen), monitor)
    model.q.means[-1].assign(mean[None])
    model.q.diagonal[-1].assign(factor[None])


def fit_output_layer(
    prior: DeepGP, H: tf.Tensor, Y: np.ndarray, weight: float, monitor: Monitor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Fit the output layer's kernel, Z and the noise variance as a sparse GP on the layer's inputs at the start.

    Return the optimal q(v) = N(m, C C^T) there:

        m = weight B^{-1} A y / s,   C C^T = B^{-1},   B = I + weight A A^T,   A = Lk^{-1} k(Z, H) / s

    L-BFGS maximises the collapsed bound of Titsias 2009.

    :param H: n of the training rows, each through one path of the hidden layers, [n, T_{L-1}]
    :param Y: their targets, [n, 1]
    :param weight: training rows for each of the n
    :return: m [M], C [M, M] lower triangular
    """
    layer = prior.layers[-1]
    inducing = gpflow.inducing_variables.InducingPoints(layer.Z)
    model = gpflow.models.SGPR((H, Y), layer.kernel, inducing, likelihood=prior.likelihood)
    loss = model.training_loss_closure(compile=True)
    options = {"maxiter": START_ITERATIONS}
    monitor.training(lambda: gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables, options=options))
    s = tf.sqrt(prior.noise_variance)
    A = whiten(layer.cholesky(), layer.kernel(layer.Z, H)) / s
    B = tf.eye(A.shape[0], dtype=A.dtype) + weight * tf.matmul(A, A, transpose_b=True)
    covariance = tf.linalg.inv(B)
    return weight * tf.linalg.matvec(covariance, tf.linalg.matvec(A, Y[:, 0])) / s, tf.linalg.cholesky(covariance)


def build_posterior(method: StructuredSettings) -> BlockGaussian:
    """Build q at its starting values: m = 0, nearly deterministic hidden layers, the output layer's C = I."""
    blocks = [method.blocks] if method.structure == "custom" else []
    structure = STRUCTURES[method.structure](method.widths(), *blocks)
    scales = [method.hidden_scale] * (method.num_layers - 1) + [method.output_scale]
    return BlockGaussian(structure, method.num_inducing, scales, whiten=method.whiten)


def build_optimiser(settings: FitSettings[StructuredSettings, AdamSettings], model: "DeepModel"):
    """Adam for everything, or natural gradients on q with Adam on the rest (docs/methods.md, "Natural gradients")."""
    training, q = settings.training, model.q
    likelihood = model.prior.likelihood
    if isinstance(training, NaturalGradientSettings):
        return NaturalGradientAdam(q, adam(training, likelihood=likelihood), decayed(training.natgrad_gamma, training))
    factors = [factor.unconstrained_variable for factor in (*q.diagonal, *q.couplings)]
    return adam(training, likelihood=likelihood, slow=factors, share=settings.method.covariance_rate)


class DeepModel(gpflow.Module):
    """A prior and a structured posterior, trained together.

    :param bound: an objective of ``gp.objectives``: (q, paths, y, s2, N) -> scalar
    :param points: sites and weights of the paths; None for sampled paths
    :param latent: the latent input of the rows; None for a model without one
    :param sample_inducing: draw v for each path (``fc_mc``; paper, Eq. 12) where False integrates it out (Theorem 1)
    """

    columns_at_once = COLUMNS_AT_ONCE

    def __init__(
        self,
        prior: DeepGP,
        q: BlockGaussian,
        *,
        bound: Callable[..., tf.Tensor] = elbo,
        points: SigmaPoints | None = None,
        latent: LatentInput | None = None,
        sample_inducing: bool = False,
    ):
        super().__init__(name="deep_model")
        self.prior = prior
        self.q = q
        self.bound = bound
        self.points = points
        self.latent = latent
        self.sample_inducing = sample_inducing

    def normals(
        self, num_samples: int, num_rows: tf.Tensor, seed: tf.Tensor, step: tf.Tensor, dtype
    ) -> list[tf.Tensor]:
        """Draw the normals of ``num_samples`` paths of a batch for ``objective``; of K times as many latent inputs."""
        if self.latent is not None:
            num_samples *= self.latent.num_importance_samples
        shapes = self._shapes(num_samples, num_rows)
        if self.sample_inducing:
            shapes = [*shapes, *((num_samples, *mean.shape) for mean in self.q.means)]
        return stateless_normals(shapes, seed, step, dtype)

    def objective(self, X: tf.Tensor, y: tf.Tensor, num_data: int, normals: list[tf.Tensor]) -> tf.Tensor:
        """Return an unbiased draw of the objective from paths of the batch X [B, D], y [B]."""
        prior = read_once(self.prior)
        choleskys = prior.choleskys()
        q = self.q.blocks(choleskys)
        if self.sample_inducing:
            L = len(prior.layers)
            paths = given(prior, q.sample(normals[-L:]), choleskys, X, normals[:-L])
        elif self.latent is not None:
            *normals, e = normals
            w, log_weights = self.latent.sample(X, y, e)
            H, K = with_latent(X, w), self.latent.num_importance_samples
            paths = marginalise_jointly(prior, q, choleskys, H, normals, K)._replace(log_weights=log_weights)
        else:
            paths = self._marginalise(prior, q, choleskys, X, normals)
        return self.bound(q, paths, y, prior.noise_variance, num_data)

    def paths(
        self, X: tf.Tensor, num_samples: int, seed: tf.Tensor, chunk: tf.Tensor, *, common: bool = False
    ) -> Paths:
        """Return paths of the rows X under q, by Theorem 1 for every way of training q."""
        choleskys = self.prior.choleskys()
        normals = normals_of_rows(self._shapes(num_samples, tf.shape(X)[0]), seed, chunk, X.dtype, common=common)
        if self.latent is not None:
            *normals, w = normals  # from the prior
            X = with_latent(X, w)
        return self._marginalise(self.prior, self.q.blocks(choleskys), choleskys, X, normals)

    def _shapes(self, num_samples: int, num_rows: tf.Tensor) -> list[tf.Tensor]:
        """The shapes of the normals of the hidden layers and, if there are any, of the latent inputs."""
        shapes = path_shapes(self.q.structure.widths, num_samples, num_rows)
        return shapes if self.latent is None else [*shapes, tf.stack([num_samples, num_rows])]

    def _marginalise(self, prior: DeepGP, q: Blocks, choleskys: list, X: tf.Tensor, normals: list) -> Paths:
        """Theorem 1 with the given normals, or at the learned sites."""
        if self.points is None:
            return marginalise(prior, q, choleskys, X, normals)
        paths = marginalise(prior, q, choleskys, X, self.points.normals(tf.shape(X)[0]))
        return paths._replace(log_weights=self.points.log_weights())


DEEP_FIT = DeepFit(start_model, predictor_of, build_optimiser)
fit, fit_together = DEEP_FIT.fit, DEEP_FIT.fit_together
