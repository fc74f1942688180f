"""Neural networks in tf_keras: a deep ensemble, and Monte Carlo dropout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.baselines.held_out import held_out_rows
from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.methods.interface import Seeds
from dgpbench.plugins import Gaussian, GaussianMixture, Method, Settings, setting
from dgpbench.training.monitor import Monitor

ROWS_AT_ONCE = 4096
LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class EnsembleSettings(Settings):
    """Lakshminarayanan et al. (2017), Sec. 3.2, without adversarial training, and with shorter steps.

    At the paper's learning rate of 0.1 single networks are far off here (boston, splits 10 to 13: RMSE 6 to 60); 0.01
    was chosen on those splits.
    """

    num_networks: int = setting("networks", low=1, default=5)
    width: int = setting("units of the hidden layer; the paper has 100 for protein and year", low=1, default=50)
    epochs: int = setting("passes over the training rows", low=1, default=40)
    batch_size: int = setting("rows of a minibatch", low=1, default=100)
    learning_rate: float = setting("Adam's learning rate; the paper has 0.1", above=0, default=0.01)


@dataclass
class Ensemble:
    """Networks that predict a mean and a variance each, and a Gaussian with the moments of their mixture."""

    networks: Sequence[Any]

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """Mean and variance of the equally weighted mixture of the networks' Gaussians, as published."""
        del seed
        outputs = [
            network.predict(X, batch_size=ROWS_AT_ONCE, verbose=0).astype(np.float64) for network in self.networks
        ]
        means = [each[:, 0] for each in outputs]
        variances = [np.logaddexp(0.0, each[:, 1]) + LEAST_VARIANCE for each in outputs]  # softplus, as in training
        return Gaussian(np.mean(means, axis=0), np.mean(variances, axis=0) + np.var(means, axis=0))


def fit_ensemble(train: Regression, settings: EnsembleSettings, seeds: Seeds, monitor: Monitor) -> Ensemble:
    """Fit each network by its negative log-likelihood, from its own initial weights and order of rows."""
    del monitor
    # Two seeds each, of the hidden and of the output layer.
    return Ensemble([_network(train, settings, seeds.initial + 2 * number) for number in range(settings.num_networks)])


def _network(train: Regression, settings: EnsembleSettings, seed: int) -> Any:
    import tensorflow as tf
    import tf_keras as keras

    def negative_log_likelihood(y: Any, outputs: Any) -> Any:
        mean, variance = outputs[:, :1], tf.nn.softplus(outputs[:, 1:]) + LEAST_VARIANCE
        return 0.5 * tf.math.log(variance) + 0.5 * tf.square(y - mean) / variance

    hidden = _dense(settings.width, seed, activation="relu")
    model = keras.Sequential([hidden, _dense(2, seed + 1)])
    optimiser = keras.optimizers.legacy.Adam(settings.learning_rate)
    _train(model, optimiser, negative_log_likelihood, train, settings, seed)
    return model


def _dense(width: int, seed: int, **more: Any) -> Any:
    import tf_keras as keras

    return keras.layers.Dense(width, kernel_initializer=keras.initializers.GlorotUniform(seed=seed % 2**31), **more)


def _train(model: Any, optimiser: Any, loss: Any, train: Regression, settings: Any, seed: int) -> None:
    """Train on all rows in each epoch, in an order that depends on the seed.

    Many steps share a call, and all epochs one epoch of Keras, which costs more than the few steps of a small table.
    """
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((train.X.astype(np.float32), train.Y.astype(np.float32)))
    rows = rows.shuffle(len(train.X), seed=seed % 2**31, reshuffle_each_iteration=True).batch(settings.batch_size)
    steps = settings.epochs * len(rows)
    model.compile(optimiser, loss, steps_per_execution=min(steps, 100))
    model.fit(rows.repeat(), steps_per_epoch=steps, verbose=0)


DEEP_ENSEMBLE = Method(
    "deep_ensemble",
    fit_ensemble,
    EnsembleSettings,
    title="Ensemble of five heteroscedastic networks",
    citation="lakshminarayanan2017",
    budgets={"smoke": {"epochs": 3}},
)


@dataclass(frozen=True)
class DropoutSettings(Settings):
    """Gal & Ghahramani (2016), Sec. 5.2: 50 hidden units, 400 epochs, rate and precision by a held-out fifth."""

    width: int = setting("units of the hidden layer; the paper has 100 for protein and year", low=1, default=50)
    epochs: int = setting("passes over the training rows", low=1, default=400)
    batch_size: int = setting("rows of a minibatch", low=1, default=128)
    rates: list = setting("dropout rates to choose from", default=(0.005, 0.01, 0.05, 0.1))
    noises: list = setting(
        "noise variances, 1 / tau, to choose from, in standard units; at 1 nothing is explained",
        default=(0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
    )
    lengthscale: float = setting("prior lengthscale", above=0, default=0.01)
    holdout: float = setting("share of the training rows that chooses", above=0, below=1, default=0.2)
    num_samples: int = setting("T, stochastic forward passes; the paper has 10,000", low=1, default=1000)

    def __post_init__(self) -> None:
        if not self.rates or not all(isinstance(each, int | float) and 0 <= each < 1 for each in self.rates):
            raise UserError("method.rates must be a list of dropout rates from 0 to below 1, such as [0.05, 0.1]")
        if not self.noises or not all(isinstance(each, int | float) and each > 0 for each in self.noises):
            raise UserError("method.noises must be a list of variances above 0, such as [0.1, 0.4]")


@dataclass
class Dropped:
    """A network with dropout in prediction too: each pass draws another function."""

    network: Any
    noise: float  # 1 / tau, in standard units
    settings: DropoutSettings
    diagnostics: dict[str, Any]

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """1/T sum_t N(f_t(x), 1 / tau), the masks drawn with the seed."""
        return _mixture(_passes(self.network, X, self.settings.num_samples, seed), self.noise)


def fit_dropout(train: Regression, settings: DropoutSettings, seeds: Seeds, monitor: Monitor) -> Dropped:
    """Choose rate and noise variance by the log-likelihood of a fifth of the rows; then fit a network to all rows.

    The noise variance is also a factor of the weight decay, but that is some 1e-8 of the loss: one network for each
    rate is enough.
    """
    del monitor
    parts = held_out_rows(len(train.X), settings.holdout, seeds.holdout)
    kept, left = (Regression(train.X[rows], train.Y[rows]) for rows in parts)
    scores = {}
    for rate in settings.rates:
        network = _dropout_network(kept, settings, rate, float(np.median(settings.noises)), seeds.initial)
        means = _passes(network, left.X, settings.num_samples, seeds.samples)
        for noise in settings.noises:
            scores[rate, noise] = float(_mixture(means, noise).log_density(left.Y).mean())
    rate, noise = max(scores, key=lambda pair: scores[pair])
    network = _dropout_network(train, settings, rate, noise, seeds.initial)
    return Dropped(network, noise, settings, {"dropout_rate": rate, "noise_variance": noise})


def _mixture(means: np.ndarray, noise: float) -> GaussianMixture:
    return GaussianMixture(means, np.full_like(means, noise))


def _dropout_network(train: Regression, settings: DropoutSettings, rate: float, noise: float, seed: int) -> Any:
    import tf_keras as keras

    decay = keras.regularizers.l2(settings.lengthscale**2 * (1 - rate) * noise / (2 * len(train.X)))
    model = keras.Sequential(
        [
            keras.layers.Dropout(rate, seed=seed % 2**31),
            _dense(settings.width, seed, activation="relu", kernel_regularizer=decay),
            keras.layers.Dropout(rate, seed=(seed + 1) % 2**31),
            _dense(1, seed + 1, kernel_regularizer=decay),
        ]
    )
    _train(model, keras.optimizers.legacy.Adam(), "mse", train, settings, seed)
    model.dropout_rate = rate
    return model


def _passes(network: Any, X: np.ndarray, num: int, seed: int) -> np.ndarray:
    """Return T passes with dropout, [T, N, 1]; the masks depend on the seed and on the number of rows."""
    rng = np.random.default_rng(seed)
    first, second = (layer for layer in network.layers if layer.weights)
    (W, b), (v, c) = (([each.numpy().astype(np.float64) for each in layer.weights]) for layer in (first, second))
    keep = 1 - network.dropout_rate
    found = np.empty((num, len(X), 1))
    for t in range(num):
        inputs = X * (rng.random(X.shape) < keep) / keep
        hidden = np.maximum(inputs @ W + b, 0.0)
        found[t] = (hidden * (rng.random(hidden.shape) < keep) / keep) @ v + c
    return found


MC_DROPOUT = Method(
    "mc_dropout",
    fit_dropout,
    DropoutSettings,
    title="Monte Carlo dropout",
    citation="gal2016",
    budgets={"smoke": {"epochs": 3, "rates": [0.05], "noises": [0.1, 0.4], "num_samples": 20}},
)
