"""The squared exponential as one product, against GPflow's."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp.kernels import SquaredExponential


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return tf.constant(3.0 * rng.normal(size=(7, 3))), tf.constant(rng.normal(size=(4, 3)))


@pytest.mark.parametrize("lengthscales", [0.7, [0.3, 1.0, 5.0]])
def test_values_and_gradients_equal_those_of_gpflow(rows, lengthscales):
    weights = tf.constant(np.random.default_rng(1).normal(size=(7, 4)))
    found = []
    for cls in (SquaredExponential, gpflow.kernels.SquaredExponential):
        kernel = cls(variance=2.3, lengthscales=lengthscales)
        with tf.GradientTape() as tape:
            tape.watch(rows)
            value = tf.reduce_sum(weights * kernel(*rows))
        found.append([kernel(*rows), *tape.gradient(value, [*rows, *kernel.trainable_variables])])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


def test_a_matrix_with_itself_and_stacks_of_rows_equal_those_of_gpflow(rows):
    ours = SquaredExponential(variance=2.3, lengthscales=[0.3, 1.0, 5.0])
    theirs = gpflow.kernels.SquaredExponential(variance=2.3, lengthscales=[0.3, 1.0, 5.0])
    np.testing.assert_allclose(ours(rows[0]), theirs(rows[0]), atol=1e-13)
    stack = tf.stack([rows[1], 2.0 * rows[1]])
    np.testing.assert_allclose(ours(rows[0], stack), theirs(rows[0], stack), atol=1e-13)


def test_rows_of_lower_precision_give_a_matrix_of_theirs(rows):
    kernel = SquaredExponential(variance=2.3, lengthscales=[0.3, 1.0, 5.0])
    low = kernel(*(tf.cast(values, tf.float32) for values in rows))
    assert low.dtype == tf.float32
    np.testing.assert_allclose(low, kernel(*rows), atol=2e-5)
