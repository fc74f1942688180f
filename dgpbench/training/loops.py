"""The training loop that all gradient methods share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import tensorflow as tf
from gpflow.keras import tf_keras

from dgpbench import interrupts
from dgpbench.errors import Diverged
from dgpbench.training.clock import Clock
from dgpbench.training.early_stopping import StoppingRule
from dgpbench.training.minibatches import Minibatches

RECORD_EVERY = 10


@dataclass(frozen=True)
class AdamSettings:
    """Adam with staircase decay, lr * rate^floor(i / steps) (METHODS Sec. 10).

    :param learning_rate: lr
    :param decay_rate: rate
    :param decay_steps: iterations between two decays
    """

    learning_rate: float
    decay_rate: float
    decay_steps: int

    def schedule(self):
        """The learning rate as a function of the step."""
        return tf_keras.optimizers.schedules.ExponentialDecay(
            self.learning_rate, self.decay_steps, self.decay_rate, staircase=True
        )

    def build(self):
        """TensorFlow's Adam with the fused update and the epsilon of the published runs."""
        return tf_keras.optimizers.legacy.Adam(self.schedule(), epsilon=1e-8)


def maximise(
    objective: Callable[..., tf.Tensor],
    variables: Sequence[tf.Variable],
    optimiser,
    data: Sequence[np.ndarray],
    batches: Minibatches,
    max_iterations: int,
    clock: Clock,
    *,
    validate: Callable[[], float] | None = None,
    rule: StoppingRule | None = None,
) -> int:
    """Maximise a stochastic objective by gradient steps; returns the number of iterations that were run.

    Several steps run in one graph call, with the data on the device and no Python between them; the trace gets a row,
    the mean objective over those steps, every ``RECORD_EVERY`` iterations.

    :param objective: (step, X [B, D], y [B]) -> scalar, with one more argument for each further array of ``data``
    :param data: X [N, D], y [N], and whatever else a batch needs of its rows, such as their numbers
    :param validate: the validation score at the current parameters, asked for whenever a row is recorded
    :raises Diverged: when the objective is not finite
    """
    advance = _compile(objective, list(variables), optimiser, data, batches.batch_size)
    # No step is taken: TensorFlow optimises a graph at its first call, which is no time of training.
    clock.tracing(lambda: advance(tf.zeros([], tf.int64), tf.zeros([0, batches.batch_size], tf.int64)))
    state = [*variables, *optimiser.variables()]
    iteration = clock.resume(state)
    scores = [row.validation_tll for row in clock.trace if row.validation_tll is not None]
    stopped = rule is not None and bool(scores) and rule.stops(iteration, scores)
    with interrupts.deferred():
        while not stopped and iteration < max_iterations and not clock.spent:
            rows = batches.rows(iteration, min(RECORD_EVERY, max_iterations - iteration))
            value = float(clock.training(partial(advance, tf.constant(iteration, tf.int64), tf.constant(rows))))
            iteration += len(rows)
            if not math.isfinite(value):
                raise Diverged(f"the objective became {value} by iteration {iteration} of {max_iterations}")
            score = clock.training(validate) if validate is not None else None
            clock.record(iteration, value, score, max_iterations)
            if rule is not None and score is not None:
                scores.append(score)
                stopped = rule.stops(iteration, scores)
            clock.keep(iteration, state, now=interrupts.is_pending())
            interrupts.raise_pending()
    return iteration


def _compile(objective, variables: list[tf.Variable], optimiser, data, batch_size: int):
    arrays = [tf.constant(values) for values in data]
    objective = tf.autograph.experimental.do_not_convert(objective)  # no Python branches in it depend on tensors

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([None, batch_size], tf.int64)])
    def advance(first_step, rows):
        total = tf.zeros([], arrays[0].dtype)
        for index in tf.range(tf.shape(rows)[0]):
            step = first_step + tf.cast(index, tf.int64)
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                value = objective(step, *(tf.gather(values, rows[index]) for values in arrays))
                loss = -value
            optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            total += value
        return total / tf.cast(tf.shape(rows)[0], total.dtype)

    optimiser.build(variables) if hasattr(optimiser, "build") else optimiser._create_all_weights(variables)
    return advance
