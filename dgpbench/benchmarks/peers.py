"""Doubly stochastic variational inference as other packages have it, for ``bench peers``: mean field at the same sizes.

Each is its package's own layers, bound and Adam, the fastest way that its documentation offers: a step compiled where
it can be, the R paths drawn after the first layer, which is then computed for B rows and not for R B. The objective of
each is -ELBO / N, with the mean over R paths of B rows in its first term, as ours (docs/methods.md, "Training"). They
are the extra ``peers`` and are imported in a worker's process alone.
"""

from collections.abc import Callable
from importlib.util import find_spec

from dgpbench.benchmarks.cases import Cell
from dgpbench.benchmarks.rates import PRODUCT, PRODUCTS, measured_rate, product_rate
from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.system.tf_session import without_triton

STEPS = 10  # of one block, as our own loop records them
LEARNING_RATE = 0.005


def gpflux(cell: Cell, data: Regression, turns: Callable) -> None:
    """GPflux: ``GPLayer``s with whitened mean-field q, one ``tf.function`` a step."""
    from dgpbench.system import tf_session

    tf_session.start(cell.threads, cell.precision)
    import tensorflow as tf
    from gpflow.keras import tf_keras

    model = _gpflux_model(cell, data)
    optimiser = tf_keras.optimizers.legacy.Adam(LEARNING_RATE)
    X, Y = tf.constant(data.X), tf.constant(data.Y)

    @tf.function
    def step(rows):
        with tf.GradientTape() as tape:
            model((tf.gather(X, rows), tf.gather(Y, rows)), training=True)
            loss = tf.add_n(model.losses)
        variables = model.trainable_variables
        optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    _loop(cell, len(data.X), lambda rows: step(tf.constant(rows)).numpy(), turns(product_rate(cell)))


def _gpflux_model(cell: Cell, data: Regression):
    """A Keras model whose losses add up to -ELBO / N.

    The first layer's ``num_samples`` gives its output the shape [R, B, tau]; the layers above and the likelihood, which
    takes the mean, compute on every path.
    """
    import gpflow
    import gpflux
    import numpy as np
    from gpflow.keras import tf_keras
    from gpflux import helpers

    N, dims = len(data.X), [data.X.shape[1], *[cell.tau] * (cell.L - 1)]
    layers = []
    for index, dim in enumerate(dims):
        last = index == cell.L - 1
        width = 1 if last else cell.tau
        squared_exponential = gpflow.kernels.SquaredExponential(lengthscales=np.ones(dim))
        Z = data.X[: cell.M, np.arange(dim) % data.X.shape[1]]
        kernel = helpers.construct_basic_kernel(squared_exponential, output_dim=width, share_hyperparams=True)
        inducing = helpers.construct_basic_inducing_variables(
            cell.M, dim, output_dim=width, share_variables=True, z_init=Z
        )
        mean = gpflow.functions.Zero() if last else gpflow.functions.Linear(np.eye(dim, width), np.zeros(width))
        gpflow.set_trainable(mean, False)
        layers.append(
            gpflux.layers.GPLayer(
                kernel,
                inducing,
                num_data=N,
                mean_function=mean,
                num_samples=cell.R if index == 0 else None,
                num_latent_gps=width,
            )
        )
    likelihood = gpflux.layers.LikelihoodLayer(gpflow.likelihoods.Gaussian(0.01))
    return gpflux.models.DeepGP(layers, likelihood, num_data=N, default_model_class=tf_keras.Model).as_training_model()


def gpytorch(cell: Cell, data: Regression, turns: Callable) -> None:
    """GPyTorch: ``DeepGPLayer``s with Cholesky q, as its own example trains them, without its checks of the data.

    ``num_likelihood_samples`` paths are drawn from the first layer's output, and in training its strategy computes
    variances alone.
    """
    without_triton()
    import gpytorch as library
    import torch

    torch.set_num_threads(cell.threads)
    torch.set_default_dtype(torch.float64 if cell.precision == "float64" else torch.float32)
    model, likelihood = _gpytorch_model(cell, data.X.shape[1])
    bound = library.mlls.DeepApproximateMLL(library.mlls.VariationalELBO(likelihood, model, len(data.X)))
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=LEARNING_RATE, fused=True)
    X, y = torch.as_tensor(data.X), torch.as_tensor(data.Y[:, 0])

    def step(rows) -> float:
        with library.settings.num_likelihood_samples(cell.R), library.settings.debug(False):
            optimiser.zero_grad()
            loss = -bound(model(X[rows]), y[rows])
            loss.backward()
            optimiser.step()
        return float(loss)

    _loop(cell, len(data.X), step, turns(_torch_rate(cell.threads)))


def _torch_rate(threads: int) -> Callable[[], float]:
    import torch

    left, right = torch.randn(PRODUCT[0], PRODUCT[1]), torch.randn(PRODUCT[1], PRODUCT[2])
    return lambda: measured_rate(lambda: [left @ right for _ in range(PRODUCTS)], threads)


def _gpytorch_model(cell: Cell, num_features: int):
    import torch
    from gpytorch import distributions, kernels, likelihoods, means
    from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    class Layer(DeepGPLayer):
        def __init__(self, dim: int, width: int | None):
            batch = torch.Size([] if width is None else [width])
            distribution = CholeskyVariationalDistribution(cell.M, batch_shape=batch)
            inducing = torch.randn(cell.M, dim)  # shared by the GPs of a layer, as ours
            super().__init__(VariationalStrategy(self, inducing, distribution), dim, width)
            self.mean_module = means.ConstantMean() if width is None else means.LinearMean(dim)
            self.covar_module = kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=dim))  # one kernel a layer, as ours

        def forward(self, x):
            return distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    class Deep(DeepGP):
        def __init__(self):
            super().__init__()
            dims = [num_features, *[cell.tau] * (cell.L - 1)]
            self.layers = torch.nn.ModuleList(
                Layer(dim, None if i == cell.L - 1 else cell.tau) for i, dim in enumerate(dims)
            )

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    return Deep(), likelihoods.GaussianLikelihood()


def _loop(cell: Cell, num_rows: int, step: Callable, turns: Callable) -> None:
    """Blocks of steps on random rows, until the turns end."""
    import numpy as np

    rng, iteration = np.random.default_rng(0), 0
    while True:
        for _ in range(STEPS):
            step(rng.integers(num_rows, size=min(cell.B, num_rows)))
        iteration += STEPS
        turns(iteration)


PEERS: dict[str, Callable[[Cell, Regression, Callable], None]] = {"gpflux": gpflux, "gpytorch": gpytorch}


def installed() -> list[str]:
    """The peers that there are.

    :raises UserError: where there are none
    """
    found = [name for name in PEERS if find_spec(name) is not None]
    if not found:
        raise UserError(
            "neither GPflux nor GPyTorch is installed; in a checkout, `pip install --constraint constraints.txt "
            "'.[peers]'` brings both (gigabytes)"
        )
    return found
