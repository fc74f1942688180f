"""Milliseconds per gradient step: one process for each cell, their repeats interleaved, one table of results."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dgpbench.benchmarks.cells import OURS, Cell, Plan, groups
from dgpbench.errors import Refused

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
    """The process of one cell."""

    def __init__(self, cell: Cell):
        self.cell = cell
        self.facts: dict[str, Any] = {}
        self.blocks: list[dict[str, float]] = []
        self.problem: str | None = None
        self.process: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - open as long as its stepper

    def start(self) -> None:
        """Start the process; come back when data, model and graph are there and the first blocks have run."""
        threads = {name: str(self.cell.threads) for name in THREAD_VARIABLES}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dgpbench.benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **threads},
        )
        self._tell(json.dumps(asdict(self.cell)))
        self.facts = self._hear()

    def step(self) -> None:
        """One timed block."""
        if self.problem is None:
            self._tell("go")
            answer = self._hear()
            if self.problem is None:
                self.blocks.append(answer)

    def stop(self) -> None:
        """End the process, if it was started."""
        if self.process is None:
            return
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):  # a process that has died answers nothing, which says so
            self.process.stdin.write(line + "\n")  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]

    def _hear(self) -> dict[str, Any]:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        answer = json.loads(line) if line else {"problem": self._death()}
        self.problem = answer.get("problem")
        return answer

    def _death(self) -> str:
        """What ended the process, in its own last words."""
        code = self.process.wait()  # type: ignore[union-attr]
        self.errors.seek(0)
        said = [line.strip() for line in self.errors if line.strip()]
        return f"its process died (exit code {code})" + (f": {said[-1]}" if said else "")


def measure(plan: Plan, say: Say = lambda text: None) -> "pd.DataFrame":
    """Time every cell of a plan: one row for each, columns ``COLUMNS``."""
    done: list[Stepper] = []
    for group in groups(plan):
        with _steppers(group) as steppers:
            for stepper in steppers:
                say(f"warming up: {_name(stepper.cell)}")
                stepper.start()  # one after the other: importing TensorFlow is heavy
            for _ in range(plan.repeats):
                for stepper in steppers:
                    stepper.step()
            done += steppers
    for stepper in done:
        if stepper.problem is not None:
            say(f"{_name(stepper.cell)}: {stepper.problem}")
    return table(done)


@contextlib.contextmanager
def _steppers(cells: Sequence[Cell]) -> Iterator[list[Stepper]]:
    """One for each cell; their processes are ended however the block ends."""
    steppers = [Stepper(cell) for cell in cells]
    try:
        yield steppers
    finally:
        for stepper in steppers:
            stepper.stop()


def _name(cell: Cell) -> str:
    return f"{cell.code} {cell.method} M={cell.M} L={cell.L} tau={cell.tau} B={cell.B} R={cell.R} {cell.precision}"


def table(steppers: Sequence[Stepper]) -> "pd.DataFrame":
    """The blocks as medians and quartiles, with the floor at the rate of products in this run.

    The rate is the median over all blocks of the run of equal precision and threads, so that one floor serves all.
    ``ms_per_step`` is wall-clock time; ``cpu_ms_per_step`` is processor time, which other programs hardly disturb.

    :raises Refused: where no cell could be timed
    """
    import pandas as pd

    from dgpbench.provenance import cpu_model

    if all(stepper.problem for stepper in steppers):
        raise Refused(f"no cell could be timed: {steppers[0].problem}")
    rates = _rates(steppers)
    rows = [_row(stepper, rates.get(_kind(stepper.cell))) | {"cpu": cpu_model()} for stepper in steppers]
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


def _row(stepper: Stepper, rate: float | None) -> dict[str, Any]:
    import numpy as np

    row = asdict(stepper.cell) | {"data": stepper.facts.get("data"), "repeats": len(stepper.blocks)}
    if stepper.problem is not None or not stepper.blocks:
        return row | {"problem": stepper.problem}
    q25, median, q75 = np.percentile([block["ms"] for block in stepper.blocks], [25, 50, 75])
    gflop = stepper.facts.get("gflop", float("nan"))
    rate = rate if stepper.cell.code == OURS else float(np.median([block["gemm_gflops"] for block in stepper.blocks]))
    floor = 1000.0 * gflop / rate  # type: ignore[operator]
    timed = {"ms_per_step": median, "q25": q25, "q75": q75, "gflop": gflop, "gemm_gflops": rate}
    cpu = float(np.median([block["cpu_ms"] for block in stepper.blocks]))
    ratios = {"floor_ms": floor, "floor_ratio": median / floor, "cpu_ms_per_step": cpu, "cpu_floor_ratio": cpu / floor}
    return row | timed | ratios
