"""The fully factorised variational deep GP (Damianou & Lawrence 2013).

q = prod_l q(v^l) q(h^l) with q(h^l) = prod_n N(m_n^l, diag s_n^l), which cuts the layers' dependence
(docs/methods.md, "Fully factorised"):

    F = (N/B) sum_b { sum_{l<L,t} E[log N(h; f, s2_l)] + H[q(h)] + E[log N(y_b; f^L, s2)] } - KL(q(v) || N(0, I))

Expectations over h are psi statistics. m_n and s_n are parameters of each row, so a batch trains its own rows' and the
weights N/B keep the bound unbiased. Depth 1 is the sparse GP of Hensman et al. 2013. Predictions match moments layer
by layer under q. Departure from the paper: q(v) is kept and trained, not collapsed, which is what minibatches need.
"""

from collections.abc import Mapping
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.gp.block_gaussian import BlockGaussian
from dgpbench.gp.moment_matching import MATCHED_ROWS_AT_ONCE, match_moments
from dgpbench.gp.objectives import hidden_bound
from dgpbench.gp.prior import Architecture, DeepGP, build_prior, mean_map, read_once
from dgpbench.gp.propagation import Paths
from dgpbench.gp.structures import mean_field
from dgpbench.methods.inducing_points import kmeans_centres
from dgpbench.methods.interface import FitSettings, Seeds, pick
from dgpbench.methods.predictor import FIRST_Z, MixturePredictor, assign, deep_predictor, held_out_score
from dgpbench.methods.settings import FullyFactorisedSettings
from dgpbench.training.early_stopping import hold_out
from dgpbench.training.loops import adam, maximise
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import AdamSettings


def fit(
    train: Regression, settings: FitSettings[FullyFactorisedSettings, AdamSettings], seeds: Seeds, monitor: Monitor
) -> MixturePredictor:
    """Fit a deep GP with a Gaussian for each row's hidden layers."""
    method, training = settings.method, settings.training
    fitting, held_out = hold_out(train, training, seeds.holdout)
    Z = kmeans_centres(train.X, method.num_inducing, seeds.initial)
    model = build_model(settings, train.X, Z, principal_rows(fitting.X, method.widths()[:-1], seeds.initial, train.X))
    N = len(fitting.X)
    validator = deep_predictor(model, training.validation_samples)
    predictor = deep_predictor(model, 1)
    predictor.diagnostics["iterations"] = maximise(
        lambda _step, X, y, rows: model.bound(X, y, rows, N),
        model.trainable_variables,
        fitting,
        training,
        seeds.batches,
        monitor,
        optimiser=adam(training, likelihood=model.prior.likelihood),
        predict=predictor.predict,
        score=held_out_score(validator, held_out, seeds.holdout),
    )
    return predictor


def restore(settings: FitSettings[FullyFactorisedSettings, Any], arrays: Mapping[str, np.ndarray]) -> MixturePredictor:
    """Return the predictor that the arrays were taken from."""
    Z = arrays[FIRST_Z]
    means = [arrays[f".hidden.means[{layer}]"] for layer in range(settings.method.num_layers - 1)]
    return deep_predictor(assign(arrays, build_model(settings, Z, Z, means)), 1)


def build_model(
    settings: FitSettings[FullyFactorisedSettings, Any], X: np.ndarray, Z: np.ndarray, hidden_means: list[np.ndarray]
) -> "FullyFactorisedModel":
    """Build the model at its starting values; X [N, D] and Z [M, D] as ``build_prior`` takes them."""
    method = settings.method
    prior = build_prior(pick(Architecture, method, precision=settings.precision, white_noise=None), X, Z)
    scales = [method.hidden_scale] * (method.num_layers - 1) + [method.output_scale]
    q = BlockGaussian(mean_field(method.widths()), method.num_inducing, scales)
    return FullyFactorisedModel(prior, q, HiddenRows(hidden_means, method.row_variance))


def principal_rows(X: np.ndarray, widths: tuple[int, ...], seed: int, all_rows: np.ndarray) -> list[np.ndarray]:
    """Return the rows' starting values in each hidden layer, their inputs through the layers' mean maps, [N, T_l].

    In a layer wider than the inputs, the additional GPs would start alike, and stay so: noise of 0.01 separates them.

    :param all_rows: the inputs that determine the maps, held-out rows included
    """
    values, rng = [], np.random.default_rng(seed)
    for width in widths:
        W = mean_map(all_rows, width)
        X, all_rows = X @ W, all_rows @ W
        values.append(X + 0.01 * rng.normal(size=X.shape))
    return values


class HiddenRows(gpflow.Module):
    """q(h_n^l) = N(m_n, diag s_n) for every training row and hidden layer.

    :param means: m at the start, one [N, T_l] a hidden layer
    :param variance: s at the start
    """

    def __init__(self, means: list[np.ndarray], variance: float):
        super().__init__(name="hidden_rows")
        # Parameters without transform, so that the gradient of a batch has its own rows alone.
        self.means = [gpflow.Parameter(m) for m in means]
        self.log_variances = [gpflow.Parameter(np.full(m.shape, np.log(variance))) for m in means]

    def at(self, rows: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Return (m, s) of some rows, [B, T_l] each, for each hidden layer."""
        pairs = zip(self.means, self.log_variances, strict=True)
        return [
            (tf.gather(m.unconstrained_variable, rows), tf.exp(tf.gather(log_s.unconstrained_variable, rows)))
            for m, log_s in pairs
        ]


class FullyFactorisedModel(gpflow.Module):
    """A prior, a mean-field q(v) and the rows' q(h), trained together."""

    latent = None
    columns_at_once = MATCHED_ROWS_AT_ONCE

    def __init__(self, prior: DeepGP, q: BlockGaussian, hidden: HiddenRows):
        super().__init__(name="fully_factorised")
        self.prior = prior
        self.q = q
        self.hidden = hidden

    def bound(self, X: tf.Tensor, y: tf.Tensor, rows: tf.Tensor, num_data: int) -> tf.Tensor:
        """Return the bound from the batch X [B, D], y [B] with the row numbers ``rows`` [B]."""
        prior = read_once(self.prior)
        choleskys = prior.choleskys()
        return hidden_bound(prior, self.q.blocks(choleskys), choleskys, X, y, self.hidden.at(rows), num_data)

    def paths(
        self, X: tf.Tensor, num_samples: int, seed: tf.Tensor, chunk: tf.Tensor, *, common: bool = False
    ) -> Paths:
        """Return the matched moments of the rows X under q; nothing is sampled."""
        del num_samples, seed, chunk, common
        choleskys = self.prior.choleskys()
        return match_moments(self.prior, self.q.blocks(choleskys), choleskys, X)
