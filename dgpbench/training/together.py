"""Training of several models of equal shape as one: on a GPU, where the steps of a small model leave it idle."""

import math
import time
from collections.abc import Callable, Sequence

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.errors import Diverged
from dgpbench.gp.prior import parameters_of, stack, with_parameters
from dgpbench.training.early_stopping import stopping_rule
from dgpbench.training.loops import Average, create_slots
from dgpbench.training.minibatches import Minibatches
from dgpbench.training.monitor import RECORD_EVERY, Monitor
from dgpbench.training.settings import AdamSettings


def maximise_together(
    models: Sequence[gpflow.Module],
    objective: Callable[[gpflow.Module, tf.Tensor, tf.Tensor, list[tf.Tensor]], tf.Tensor],
    normals: Callable[[int, tf.Tensor, int], list[tf.Tensor]],
    rows: Sequence[Regression],
    training: AdamSettings,
    seeds: Sequence[int],
    monitors: Sequence[Monitor],
    *,
    optimiser_of: Callable,
    scores: Sequence[Callable[[], float] | None],
) -> list[int]:
    """Maximise a stochastic objective of each model by the steps that ``loops.maximise`` would take for it alone.

    Each parameter becomes one variable with a leading dimension, and ``tf.vectorized_map`` writes the objective for all
    models at once. A model that stops early keeps its parameters, and training goes on until the last one stops. Each
    monitor counts an equal share of the seconds. There are no checkpoints.

    :param objective: (model, X [B, D], y [B], normals) -> scalar
    :param normals: (place of the model, step, B) -> its normals
    :param rows: X [N, D], Y [N, 1] of each model, all of one shape
    :param seeds: of the minibatches
    :param optimiser_of: the stacked model -> an optimiser, as ``maximise`` takes it
    :param scores: for each model () -> the mean log-density of its held-out rows at its parameters, for early stopping
    :return: the number of iterations of each model
    :raises Diverged: when an objective is not finite
    """
    stacked, S = stack(models), len(models)
    parameters, variables = parameters_of(stacked), list(stacked.trainable_variables)
    optimiser = optimiser_of(stacked)
    create_slots(optimiser, variables)
    X_all, y_all = (
        tf.constant(np.stack(parts)) for parts in zip(*((each.X, each.Y[:, 0]) for each in rows), strict=True)
    )
    batches = [Minibatches(len(each.X), training.batch_size, seed) for each, seed in zip(rows, seeds, strict=True)]
    B, max_iterations = batches[0].batch_size, training.max_iterations
    assert max_iterations is not None, "for_rows comes first"

    def value_and_slopes(arguments):
        values, X, y, drawn = arguments
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            each = iter(values)
            value = objective(with_parameters(stacked, lambda _: next(each)), X, y, drawn)
        return value, tape.gradient(value, values, unconnected_gradients="zero")

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([None, S, B], tf.int64)])
    def advance(first_step, numbers):
        total = tf.zeros([S], X_all.dtype)
        for index in tf.range(tf.shape(numbers)[0]):
            step = first_step + tf.cast(index, tf.int64)
            X, y = (tf.gather(values, numbers[index], batch_dims=1) for values in (X_all, y_all))
            drawn = [tf.stack(each) for each in zip(*[normals(place, step, B) for place in range(S)], strict=True)]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                values = [tf.convert_to_tensor(each) for each in parameters]
            objectives, slopes = tf.vectorized_map(value_and_slopes, (values, X, y, drawn))
            gradients = tape.gradient(values, variables, output_gradients=[-slope for slope in slopes])
            optimiser.apply_gradients(zip(gradients, variables, strict=True))
            total += objectives
        return total / tf.cast(tf.shape(numbers)[0], total.dtype)

    start = time.perf_counter()
    advance(tf.zeros([], tf.int64), tf.zeros([0, S, B], tf.int64))  # traces the graph, without a step
    for monitor in monitors:
        monitor.tracing_seconds += (time.perf_counter() - start) / S
    average = Average(variables, round((1 - training.average_last) * max_iterations)) if training.average_last else None

    def unstack(place: int) -> None:
        for own, joint in zip(parameters_of(models[place]), parameters, strict=True):
            own.unconstrained_variable.assign(joint.unconstrained_variable[place])

    iteration, iterations, running = 0, [max_iterations] * S, list(range(S))
    rule = stopping_rule(training)
    held_out: list[list[float]] = [[] for _ in models]
    while running and iteration < max_iterations:
        count = min(RECORD_EVERY, max_iterations - iteration)
        numbers = np.stack([each.rows(iteration, count) for each in batches], axis=1)
        start = time.perf_counter()
        objectives = advance(tf.constant(iteration, tf.int64), tf.constant(numbers)).numpy()
        iteration += count
        share = (time.perf_counter() - start) / len(running)
        for place in tuple(running):
            monitor, value, score = monitors[place], float(objectives[place]), scores[place]
            monitor.training_seconds += share
            monitor.check()
            if not math.isfinite(value):
                raise Diverged(f"an objective became {value} by iteration {iteration:,} of {max_iterations:,}")
            if rule is None or score is None:
                monitor.record(iteration, value, None, max_iterations)
                continue
            unstack(place)
            held_out[place].append(monitor.training(score))
            monitor.record(iteration, value, held_out[place][-1], max_iterations)
            if rule.stops(iteration, held_out[place]):
                iterations[place] = iteration
                running.remove(place)
        if average is not None:
            average.add(iteration)
    if average is not None:
        average.take()
    for place in running:
        unstack(place)
    return iterations
