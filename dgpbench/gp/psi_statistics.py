"""Expectations of the squared exponential kernel under Gaussian inputs h ~ N(mu, diag v): the psi statistics.

    psi0 = E k(h, h),   psi1_m = E k(h, z_m),   psi2_mk = E k(h, z_m) k(h, z_k),   c_md = E (h_d - mu_d) k(h, z_m)

Reference: Hernandez-Munoz 2018, Eqs. 4.2.21-4.2.33; docs/methods.md, "Psi statistics". The hot path needs psi2
[B, M, M] only contracted with one symmetric matrix for each GP. psi2 is symmetric, so its M (M + 1) / 2 distinct
entries suffice; their logarithms are linear in (mu w, w, ..) and hence one GEMM; one exponential and a second GEMM
finish the contraction.
"""

import gpflow
import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

ROWS_AT_ONCE = 128


@check_shapes("Z: [M, D]", "mu: [B, D]", "v: [B, D]", "return: [B, M]")
def psi1(kernel: gpflow.kernels.SquaredExponential, Z: tf.Tensor, mu: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """psi1_m = s^2 prod_d (1 + v_d/l_d^2)^{-1/2} exp(-(mu_d - z_md)^2 / (2 (l_d^2 + v_d)))."""
    squares = _squared_lengthscales(kernel, Z)
    w = 1.0 / (squares + v)
    rows = _constant(mu, v, w, squares, 0.5)
    # -(mu - z)^2 w / 2 = -mu^2 w / 2 + (mu w) z - (w / 2) z^2, the first term in the constant of the row: one GEMM
    left, right = tf.concat([mu * w, -0.5 * w, rows], axis=-1), tf.concat([Z, tf.square(Z), tf.ones_like(Z[:, :1])], -1)
    exponent = tf.matmul(left, right, transpose_b=True)
    return kernel.variance * tf.exp(exponent)


@check_shapes("Z: [M, D]", "mu: [B, D]", "v: [B, D]", "Q: [T, M, M]", "return: [B, T]")
def psi2_contracted(kernel, Z: tf.Tensor, mu: tf.Tensor, v: tf.Tensor, Q: tf.Tensor) -> tf.Tensor:
    """sum_mk psi2_mk Q_t,mk for symmetric Q_t, without psi2's second triangle."""
    first, second = np.triu_indices(Z.shape[0])
    twice = tf.constant(np.where(first == second, 1.0, 2.0), Q.dtype)
    return tf.square(kernel.variance) * exponential_product(*_packed_exponent(kernel, Z, mu, v), _upper(Q) * twice)


@check_shapes("Z: [M, D]", "mu: [B, D]", "v: [B, D]", "psi1: [B, M]", "b: [T, M]", "W: [D, T]", "return: [B, T]")
def cross_contracted(kernel, Z, mu, v, psi1: tf.Tensor, b: tf.Tensor, W: tf.Tensor) -> tf.Tensor:
    """b_t^T c w_t, with c_md = psi1_m v_d (z_md - mu_d) / (l_d^2 + v_d), without c's [B, M, D].

    sum_d w_dt r_d (sum_m psi1_m b_tm z_md - mu_d sum_m psi1_m b_tm),   r_d = v_d / (l_d^2 + v_d)
    """
    M, D = Z.shape
    r = v / (_squared_lengthscales(kernel, Z) + v)
    weighted = tf.reshape(tf.transpose(b)[:, :, None] * Z[:, None, :], [M, -1])
    first = tf.reshape(psi1 @ weighted, [-1, b.shape[0], D])
    second = tf.matmul(psi1, b, transpose_b=True)
    return tf.reduce_sum(first * r[:, None, :] * tf.transpose(W), axis=-1) - second * ((r * mu) @ W)


def _packed_exponent(
    kernel, Z: tf.Tensor, mu: tf.Tensor, v: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """log psi2 / s^4 for the pairs m <= k as U V and a number for each row and each pair.

    U [B, 2 D], V [2 D, M (M + 1) / 2], of rows [B, 1] and of pairs [1, M (M + 1) / 2].

    With z+ = z_m + z_k, z- = z_m - z_k and w = 1 / (l^2 + 2 v) the exponent is a sum over d of
    -1/2 log(1 + 2 v/l^2) - mu^2 w + (mu w) z+ - (w / 4) z+^2 - z-^2 / (4 l^2).
    """
    squares = _squared_lengthscales(kernel, Z)
    w = 1.0 / (squares + 2.0 * v)
    Z_T, scaled = tf.transpose(Z), tf.transpose(Z / (2.0 * tf.sqrt(squares)))
    total = _upper(Z_T[:, :, None] + Z_T[:, None, :])
    squares_apart = tf.math.squared_difference(scaled[:, :, None], scaled[:, None, :])
    apart = -_upper(tf.reduce_sum(squares_apart, axis=0, keepdims=True))
    U, V = tf.concat([mu * w, -0.25 * w], axis=1), tf.concat([total, tf.square(total)], axis=0)
    return U, V, _constant(mu, 2.0 * v, w, squares, 1.0), apart


def _constant(mu: tf.Tensor, v: tf.Tensor, w: tf.Tensor, squares: tf.Tensor, power: float) -> tf.Tensor:
    """The part of a row's exponent that no inducing input enters, sum_d -1/2 log(1 + v/l^2) - power mu^2 w, [B, 1]."""
    return tf.reduce_sum(-0.5 * tf.math.log1p(v / squares) - power * tf.square(mu) * w, axis=-1, keepdims=True)


def _squared_lengthscales(kernel, Z: tf.Tensor) -> tf.Tensor:
    """l_d^2, [D], also where one lengthscale serves all dimensions."""
    return tf.broadcast_to(tf.square(tf.convert_to_tensor(kernel.lengthscales)), [Z.shape[1]])


@tf.custom_gradient
def _upper(matrices: tf.Tensor):
    """The entries m <= k of matrices [n, M, M], [n, M (M + 1) / 2]; the gradient is a lookup too, without a scatter."""
    n, M, _ = matrices.shape
    first, second = np.triu_indices(M)
    place = np.full([M, M], len(first))  # below the diagonal: the zero put last
    place[first, second] = np.arange(len(first))

    def gradient(g):
        return tf.transpose(tf.gather(tf.pad(tf.transpose(g), [[0, 1], [0, 0]]), place), [2, 0, 1])

    rows = tf.transpose(tf.reshape(matrices, [n, M * M]))
    return tf.transpose(tf.gather(rows, first * M + second)), gradient


# exp(U V + u 1^T + 1 v) W^T with few passes over the large matrix ---------------------------------------------------


def exponential_product(U: tf.Tensor, V: tf.Tensor, u: tf.Tensor, v: tf.Tensor, W: tf.Tensor) -> tf.Tensor:
    """E W^T with E = exp(U V + u 1^T + 1 v), E [B, P].

    :param U: [B, I]
    :param V: [I, P]
    :param u: [B, 1]
    :param v: [1, P]
    :param W: [T, P], T known when the graph is traced
    :return: [B, T]
    """
    return _one_column(U, V, u, v, W) if W.shape[0] == 1 else _columns(U, V, u, v, W)


@tf.custom_gradient
def _columns(U: tf.Tensor, V: tf.Tensor, u: tf.Tensor, v: tf.Tensor, W: tf.Tensor):
    """The general case: [dU, du] = G [V; 1]^T, [dV; dv] = [U, 1]^T G and dW = g^T E, with G = (g W) * E."""
    E = _exponentials(U, V, u, v)

    def gradient(g):
        G = [tf.matmul(g_i, W) * E_i for g_i, E_i in zip(_pieces(g), E, strict=True)]
        dU, dV = _of_rows(G, _above_ones(V)), _of_columns(G, _beside_ones(U))
        return dU[:, :-1], dV[:-1], dU[:, -1:], dV[-1:], _of_columns(E, g)

    return _of_rows(E, W), gradient


@tf.custom_gradient
def _one_column(U: tf.Tensor, V: tf.Tensor, u: tf.Tensor, v: tf.Tensor, w: tf.Tensor):
    """The case of one row w, which does not need G = diag(g) E diag(w).

    dU = g * E (w V)^T, du = g * E w^T, dV = w * (g U)^T E, dv = w * g^T E and dw = g^T E: E is read once each way.
    """
    E = _exponentials(U, V, u, v)
    product = _of_rows(E, w * _above_ones(V))

    def gradient(g):
        transposed = _of_columns(E, g * _beside_ones(U))
        dU, dV = g * product, w * transposed
        return dU[:, :-1], dV[:-1], dU[:, -1:], dV[-1:], transposed[-1:]

    return product[:, -1:], gradient


def _exponentials(U: tf.Tensor, V: tf.Tensor, u: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
    """E in pieces of some rows, each from one product."""
    right = tf.concat([V, tf.ones_like(v), v], axis=0)
    return [_exp(tf.matmul(piece, right)) for piece in _pieces(tf.concat([U, u, tf.ones_like(u)], axis=1))]


@tf.function(jit_compile=True)
def _exp(exponents: tf.Tensor) -> tf.Tensor:
    """exp, compiled for the processor at hand: 0.6 times the time of the operation, which serves older ones too."""
    return tf.exp(exponents)


def _of_rows(E: list[tf.Tensor], values: tf.Tensor) -> tf.Tensor:
    """E times the values [n, P] transposed, [B, n]."""
    return tf.concat([tf.matmul(E_i, values, transpose_b=True) for E_i in E], axis=0)


def _of_columns(E: list[tf.Tensor], values: tf.Tensor) -> tf.Tensor:
    """The values [B, n] transposed times E, [n, P]."""
    products = [tf.matmul(E_i, v_i, transpose_a=True) for E_i, v_i in zip(E, _pieces(values), strict=True)]
    return tf.transpose(tf.add_n(products))


def _above_ones(V: tf.Tensor) -> tf.Tensor:
    return tf.concat([V, tf.ones_like(V[:1])], axis=0)  # tf.pad with ones pads with zeros under tf.vectorized_map


def _beside_ones(U: tf.Tensor) -> tf.Tensor:
    return tf.concat([U, tf.ones_like(U[:, :1])], axis=1)


def _pieces(rows: tf.Tensor) -> list[tf.Tensor]:
    """Split the rows into pieces, if their number is known when the graph is traced."""
    B = rows.shape[0]
    if B is None:
        return [rows]
    return [rows[start : start + ROWS_AT_ONCE] for start in range(0, B, ROWS_AT_ONCE)]
