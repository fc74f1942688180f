"""One process that steps for one cell: ``python -m dgpbench.benchmarks.worker``, with the cell as a line of JSON.

Our methods run their own ``fit``, under a clock that beats; so a new method is timed without being named here.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from dgpbench.benchmarks.beat import Beat, Finished, own_standard_output
from dgpbench.benchmarks.cells import Cell, resolve
from dgpbench.datasets.scaling import Regression
from dgpbench.errors import Refused
from dgpbench.training.clock import Clock

PRODUCT = (128, 128, 2560)  # the product whose rate floors are counted in
PRODUCTS = 20  # in a burst: 40 ms
BURSTS = 5


@dataclass
class BeatingClock(Clock):
    """A clock that waits for its turn whenever the method records a row of its trace."""

    beat: Callable[[int, float], None] = field(default=lambda iteration, excluded: None)

    def record(self, iteration: int, elbo: float, validation_tll: float | None, max_iterations: int) -> None:
        """A block of steps has ended."""
        self.beat(iteration, self.tracing_seconds)


def main() -> int:
    """Step when told to, until told otherwise; what cannot be timed is answered with one sentence."""
    answers = own_standard_output()
    cell = Cell(**json.loads(sys.stdin.readline()))
    try:
        train(cell, lambda rate, facts: Beat(sys.stdin, answers, rate, facts))
    except Finished:
        return 0
    except Refused as refusal:
        problem = str(refusal)
    except Exception as met:  # any library can fail in any way; the table's other cells go on
        problem = f"{type(met).__name__}: {met}".splitlines()[0]
    else:
        problem = "it ended before enough steps were timed"
    answers.write(json.dumps({"problem": problem}) + "\n")
    answers.flush()
    return 1


def train(cell: Cell, beat: Callable[[Callable[[], float], dict[str, Any]], Beat]) -> None:
    """Steps of a cell's method, or of a peer's."""
    from dgpbench.benchmarks import peers

    if cell.code in peers.PEERS:
        data, source = rows(cell)
        return peers.PEERS[cell.code](cell, data, lambda rate: beat(rate, {"data": source}))
    _train_ours(cell, beat)


def _train_ours(cell: Cell, beat) -> None:
    """The method's own ``fit`` on the cell's data; the floor is counted from the same configuration."""
    config = resolve(cell)
    data, source = rows(cell, config)
    from dgpbench import quiet_tensorflow

    quiet_tensorflow.start(cell.threads, cell.precision)
    from dgpbench.benchmarks.floors import flops
    from dgpbench.methods.choices import Seeds, choices_of

    module, _, function = config["method"]["_target_"].rpartition(".")
    gflop = flops(cell, config, data.X.shape[1]) / 1e9
    rate = product_rate(cell)
    clock = BeatingClock(beat=beat(rate, {"data": source, "gflop": gflop}))
    getattr(import_module(module), function)(data, choices_of(config), Seeds(0, 1, 2, 3, 4), clock)


def rows(cell: Cell, config: dict[str, Any] | None = None) -> tuple[Regression, str]:
    """Standardised training rows of split 0, and what they are: a step costs the same on normals of the same shape."""
    import numpy as np

    from dgpbench.datasets import registry
    from dgpbench.problem import pose

    config = resolve(replace(cell, code="dgpbench")) if config is None else config
    try:
        problem = pose(config, registry.load(config["dataset"])).train
        source = cell.dataset
    except Refused:
        if "n" not in config["dataset"]:
            raise
        rng = np.random.default_rng(0)
        N, D = round(0.9 * config["dataset"]["n"]), config["dataset"]["d"]
        problem = Regression(rng.normal(size=(N, D)), rng.normal(size=(N, 1)))
        source = f"standard normals of {cell.dataset}'s shape"
    kind = "float32" if cell.precision == "float32" else "float64"  # mixed precision takes and gives float64
    return Regression(problem.X.astype(kind), problem.Y.astype(kind)), source


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


if __name__ == "__main__":
    sys.exit(main())
