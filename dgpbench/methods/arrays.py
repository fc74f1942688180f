"""A model's arrays by path: what is saved of it, and how they come back to the last bit."""

from collections.abc import Mapping
from typing import TypeVar

import gpflow
import numpy as np
import tensorflow as tf

RAW = ".unconstrained"  # behind a path: the variable of a positive parameter, whose transform rounds
Model_ = TypeVar("Model_", bound=tf.Module)


def arrays_of(model: tf.Module) -> dict[str, np.ndarray]:
    """Every parameter by path and, where a transform is between them, the variable that it is made from."""
    arrays: dict[str, np.ndarray] = {}
    for name, parameter in gpflow.utilities.parameter_dict(model).items():
        arrays[name] = parameter.numpy()
        if isinstance(parameter, gpflow.Parameter):
            raw = parameter.unconstrained_variable.numpy()
            arrays |= {} if np.array_equal(raw, arrays[name]) else {f"{name}{RAW}": raw}
    return arrays


def put(arrays: Mapping[str, np.ndarray], model: Model_) -> Model_:
    """The model with the values that ``arrays_of`` gave of another of the same sizes.

    :raises KeyError: where an array is missing
    :raises ValueError: where one has another shape
    """
    for name, parameter in gpflow.utilities.parameter_dict(model).items():
        if f"{name}{RAW}" in arrays:
            parameter.unconstrained_variable.assign(arrays[f"{name}{RAW}"])
        else:
            parameter.assign(arrays[name])
    return model
