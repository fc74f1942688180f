"""The prior of a deep GP, and its starting values (docs/methods.md, "Prior" and "Structured posteriors")."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.gp.kernels import build_kernel
from dgpbench.gp.layers import GPLayer

Module_ = TypeVar("Module_", bound=tf.Module)


@dataclass(frozen=True)
class Architecture:
    """The choices that fix a deep GP's prior and its starting values; each is a key of ``method`` in conf/.

    :param num_layers: L, the output layer included
    :param width: tau, GPs in each hidden layer
    :param num_inducing: M, inducing points in each layer
    """

    num_layers: int
    width: int
    num_inducing: int
    kernel: str = "squared_exponential"
    ard: bool = True
    lengthscale: float = 1.0
    kernel_variance: float = 1.0
    train_hidden_variance: bool = False
    white_noise: float | None = 1e-3
    output_noise: float | None = None
    likelihood_variance: float = 0.01
    mean_function: str = "pca"
    train_inducing_inputs: bool = True
    jitter: float = 1e-6
    precision: str = "float64"

    @property
    def widths(self) -> tuple[int, ...]:
        """T_l for each layer; the output layer has one GP."""
        return (*[self.width] * (self.num_layers - 1), 1)


class DeepGP(gpflow.Module):
    """L layers of sparse GPs, first to last, and a Gaussian likelihood of variance s2, independent of any posterior."""

    def __init__(self, layers: Sequence[GPLayer], likelihood: gpflow.likelihoods.Gaussian):
        super().__init__(name="deep_gp")
        self.layers = list(layers)
        self.likelihood = likelihood

    @property
    def widths(self) -> tuple[int, ...]:
        """T_l of each layer."""
        return tuple(layer.num_gps for layer in self.layers)

    @property
    def noise_variance(self) -> tf.Tensor:
        """s2, the variance of the likelihood."""
        return tf.convert_to_tensor(self.likelihood.variance)

    def choleskys(self) -> list[tf.Tensor]:
        """Lk of each layer: once per step, then handed forward."""
        return [layer.cholesky() for layer in self.layers]


def read_once(module: Module_) -> Module_:
    """Return a copy of a module with a tensor in place of each parameter.

    Each use of a GPflow parameter reads and transforms it again, a tenth of the operations of a small step.
    """
    return with_parameters(module, tf.convert_to_tensor)


def with_parameters(module: Module_, replacement: Callable[[gpflow.Parameter], Any]) -> Module_:
    """Return a copy of a module with ``replacement(parameter)`` in place of each parameter, in a fixed order."""

    def replaced(attribute):
        if isinstance(attribute, gpflow.Parameter):
            return replacement(attribute)
        if isinstance(attribute, list):
            return [replaced(each) for each in attribute]
        return with_parameters(attribute, replacement) if isinstance(attribute, tf.Module) else attribute

    changed = copy.copy(module)
    vars(changed).update({name: replaced(each) for name, each in vars(module).items()})  # past tf.Module's tracking
    return changed


def parameters_of(module: tf.Module) -> list[gpflow.Parameter]:
    """Return the parameters of a module in the order of ``with_parameters``."""
    found: list[gpflow.Parameter] = []
    with_parameters(module, found.append)
    return found


def stack(modules: Sequence[Module_]) -> Module_:
    """Return one module with a leading dimension in each parameter, an entry for each of several equal modules."""
    stacked = iter([_stacked(parts) for parts in zip(*map(parameters_of, modules), strict=True)])
    return with_parameters(modules[0], lambda _: next(stacked))


def _stacked(parameters: Sequence[gpflow.Parameter]) -> gpflow.Parameter:
    first = parameters[0]
    values = np.stack([each.numpy() for each in parameters])
    joint = gpflow.Parameter(values, transform=first.transform, trainable=first.trainable)
    joint.unconstrained_variable.assign(np.stack([each.unconstrained_variable.numpy() for each in parameters]))
    return joint


def build_prior(architecture: Architecture, X: np.ndarray, Z: np.ndarray) -> DeepGP:
    """Build a deep GP at its starting values.

    :param X: standardised training inputs [N, D], for the principal components of the mean maps
    :param Z: inducing inputs of the first layer [M, D]; those of later layers are Z through the mean maps
    """
    layers, H = [], X
    for num_gps in architecture.widths[:-1]:
        with_mean = architecture.mean_function == "pca"
        W = mean_map(H, num_gps) if with_mean else np.eye(H.shape[1], num_gps)
        layers.append(_build_layer(architecture, Z, num_gps, W if with_mean else None))
        H, Z = H @ W, Z @ W
    layers.append(_build_layer(architecture, Z, 1, None, last=True))
    return DeepGP(layers, gpflow.likelihoods.Gaussian(architecture.likelihood_variance))


def _build_layer(a: Architecture, Z: np.ndarray, num_gps: int, W: np.ndarray | None, *, last: bool = False) -> GPLayer:
    kernel = build_kernel(a, Z.shape[1])
    gpflow.set_trainable(kernel.variance, last or a.train_hidden_variance)
    mean = gpflow.functions.Zero(num_gps) if W is None else gpflow.functions.Linear(W, np.zeros(num_gps))
    gpflow.set_trainable(mean, False)
    noises = {} if last else {"white_noise": a.white_noise, "output_noise": a.output_noise}
    columns = tf.float32 if a.precision == "mixed" else None
    layer = GPLayer(kernel, Z, mean, num_gps, **noises, jitter=a.jitter, columns=columns)
    gpflow.set_trainable(layer.Z, a.train_inducing_inputs)
    return layer


def mean_map(H: np.ndarray, num_gps: int) -> np.ndarray:
    """The fixed linear mean [T_{l-1}, T_l]: identity, principal directions, or identity padded with zeros.

    Reference: Salimbeni & Deisenroth 2017, Sec. 5.
    """
    dim = H.shape[1]
    if num_gps >= dim:
        return np.eye(dim, num_gps)
    _, vectors = np.linalg.eigh(H.T @ H)  # right singular vectors of H, smallest first
    V = vectors[:, ::-1][:, :num_gps]
    return V * np.sign(V[np.argmax(np.abs(V), axis=0), np.arange(num_gps)])  # a sign every machine agrees on
