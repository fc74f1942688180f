"""Quadratic and bilinear forms over many columns: the dominant cost of every structured method (METHODS Sec. 2)."""

import tensorflow as tf


def quadratic(S: tf.Tensor, A: tf.Tensor) -> tf.Tensor:
    """a_n^T S_p a_n for each block p and column n.

    Two GEMMs and not three: for symmetric S the forward product S A is reused as dA = 2 g (S A).

    :param S: symmetric blocks, [P, M, M]
    :param A: [M, R, B]
    :return: [P, R, B]
    """
    P, M = tf.shape(S)[0], tf.shape(A)[0]
    R, B = tf.shape(A)[1], tf.shape(A)[2]
    form = _quadratic(tf.reshape(S, [P * M, M]), tf.reshape(A, [M, R * B]))
    return tf.reshape(form, [P, R, B])


@tf.custom_gradient
def _quadratic(S: tf.Tensor, A: tf.Tensor):
    M, N = tf.shape(A)[0], tf.shape(A)[1]
    SA = tf.reshape(S @ A, [-1, M, N])

    def gradient(g):  # g: [P, N]
        dA = 2.0 * tf.reduce_sum(g[:, None, :] * SA, axis=0)
        gA = tf.reshape(g[:, None, :] * A, [-1, N])
        return tf.matmul(gA, A, transpose_b=True), dA

    return tf.reduce_sum(A * SA, axis=1), gradient


def bilinear(S: tf.Tensor, A: tf.Tensor, A_earlier: tf.Tensor) -> tf.Tensor:
    """a_n^T S_p a'_n for each block p and column n.

    The first layer does not see the samples, so there ``A_earlier`` has R = 1 and S multiplies B columns, never R B.

    :param S: blocks, [P, M, M]
    :param A: [M, R, B]
    :param A_earlier: [M, R, B] or [M, 1, B]
    :return: [P, R, B]
    """
    P, M = tf.shape(S)[0], tf.shape(A_earlier)[0]
    R, B = tf.shape(A_earlier)[1], tf.shape(A_earlier)[2]
    SA = tf.reshape(S, [P * M, M]) @ tf.reshape(A_earlier, [M, R * B])
    return tf.reduce_sum(A * tf.reshape(SA, [P, M, R, B]), axis=1)
