"""Training loops: gradient steps on minibatches by Adam, and SciPy's L-BFGS on all rows."""

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
from dgpbench.training.early_stopping import stopping_rule
from dgpbench.training.minibatches import Minibatches
from dgpbench.training.monitor import RECORD_EVERY, Monitor, Predict
from dgpbench.training.settings import AdamSettings, LbfgsSettings, SamplerSettings

Objective = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def adam(
    training: AdamSettings | SamplerSettings,
    *,
    likelihood: gpflow.likelihoods.Gaussian | None = None,
    slow: Sequence[tf.Variable] = (),
    share: float = 1.0,
):
    """Return TensorFlow's Adam with the fused update and the epsilon of the published runs, for ``maximise``.

    :param likelihood: its variance keeps its learning rate at the end, to follow the errors that the smaller steps of
        all other variables reduce
    :param slow: variables with ``share`` times the learning rate of the others
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
    """Adam with separate learning rates for some sets of variables.

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
        """Return the variables for the checkpoint."""
        return [variable for adam in self._adams for variable in adam.variables()]

    def apply_gradients(self, pairs) -> None:
        """Take one step of each optimiser."""
        for adam, own in self._split(list(pairs), lambda pair: pair[1]):
            adam.apply_gradients(own)

    def _split(self, values: Sequence, variable_of: Callable):
        places = [self._place.get(id(variable_of(value)), 0) for value in values]
        for number, adam in enumerate(self._adams):
            yield adam, [value for value, place in zip(values, places, strict=True) if place == number]


def create_slots(optimiser, variables: Sequence[tf.Variable]) -> None:
    """Create an optimiser's own variables, which cannot be created inside a graph."""
    optimiser.build(variables) if hasattr(optimiser, "build") else optimiser._create_all_weights(variables)


def decayed(start: float, training: AdamSettings | SamplerSettings):
    """Return the schedule start * rate^floor(i / steps), at the end of a run times ``final_decay``.

    Reference: docs/methods.md, "Training".
    """
    staircase = tf_keras.optimizers.schedules.ExponentialDecay(
        start, training.decay_steps, training.decay_rate, staircase=True
    )
    if training.final_decay == 1.0:
        return staircase
    assert training.max_iterations is not None, "for_rows comes first"
    return FinalDecay(staircase, training.final_decay, round(training.final_decay_start * training.max_iterations))


class FinalDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
    """``schedule``, from ``first_step`` on times ``factor``."""

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
    monitor: Monitor,
    *,
    optimiser,
    predict: Predict,
    score: Callable[[], float] | None = None,
) -> int:
    """Maximise a stochastic objective by gradient steps on minibatches; return the number of iterations.

    Several steps run in one graph call, with the data on the device and no Python between them. Every ``RECORD_EVERY``
    iterations the trace gets a row with the mean objective over those steps. With ``training.average_last`` the
    variables end at their mean over the last rows.

    :param objective: (step, X [B, D], y [B], row numbers [B]) -> scalar
    :param rows: X [N, D], Y [N, 1]
    :param seed: of the minibatches
    :param optimiser: ``adam``, or one with its methods
    :param predict: predicts at the current parameters, for test scores in the trace; it changes no step
    :param score: () -> the mean log-density of the held-out rows at the current parameters, for early stopping
    :raises Diverged: when the objective is not finite
    """
    max_iterations = training.max_iterations
    assert max_iterations is not None, "for_rows comes first"
    batches = Minibatches(len(rows.X), training.batch_size, seed)
    data = (rows.X, rows.Y[:, 0], np.arange(len(rows.X)))
    advance = _compile(objective, list(variables), optimiser, data, batches.batch_size)
    # No step is taken: TensorFlow optimises a graph at its first call, which does not count as training.
    monitor.tracing(lambda: advance(tf.zeros([], tf.int64), tf.zeros([0, batches.batch_size], tf.int64)))
    state = [*variables, *optimiser.variables()]
    average = None
    if training.average_last:
        average = Average(variables, round((1 - training.average_last) * max_iterations))
        state += average.state
    iteration = monitor.resume(state)
    scores = [row.validation_tll for row in monitor.trace if row.validation_tll is not None]
    rule = None if score is None else stopping_rule(training)
    stopped = rule is not None and bool(scores) and rule.stops(iteration, scores)
    with interrupts.deferred():
        while not stopped and iteration < max_iterations and not monitor.spent:
            numbers = batches.rows(iteration, min(RECORD_EVERY, max_iterations - iteration))
            value = float(monitor.training(partial(advance, tf.constant(iteration, tf.int64), tf.constant(numbers))))
            iteration += len(numbers)
            if not math.isfinite(value):
                raise Diverged(f"the objective became {value} by iteration {iteration:,} of {max_iterations:,}")
            held_out_tll = None if score is None else monitor.training(score)
            monitor.record(iteration, value, held_out_tll, max_iterations, predict)
            if average is not None:
                average.add(iteration)
            if rule is not None and held_out_tll is not None:
                scores.append(held_out_tll)
                stopped = rule.stops(iteration, scores)
            monitor.keep(iteration, state, now=interrupts.is_pending())
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


class Average:
    """The mean of variables over the iterations after ``first`` (Polyak & Juditsky 1992)."""

    def __init__(self, variables: Sequence[tf.Variable], first: int):
        self.variables, self.first = variables, first
        self.means = [tf.Variable(tf.zeros_like(each), trainable=False) for each in variables]
        self.count = tf.Variable(0, trainable=False, dtype=tf.int64)

    @property
    def state(self) -> list[tf.Variable]:
        """Variables for the checkpoint."""
        return [*self.means, self.count]

    def add(self, iteration: int) -> None:
        """Include the current values in the mean, if the iteration is late enough."""
        if iteration > self.first:
            self.count.assign_add(1)
            for mean, value in zip(self.means, self.variables, strict=True):
                mean.assign_add((value - mean) / tf.cast(self.count, mean.dtype))

    def take(self) -> None:
        """Assign the means to the variables, if there are any."""
        if self.count > 0:
            for mean, value in zip(self.means, self.variables, strict=True):
                value.assign(mean)


def maximise_by_lbfgs(model: Any, training: LbfgsSettings, monitor: Monitor) -> dict[str, Any]:
    """Train a GPflow model on its own objective to convergence; return the facts for the record.

    :raises Diverged: when the objective is not finite
    """
    loss = model.training_loss_closure(compile=True)
    monitor.tracing(loss)
    max_iterations = training.max_iterations
    count = iter(range(1, max_iterations + 1))

    def record(_step, _variables, _values) -> None:
        monitor.check()
        monitor.record(next(count, max_iterations), -float(loss()), None, max_iterations)

    result = monitor.training(
        lambda: gpflow.optimizers.Scipy().minimize(
            loss,
            model.trainable_variables,
            options={"maxiter": max_iterations},
            step_callback=record,
            compile=True,
            allow_unused_variables=True,
        )
    )
    if not np.isfinite(result.fun):
        raise Diverged(f"the objective became {-result.fun} after {result.nit} L-BFGS iterations")
    return {
        "iterations": int(result.nit),
        "converged": bool(result.success),
        "optimiser_message": result.message,
        "likelihood_variance": float(model.likelihood.variance.numpy()),
    }
