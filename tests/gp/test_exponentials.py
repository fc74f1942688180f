"""exp(U V^T) W in pieces, against the plain form."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.gp.exponentials import ROWS_AT_ONCE, exponential_product


@pytest.mark.parametrize("num_rows", [3, 2 * ROWS_AT_ONCE + 5])
@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("rows_known", [True, False])
def test_values_and_gradients_equal_the_plain_form(num_rows, T, rows_known):
    rng = np.random.default_rng(T)
    U, V, W, g = (tf.constant(rng.normal(size=s)) for s in ((num_rows, 4), (6, 4), (6, T), (num_rows, T)))
    signature = [tf.TensorSpec([num_rows if rows_known else None, 4], U.dtype)]

    def both(form):
        @tf.function(input_signature=signature, autograph=False)
        def value_and_gradients(U):
            with tf.GradientTape() as tape:
                tape.watch([U, V, W])
                value = form(U, V, W)
                loss = tf.reduce_sum(g * value)
            return value, *tape.gradient(loss, [U, V, W])

        return value_and_gradients(U)

    ours = both(exponential_product)
    plain = both(lambda U, V, W: tf.exp(tf.matmul(U, V, transpose_b=True)) @ W)
    for found, expected in zip(ours, plain, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
