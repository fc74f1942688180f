"""Milliseconds per gradient step: cells from the command line, a process for each, their repeats interleaved."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from typing import IO, TYPE_CHECKING, Any

from dgpbench.config import groups, overrides
from dgpbench.config.settings import declared, did_you_mean
from dgpbench.errors import UserError
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.training.settings import AdamSettings, LbfgsSettings

if TYPE_CHECKING:
    import pandas as pd

SIZES = {"M": 128, "L": 3, "tau": 5, "B": 512, "R": 5}  # Lindinger et al. (2020) on protein
COUNTS = {"threads": 1, "repeats": 9, "together": 8}
WORDS = {"precision": ("float64", "float32", "mixed"), "sweep": ("each", "product")}
KEYS = ("methods", "dataset", "protocol", *SIZES, "precision", *COUNTS, "sweep")
OURS = "dgpbench"


@dataclass(frozen=True)
class Cell:
    """One row of the table: what is timed.

    :param code: ``dgpbench``, or a peer
    :param M: inducing points; L: layers; tau: GPs in a hidden layer; B: rows; R: paths of a row
    """

    code: str
    method: str
    dataset: str
    protocol: str
    M: int
    L: int
    tau: int
    B: int
    R: int
    precision: str
    threads: int

    def __str__(self) -> str:
        sizes = " ".join(f"{key}={getattr(self, key)}" for key in SIZES)
        return f"{self.code} {self.method} {sizes} {self.precision}"

    def overrides(self) -> list[str]:
        """Return the overrides of ``dgpbench run``; early stopping is off, since its validation is not a step."""
        values = {
            "method": self.method,
            "dataset": self.dataset,
            "protocol": self.protocol,
            "method.num_layers": self.L,
            "method.width": self.tau,
            "method.num_inducing": self.M,
            "training.batch_size": self.B,
            "training.num_samples": self.R,
            "training.early_stopping": "false",
            "training.max_iterations": 20000,
            "precision": self.precision,
            "num_threads": self.threads,
        }
        return [f"{key}={value}" for key, value in values.items() if _has(self.method, self.protocol, key)]


@dataclass(frozen=True)
class Plan:
    """The cells of one call, and how they are timed.

    :param repeats: timed blocks of steps of each cell
    :param together: number of cells with interleaved repeats; each holds a process of some 0.7 GB
    """

    cells: list[Cell]
    repeats: int
    together: int

    def interleaved(self) -> Iterator[list[Cell]]:
        """Yield the cells that are timed in turn with one another."""
        for start in range(0, len(self.cells), self.together):
            yield self.cells[start : start + self.together]


def _has(method: str, protocol: str, key: str) -> bool:
    """Return whether a method has a setting: SGHMC has no number of paths, exact GPs have no batches."""
    section, _, name = key.rpartition(".")
    return not section or name in declared(type(getattr(_default_run(method, protocol), section)))


@cache
def _default_run(method: str, protocol: str) -> Run:
    return resolve_overrides([f"method={method}", f"protocol={protocol}"])


def resolve(cell: Cell) -> Run:
    """Return the run that has the cell's sizes."""
    return resolve_overrides(cell.overrides())


def parse(texts: Iterable[str], *, methods: Iterable[str] = ("mf", "star", "fc")) -> Plan:
    """Return the cells of arguments such as ``methods=mf,star M=128,64,256``.

    The first value of each size is its default. ``sweep=each`` (the default) varies one size at a time, the others at
    their defaults; ``sweep=product`` takes every combination. ``methods=mf,sghmc:B=2560`` gives one method its own.

    :raises UserError: for an unknown key or name, or a value out of range
    """
    given = dict(map(_split, texts))
    for key in given:
        if key not in KEYS:
            raise UserError(f"bench has no setting '{key}'{did_you_mean(key, KEYS)}; it takes {', '.join(KEYS)}")
    sizes: dict[str, list[Any]] = {
        key: [_count(key, text) for text in given.get(key, [str(default)])] for key, default in SIZES.items()
    }
    sizes["precision"] = [_word("precision", text) for text in given.get("precision", ["float64"])]
    counts = {key: _count(key, _single(key, given, str(default))) for key, default in COUNTS.items()}
    chosen: dict[str, Any] = {"dataset": "protein", "protocol": "lindinger2020"}
    chosen = {group: groups.check(group, _single(group, given, name)) for group, name in chosen.items()}
    if _word("sweep", _single("sweep", given, "each")) == "product":
        varied = [dict(zip(sizes, values, strict=True)) for values in product(*sizes.values())]
    else:
        first = {key: values[0] for key, values in sizes.items()}
        varied = [first, *(first | {key: value} for key, values in sizes.items() for value in values[1:])]
    cells = [
        Cell(OURS, method, **chosen, threads=counts["threads"], **values | own)
        for method, own in map(_method, given.get("methods", methods))
        for values in varied
    ]
    return Plan([_checked(cell) for cell in dict.fromkeys(cells)], counts["repeats"], counts["together"])


def _split(text: str) -> tuple[str, list[str]]:
    """Return a key and its values; Hydra's grammar, lists and ranges included, does not take ``sghmc:B=2560``."""
    if text.startswith("methods="):
        return "methods", text.partition("=")[2].split(",")
    [override] = overrides.parse([text])
    return override.get_key_element(), [single.partition("=")[2] for single in overrides.expand(override)]


def _method(text: str) -> tuple[str, dict[str, Any]]:
    """Return the method of ``sghmc:B=2560:R=1`` and its own sizes."""
    name, *own = text.strip("'\"").split(":")
    sizes = dict(part.partition("=")[::2] for part in own)
    for key in sizes:
        if key not in SIZES:
            raise UserError(f"methods={text} gives one method another size as in sghmc:B=2560, of {', '.join(SIZES)}")
    return groups.check("method", name), {key: _count(key, value) for key, value in sizes.items()}


def _single(key: str, given: dict[str, list[str]], default: str) -> str:
    values = given.get(key, [default])
    if len(values) != 1:
        raise UserError(f"{key}={','.join(values)} cannot be used; {key} takes one value")
    return values[0]


def _count(key: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{key}={text} cannot be used; {key} takes whole numbers of at least 1")
    return int(text)


def _word(key: str, text: str) -> str:
    if text not in WORDS[key]:
        raise UserError(f"{key}={text} cannot be used; {key} is one of {', '.join(WORDS[key])}")
    return text


def _checked(cell: Cell) -> Cell:
    """Return the cell if its configuration resolves, with one path where a method has no setting for paths.

    :raises UserError: for a method without gradient steps, or sizes it does not take
    """
    training = resolve(cell).training
    if isinstance(training, LbfgsSettings):
        raise UserError(f"{cell.method} is fitted by L-BFGS on all rows, so it has no gradient step to time")
    return cell if isinstance(training, AdamSettings) else replace(cell, R=1)


# Measurement ----------------------------------------------------------------------------------------------------------

COLUMNS = (
    "code", "method", "data", "M", "L", "tau", "B", "R", "precision", "threads", "repeats",
    "ms_per_step", "q25", "q75", "gflop", "gemm_gflops", "floor_ms", "floor_ratio",
    "cpu_ms_per_step", "cpu_floor_ratio", "cpu", "problem",
)  # fmt: skip
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Stepper:
    """One cell and the process that trains it.

    :param errors: the process's standard error
    """

    def __init__(self, cell: Cell, process: subprocess.Popen[str], errors: IO[str]):
        self.cell, self.process, self.errors = cell, process, errors
        self.facts: dict[str, Any] = {}
        self.blocks: list[dict[str, float]] = []
        self.problem: str | None = None

    def warm_up(self) -> None:
        """Wait until data, model and graph are ready and the first blocks have run."""
        self.facts = self._response_to(json.dumps(asdict(self.cell)))

    def step(self) -> None:
        """Time one block."""
        if self.problem is None:
            response = self._response_to("go")
            if self.problem is None:
                self.blocks.append(response)

    def _response_to(self, order: str) -> dict[str, Any]:
        assert self.process.stdin is not None  # pipes
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):  # the process has died, and its response is empty
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        response = json.loads(line) if line else {"problem": self._death()}
        self.problem = response.get("problem")
        return response

    def _death(self) -> str:
        """Return the exit code of the process and the last line of its errors."""
        code = self.process.wait()
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        return f"its process died (exit code {code})" + (f": {lines[-1]}" if lines else "")


def measure(plan: Plan, say: Callable[[str], None] = lambda text: None) -> "pd.DataFrame":
    """Time every cell of a plan; return one row for each, with the columns ``COLUMNS``."""
    done: list[Stepper] = []
    for group in plan.interleaved():
        with contextlib.ExitStack() as processes:
            steppers = []
            for cell in group:
                say(f"warming up: {cell}")
                steppers.append(processes.enter_context(_started(cell)))
                steppers[-1].warm_up()  # one after the other: importing TensorFlow is heavy
            for _ in range(plan.repeats):
                for stepper in steppers:
                    stepper.step()
            done += steppers
    for stepper in done:
        if stepper.problem is not None:
            say(f"{stepper.cell}: {stepper.problem}")
    return table(done)


@contextlib.contextmanager
def _started(cell: Cell) -> Iterator[Stepper]:
    """Start a cell's process, and end it with the block."""
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
            try:
                process.communicate(timeout=20)  # closes its standard input
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def table(steppers: Sequence[Stepper]) -> "pd.DataFrame":
    """Return the blocks as medians and quartiles, with the floor at the rate of products in this run.

    The rate is the median over all blocks of the run of equal precision and threads, so that one floor serves all.
    ``ms_per_step`` is wall-clock time; ``cpu_ms_per_step`` is processor time, which other programs hardly disturb.

    :raises UserError: if no cell could be timed
    """
    import numpy as np
    import pandas as pd

    from dgpbench.system.provenance import cpu_model

    if all(stepper.problem for stepper in steppers):
        raise UserError(f"no cell could be timed: {steppers[0].problem}")
    measured: dict[tuple[str, int], list[float]] = {}
    for stepper in steppers:
        if stepper.cell.code == OURS:
            kind = (stepper.cell.precision, stepper.cell.threads)
            measured.setdefault(kind, []).extend(block["gemm_gflops"] for block in stepper.blocks)
    rates = {kind: float(np.median(values)) for kind, values in measured.items() if values}
    rows = [_row(stepper, rates) | {"cpu": cpu_model()} for stepper in steppers]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(stepper: Stepper, rates: dict[tuple[str, int], float]) -> dict[str, Any]:
    import numpy as np

    cell, blocks = stepper.cell, stepper.blocks
    row = asdict(cell) | {"data": stepper.facts.get("data"), "repeats": len(blocks)}
    if stepper.problem is not None or not blocks:
        return row | {"problem": stepper.problem}
    q25, median, q75 = np.percentile([block["ms"] for block in blocks], [25, 50, 75])
    gflop = stepper.facts.get("gflop", float("nan"))
    own_rate = float(np.median([block["gemm_gflops"] for block in blocks]))  # a peer's own library
    rate = rates[cell.precision, cell.threads] if cell.code == OURS else own_rate
    floor = 1000.0 * gflop / rate
    timed = {"ms_per_step": median, "q25": q25, "q75": q75, "gflop": gflop, "gemm_gflops": rate}
    cpu = float(np.median([block["cpu_ms"] for block in blocks]))
    ratios = {"floor_ms": floor, "floor_ratio": median / floor, "cpu_ms_per_step": cpu, "cpu_floor_ratio": cpu / floor}
    return row | timed | ratios
