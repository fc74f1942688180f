"""The training loop that all gradient methods share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.keras import tf_keras

from dgpbench.data.standardise import Regression
from dgpbench.errors import Diverged
from dgpbench.system import interrupts
from dgpbench.training.averaging import Average
from dgpbench.training.early_stopping import Validation
from dgpbench.training.log import RECORD_EVERY, Predict, TrainingLog
from dgpbench.training.minibatches import Minibatches
from dgpbench.training.settings import AdamSettings, SamplerSettings

Objective = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def adam(
    training: AdamSettings | SamplerSettings,
    *,
    likelihood: gpflow.likelihoods.Gaussian | None = None,
    slow: Sequence[tf.Variable] = (),
    share: float = 1.0,
):
    """TensorFlow's Adam with the fused update and the epsilon of the published runs, for ``maximise``.

    :param likelihood: the steps of its variance do not become smaller at the end: it has to follow the errors that the
        smaller steps of all else bring down
    :param slow: variables whose learning rate is ``share`` of the others'
    """
    parts = []
    if slow and share != 1.0:
        parts.append((_adam(training, share), slow))
    if likelihood is not None and training.final_decay != 1.0:
        assert isinstance(likelihood.variance, gpflow.Parameter)
        parts.append((_adam(replace(training, final_decay=1.0)), [likelihood.variance.unconstrained_variable]))
    return AdamInParts(_adam(training), parts) if parts else _adam(training)


def _adam(training: AdamSettings | SamplerSettings, share: float = 1.0):
    return tf_keras.optimizers.legacy.Adam(
        decayed(share * training.learning_rate, training), beta_2=training.beta_2, epsilon=1e-8
    )


class AdamInParts:
    """An optimiser for ``maximise``: Adam, with a learning rate of its own for each of some sets of variables.

    :param rest: for all other variables
    :param parts: (Adam, variables)
    """

    def __init__(self, rest, parts: Sequence[tuple[Any, Sequence[tf.Variable]]]):
        self._adams = [rest, *(each for each, _ in parts)]
        self._place = {id(variable): place for place, (_, own) in enumerate(parts, 1) for variable in own}

    @property
    def iterations(self) -> tf.Variable:
        """The number of steps."""
        return self._adams[0].iterations

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Create slots and counters before the graph is traced."""
        for adam, own in self._split(variables, lambda variable: variable):
            adam._create_all_weights(own)

    def variables(self) -> list:
        """What a checkpoint must hold besides the model."""
        return [variable for adam in self._adams for variable in adam.variables()]

    def apply_gradients(self, pairs) -> None:
        """One step of each."""
        for adam, own in self._split(list(pairs), lambda pair: pair[1]):
            adam.apply_gradients(own)

    def _split(self, values: Sequence, variable_of: Callable):
        places = [self._place.get(id(variable_of(value)), 0) for value in values]
        for number, adam in enumerate(self._adams):
            yield adam, [value for value, place in zip(values, places, strict=True) if place == number]


def create_slots(optimiser, variables: Sequence[tf.Variable]) -> None:
    """Create what an optimiser keeps of each variable, which no graph may."""
    optimiser.build(variables) if hasattr(optimiser, "build") else optimiser._create_all_weights(variables)


def decayed(start: float, training: AdamSettings | SamplerSettings):
    """A step length as a function of the step: start * rate^floor(i / steps), at the end of a run times
    ``final_decay`` (docs/methods.md, "Training").
    """
    staircase = tf_keras.optimizers.schedules.ExponentialDecay(
        start, training.decay_steps, training.decay_rate, staircase=True
    )
    if training.final_decay == 1.0:
        return staircase
    assert training.max_iterations is not None, "for_rows comes first"
    return FinalDecay(staircase, training.final_decay, round(training.final_decay_start * training.max_iterations))


class FinalDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that ends with smaller steps.

    :param schedule: until ``first_step``, and from there on times ``factor``
    """

    def __init__(self, schedule, factor: float, first_step: int):
        self.schedule, self.factor, self.first_step = schedule, factor, first_step

    def __call__(self, step):
        usual = self.schedule(step)
        return usual * tf.where(step < tf.cast(self.first_step, step.dtype), 1.0, tf.cast(self.factor, usual.dtype))


def maximise(
    objective: Objective,
    variables: Sequence[tf.Variable],
    rows: Regression,
    training: AdamSettings,
    seed: int,
    log: TrainingLog,
    *,
    optimiser,
    predict: Predict,
    validation: Validation | None = None,
) -> int:
    """Maximise a stochastic objective by gradient steps on minibatches; returns the number of iterations that were run.

    Several steps run in one graph call, with the data on the device and no Python between them; the trace gets a row,
    the mean objective over those steps, every ``RECORD_EVERY`` iterations. At the end the variables are the mean of
    what they were at the last rows (``training.average_last``).

    :param objective: (step, X [B, D], y [B], row numbers [B]) -> scalar
    :param rows: X [N, D], Y [N, 1]
    :param seed: of the minibatches
    :param optimiser: ``adam``, or one with its methods
    :param predict: with the parameters as they are; for what the log keeps of predictions, which changes no step
    :param validation: asked for a score whenever a row is recorded
    :raises Diverged: when the objective is not finite
    """
    max_iterations = training.max_iterations
    assert max_iterations is not None, "for_rows comes first"
    batches = Minibatches(len(rows.X), training.batch_size, seed)
    data = (rows.X, rows.Y[:, 0], np.arange(len(rows.X)))
    advance = _compile(objective, list(variables), optimiser, data, batches.batch_size)
    # No step is taken: TensorFlow optimises a graph at its first call, which is no time of training.
    log.tracing(lambda: advance(tf.zeros([], tf.int64), tf.zeros([0, batches.batch_size], tf.int64)))
    state = [*variables, *optimiser.variables()]
    average = None
    if training.average_last:
        average = Average(variables, round((1 - training.average_last) * max_iterations))
        state += average.state
    iteration = log.resume(state)
    scores = [row.validation_tll for row in log.trace if row.validation_tll is not None]
    stopped = validation is not None and bool(scores) and validation.rule.stops(iteration, scores)
    with interrupts.deferred():
        while not stopped and iteration < max_iterations and not log.spent:
            numbers = batches.rows(iteration, min(RECORD_EVERY, max_iterations - iteration))
            value = float(log.training(partial(advance, tf.constant(iteration, tf.int64), tf.constant(numbers))))
            iteration += len(numbers)
            if not math.isfinite(value):
                raise Diverged(f"the objective became {value} by iteration {iteration:,} of {max_iterations:,}")
            score = log.training(validation.score) if validation is not None else None
            log.record(iteration, value, score, max_iterations, predict)
            if average is not None:
                average.add(iteration)
            if validation is not None and score is not None:
                scores.append(score)
                stopped = validation.rule.stops(iteration, scores)
            log.keep(iteration, state, now=interrupts.is_pending())
            interrupts.raise_pending()
    if average is not None:
        average.take()
    return iteration


def _compile(objective: Objective, variables: list[tf.Variable], optimiser, data, batch_size: int):
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

    create_slots(optimiser, variables)
    return advance
