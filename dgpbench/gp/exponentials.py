"""exp(U V^T) W without passes over the large matrix that can be spared: the hot path of the psi statistics.

E = exp(U V^T) has a row for each data row and a column for each pair of inducing inputs, far more than a cache holds.
It is computed and kept in pieces of some rows, and each piece meets all that is wanted of it before the next one.
"""

import tensorflow as tf

ROWS_AT_ONCE = 128


def exponential_product(U: tf.Tensor, V: tf.Tensor, W: tf.Tensor) -> tf.Tensor:
    """exp(U V^T) W.

    :param U: [B, I]
    :param V: [P, I]
    :param W: [P, T], T known when the graph is traced
    :return: [B, T]
    """
    return _one_column(U, V, W) if W.shape[1] == 1 else _columns(U, V, W)


@tf.custom_gradient
def _columns(U: tf.Tensor, V: tf.Tensor, W: tf.Tensor):
    """The general case: dU = G V, dV = G^T U, dW = E^T g with G = (g W^T) * E."""
    pieces = _pieces(U)
    E = [tf.exp(tf.matmul(piece, V, transpose_b=True)) for piece in pieces]

    def gradient(g):
        G = [tf.matmul(g_i, W, transpose_b=True) * E_i for g_i, E_i in zip(_pieces(g), E, strict=True)]
        dU = tf.concat([tf.matmul(G_i, V) for G_i in G], axis=0)
        dV = tf.add_n([tf.matmul(G_i, piece, transpose_a=True) for G_i, piece in zip(G, pieces, strict=True)])
        return dU, dV, _from_left(E, _pieces(g))

    return tf.concat([tf.matmul(E_i, W) for E_i in E], axis=0), gradient


@tf.custom_gradient
def _one_column(U: tf.Tensor, V: tf.Tensor, w: tf.Tensor):
    """One column w, where G = diag(g) E diag(w) is not needed: dU = g * E (w V), dV = w * E^T (g U), dw = E^T g."""
    E = [tf.exp(tf.matmul(piece, V, transpose_b=True)) for piece in _pieces(U)]
    columns = tf.concat([w, w * V], axis=1)
    product = tf.concat([tf.matmul(E_i, columns) for E_i in E], axis=0)  # of [w, w V] at once: E is read once

    def gradient(g):
        transposed = _from_left(E, _pieces(tf.concat([g, g * U], axis=1)))
        return g * product[:, 1:], w * transposed[:, 1:], transposed[:, :1]

    return product[:, :1], gradient


def _from_left(E: list[tf.Tensor], values: list[tf.Tensor]) -> tf.Tensor:
    """E^T times the values, piece by piece."""
    return tf.add_n([tf.matmul(E_i, v, transpose_a=True) for E_i, v in zip(E, values, strict=True)])


def _pieces(rows: tf.Tensor) -> list[tf.Tensor]:
    """Some rows at a time, where their number is known when the graph is traced; else all of them."""
    B = rows.shape[0]
    if B is None:
        return [rows]
    return [rows[start : start + ROWS_AT_ONCE] for start in range(0, B, ROWS_AT_ONCE)]
