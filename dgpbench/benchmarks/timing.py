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
from typing import IO, TYPE_CHECKING, Any, Self

from dgpbench.config import groups, overrides
from dgpbench.config.settings import declared, did_you_mean
from dgpbench.errors import UserError
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.training.settings import AdamSettings, LbfgsSettings

if TYPE_CHECKING:
    import pandas as pd

SIZES = {"M": 128, "L": 3, "tau": 5, "B": 512, "R": 5}  # Lindinger et al. (2020) on protein
COUNTS = {"threads": 1, "repeats": 9, "together": 8}
WORDS = {"precision": ("float64", "float32", "mixed"), "device": ("cpu", "gpu"), "sweep": ("each", "product")}
KEYS = ("methods", "dataset", "protocol", "optimiser", *SIZES, *COUNTS, *WORDS)
OURS = "dgpbench"


@dataclass(frozen=True)
class Cell:
    """One row of the table: what is timed."""

    code: str  # ``dgpbench``, or a peer
    method: str
    dataset: str
    protocol: str
    M: int  # inducing points; L: layers; tau: GPs in a hidden layer; B: rows; R: paths of a row
    L: int
    tau: int
    B: int
    R: int
    precision: str
    threads: int
    device: str = "cpu"
    optimiser: str | None = None  # None: the method's first

    def __str__(self) -> str:
        sizes = " ".join(f"{key}={getattr(self, key)}" for key in SIZES)
        by = f" optimiser={self.optimiser}" if self.optimiser else ""
        return f"{self.code} {self.method}{by} {sizes} {self.precision} {self.device}"

    @property
    def arithmetic(self) -> tuple[str, int, str]:
        """What the rate of products depends on."""
        return self.precision, self.threads, self.device

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
            "device": self.device,
        }
        own = _own_settings(self.method, self.protocol)
        chosen = [f"{key}={value}" for key, value in values.items() if "." not in key or key in own]
        return [*chosen, f"optimiser={self.optimiser}"] if self.optimiser else chosen


@cache
def _own_settings(method: str, protocol: str) -> set[str]:
    """Return the keys of a method's settings: SGHMC has no number of paths, exact GPs have no batches."""
    run = resolve_overrides([f"method={method}", f"protocol={protocol}"])
    sections = {"method": run.method, "training": run.training}
    return {f"{section}.{name}" for section, settings in sections.items() for name in declared(type(settings))}


@dataclass(frozen=True)
class Plan:
    """The cells of one call, and how they are timed."""

    cells: list[Cell]
    repeats: int  # timed blocks of steps of each cell
    together: int  # number of cells with interleaved repeats; each holds a process of some 0.7 GB

    def interleaved(self) -> Iterator[list[Cell]]:
        """Yield the cells that are timed in turn with one another."""
        for start in range(0, len(self.cells), self.together):
            yield self.cells[start : start + self.together]


def resolve(cell: Cell) -> Run:
    """Return the run that has the cell's sizes."""
    return resolve_overrides(cell.overrides())


def parse(texts: Iterable[str], *, methods: Iterable[str] = ("mf", "star", "fc")) -> Plan:
    """Return the cells of arguments such as ``methods=mf,star M=128,64,256``.

    The first value of each size is its default. ``sweep=each`` (the default) varies one size at a time, the others at
    their defaults; ``sweep=product`` takes every combination. ``methods=mf,sghmc:B=2560`` gives one method its own.

    :raises UserError: for an unknown key or name, a value out of range, or a method without gradient steps
    """
    given: dict[str, list[str]] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if key == "methods":  # Hydra's grammar, lists and ranges included, does not take sghmc:B=2560
            given[key] = value.split(",")
            continue
        [override] = overrides.parse([text])
        if (key := override.get_key_element()) not in KEYS:
            raise UserError(f"bench has no setting '{key}'{did_you_mean(key, KEYS)}; it takes {', '.join(KEYS)}")
        given[key] = [single.partition("=")[2] for single in overrides.expand(override)]
    sizes: dict[str, list[Any]] = {
        key: [_count(key, text) for text in given.get(key, [str(default)])] for key, default in SIZES.items()
    }
    for key in ("precision", "device"):
        sizes[key] = [_word(key, text) for text in given.get(key, WORDS[key][:1])]
    counts = {key: _count(key, _single(key, given, str(default))) for key, default in COUNTS.items()}
    chosen: dict[str, Any] = {"dataset": "protein", "protocol": "lindinger2020"}
    chosen = {group: groups.check(group, _single(group, given, name)) for group, name in chosen.items()}
    if "optimiser" in given:
        chosen["optimiser"] = groups.check("optimiser", _single("optimiser", given, ""))
    if _word("sweep", _single("sweep", given, "each")) == "product":
        varied = [dict(zip(sizes, values, strict=True)) for values in product(*sizes.values())]
    else:
        first = {key: values[0] for key, values in sizes.items()}
        varied = [first, *(first | {key: value} for key, values in sizes.items() for value in values[1:])]
    cells: dict[Cell, None] = {}
    for text in given.get("methods", methods):
        name, *parts = text.strip("'\"").split(":")
        own = dict(part.partition("=")[::2] for part in parts)
        if not own.keys() <= SIZES.keys():
            raise UserError(f"methods={text} gives one method another size as in sghmc:B=2560, of {', '.join(SIZES)}")
        method = groups.check("method", name)
        own_sizes = {key: _count(key, value) for key, value in own.items()}
        for values in varied:
            cell = Cell(OURS, method, **chosen, threads=counts["threads"], **values | own_sizes)
            training = resolve(cell).training
            if isinstance(training, LbfgsSettings):
                raise UserError(f"{method} is fitted by L-BFGS on all rows, so it has no gradient step to time")
            cells[cell if isinstance(training, AdamSettings) else replace(cell, R=1)] = None  # no setting for paths
    return Plan(list(cells), counts["repeats"], counts["together"])


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


# Measurement ----------------------------------------------------------------------------------------------------------

COLUMNS = (
    "code", "method", "optimiser", "data", "M", "L", "tau", "B", "R", "precision", "threads", "device", "repeats",
    "ms_per_step", "q25", "q75", "gflop", "gemm_gflops", "floor_ms", "floor_ratio",
    "cpu_ms_per_step", "cpu_floor_ratio", "cpu", "problem",
)  # fmt: skip
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Stepper:
    """One cell and the process that trains it, with the process's standard error."""

    def __init__(self, cell: Cell, process: subprocess.Popen[str], errors: IO[str]):
        self.cell, self.process, self.errors = cell, process, errors
        self.facts: dict[str, Any] = {}
        self.blocks: list[dict[str, float]] = []
        self.problem: str | None = None

    @classmethod
    @contextlib.contextmanager
    def started(cls, cell: Cell) -> Iterator[Self]:
        """Start a cell's process, and end it with the block."""
        with tempfile.TemporaryFile(mode="w+") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "dgpbench.benchmarks.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(cell.threads))},
            )
            try:
                yield cls(cell, process, errors)
            finally:
                try:
                    process.communicate(timeout=20)  # closes its standard input
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

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
        if line:
            response = json.loads(line)
        else:  # the process has died
            code = self.process.wait()
            self.errors.seek(0)
            last = [f": {line.strip()}" for line in self.errors if line.strip()][-1:]
            response = {"problem": f"its process died (exit code {code}){''.join(last)}"}
        self.problem = response.get("problem")
        return response


def measure(plan: Plan, say: Callable[[str], None] = lambda text: None) -> "pd.DataFrame":
    """Time every cell of a plan; return one row for each, with the columns ``COLUMNS``."""
    done: list[Stepper] = []
    for group in plan.interleaved():
        with contextlib.ExitStack() as processes:
            steppers = []
            for cell in group:
                say(f"warming up: {cell}")
                steppers.append(processes.enter_context(Stepper.started(cell)))
                steppers[-1].warm_up()  # one after the other: importing TensorFlow is heavy
            for _ in range(plan.repeats):
                for stepper in steppers:
                    stepper.step()
            done += steppers
    for stepper in done:
        if stepper.problem is not None:
            say(f"{stepper.cell}: {stepper.problem}")
    return table(done)


def table(steppers: Sequence[Stepper]) -> "pd.DataFrame":
    """Return the blocks as medians and quartiles, with the floor at the rate of products in this run.

    The rate is the median over all blocks of the run of equal precision, threads and device, so that one floor serves
    all; a peer has that of its own library. ``ms_per_step`` is wall-clock time; ``cpu_ms_per_step`` is processor time,
    which other programs hardly disturb.

    :raises UserError: if no cell could be timed
    """
    import numpy as np
    import pandas as pd

    from dgpbench.system.provenance import cpu_model

    if all(stepper.problem for stepper in steppers):
        raise UserError(f"no cell could be timed: {steppers[0].problem}")
    measured: dict[tuple[str, int, str], list[float]] = {}
    for stepper in steppers:
        if stepper.cell.code == OURS:
            measured.setdefault(stepper.cell.arithmetic, []).extend(block["gemm_gflops"] for block in stepper.blocks)
    rows = []
    for stepper in steppers:
        cell, blocks = stepper.cell, pd.DataFrame(stepper.blocks)
        row = asdict(cell) | {"data": stepper.facts.get("data"), "repeats": len(blocks), "cpu": cpu_model()}
        rows.append(row)
        if stepper.problem is not None or blocks.empty:
            row["problem"] = stepper.problem
            continue
        row["q25"], row["ms_per_step"], row["q75"] = np.percentile(blocks["ms"], [25, 50, 75])
        row["cpu_ms_per_step"] = np.median(blocks["cpu_ms"])
        row["gflop"] = stepper.facts.get("gflop", float("nan"))
        rates = measured[cell.arithmetic] if cell.code == OURS else blocks["gemm_gflops"]
        row["gemm_gflops"] = np.median(rates)
        row["floor_ms"] = floor = 1000.0 * row["gflop"] / row["gemm_gflops"]
        row |= {"floor_ratio": row["ms_per_step"] / floor, "cpu_floor_ratio": row["cpu_ms_per_step"] / floor}
    return pd.DataFrame(rows, columns=list(COLUMNS))
