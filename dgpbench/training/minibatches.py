"""Minibatches and standard normals drawn statelessly from (seed, step), so that a run can resume bit for bit."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import tensorflow as tf

_SEED_HALF = 2**31


class Minibatches:
    """Rows shuffled without replacement and reshuffled each epoch; all rows, in order, where B >= N.

    The stream of rows is the epochs' permutations end to end, and step i takes rows i B .. (i + 1) B of it.

    :param num_rows: N
    :param batch_size: B
    :param seed: of the permutations
    """

    def __init__(self, num_rows: int, batch_size: int, seed: int):
        self.num_rows = num_rows
        self.batch_size = min(batch_size, num_rows)
        self.seed = seed
        self._permutation = lru_cache(maxsize=4)(
            lambda epoch: np.random.default_rng([seed, epoch]).permutation(num_rows)
        )

    def rows(self, first_step: int, num_steps: int) -> np.ndarray:
        """Row numbers for some steps in turn, [num_steps, B]."""
        B, N = self.batch_size, self.num_rows
        if B == N:
            return np.tile(np.arange(N), [num_steps, 1])
        start, stop = first_step * B, (first_step + num_steps) * B
        epochs = range(start // N, (stop - 1) // N + 1)
        stream = np.concatenate([self._permutation(epoch) for epoch in epochs])
        return stream[start - epochs.start * N :][: stop - start].reshape(num_steps, B)


def base_seed(seed: int) -> tf.Tensor:
    """Split a 63-bit seed into the pair of integers that TensorFlow's stateless draws take."""
    return tf.constant([seed % _SEED_HALF, seed // _SEED_HALF % _SEED_HALF], tf.int32)


def stateless_normals(shapes: Sequence[Sequence], seed: tf.Tensor, step: tf.Tensor, dtype) -> list[tf.Tensor]:
    """Draw a standard normal tensor for each shape, as a function of (seed, step, position in the list) alone."""
    at_step = tf.random.experimental.stateless_fold_in(seed, tf.cast(step, tf.int32))
    seeds = [tf.random.experimental.stateless_fold_in(at_step, index) for index in range(len(shapes))]
    return [
        tf.random.stateless_normal(shape, seed=each, dtype=dtype) for shape, each in zip(shapes, seeds, strict=True)
    ]
