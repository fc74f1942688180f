"""The mean of the parameters over the end of training."""

from collections.abc import Sequence

import tensorflow as tf


class Average:
    """The mean of variables over the last iterations (Polyak & Juditsky 1992), which training ends on.

    :param first: positions after fewer iterations do not count
    """

    def __init__(self, variables: Sequence[tf.Variable], first: int):
        self.variables, self.first = variables, first
        self.means = [tf.Variable(tf.zeros_like(each), trainable=False) for each in variables]
        self.count = tf.Variable(0, trainable=False, dtype=tf.int64)

    @property
    def state(self) -> list[tf.Variable]:
        """What a checkpoint must hold besides the variables."""
        return [*self.means, self.count]

    def add(self, iteration: int) -> None:
        """Count the variables as they are after some iterations."""
        if iteration > self.first:
            self.count.assign_add(1)
            for mean, value in zip(self.means, self.variables, strict=True):
                mean.assign_add((value - mean) / tf.cast(self.count, mean.dtype))

    def take(self) -> None:
        """Give the variables their means; they stay as they are where nothing has been counted."""
        if self.count > 0:
            for mean, value in zip(self.means, self.variables, strict=True):
                value.assign(mean)
