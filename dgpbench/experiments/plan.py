"""Which runs an item needs, which of them are there, and how long the rest will take.

Whether a run is there is decided by its identity alone; a compact record is as good as the run's own. A run that starts
from another stands behind it, and cannot be carried out before that one is done.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.experiments.items import Item, column_name
from dgpbench.experiments.wanted import Wanted, wanted
from dgpbench.runs import store
from dgpbench.runs.resolve import Run
from dgpbench.runs.store import BROKEN, CONFLICT, DONE, MISSING

if TYPE_CHECKING:
    import pandas as pd

BLOCKED = "blocked"
STATES = (DONE, BROKEN, MISSING, CONFLICT, BLOCKED)
NEVER_DONE = {
    BROKEN: "failed",
    CONFLICT: "was made with other settings or code",
    BLOCKED: "cannot be carried out either",
}


@dataclass(frozen=True)
class Planned:
    """One run of an item.

    :param state: ``done``, ``failed``, ``missing``, ``conflict``: a record made with other settings or code is in its
        place, or ``blocked``: it is missing, and the run that it starts from is not done and will not be
    :param seconds: total seconds of its record, where there is one
    :param why: of a run that is blocked or in conflict, one sentence
    """

    wanted: Wanted
    state: str
    seconds: float | None = None
    why: str = ""

    @property
    def series(self) -> str:
        """The name of its column."""
        return self.wanted.series

    @property
    def run(self) -> Run:
        """The run itself."""
        return self.wanted.run

    @property
    def overrides(self) -> tuple[str, ...]:
        """What ``dgpbench run`` takes to carry it out."""
        return self.wanted.overrides

    @property
    def directory(self) -> Path:
        """Where its record lies, or will."""
        return self.run.directory


def plan_of(item: Item) -> list[Planned]:
    """Every run of an item, each once, in the item's order, and before each the run that it starts from."""
    found: dict[Path, Wanted] = {}
    for sweep in item.sweeps:
        for each in wanted(item, sweep):
            for one in _from_the_start(each):
                found.setdefault(one.run.directory, one)
    planned: dict[Path, Planned] = {}
    for directory, each in found.items():
        planned[directory] = _planned(each, planned)
    return list(planned.values())


def _from_the_start(each: Wanted) -> Iterator[Wanted]:
    if each.start is not None:
        yield from _from_the_start(each.start)
    yield each


def _planned(each: Wanted, before: Mapping[Path, Planned]) -> Planned:
    run = each.run
    state = store.state_of(run.limits.results_dir, run.identity, run.config_hash)
    start = None if each.start is None else before[each.start.run.directory]
    if state.name == MISSING and start is not None and start.state in NEVER_DONE:
        how = NEVER_DONE[start.state]
        return Planned(each, BLOCKED, why=f"{each.run.directory} starts from {start.directory}, which {how}")
    seconds = None if state.stored is None else state.stored.record["seconds"]["total"]
    return Planned(each, state.name, seconds, state.why)


# Words and time -------------------------------------------------------------------------------------------------------


def count(runs: list[Planned]) -> dict[str, int]:
    """How many runs are in each state."""
    return {state: sum(run.state == state for run in runs) for state in STATES}


def matrix(runs: list[Planned]) -> str:
    """Data sets by methods, the longer list as rows: '3/10' done, and how many failed or are in conflict, if any."""
    from tabulate import tabulate

    columns = dict.fromkeys(map(_column, runs))
    rows: dict[str, dict[str, list[Planned]]] = {}
    for each in runs:
        cells = rows.setdefault(each.run.dataset_name, {name: [] for name in columns})
        cells[_column(each)].append(each)
    lines = [[dataset, *map(_cell, cells.values())] for dataset, cells in rows.items()]
    headings = ["data set", *columns]
    if len(columns) > len(rows):
        headings, *lines = (list(each) for each in zip(["method", *columns], *lines, strict=True))
    return tabulate(lines, headers=headings, tablefmt="simple", disable_numparse=True)


def _column(planned: Planned) -> str:
    return column_name(planned.series, planned.run.method.num_layers)


def _cell(runs: list[Planned]) -> str:
    if not runs:
        return ""
    counts = count(runs)
    worse = "".join(f", {counts[state]:,} {state}" for state in (BROKEN, CONFLICT, BLOCKED) if counts[state])
    return f"{counts[DONE]}/{len(runs)}{worse}"


def seconds_each(todo: list[Planned], frame: "pd.DataFrame") -> list[float | None]:
    """Seconds of each run that is to do, from done ones of the same method, depth and data set, else less alike.

    None where no record of its method at this budget and protocol says anything: another method takes another time.
    """
    if not todo:
        return []
    first = todo[0].run
    alike = frame[(frame["budget"] == first.budget) & (frame["protocol"] == first.protocol)]
    known = _known_seconds(alike[alike["status"] == "done"])
    return [_estimate(each.run, known) for each in todo]


_LIKENESS = (("method", "num_layers", "dataset"), ("method", "dataset"), ("method",))


def _known_seconds(done: "pd.DataFrame") -> dict[tuple[tuple[str, ...], tuple[Any, ...]], float]:
    """Median total seconds by what is the same, for each likeness."""
    known: dict[tuple[tuple[str, ...], tuple[Any, ...]], float] = {}
    for keys in _LIKENESS:
        columns = [done[key] for key in keys]
        same = list(zip(*columns, strict=True))
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
