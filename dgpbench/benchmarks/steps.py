"""Milliseconds per gradient step: one process for each cell, their repeats interleaved, one table of results."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from dgpbench.benchmarks.cases import OURS, Cell, Plan, interleaved
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "code", "method", "data", "M", "L", "tau", "B", "R", "precision", "threads", "repeats",
    "ms_per_step", "q25", "q75", "gflop", "gemm_gflops", "floor_ms", "floor_ratio",
    "cpu_ms_per_step", "cpu_floor_ratio", "cpu", "problem",
)  # fmt: skip
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Say = Callable[[str], None]


class Stepper:
    """One cell, and the process that times it.

    :param errors: the file that the process writes its errors to
    """

    def __init__(self, cell: Cell, process: subprocess.Popen[str], errors: IO[str]):
        self.cell, self.process, self.errors = cell, process, errors
        self.facts: dict[str, Any] = {}
        self.blocks: list[dict[str, float]] = []
        self.problem: str | None = None

    def warm_up(self) -> None:
        """Come back when data, model and graph are there and the first blocks have run."""
        self._tell(json.dumps(asdict(self.cell)))
        self.facts = self._hear()

    def step(self) -> None:
        """One timed block."""
        if self.problem is None:
            self._tell("go")
            answer = self._hear()
            if self.problem is None:
                self.blocks.append(answer)

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None  # a pipe
        with contextlib.suppress(OSError):  # a process that has died answers nothing, which says so
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None  # a pipe
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"problem": self._death()}
        self.problem = answer.get("problem")
        return answer

    def _death(self) -> str:
        """What ended the process, in its own last words."""
        code = self.process.wait()
        self.errors.seek(0)
        said = [line.strip() for line in self.errors if line.strip()]
        return f"its process died (exit code {code})" + (f": {said[-1]}" if said else "")


def measure(plan: Plan, say: Say = lambda text: None) -> "pd.DataFrame":
    """Time every cell of a plan: one row for each, columns ``COLUMNS``."""
    done: list[Stepper] = []
    for group in interleaved(plan):
        with contextlib.ExitStack() as processes:
            steppers = []
            for cell in group:
                say(f"warming up: {_name(cell)}")
                steppers.append(processes.enter_context(_started(cell)))
                steppers[-1].warm_up()  # one after the other: importing TensorFlow is heavy
            for _ in range(plan.repeats):
                for stepper in steppers:
                    stepper.step()
            done += steppers
    for stepper in done:
        if stepper.problem is not None:
            say(f"{_name(stepper.cell)}: {stepper.problem}")
    return table(done)


@contextlib.contextmanager
def _started(cell: Cell) -> Iterator[Stepper]:
    """A cell's process, which is ended however the block ends."""
    threads = {name: str(cell.threads) for name in THREAD_VARIABLES}
    with tempfile.TemporaryFile(mode="w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "dgpbench.benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **threads},
        )
        try:
            yield Stepper(cell, process, errors)
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=20)  # closes its standard input
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _name(cell: Cell) -> str:
    return f"{cell.code} {cell.method} M={cell.M} L={cell.L} tau={cell.tau} B={cell.B} R={cell.R} {cell.precision}"


def table(steppers: Sequence[Stepper]) -> "pd.DataFrame":
    """The blocks as medians and quartiles, with the floor at the rate of products in this run.

    The rate is the median over all blocks of the run of equal precision and threads, so that one floor serves all.
    ``ms_per_step`` is wall-clock time; ``cpu_ms_per_step`` is processor time, which other programs hardly disturb.

    :raises UserError: where no cell could be timed
    """
    import pandas as pd

    from dgpbench.system.provenance import cpu_model

    if all(stepper.problem for stepper in steppers):
        raise UserError(f"no cell could be timed: {steppers[0].problem}")
    rates = _rates(steppers)
    rows = [_row(stepper, rates) | {"cpu": cpu_model()} for stepper in steppers]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _kind(cell: Cell) -> tuple[str, int]:
    return cell.precision, cell.threads


def _rates(steppers: Sequence[Stepper]) -> dict[tuple[str, int], float]:
    import numpy as np

    measured: dict[tuple[str, int], list[float]] = {}
    ours = [stepper for stepper in steppers if stepper.cell.code == OURS]
    for stepper in ours:
        measured.setdefault(_kind(stepper.cell), []).extend(block["gemm_gflops"] for block in stepper.blocks)
    return {kind: float(np.median(values)) for kind, values in measured.items() if values}


def _row(stepper: Stepper, rates: dict[tuple[str, int], float]) -> dict[str, Any]:
    import numpy as np

    row = asdict(stepper.cell) | {"data": stepper.facts.get("data"), "repeats": len(stepper.blocks)}
    if stepper.problem is not None or not stepper.blocks:
        return row | {"problem": stepper.problem}
    q25, median, q75 = np.percentile([block["ms"] for block in stepper.blocks], [25, 50, 75])
    gflop = stepper.facts.get("gflop", float("nan"))
    of_its_own = float(np.median([block["gemm_gflops"] for block in stepper.blocks]))
    rate = rates[_kind(stepper.cell)] if stepper.cell.code == OURS else of_its_own
    floor = 1000.0 * gflop / rate
    timed = {"ms_per_step": median, "q25": q25, "q75": q75, "gflop": gflop, "gemm_gflops": rate}
    cpu = float(np.median([block["cpu_ms"] for block in stepper.blocks]))
    ratios = {"floor_ms": floor, "floor_ratio": median / floor, "cpu_ms_per_step": cpu, "cpu_floor_ratio": cpu / floor}
    return row | timed | ratios
