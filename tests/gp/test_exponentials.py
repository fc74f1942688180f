"""exp(U V + u + v) W^T in pieces, against the plain form."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp.psi_statistics import ROWS_AT_ONCE, exponential_product


@pytest.mark.parametrize("num_rows", [3, 2 * ROWS_AT_ONCE + 5])
@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("rows_known", [True, False])
def test_values_and_gradients_equal_the_plain_form(num_rows, T, rows_known):
    rng = np.random.default_rng(T)
    shapes = (num_rows, 4), (num_rows, 1), (4, 6), (1, 6), (T, 6), (num_rows, T)
    U, u, V, v, W, g = (tf.constant(rng.normal(size=shape)) for shape in shapes)
    signature = [tf.TensorSpec([num_rows if rows_known else None, n], U.dtype) for n in (4, 1)]

    def both(form):
        @tf.function(input_signature=signature, autograph=False)
        def value_and_gradients(U, u):
            with tf.GradientTape() as tape:
                tape.watch([U, V, u, v, W])
                value = form(U, V, u, v, W)
                loss = tf.reduce_sum(g[: tf.shape(U)[0]] * value)
            return value, *tape.gradient(loss, [U, V, u, v, W])

        return value_and_gradients(U, u)

    ours = both(exponential_product)
    plain = both(lambda U, V, u, v, W: tf.matmul(tf.exp(U @ V + u + v), W, transpose_b=True))
    for found, expected in zip(ours, plain, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
