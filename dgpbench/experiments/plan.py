"""Which runs an item needs, which of them are there, and how long the rest will take.

Whether a run is there is decided by its identity alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.config import groups
from dgpbench.errors import Refused
from dgpbench.experiments.items import Item, Sweep
from dgpbench.runs import store
from dgpbench.runs.resolve import Run, resolve_overrides

if TYPE_CHECKING:
    import pandas as pd

DONE, BROKEN, MISSING, CONFLICT = "done", "failed", "missing", "conflict"
STATES = (DONE, BROKEN, MISSING, CONFLICT)


@dataclass(frozen=True)
class Planned:
    """One run of an item.

    :param series: the name of its column
    :param overrides: what ``dgpbench run`` takes to carry it out
    :param state: ``done``, ``failed``, ``missing``, or ``conflict``: a record made with other settings is in its place
    :param seconds: total seconds of its record, where there is one
    """

    series: str
    run: Run
    overrides: tuple[str, ...]
    state: str
    seconds: float | None = None

    @property
    def directory(self) -> Path:
        """Where its record lies, or will."""
        return self.run.directory


def plan(item: Item) -> list[Planned]:
    """Every run of an item, each once, in the item's order."""
    planned: dict[Path, Planned] = {}
    for sweep in item.sweeps:
        for each in _of_sweep(item, sweep):
            planned.setdefault(each.directory, each)
    return list(planned.values())


def _of_sweep(item: Item, sweep: Sweep) -> Iterator[Planned]:
    _check_names(item, sweep)
    for chosen in sweep.combinations([key for key in sweep.values if key not in ("split", "seed")]):
        usual = resolve_overrides([*_texts(chosen), *item.external.values()])
        for last in sweep.combinations(("split", "seed")):
            run = replace(usual, split=int(last["split"]), seed=int(last["seed"]))
            overrides = (*_texts({**chosen, **last}), *item.external.values())
            yield Planned(sweep.name_of(run.card.name), run, overrides, *_state(run))


def _texts(chosen: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in chosen.items()]


def _check_names(item: Item, sweep: Sweep) -> None:
    """What an item names must exist: a method or protocol may not be there yet."""
    for group in groups.GROUPS:
        for name in sweep.values.get(group, ()):
            if name not in groups.names(group):
                raise Refused(f"{item.name} needs {group}={name}, which there is not; narrow the item to leave it out")


def _state(run: Run) -> tuple[str, float | None]:
    record = store.read_if_present(run.directory)
    if record is None:
        return MISSING, None
    seconds = record["seconds"].get("total")
    if record["status"] in store.FAILED:
        return BROKEN, seconds
    if record["status"] != "done":
        return MISSING, None
    return (DONE if record["config_hash"] == run.config_hash else CONFLICT), seconds


# Words and time -------------------------------------------------------------------------------------------------------


def count(runs: list[Planned]) -> dict[str, int]:
    """How many runs are in each state."""
    return {state: sum(run.state == state for run in runs) for state in STATES}


def matrix(runs: list[Planned]) -> str:
    """Data sets by columns: '3/10' done, and how many failed or are in conflict where any are."""
    from tabulate import tabulate

    columns = dict.fromkeys(map(_column, runs))
    rows: dict[str, dict[str, list[Planned]]] = {}
    for each in runs:
        cells = rows.setdefault(each.run.dataset_name, {name: [] for name in columns})
        cells[_column(each)].append(each)
    lines = [[dataset, *map(_cell, cells.values())] for dataset, cells in rows.items()]
    return tabulate(lines, headers=["dataset", *columns], tablefmt="simple", disable_numparse=True)


def _column(planned: Planned) -> str:
    return f"{planned.series} L{planned.run.method.num_layers}"


def _cell(runs: list[Planned]) -> str:
    if not runs:
        return ""
    counts = count(runs)
    worse = "".join(f", {counts[state]} {state}" for state in (BROKEN, CONFLICT) if counts[state])
    return f"{counts[DONE]}/{len(runs)}{worse}"


def seconds_left(todo: list[Planned], frame: "pd.DataFrame") -> float | None:
    """Total seconds of the runs that are to do, from done ones of the same method, depth and data set, else less alike.

    None where no record of this budget and protocol says anything.
    """
    if not todo:
        return 0.0
    first = todo[0].run
    alike = frame[(frame["budget"] == first.budget) & (frame["protocol"] == first.protocol)]
    known = _known_seconds(alike[alike["status"] == "done"])
    estimates = [_estimate(each.run, known) for each in todo]
    found = [seconds for seconds in estimates if seconds is not None]
    return sum(found) if len(found) == len(todo) else None


_LIKENESS = (("method", "num_layers", "dataset"), ("method", "dataset"), ("method",), ())


def _known_seconds(done: "pd.DataFrame") -> dict[tuple[tuple[str, ...], tuple[Any, ...]], float]:
    """Median total seconds by what is the same, for each likeness."""
    known: dict[tuple[tuple[str, ...], tuple[Any, ...]], float] = {}
    for keys in _LIKENESS:
        columns = [done[key] for key in keys]
        same = list(zip(*columns, strict=True)) if keys else [()] * len(done)
        for values in set(same):
            chosen = [each == values for each in same]
            known[keys, values] = float(done["seconds_total"][chosen].median())
    return known


def _estimate(run: Run, known: Mapping[Any, float]) -> float | None:
    for keys in _LIKENESS:
        found = known.get((keys, tuple(getattr(run.identity, key) for key in keys)))
        if found is not None:
            return found
    return None


def in_words(seconds: float | None) -> str:
    """'about 3 h 20 min'; seconds only below two minutes."""
    if seconds is None:
        return "time unknown: no record of this budget yet"
    if seconds < 120:
        return f"about {seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"about {minutes} min"
