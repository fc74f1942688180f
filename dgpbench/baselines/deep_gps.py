"""Deep GPs of other packages, built and trained as their documentation does; as many iterations as our own methods."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.data.standardise import Regression
from dgpbench.methods.interface import Seeds
from dgpbench.plugins import GaussianMixture, Method, Settings, setting
from dgpbench.system.tf_session import without_triton
from dgpbench.training.monitor import Monitor

ROWS_AT_ONCE = 4096
PEERS = "pip install 'dgpbench[peers]'"
BUDGETS = {
    "laptop": {"max_iterations": 2000},
    "smoke": {"max_iterations": 20, "num_inducing": 10, "num_samples": 5},
}


@dataclass(frozen=True)
class DeepGPSettings(Settings):
    """Settings for both packages."""

    layers: int = setting("L, layers", low=1, default=2)
    num_inducing: int = setting("M, inducing points of each layer", low=1, default=128)
    max_iterations: int = setting("steps of Adam", low=1, default=20000)
    batch_size: int = setting("rows of a minibatch", low=1, default=1024)
    learning_rate: float = setting("Adam's learning rate", above=0, default=0.01)
    num_samples: int = setting("paths of each row in prediction", low=1, default=100)


@dataclass(frozen=True)
class GPyTorchSettings(DeepGPSettings):
    """GPyTorch's example of deep GPs for regression."""

    width: int = setting("GPs of a hidden layer", low=1, default=10)
    training_samples: int = setting("paths of each row in training", low=1, default=10)


def batches(num_rows: int, settings: DeepGPSettings, seed: int) -> Iterator[np.ndarray]:
    """Yield the row numbers of each minibatch: no row twice in a pass, in random order."""
    rng, left = np.random.default_rng(seed), np.empty(0, int)
    size = min(settings.batch_size, num_rows)
    for _ in range(settings.max_iterations):
        if len(left) < size:
            left = rng.permutation(num_rows)
        yield left[:size]
        left = left[size:]


# GPflux ---------------------------------------------------------------------------------------------------------------


@dataclass
class GPflux:
    """A trained ``gpflux.models.DeepGP``."""

    model: Any
    num_samples: int

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """A component for each path through the hidden layers."""
        import tensorflow as tf

        tf.keras.utils.set_random_seed(seed % 2**32)
        blocks = [self._paths(part) for part in np.array_split(X, -(-len(X) // ROWS_AT_ONCE))]
        means, variances = (np.concatenate(each, axis=1) for each in zip(*blocks, strict=True))
        return GaussianMixture(means, variances)

    def _paths(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        import tensorflow as tf

        draw = tf.function(self.model.predict_f)  # one path through the hidden layers
        means, variances = zip(*(draw(tf.constant(X)) for _ in range(self.num_samples)), strict=True)
        noise = self.model.likelihood_layer.likelihood.variance.numpy()
        return np.array(means), np.array(variances) + noise


def fit_gpflux(train: Regression, settings: DeepGPSettings, seeds: Seeds, monitor: Monitor) -> GPflux:
    """``build_constant_input_dim_deep_gp``, the architecture of GPflux's introduction, by Adam."""
    import tensorflow as tf
    from gpflow.keras import tf_keras
    from gpflux.architectures import Config, build_constant_input_dim_deep_gp
    from gpflux.models import DeepGP

    del monitor
    tf.keras.utils.set_random_seed(seeds.initial % 2**32)
    config = Config(min(settings.num_inducing, len(train.X)), 1e-5, 1e-2)
    built = build_constant_input_dim_deep_gp(train.X, settings.layers, config)
    model = DeepGP(built.f_layers, built.likelihood_layer, num_data=len(train.X), default_model_class=tf_keras.Model)
    step = adam_step(model.as_training_model(), train, settings.learning_rate)
    for rows in batches(len(train.X), settings, seeds.batches):
        step(tf.constant(rows))
    return GPflux(model, settings.num_samples)


def adam_step(training: Any, train: Regression, learning_rate: float) -> Any:
    """Return a compiled function that takes an Adam step on some rows, given a GPflux training model."""
    import tensorflow as tf
    from gpflow.keras import tf_keras

    X, Y = tf.constant(train.X), tf.constant(train.Y)
    optimiser = tf_keras.optimizers.legacy.Adam(learning_rate)

    @tf.function
    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            training((tf.gather(X, rows), tf.gather(Y, rows)), training=True)
            loss = tf.add_n(training.losses)
        variables = training.trainable_variables
        optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


GPFLUX_DGP = Method(
    "gpflux_dgp",
    fit_gpflux,
    DeepGPSettings,
    title="Doubly stochastic variational inference as GPflux has it",
    packages={"gpflux": PEERS},
    citation="dutordoir2021",
    budgets=BUDGETS,
)


# GPyTorch -------------------------------------------------------------------------------------------------------------


class GPyTorch:
    """A trained ``gpytorch.models.deep_gps.DeepGP`` and its likelihood."""

    def __init__(self, model: Any, likelihood: Any, num_samples: int):
        self.model, self.likelihood, self.num_samples = model.eval(), likelihood.eval(), num_samples

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """A component for each of ``num_likelihood_samples`` paths."""
        import gpytorch
        import torch

        torch.manual_seed(seed % 2**63)
        means, variances = [], []
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(self.num_samples):
            for part in np.array_split(X, -(-len(X) // ROWS_AT_ONCE)):
                output = self.likelihood(self.model(_tensor(part)))
                means.append(output.mean.numpy()[..., None])
                variances.append(output.variance.numpy()[..., None])
        return GaussianMixture(np.concatenate(means, axis=1), np.concatenate(variances, axis=1))


def fit_gpytorch(train: Regression, settings: GPyTorchSettings, seeds: Seeds, monitor: Monitor) -> GPyTorch:
    """Fit with the layers, bound and optimiser of GPyTorch's example of deep GPs for regression."""
    without_triton()
    import gpytorch
    import torch
    from gpytorch.mlls import DeepApproximateMLL, VariationalELBO

    del monitor
    torch.manual_seed(seeds.initial % 2**63)
    model, likelihood = gpytorch_model(settings, train.X.shape[1]), gpytorch.likelihoods.GaussianLikelihood()
    bound = DeepApproximateMLL(VariationalELBO(likelihood, model, len(train.X)))
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=settings.learning_rate)
    X, y = _tensor(train.X), _tensor(train.Y[:, 0])
    with gpytorch.settings.num_likelihood_samples(settings.training_samples):
        for rows in batches(len(X), settings, seeds.batches):
            optimiser.zero_grad()
            loss = -bound(model(X[rows]), y[rows])
            loss.backward()
            optimiser.step()
    return GPyTorch(model, likelihood, settings.num_samples)


def _tensor(values: np.ndarray) -> Any:
    """Convert to PyTorch's default precision, float32, as in the example."""
    import torch

    return torch.as_tensor(values, dtype=torch.get_default_dtype())


def gpytorch_model(settings: GPyTorchSettings, num_features: int, *, shared: bool = False) -> Any:
    """Return a ``DeepGP`` with Cholesky q.

    :param shared: whether the GPs of a layer share inducing inputs and kernel
    """
    import torch
    from gpytorch import distributions, kernels, means
    from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    class Layer(DeepGPLayer):
        def __init__(self, dim: int, width: int | None):
            batch = torch.Size([] if width is None else [width])
            each = torch.Size([]) if shared else batch
            inducing = torch.randn(*each, settings.num_inducing, dim)
            distribution = CholeskyVariationalDistribution(settings.num_inducing, batch_shape=batch)
            strategy = VariationalStrategy(self, inducing, distribution, learn_inducing_locations=True)
            super().__init__(strategy, dim, width)
            self.mean_module = means.ConstantMean(batch_shape=batch) if width is None else means.LinearMean(dim)
            rbf = kernels.RBFKernel(batch_shape=each, ard_num_dims=dim)
            self.covar_module = kernels.ScaleKernel(rbf, batch_shape=each, ard_num_dims=None)

        def forward(self, x: Any) -> Any:
            return distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    class Deep(DeepGP):
        def __init__(self) -> None:
            super().__init__()
            dims = [num_features, *[settings.width] * (settings.layers - 1)]
            self.layers = torch.nn.ModuleList(
                Layer(dim, None if place == settings.layers - 1 else settings.width) for place, dim in enumerate(dims)
            )

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    return Deep()


GPYTORCH_DGP = Method(
    "gpytorch_dgp",
    fit_gpytorch,
    GPyTorchSettings,
    title="Doubly stochastic variational inference as GPyTorch has it",
    packages={"gpytorch": PEERS},
    citation="gardner2018",
    budgets=BUDGETS,
)
