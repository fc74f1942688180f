"""Preconditioned stochastic-gradient Hamiltonian Monte Carlo with moving-window Monte Carlo EM.

Sampler steps and gradient steps of the parameters take turns in one graph.
Reference: Havasi et al. 2018, Sec. 4; docs/methods.md, "SGHMC".
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from dgpbench.errors import Diverged
from dgpbench.system import interrupts
from dgpbench.training.loops import create_slots
from dgpbench.training.minibatches import Minibatches
from dgpbench.training.monitor import RECORD_EVERY, Monitor

FAR = 1e4  # prior standard deviations of a whitened inducing output; chains that sample stay below some tens
LogJoint = Callable[[tf.Tensor, Any, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class SamplerConstants:
    """The sampler's constants and its two switches.

    :param step_size: eps
    :param friction: alpha
    :param freeze: what the frozen preconditioner is: ``last``, the running average at the end of the burn-in (as
        published: a random snapshot), or ``mean``, the mean of grad^2 over its second half
    :param noise: ``plain`` (as published), or ``corrected`` for the variance that minibatches add
    """

    step_size: float = 0.01
    friction: float = 0.05
    freeze: str = "mean"
    noise: str = "plain"


class Sampler(tf.Module):
    """K chains over P coordinates with target exp(-U), from gradients grad = dU/dv / N.

    With every right-hand side at the old values, and Minv = 1/sqrt(g2 + 1e-16),

        r = 1/(xi + 1);  xi <- 1 + xi (1 - g^2/g2);  g <- g + r (grad - g);  g2 <- g2 + r (grad^2 - g2)    (adapting)
        p <- p - eps^2 Minv grad - alpha p + Normal(0, variance 2 (eps^2/N) alpha Minv);  v <- v + p

    While Minv adapts, the draws are not from exp(-U); once it is frozen the mean is exact for exact gradients, and the
    variance right to O(eps^2 Minv / N).

    :param start: v at the start, [K, P]
    :param num_data: N
    """

    def __init__(self, start: np.ndarray, num_data: int, settings: SamplerConstants):
        super().__init__(name="sampler")
        self.settings = settings
        self.num_data = num_data
        one, zero = np.ones_like(start), np.zeros_like(start)
        self.position = tf.Variable(start, trainable=False)  # v
        self.momentum = tf.Variable(zero, trainable=False)  # p
        self.memory = tf.Variable(one, trainable=False)  # xi
        self.average = tf.Variable(one, trainable=False)  # g
        self.square = tf.Variable(one, trainable=False)  # g2
        self.sum_squares = tf.Variable(zero, trainable=False)
        self.sum_noise = tf.Variable(zero, trainable=False)
        self.count = tf.Variable(np.zeros([], start.dtype), trainable=False)
        self.gradient_noise = tf.Variable(zero, trainable=False)  # Var[grad]; 0 until frozen
        self.is_frozen = tf.Variable(0, trainable=False, dtype=tf.int64)

    def step(self, gradient: tf.Tensor, normals: tf.Tensor, *, adapt: bool) -> None:
        """Take one step of every chain.

        :param gradient: dU/dv / N at the present position, [K, P]
        :param normals: standard normals, [K, P]
        """
        eps2, alpha = self.settings.step_size**2, self.settings.friction
        Minv = tf.math.rsqrt(self.square + 1e-16)
        variance = 2.0 * alpha * eps2 / self.num_data * Minv
        if self.settings.noise == "corrected" and not adapt:
            variance = tf.maximum(variance - tf.square(eps2 * Minv) * self.gradient_noise, 0.0)
        p = (1.0 - alpha) * self.momentum - eps2 * Minv * gradient + tf.sqrt(variance) * normals
        if adapt:
            self._adapt(gradient)
        self.momentum.assign(p)
        self.position.assign_add(p)

    def _adapt(self, gradient: tf.Tensor) -> None:
        xi, g, g2 = (tf.identity(value) for value in (self.memory, self.average, self.square))
        r = 1.0 / (xi + 1.0)
        self.memory.assign(1.0 + xi * (1.0 - tf.square(g) / g2))
        self.average.assign(g + r * (gradient - g))
        self.square.assign(g2 + r * (tf.square(gradient) - g2))

    def accumulate(self, gradient: tf.Tensor, noise: tf.Tensor, weight: tf.Tensor) -> None:
        """Add grad^2 and the estimate of Var[grad] to what ``freeze`` averages; a weight of 0 adds nothing."""
        self.sum_squares.assign_add(weight * tf.square(gradient))
        self.sum_noise.assign_add(weight * noise)
        self.count.assign_add(weight)

    def freeze(self) -> None:
        """Fix the preconditioner as set by ``settings.freeze``; later calls do nothing."""
        if self.is_frozen == 1:
            return
        self.is_frozen.assign(1)
        if self.count == 0.0:  # stopped before the second half of the burn-in: keep the snapshot
            return
        if self.settings.freeze == "mean":
            self.square.assign(self.sum_squares / self.count)
        self.gradient_noise.assign(self.sum_noise / self.count)


class MovingWindow(tf.Module):
    """The last W positions of one chain, in a ring on the device.

    :param size: W
    :param start: the position before the first step, [P]
    """

    def __init__(self, size: int, start: np.ndarray):
        super().__init__(name="moving_window")
        self.size = size
        self.ring = tf.Variable(np.tile(start, [size, 1]), trainable=False)

    def push(self, step: tf.Tensor, position: tf.Tensor) -> None:
        """Replace the oldest position by that of ``step`` (counted from 0), [P]."""
        self.ring.scatter_nd_update([[step % self.size]], position[None])

    def draw(self, step: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draw one of the last W positions up to ``step``, [P]."""
        filled = tf.minimum(step + 1, self.size)
        return tf.gather(self.ring, tf.random.stateless_uniform([], seed, maxval=filled, dtype=tf.int64))


@dataclass(frozen=True)
class Schedule:
    """Counts of steps; the configuration has shares of max_iterations, so that a smaller budget scales them.

    :param max_iterations: sampler steps, each with one gradient step of the parameters
    :param burn_in: of these, the first ones, during which the preconditioner adapts
    :param thinning: sampler steps between two collected samples, after max_iterations
    :param num_samples: collected samples
    """

    max_iterations: int
    burn_in: int
    thinning: int
    num_samples: int

    @property
    def total(self) -> int:
        """All sampler steps."""
        return self.max_iterations + self.thinning * self.num_samples

    def segments(self) -> Iterator[tuple[int, int]]:
        """Yield (first step, number of steps) of each graph call of training, cut where the burn-in's halves end."""
        edges = {0, self.burn_in // 2, self.burn_in, self.max_iterations}
        starts = sorted(edges | set(range(0, self.max_iterations, RECORD_EVERY)))
        yield from ((start, stop - start) for start, stop in pairwise(starts))


@dataclass(eq=False)
class Chain:
    """One chain and the parameters that take steps with it; everything happens on the device.

    :param log_joint: (v [K, P], X, y, seed, step) -> -U for each particle, [K]
    :param of_rows: () -> tensors with N rows that replace X in ``log_joint`` once parameters are fixed, so that no step
        computes them; or None
    :param sampler: a sampler with one chain
    :param window: its last positions; None: the sampler's gradient is also that of the optimiser's step
    :param variables: kernel, likelihood and inducing inputs
    :param optimiser: takes one step on -log p(y, v) at a v drawn from the window, for each sampler step
    :param X: [N, D]
    :param y: [N]
    :param seed: of paths, momenta and draws from the window
    """

    log_joint: LogJoint
    of_rows: Callable[[], Any]
    sampler: Sampler
    window: MovingWindow | None
    variables: Sequence[tf.Variable]
    optimiser: Any
    X: Any
    y: tf.Tensor
    batches: Minibatches
    seed: tf.Tensor

    def __post_init__(self) -> None:
        create_slots(self.optimiser, self.variables)
        self._compiled: dict[tuple[bool, bool], Callable] = {}

    def advance(
        self, first_step: int, num_steps: int, monitor: Monitor, *, adapt: bool, learn: bool, weight: float
    ) -> float:
        """Take some steps in one graph call; return the mean of -U over them.

        :raises Diverged: when it is not finite, or the chain is far outside any posterior
        """
        per_step = self._batches_per_step(learn)
        rows = self.batches.rows(per_step * first_step, per_step * num_steps).reshape(num_steps, per_step, -1)
        if self._is_corrected:
            rows[:, 0] = [self._independent_rows(first_step + index) for index in range(num_steps)]
        start, weight = tf.constant(first_step, tf.int64), tf.constant(weight, self.y.dtype)
        step = self._compiled.get((adapt, learn))
        if step is None:
            step = self._compiled[adapt, learn] = monitor.tracing(lambda: self._compile(adapt, learn))
            # No step is taken: TensorFlow optimises a graph at its first call, which does not count as training.
            monitor.tracing(lambda: step(start, tf.constant(rows[:0]), weight))
        value = float(monitor.training(lambda: step(start, tf.constant(rows), weight)))
        if not math.isfinite(value):
            raise Diverged(f"the log joint became {value} by step {first_step + num_steps:,}")
        distance = np.abs(self.sampler.position.numpy()).max()
        if not distance < FAR:
            raise Diverged(
                f"the chain left the posterior by step {first_step + num_steps:,}: an inducing output is "
                f"{distance:.1e} prior standard deviations from 0, beyond {FAR:.0e}"
            )
        return value

    def fix(self) -> None:
        """Prepare for steps under fixed parameters."""
        features = self.of_rows()
        self.X = self.X if features is None else features

    def _batches_per_step(self, learn: bool) -> int:
        """Count the sampler's minibatch, and the optimiser's own where it draws from a window."""
        return 2 if learn and self.window is not None else 1

    @property
    def _is_corrected(self) -> bool:
        return self.sampler.settings.noise == "corrected" and 1 < self.batches.batch_size < self.batches.num_rows

    def _independent_rows(self, step: int) -> np.ndarray:
        """Draw a batch for one step, independent of all others.

        Within an epoch the errors of the batches cancel. In a chain slower than an epoch they then add next to
        nothing, and subtracting each step's own variance would leave too little.
        """
        rng = np.random.default_rng([self.batches.seed, step, 1])
        return rng.choice(self.batches.num_rows, self.batches.batch_size, replace=False)

    def _compile(self, adapt: bool, learn: bool):
        signature = [
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([None, self._batches_per_step(learn), self.batches.batch_size], tf.int64),
            tf.TensorSpec([], self.y.dtype),
        ]
        shared = learn and self.window is None
        sample, slopes_in_window = (
            tf.autograph.experimental.do_not_convert(part) for part in (self._sample, self._slopes_in_window)
        )

        @tf.autograph.experimental.do_not_convert
        def maximise(slopes):
            self.optimiser.apply_gradients(zip(slopes, self.variables, strict=True))

        @tf.function(input_signature=signature)
        def several(first_step, rows, weight):
            total = tf.zeros([], self.y.dtype)
            for index in tf.range(tf.shape(rows)[0]):
                step = first_step + tf.cast(index, tf.int64)
                value, slopes = sample(step, rows[index, 0], adapt, weight, shared)
                total += value
                if learn:
                    maximise(slopes if shared else slopes_in_window(step, rows[index, 1]))
            return total / tf.cast(tf.shape(rows)[0], total.dtype)

        return several.get_concrete_function()

    def _sample(self, step, rows, adapt: bool, weight, shared: bool) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Take a step of the sampler; return -U before it, and dU/dparameters if ``shared``."""
        seeds = self._seeds(step, 2)
        v = tf.identity(self.sampler.position)
        value, gradient, noise, slopes = self._gradient(v, rows, seeds[0], step, shared)
        normals = tf.random.stateless_normal(tf.shape(v), seeds[1], dtype=v.dtype)
        self.sampler.accumulate(gradient, noise, weight)
        self.sampler.step(gradient, normals, adapt=adapt)
        if self.window is not None:
            self.window.push(step, self.sampler.position[0])
        return value, slopes

    def _gradient(self, v, rows, seed, step, shared: bool):
        """Return -U, dU/dv / N, an estimate of Var[grad] from the batch's two halves where the noise is corrected, and
        dU/dparameters if ``shared``.

        A batch holds no row twice, so with n rows of N and halves' gradients g1, g2 the variance of their mean is
        (1 - n/N) E[(g1 - g2)^2] / 4 (the noise of the paths, at depth 2 and more, is shrunk with it).
        """
        N, B = self.batches.num_rows, self.batches.batch_size
        halves = 2 if self._is_corrected else 1
        rows = rows[: B // halves * halves]
        X, y = tf.nest.map_structure(
            lambda values: tf.reshape(tf.gather(values, rows), [halves, B // halves, *values.shape[1:]]),
            (self.X, self.y),
        )
        variables = self.variables if shared else []
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            copies = tf.tile(v, [halves, 1])
            tape.watch([copies, *variables])
            value = self.log_joint(copies, X, y, seed, step)
            potential = -value / N
        gradients, *slopes = tape.gradient(potential, [copies, *variables])
        gradient = tf.reduce_mean(gradients, axis=0, keepdims=True)
        noise = tf.zeros_like(gradient)
        if halves == 2:
            noise = (1.0 - B / N) * tf.square(gradients[:1] - gradients[1:]) / 4.0
        return tf.reduce_mean(value), gradient, noise, [N / halves * slope for slope in slopes]

    def _slopes_in_window(self, step, rows) -> list[tf.Tensor]:
        """Return dU/dparameters at a position of the window."""
        assert self.window is not None
        seeds = self._seeds(step, 4)[2:]
        v = self.window.draw(step, seeds[0])[None]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.variables)
            loss = -self.log_joint(v, tf.gather(self.X, rows), tf.gather(self.y, rows), seeds[1], step)
        return tape.gradient(loss, self.variables)

    def _seeds(self, step, count: int) -> list[tf.Tensor]:
        at_step = tf.random.experimental.stateless_fold_in(self.seed, tf.cast(step, tf.int32))
        return [tf.random.experimental.stateless_fold_in(at_step, index) for index in range(count)]


def run(chain: Chain, schedule: Schedule, monitor: Monitor) -> tuple[int, np.ndarray]:
    """Burn in and learn, freeze the preconditioner, collect; resume from a checkpoint if there is one.

    :return: the number of training steps, and the samples of v, [S, P]
    """
    progress = Collected(schedule.num_samples, chain.sampler.position.shape[1], chain.y.dtype)
    state = [
        *chain.variables,
        *chain.optimiser.variables(),
        *chain.sampler.variables,
        *([] if chain.window is None else [chain.window.ring]),
        *progress.variables,
    ]
    step = monitor.resume(state)
    with interrupts.deferred():
        if progress.learned < 0:
            taken = _train(chain, schedule, monitor, step, state)
            chain.sampler.freeze()
            progress.learned.assign(taken)
        _collect(chain, schedule, monitor, progress, state)
    return int(progress.learned), progress.samples.numpy()


class Collected(tf.Module):
    """The samples so far, and the steps of training before them (-1 while training lasts)."""

    def __init__(self, num_samples: int, size: int, dtype):
        super().__init__(name="collected")
        self.samples = tf.Variable(tf.zeros([num_samples, size], dtype), trainable=False)
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.learned = tf.Variable(-1, dtype=tf.int64, trainable=False)


def _train(chain: Chain, schedule: Schedule, monitor: Monitor, taken: int, state: list) -> int:
    """Take sampler steps with gradient steps, adapting during the burn-in; return the number of steps in all."""
    for start, count in schedule.segments():
        if start < taken or monitor.spent:
            continue
        adapt = start < schedule.burn_in
        if not adapt:
            chain.sampler.freeze()
        weight = float(adapt and start >= schedule.burn_in // 2)
        value = chain.advance(start, count, monitor, adapt=adapt, learn=True, weight=weight)
        taken = start + count
        _note(monitor, schedule, taken, value, state)
    return taken


def _collect(chain: Chain, schedule: Schedule, monitor: Monitor, progress: Collected, state: list) -> None:
    """Collect samples of v, ``thinning`` steps apart, under fixed parameters and preconditioner.

    They are collected even when the time for training is used up: predictions need them.
    """
    monitor.training(chain.fix)
    for index in range(int(progress.count), schedule.num_samples):
        start = int(progress.learned) + index * schedule.thinning
        value = chain.advance(start, schedule.thinning, monitor, adapt=False, learn=False, weight=0.0)
        progress.samples.scatter_nd_update([[index]], chain.sampler.position)
        progress.count.assign(index + 1)
        _note(monitor, schedule, start + schedule.thinning, value, state)


def _note(monitor: Monitor, schedule: Schedule, step: int, value: float, state: list) -> None:
    monitor.record(step, value, None, schedule.total)
    monitor.keep(step, state, now=interrupts.is_pending())
    interrupts.raise_pending()
