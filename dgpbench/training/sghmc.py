"""Preconditioned stochastic-gradient Hamiltonian Monte Carlo (docs/methods.md, "SGHMC"; Havasi et al. 2018)."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf


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
        """One step of every chain.

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
        """Fix the preconditioner for good, as ``settings.freeze`` says; once."""
        if self.is_frozen == 1:
            return
        self.is_frozen.assign(1)
        if self.count == 0.0:  # stopped before the second half of the burn-in: the snapshot is all there is
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
        """One of the last W positions up to ``step``, each as likely, [P]."""
        filled = tf.minimum(step + 1, self.size)
        return self.ring[tf.random.stateless_uniform([], seed, maxval=filled, dtype=tf.int64)]
