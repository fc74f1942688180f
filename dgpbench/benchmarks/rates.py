"""The rate of this machine's products, in which floors are counted."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

from dgpbench.benchmarks.cases import Cell

PRODUCT = (128, 128, 2560)  # the product whose rate floors are counted in
PRODUCTS = 20  # in a burst: 40 ms
BURSTS = 5


def product_rate(cell: Cell) -> Callable[[], float]:
    """A function that measures the GFLOP/s of [128, 128] by [128, 2560] products; those of ``mixed`` are float32."""
    import tensorflow as tf

    M, K, N = PRODUCT
    kind = tf.float64 if cell.precision == "float64" else tf.float32
    left, right = tf.random.normal([M, K], dtype=kind), tf.random.normal([K, N], dtype=kind)

    @tf.function
    def multiply():
        total = tf.zeros([], kind)
        for _ in tf.range(PRODUCTS):  # in one graph call, as the products of a step are
            total += tf.matmul(left, right)[0, 0]
        return total

    multiply()
    return lambda: measured_rate(lambda: multiply().numpy(), cell.threads)


@cache
def numpy_rate(precision: str) -> float:
    """GFLOP/s of the same product by NumPy on one thread, which needs no TensorFlow."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    M, K, N = PRODUCT
    kind: Any = np.float64 if precision == "float64" else np.float32
    left, right = np.ones([M, K], kind), np.ones([K, N], kind)
    with threadpool_limits(1):
        return measured_rate(lambda: [left @ right for _ in range(PRODUCTS)], threads=1)


def measured_rate(multiply: Callable[[], Any], threads: int) -> float:
    """GFLOP/s over ``PRODUCTS`` products, in the fastest of some bursts: what a free core does.

    What else a machine does can only slow a burst, some to 0.6 of their rate, and a rate too low would flatter every
    ratio to a floor. Of one thread the processor time counts, which interruptions do not lengthen.
    """
    import numpy as np

    now = time.process_time if threads == 1 else time.perf_counter
    seconds = []
    for _ in range(BURSTS):
        start = now()
        multiply()
        seconds.append(now() - start)
    return 2e-9 * PRODUCTS * float(np.prod(PRODUCT)) / min(seconds)
