"""Doubly stochastic variational inference in other packages, for ``bench peers``: mean field at the same sizes.

Each uses its package's own layers, bound and Adam in the fastest way that its documentation offers: a compiled step
where possible, and R paths drawn after the first layer, which is then computed for B rows instead of R B. The objective
is -ELBO / N, with the mean over R paths of B rows in its first term, as ours (docs/methods.md, "Training"). The
packages are the extra ``peers`` and are imported in a worker's process alone.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from dgpbench.baselines.deep_gps import GPyTorchSettings, adam_step, gpytorch_model
from dgpbench.benchmarks.floors import PRODUCT, PRODUCTS, measured_rate, product_rate
from dgpbench.benchmarks.timing import Cell
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

    step = adam_step(gpflux_model(cell, data), data, LEARNING_RATE)
    _loop(cell, len(data.X), lambda rows: step(tf.constant(rows)).numpy(), turns(product_rate(cell)))


def gpflux_model(cell: Cell, data: Regression):
    """Return a Keras model with losses that add up to -ELBO / N.

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
        options = {"output_dim": width, "share_variables": True, "z_init": Z}
        inducing = helpers.construct_basic_inducing_variables(cell.M, dim, **options)
        mean = gpflow.functions.Zero() if last else gpflow.functions.Linear(np.eye(dim, width), np.zeros(width))
        gpflow.set_trainable(mean, False)
        sizes = {"num_data": N, "num_samples": cell.R if index == 0 else None, "num_latent_gps": width}
        layers.append(gpflux.layers.GPLayer(kernel, inducing, mean_function=mean, **sizes))
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
    model, likelihood = gpytorch_parts(cell, data.X.shape[1])
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

    left, right = torch.randn(PRODUCT[0], PRODUCT[1]), torch.randn(PRODUCT[1], PRODUCT[2])
    rate = partial(measured_rate, lambda: [left @ right for _ in range(PRODUCTS)], one_core=cell.threads == 1)
    _loop(cell, len(data.X), step, turns(rate))


def gpytorch_parts(cell: Cell, num_features: int):
    """Return the model and its likelihood."""
    from gpytorch.likelihoods import GaussianLikelihood

    settings = GPyTorchSettings(name="gpytorch_dgp", layers=cell.L, width=cell.tau, num_inducing=cell.M)
    return gpytorch_model(settings, num_features, shared=True), GaussianLikelihood()


def _loop(cell: Cell, num_rows: int, step: Callable, turns: Callable) -> None:
    """Take blocks of steps on random rows until the turns end."""
    import numpy as np

    rng, iteration = np.random.default_rng(0), 0
    while True:
        for _ in range(STEPS):
            step(rng.integers(num_rows, size=min(cell.B, num_rows)))
        iteration += STEPS
        turns(iteration)


PEERS: dict[str, Callable[[Cell, Regression, Callable], None]] = {"gpflux": gpflux, "gpytorch": gpytorch}


def installed() -> list[str]:
    """Return the installed peers.

    :raises UserError: if there are none
    """
    found = [name for name in PEERS if find_spec(name) is not None]
    if not found:
        raise UserError(
            "neither GPflux nor GPyTorch is installed; `pip install 'dgpbench[peers]'` installs both (gigabytes)"
        )
    return found
