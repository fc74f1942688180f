"""Lets go of a run's graphs when it ends, so that a long sweep in one process needs no more memory than a short one.

Two tables of the libraries keep every graph for ever, some 17 MB a run: TensorFlow registers each custom gradient under
a new name, and TensorFlow Probability's cache of bijectors holds tensors that hold each other.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

CUSTOM = "CustomGradient-"


@contextmanager
def let_go() -> Iterator[None]:
    """Take out of both tables what the block has put in; what was there before may be somebody's living model."""
    gradients, cached = set(_gradients()), {id(key) for key in _bijectors()}
    try:
        yield
    finally:
        for name in [name for name in _gradients() if name.startswith(CUSTOM) and name not in gradients]:
            del _gradients()[name]
        for key in [key for key in _bijectors() if id(key) not in cached]:
            key.cancel()  # else the death of its tensor would look for it in the table
            del _bijectors()[key]
        if _gradients():
            gc.collect()  # graphs are cycles, and the collector alone comes by too seldom for their size


def _gradients() -> dict:
    """TensorFlow's gradients by name; empty where TensorFlow was not needed, as for a run that is done already."""
    if "tensorflow" not in sys.modules:
        return {}
    from tensorflow.python.framework import ops

    return ops.gradient_registry._registry


def _bijectors() -> dict:
    """TensorFlow Probability's cache, shared by all bijectors."""
    if "tensorflow_probability" not in sys.modules:
        return {}
    from tensorflow_probability.python.bijectors import bijector

    return bijector.Bijector._cache.storage
