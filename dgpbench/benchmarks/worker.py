"""Train one cell in a process of its own: ``python -m dgpbench.benchmarks.worker``, with the cell as a line of JSON.

Our methods run their own ``fit``, with a log that waits for its turn after each block of steps, so a new method is
timed without being named here. Cells take turns (``timing``), so each meets the same noise of the machine.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

from dgpbench.benchmarks.floors import flops, product_rate
from dgpbench.benchmarks.timing import Cell, resolve
from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.runs.resolve import Run
from dgpbench.training.monitor import Monitor

WARM_UP = 2  # blocks that are not timed: memory pools grow in them, and SGHMC traces a second graph


class Finished(Exception):
    """The timing process needs no more steps."""


class Turns:
    """Line protocol with the timing process: one line in, one timed block of steps, one line of JSON out.

    A training loop calls it after every block of steps, and waits there for its next turn: ``go`` among the orders.
    Their end, or any other line, ends the loop. The first response is the facts, at the end of the warm-up. ``rate``
    measures the GFLOP/s of a product before each timed block.
    """

    def __init__(self, orders: TextIO, responses: TextIO, rate: Callable[[], float], facts: dict[str, Any]):
        self.orders, self.responses, self.rate, self.facts = orders, responses, rate, facts
        self.blocks = self.iteration = 0
        self.started = self.started_cpu = self.excluded = self.gemm = 0.0

    def __call__(self, iteration: int, excluded: float = 0.0) -> None:
        """Report the block that ended at ``iteration``, and wait for the next order.

        :param excluded: seconds so far that were not spent on steps, such as tracing
        """
        seconds = time.perf_counter() - self.started - (excluded - self.excluded)
        cpu = time.process_time() - self.started_cpu
        steps = iteration - self.iteration
        self.blocks += 1
        self.iteration, self.excluded = iteration, excluded
        if self.blocks == WARM_UP:
            write_line(self.responses, self.facts)
        if self.blocks > WARM_UP:
            times = {"ms": 1000.0 * seconds / steps, "cpu_ms": 1000.0 * cpu / steps}
            write_line(self.responses, times | {"gemm_gflops": self.gemm})
        if self.blocks >= WARM_UP:
            if self.orders.readline().strip() != "go":
                raise Finished
            self.gemm = self.rate()
        self.started, self.started_cpu = time.perf_counter(), time.process_time()


def write_line(responses: TextIO, response: dict[str, Any]) -> None:
    """Write one response as a line of JSON."""
    responses.write(json.dumps(response) + "\n")
    responses.flush()


@dataclass
class TurnsLog(Monitor):
    """A log that waits for its turn whenever the method records a row of its trace."""

    turn: Callable[[int, float], None] = field(kw_only=True)

    def record(self, iteration: int, *row: object) -> None:
        """End a block of steps."""
        self.turn(iteration, self.tracing_seconds)


def main() -> int:
    """Train the cell on standard input, block by block; write one sentence if it cannot be timed."""
    responses = os.fdopen(os.dup(1), "w")  # standard output is for responses only; libraries print to standard error
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    cell = Cell(**json.loads(sys.stdin.readline()))
    try:
        train(cell, lambda rate, facts: Turns(sys.stdin, responses, rate, facts))
    except Finished:
        return 0
    except UserError as refusal:
        problem = str(refusal)
    except Exception as error:  # any library can fail in any way; the table's other cells are still measured
        problem = f"{type(error).__name__}: {error}".splitlines()[0]
    else:
        problem = "it ended before enough steps were timed"
    write_line(responses, {"problem": problem})
    return 1


def train(cell: Cell, turns: Callable[[Callable[[], float], dict[str, Any]], Turns]) -> None:
    """Train a cell's method, or a peer; the floor is counted from the same settings."""
    from dgpbench.benchmarks import peers

    run = resolve(cell)
    data, source = training_rows(cell, run)
    if cell.code in peers.PEERS:
        return peers.PEERS[cell.code](cell, data, lambda rate: turns(rate, {"data": source}))
    from dgpbench.system import tf_session

    tf_session.start(cell.threads, cell.precision, cell.device)
    from dgpbench.methods.interface import Seeds, fit_function

    log = TurnsLog(turn=turns(product_rate(cell), {"data": source, "gflop": flops(cell, run) / 1e9}))
    fit_function(run.card.family)(data, run.sized(data.X.shape), Seeds(0, 1, 2, 3, 4), log)


def training_rows(cell: Cell, run: Run) -> tuple[Regression, str]:
    """Return standardised training rows of split 0, and their source.

    Without the data they are normals of the same shape: a step costs the same on them.
    """
    import numpy as np

    from dgpbench.data import datasets
    from dgpbench.runs.fit import as_precision
    from dgpbench.runs.problem import prepare

    try:
        data = prepare(run, datasets.load(run.dataset)).train
        source = cell.dataset
    except UserError:
        if "n" not in run.dataset:
            raise
        rng = np.random.default_rng(0)
        N, D = round(0.9 * run.dataset["n"]), run.dataset["d"]
        data = Regression(rng.normal(size=(N, D)), rng.normal(size=(N, 1)))
        source = f"standard normals of {cell.dataset}'s shape"
    return as_precision(data, cell.precision), source


if __name__ == "__main__":
    sys.exit(main())
