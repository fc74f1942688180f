"""Starting inducing inputs, shared by the families."""

import warnings

import gpflow
import numpy as np
import tensorflow as tf

from dgpbench.gp.prior import DeepGP
from dgpbench.gp.whitening import whiten
from dgpbench.training.log import TrainingLog

START_ROWS, START_ITERATIONS = 10_000, 200


def kmeans_centres(X: np.ndarray, num_inducing: int, seed: int) -> np.ndarray:
    """M centres of the training inputs by k-means (k-means++, 30 iterations), [M, D].

    Reference: Lindinger et al. 2020, Appendix G; the iteration count is that of the published runs.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct rows than centres gives repeated centres, which the jitter makes harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(num_inducing, n_init=1, max_iter=30, random_state=seed % 2**32).fit(X)
    return fitted.cluster_centers_.astype(X.dtype)


def fit_output_layer(
    prior: DeepGP, H: tf.Tensor, Y: np.ndarray, weight: float, log: TrainingLog
) -> tuple[tf.Tensor, tf.Tensor]:
    """Put the output layer's kernel, Z and the noise variance where a sparse GP ends that is fitted to the inputs which
    the layer sees at the start; the optimal q(v) = N(m, C C^T) there.

        m = weight B^{-1} A y / s,   C C^T = B^{-1},   B = I + weight A A^T,   A = Lk^{-1} k(Z, H) / s

    Reference: Titsias 2009, whose collapsed bound L-BFGS maximises.

    :param H: n of the training rows, each through one path of the hidden layers, [n, T_{L-1}]
    :param Y: their targets, [n, 1]
    :param weight: training rows for each of the n
    :return: m [M], C [M, M] lower triangular
    """
    layer = prior.layers[-1]
    inducing = gpflow.inducing_variables.InducingPoints(layer.Z)
    model = gpflow.models.SGPR((H, Y), layer.kernel, inducing, likelihood=prior.likelihood)
    loss = model.training_loss_closure(compile=True)
    options = {"maxiter": START_ITERATIONS}
    log.training(lambda: gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables, options=options))
    s = tf.sqrt(prior.noise_variance)
    A = whiten(layer.cholesky(), layer.kernel(layer.Z, H)) / s
    B = tf.eye(A.shape[0], dtype=A.dtype) + weight * tf.matmul(A, A, transpose_b=True)
    covariance = tf.linalg.inv(B)
    return weight * tf.linalg.matvec(covariance, tf.linalg.matvec(A, Y[:, 0])) / s, tf.linalg.cholesky(covariance)
