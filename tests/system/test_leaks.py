import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from dgpbench import DeepGPRegressor
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


@pytest.mark.full
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


@pytest.mark.full
def test_a_models_predictions_leave_nothing_behind():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    settings = {"method.num_inducing": 3, "training.max_iterations": 1, "prediction.num_samples": 2}
    model = DeepGPRegressor("mf", budget="smoke", random_state=0, settings=settings).fit(X, X[:, 0])
    before = len(tf_session._gradients()), len(tf_session._bijectors())
    model.predict(X)
    assert (len(tf_session._gradients()), len(tf_session._bijectors())) == before
