"""Turns between processes that step and the one that times them: a line in, some steps, a line out.

Any training loop calls ``Turns`` after every block of steps, and waits there for its turn. So the
cells of a table take turns in one run, and each meets the same noise of the machine.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

WARM_UP = 2  # blocks whose time is not taken: memory pools grow in them, and SGHMC traces a second graph


class Finished(Exception):
    """No more steps are wanted."""


class Turns:
    """Times the blocks of a training loop, from the word to go until the block's end.

    :param orders: where ``go`` is read from; its end, or any other line, ends the loop
    :param answers: where a line of JSON is written for each block
    :param rate: GFLOP/s of a product, measured before each timed block
    :param facts: what is answered, once, when the warm-up is over
    """

    def __init__(self, orders: TextIO, answers: TextIO, rate: Callable[[], float], facts: dict[str, Any]):
        self.orders, self.answers, self.rate, self.facts = orders, answers, rate, facts
        self.blocks = self.iteration = 0
        self.started = self.started_cpu = self.excluded = self.gemm = 0.0

    def __call__(self, iteration: int, excluded: float = 0.0) -> None:
        """A block has ended at ``iteration``: report it, wait for the next word.

        :param excluded: seconds so far that were no steps, such as tracing
        """
        seconds = time.perf_counter() - self.started - (excluded - self.excluded)
        cpu = time.process_time() - self.started_cpu
        steps = iteration - self.iteration
        self.blocks += 1
        self.iteration, self.excluded = iteration, excluded
        if self.blocks == WARM_UP:
            self._say(self.facts)
        if self.blocks > WARM_UP:
            times = {"ms": 1000.0 * seconds / steps, "cpu_ms": 1000.0 * cpu / steps}
            self._say(times | {"gemm_gflops": self.gemm})
        if self.blocks >= WARM_UP:
            if self.orders.readline().strip() != "go":
                raise Finished
            self.gemm = self.rate()
        self.started, self.started_cpu = time.perf_counter(), time.process_time()

    def _say(self, answer: dict[str, Any]) -> None:
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()


def own_standard_output() -> TextIO:
    """This process's standard output for answers alone; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers
