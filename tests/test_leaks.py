import gc
import weakref

import tensorflow as tf
import tensorflow_probability as tfp

from dgpbench.system import tf_session


def traced() -> "weakref.ref[tf.Graph]":
    """The graph of a function that differentiates a bijector, as every run's objective does."""
    variable, softplus = tf.Variable(1.0), tfp.bijectors.Softplus()

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            value = softplus.forward(variable)
        return tape.gradient(value, variable)

    return weakref.ref(gradient.get_concrete_function().graph)


def test_a_graph_made_inside_is_gone_behind():
    with tf_session.releasing_graphs():
        graph = traced()
        gc.collect()
        assert graph() is not None
    assert graph() is None


def test_what_was_there_before_stays():
    graph = traced()
    with tf_session.releasing_graphs():
        pass
    assert graph() is not None
