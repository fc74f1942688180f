"""A = Lk^{-1} K and its gradient, against the plain solve."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp.linear_algebra import whiten


@pytest.mark.parametrize("M", [1, 2, 5, 8])
def test_values_and_gradients_equal_those_of_the_plain_solve(M):
    rng = np.random.default_rng(M)
    Lk = tf.constant(np.tril(rng.normal(size=(M, M))) + 3.0 * np.eye(M))
    columns, g = (tf.constant(rng.normal(size=(M, 7))) for _ in range(2))
    found, expected = [], []
    for solve, values in ((whiten, found), (tf.linalg.triangular_solve, expected)):
        with tf.GradientTape() as tape:
            tape.watch([Lk, columns])
            A = solve(Lk, columns)
            loss = tf.reduce_sum(g * A)
        values += [A, *tape.gradient(loss, [Lk, columns])]
    for ours, plain in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-13)
