"""The predictor that all families share, and a model's arrays by parameter path."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.gp.block_gaussian import BlockGaussian
from dgpbench.gp.latent_input import LatentInput
from dgpbench.gp.prior import DeepGP
from dgpbench.gp.propagation import Paths
from dgpbench.gp.tied_sites import TiedSites
from dgpbench.methods.settings import INDUCING
from dgpbench.predictive import posterior_file
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.training.minibatches import base_seed, stateless_normals

COLUMNS_AT_ONCE = 8192  # rows x samples of one prediction graph call: bounds its memory
COMMON = 2**31 - 1  # in place of a chunk's number, which is smaller
FIRST_Z = INDUCING.format(0)
RAW = ".unconstrained"  # suffix of the variable behind a positive parameter: the transform between them rounds
Model_ = TypeVar("Model_", bound=tf.Module)
Moments = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, ...]]


class MixturePredictor:
    """A fitted method that predicts a mixture of S Gaussians for each row.

    :param model: a trained model
    :param moments: (X [B, D], seed [2], number of the chunk) -> means and variances of y, [S, B] each, and
        the weights [S] of the components, if they differ
    :param num_features: D
    :param rows_at_once: rows of a chunk: bounds the memory of a prediction
    :param posterior: () -> the arrays of ``posterior.npz``
    :param data: arrays besides the model's parameters that predictions depend on
    :param hidden: (X [B, D], seed) -> draws of each hidden layer, [S, B, T_l]; None where layers are not drawn
    """

    def __init__(
        self,
        model: Any,
        moments: Moments,
        num_features: int,
        rows_at_once: int,
        posterior: Callable[[], dict[str, np.ndarray]],
        data: Mapping[str, np.ndarray] | None = None,
        hidden: Callable[[np.ndarray, int], list[np.ndarray]] | None = None,
    ):
        self.model, self.posterior, self.data, self.hidden = model, posterior, dict(data or {}), hidden
        self.rows_at_once = max(1, rows_at_once)
        num_parameters = sum(int(np.prod(each.shape)) for each in model.trainable_variables)
        self.diagnostics: dict[str, Any] = {"num_parameters": num_parameters}
        rows = tf.TensorSpec([None, num_features], gpflow.default_float())  # one graph for any number of rows
        signature = [rows, tf.TensorSpec([2], tf.int32), tf.TensorSpec([], tf.int64)]
        self._moments = tf.function(moments, input_signature=signature, autograph=False)

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture:
        """Return the predictive mixture at standardised inputs X [N, D], in chunks of bounded memory."""
        size = self.rows_at_once
        chunks = [
            self._moments(X[start : start + size], base_seed(seed), tf.constant(index, tf.int64))
            for index, start in enumerate(range(0, len(X), size))
        ]
        means, variances = (np.concatenate([chunk[i].numpy() for chunk in chunks], axis=1) for i in (0, 1))
        weights = [each.numpy().astype(float) for each in chunks[0][2:]]  # the same in all chunks
        return GaussianMixture(means[..., None].astype(float), variances[..., None].astype(float), *weights)

    def parameters(self) -> dict[str, np.ndarray]:
        """Return every parameter by path, and the data that predictions depend on."""
        return arrays_of(self.model) | self.data


class Model(Protocol):
    """A prior and a Gaussian posterior that rows can be propagated under."""

    prior: DeepGP
    latent: LatentInput | None
    columns_at_once: int

    @property
    def q(self) -> BlockGaussian | TiedSites:
        """The posterior."""
        ...

    def paths(
        self, X: tf.Tensor, num_samples: int, seed: tf.Tensor, chunk: tf.Tensor, *, common: bool = False
    ) -> Paths:
        """Return paths of the rows X under q; ``common`` as in ``normals_of_rows``."""
        ...


def deep_predictor(model: Model, num_samples: int, *, common_normals: bool = False) -> MixturePredictor:
    """Return the predictor of one Gaussian for each path; its posterior is q (Lindinger et al. 2020, Fig. 1).

    :param num_samples: S; a single layer without a latent input has one path
    :param common_normals: as in ``FitSettings``
    """
    S = num_samples if len(model.q.structure.widths) > 1 or model.latent is not None else 1

    def moments(X: tf.Tensor, seed: tf.Tensor, chunk: tf.Tensor) -> tuple[tf.Tensor, ...]:
        paths = model.paths(X, S, seed, chunk, common=common_normals)
        weights = [] if paths.log_weights is None else [tf.exp(paths.log_weights)]
        return paths.mean, paths.variance + model.prior.noise_variance, *weights

    def hidden(X: np.ndarray, seed: int) -> list[np.ndarray]:
        paths = model.paths(tf.constant(X), S, base_seed(seed), tf.constant(0, tf.int64))
        return [layer.numpy().transpose(1, 2, 0) for layer in paths.hidden]

    def posterior() -> dict[str, np.ndarray]:
        q = model.q.blocks(model.prior.choleskys())
        return posterior_file.of_blocks(
            [m.numpy() for m in q.means],
            [C.numpy() for C in q.diagonal],
            {key: C.numpy() for key, C in q.couplings.items()},
            q.structure.couplings,
        )

    num_features = model.prior.layers[0].Z.shape[1] - (model.latent is not None)
    return MixturePredictor(model, moments, num_features, model.columns_at_once // S, posterior, hidden=hidden)


def normals_of_rows(shapes: Sequence, seed: tf.Tensor, chunk: tf.Tensor, dtype, *, common: bool) -> list[tf.Tensor]:
    """Draw standard normals; their last axis is the rows of a chunk.

    :param common: the same for every row and chunk, so that a row's prediction depends on no other row
    """
    if not common:
        return stateless_normals(shapes, seed, chunk, dtype)
    of_one_row = [tf.concat([shape[:-1], [1]], axis=0) for shape in shapes]
    drawn = stateless_normals(of_one_row, seed, tf.constant(COMMON, tf.int64), dtype)
    return [tf.broadcast_to(normals, shape) for normals, shape in zip(drawn, shapes, strict=True)]


def held_out_score(predictor: MixturePredictor, held_out: Regression | None, seed: int) -> Callable[[], float] | None:
    """Return the function that scores the held-out rows while the predictor's model trains, by mean log-density."""
    if held_out is None:
        return None
    return lambda: float(np.mean(predictor.predict(held_out.X, seed).log_density(held_out.Y)))


def arrays_of(model: tf.Module) -> dict[str, np.ndarray]:
    """Return every parameter by path and, where a transform is between them, the variable behind it."""
    arrays: dict[str, np.ndarray] = {}
    for name, parameter in gpflow.utilities.parameter_dict(model).items():
        arrays[name] = parameter.numpy()
        if isinstance(parameter, gpflow.Parameter):
            raw = parameter.unconstrained_variable.numpy()
            arrays |= {} if np.array_equal(raw, arrays[name]) else {f"{name}{RAW}": raw}
    return arrays


def assign(arrays: Mapping[str, np.ndarray], model: Model_) -> Model_:
    """Give a model the values that ``arrays_of`` returned for another of the same sizes, to the last bit.

    :raises KeyError: for a missing array
    :raises ValueError: for an array of another shape
    """
    for name, parameter in gpflow.utilities.parameter_dict(model).items():
        if f"{name}{RAW}" in arrays:
            parameter.unconstrained_variable.assign(arrays[f"{name}{RAW}"])
        else:
            parameter.assign(arrays[name])
    return model
