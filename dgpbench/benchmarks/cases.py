"""Which steps to time: cells, from the command line's key=value arguments in Hydra's grammar."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from dgpbench.config import groups, overrides
from dgpbench.config.settings import declared, did_you_mean
from dgpbench.errors import UserError
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.training.settings import AdamSettings, LbfgsSettings

# The setting of the table: Lindinger et al. (2020) on protein.
SIZES = {"M": 128, "L": 3, "tau": 5, "B": 512, "R": 5}
CHOICES: dict[str, tuple[str, ...]] = {
    "precision": ("float64", "float32", "mixed"),
    "sweep": ("each", "product"),
}
COUNTS = {"threads": 1, "repeats": 9, "together": 8}
KEYS = ("methods", "dataset", "protocol", *SIZES, "precision", "threads", "repeats", "together", "sweep")
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

    def overrides(self) -> list[str]:
        """What ``dgpbench run`` would take; early stopping is off, since its validation is no gradient step."""
        texts = [
            f"method={self.method}",
            f"dataset={self.dataset}",
            f"protocol={self.protocol}",
            f"method.num_layers={self.L}",
            f"method.width={self.tau}",
            f"method.num_inducing={self.M}",
            f"training.batch_size={self.B}",
            f"training.num_samples={self.R}",
            "training.early_stopping=false",
            "training.max_iterations=20000",
            f"precision={self.precision}",
            f"num_threads={self.threads}",
        ]
        return [text for text in texts if _has(self.method, self.protocol, text.partition("=")[0])]


@dataclass(frozen=True)
class Plan:
    """The cells of one call, and how they are timed.

    :param repeats: timed blocks of steps of each cell
    :param together: cells whose repeats are interleaved; each holds a process of some 0.7 GB
    """

    cells: list[Cell]
    repeats: int
    together: int


def _has(method: str, protocol: str, key: str) -> bool:
    """Whether a method's configuration has a key: SGHMC has no number of paths, exact GPs have no batches."""
    section, _, name = key.rpartition(".")
    return not section or name in declared(type(getattr(_usual(method, protocol), section)))


@cache
def _usual(method: str, protocol: str) -> Run:
    return resolve_overrides([f"method={method}", f"protocol={protocol}"])


def parse(texts: Iterable[str], *, methods: Iterable[str] = ("mf", "star", "fc")) -> Plan:
    """The cells that arguments such as ``methods=mf,star M=128,64,256`` ask for.

    The first value of each size is the usual one. ``sweep=each`` (the default) varies one size at a time, the others at
    their usual value; ``sweep=product`` takes every combination. ``methods=mf,sghmc:B=2560`` gives one method its own.

    :raises UserError: for an unknown key or name, or a value out of range
    """
    given = dict(map(_split, texts))
    for key in given:
        if key not in KEYS:
            raise UserError(f"bench has no setting '{key}'{did_you_mean(key, KEYS)}; it takes {', '.join(KEYS)}")
    sizes: dict[str, list[Any]] = {
        key: [_count(key, text) for text in given.get(key, [str(usual)])] for key, usual in SIZES.items()
    }
    sizes["precision"] = [_choice("precision", text) for text in given.get("precision", ["float64"])]
    counts = {key: _count(key, _single(key, given, str(usual))) for key, usual in COUNTS.items()}
    named = _named("dataset", _single("dataset", given, "protein"))
    protocol = _named("protocol", _single("protocol", given, "lindinger2020"))
    varied = _varied(sizes, _choice("sweep", _single("sweep", given, "each")))
    cells = [
        replace(Cell(OURS, method, named, protocol, **values, threads=counts["threads"]), **own)
        for method, own in (_method(text) for text in given.get("methods", methods))
        for values in varied
    ]
    return Plan([_fitting(cell) for cell in dict.fromkeys(cells)], counts["repeats"], counts["together"])


def _split(text: str) -> tuple[str, list[str]]:
    """A key and its values, with Hydra's lists and ranges; its grammar does not take ``sghmc:B=2560``."""
    if text.startswith("methods="):
        return "methods", text.partition("=")[2].split(",")
    [override] = overrides.parse([text])
    key = override.get_key_element()
    return key, [single.partition("=")[2] for single in overrides.expand(override)]


def _varied(sizes: dict[str, list[Any]], sweep: str) -> list[dict[str, Any]]:
    if sweep == "product":
        return [dict(zip(sizes, values, strict=True)) for values in product(*sizes.values())]
    usual = {key: values[0] for key, values in sizes.items()}
    return [usual, *(usual | {key: value} for key, values in sizes.items() for value in values[1:])]


def _method(text: str) -> tuple[str, dict[str, Any]]:
    """``sghmc:B=2560:R=1`` as the method and its own sizes."""
    name, *own = text.strip("'\"").split(":")
    pairs = dict(part.partition("=")[::2] for part in own)
    for key in pairs:
        if key not in SIZES:
            raise UserError(f"methods={text} gives one method another size as in sghmc:B=2560, of {', '.join(SIZES)}")
    return _named("method", name), {key: _count(key, value) for key, value in pairs.items()}


def _named(group: str, name: str) -> str:
    if not groups.exists(group, name):
        raise groups.unknown(group, name)
    return name


def _single(key: str, given: dict[str, list[str]], usual: str) -> str:
    values = given.get(key, [usual])
    if len(values) != 1:
        raise UserError(f"{key}={','.join(values)} cannot be used; {key} takes one value")
    return values[0]


def _count(key: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{key}={text} cannot be used; {key} takes whole numbers of at least 1")
    return int(text)


def _choice(key: str, text: str) -> str:
    if text not in CHOICES[key]:
        raise UserError(f"{key}={text} cannot be used; {key} is one of {', '.join(CHOICES[key])}")
    return text


def _fitting(cell: Cell) -> Cell:
    """A cell whose configuration resolves; one path where a method has no setting for it.

    :raises UserError: for a method without gradient steps, or sizes it does not take
    """
    training = resolve(cell).training
    if isinstance(training, LbfgsSettings):
        raise UserError(f"{cell.method} is fitted by L-BFGS on all rows, so it has no gradient step to time")
    return cell if isinstance(training, AdamSettings) else replace(cell, R=1)


def resolve(cell: Cell) -> Run:
    """The run that has the cell's sizes."""
    return resolve_overrides(cell.overrides())


def interleaved(plan: Plan) -> Iterator[list[Cell]]:
    """Cells that are timed in turn with one another."""
    for start in range(0, len(plan.cells), plan.together):
        yield plan.cells[start : start + plan.together]
