"""Power expectation propagation with tied sites: aep (Bui et al. 2016) and aepmcm (Hernandez-Munoz 2018).

q(v) is proportional to N(v; 0, I) g(v)^N. The energy, maximised by Adam over sites and hyperparameters alike, is

    F = sum_{l,GP} [(1 - N) Phi(q) - Phi(prior) + N Phi(cavity)] + (N/B) sum_b log Z_b

where log Z_b is the log-density of y_b when its row is propagated under the cavity (docs/methods.md, "Power EP"):

    aep      a Gaussian in, a Gaussian out: moments matched by psi statistics, no samples
    aepmcm   R sampled paths, log Z_b = logsumexp_r log N(y_b; m_r, v_r) - log R: a mixture

Every hidden layer adds noise to its outputs. Predictions propagate under q, as in both texts; the thesis' published
code uses the cavity there. ``method.power`` below 1 gives power EP, and the ELBO in the limit 0. Departures from the
texts: the sites' coordinates (``TiedSites``), Z shared by the GPs of a layer, and mean functions in aep where the
protocol has them.
"""

from collections.abc import Mapping
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.gp.block_gaussian import Blocks
from dgpbench.gp.moment_matching import MATCHED_ROWS_AT_ONCE, match_moments
from dgpbench.gp.objectives import log_tilted, power_ep_energy
from dgpbench.gp.prior import Architecture, DeepGP, build_prior, read_once
from dgpbench.gp.propagation import Paths, marginalise, path_shapes
from dgpbench.gp.tied_sites import TiedSites
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
from dgpbench.methods.settings import PowerEPSettings
from dgpbench.training.loops import adam
from dgpbench.training.minibatches import stateless_normals
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import AdamSettings


def start_model(
    train: Regression,
    fitting: Regression,
    settings: FitSettings[PowerEPSettings, AdamSettings],
    seeds: Seeds,
    _monitor: Monitor,
) -> "PowerEPModel":
    """Build the model that training starts at."""
    method = settings.method
    Z = kmeans_centres(train.X, method.num_inducing, seeds.initial)
    return build_model(settings, train.X, Z, build_sites(method, len(fitting.X), seeds.initial))


def restore(settings: FitSettings[PowerEPSettings, Any], arrays: Mapping[str, np.ndarray]) -> MixturePredictor:
    """Return the predictor that the arrays were taken from."""
    Z = arrays[FIRST_Z]
    sites = build_sites(settings.method, 1, 0)  # N is of the cavity, in training alone, and the draws are written over
    return predictor_of(assign(arrays, build_model(settings, Z, Z, sites)), settings)


def predictor_of(model: "PowerEPModel", settings: FitSettings[PowerEPSettings, Any]) -> MixturePredictor:
    """Return the predictor of one Gaussian a row where moments are matched, else of a mixture."""
    num_samples = 1 if model.matched else settings.num_samples
    return deep_predictor(model, num_samples, common_normals=settings.common_normals)


def build_model(
    settings: FitSettings[PowerEPSettings, Any], X: np.ndarray, Z: np.ndarray, sites: TiedSites
) -> "PowerEPModel":
    """Build the model at its starting values; X [N, D] and Z [M, D] as ``build_prior`` takes them."""
    method = settings.method
    prior = build_prior(pick(Architecture, method, precision=settings.precision, white_noise=None), X, Z)
    return PowerEPModel(prior, sites, method.power, matched=method.propagation == "match_moments")


def build_sites(method: PowerEPSettings, num_data: int, seed: int) -> TiedSites:
    """Build the sites at their starting values; random hidden means separate the GPs of a layer."""
    L, M, widths = method.num_layers, method.num_inducing, method.widths()
    rng = np.random.default_rng(seed)
    spreads = [method.hidden_mean_spread] * (L - 1) + [0.0]
    means = [spread * rng.normal(size=(T, M)) for T, spread in zip(widths, spreads, strict=True)]
    scales = [method.hidden_scale] * (L - 1) + [method.output_scale]
    return TiedSites(widths, M, scales, means, num_data)


class PowerEPModel(gpflow.Module):
    """A prior and tied sites, trained together.

    :param power: alpha; 1 is expectation propagation
    :param matched: whether rows propagate as Gaussians (aep) or as samples (aepmcm)
    """

    latent = None

    def __init__(self, prior: DeepGP, q: TiedSites, power: float, *, matched: bool):
        super().__init__(name="power_ep")
        self.prior = prior
        self.q = q
        self.power = power
        self.matched = matched
        self.columns_at_once = MATCHED_ROWS_AT_ONCE if matched else COLUMNS_AT_ONCE

    def normals(
        self, num_samples: int, num_rows: tf.Tensor, seed: tf.Tensor, step: tf.Tensor, dtype
    ) -> list[tf.Tensor]:
        """Draw the normals of ``num_samples`` paths of a batch for ``objective``; none where moments are matched."""
        shapes = [] if self.matched else path_shapes(self.q.structure.widths, num_samples, num_rows)
        return stateless_normals(shapes, seed, step, dtype)

    def objective(self, X: tf.Tensor, y: tf.Tensor, _num_data: int, normals: list[tf.Tensor]) -> tf.Tensor:
        """Return the energy from the batch X [B, D], y [B]; rows propagate under the cavity."""
        prior = read_once(self.prior)
        choleskys = prior.choleskys()
        sites = self.q.values()
        cavity = sites.moments(self.power)
        paths = self._propagate(prior, cavity, choleskys, X, normals)
        return power_ep_energy(sites, log_tilted(paths, y, prior.noise_variance, self.power), self.power)

    def paths(
        self, X: tf.Tensor, num_samples: int, seed: tf.Tensor, chunk: tf.Tensor, *, common: bool = False
    ) -> Paths:
        """Return paths of the rows X under q, for prediction."""
        choleskys = self.prior.choleskys()
        shapes = path_shapes(self.q.structure.widths, num_samples, tf.shape(X)[0])
        normals = [] if self.matched else normals_of_rows(shapes, seed, chunk, X.dtype, common=common)
        return self._propagate(self.prior, self.q.blocks(choleskys), choleskys, X, normals)

    def _propagate(self, prior: DeepGP, q: Blocks, choleskys, X: tf.Tensor, normals: list[tf.Tensor]) -> Paths:
        if self.matched:
            return match_moments(prior, q, choleskys, X)
        return marginalise(prior, q, choleskys, X, normals)


def optimiser_of(settings: FitSettings[PowerEPSettings, AdamSettings], model: PowerEPModel):
    """Adam, for sites and hyperparameters alike."""
    return adam(settings.training, likelihood=model.prior.likelihood)


def hidden_noise(model: PowerEPModel) -> dict[str, list[float]]:
    """Return the noise variance that each hidden layer adds, for the record."""
    return {"hidden_noise_variances": [float(layer.output_noise) for layer in model.prior.layers[:-1]]}


DEEP_FIT = DeepFit(start_model, predictor_of, optimiser_of, hidden_noise)
fit, fit_together = DEEP_FIT.fit, DEEP_FIT.fit_together
