"""Runs of an item, their states, and the run that each starts from.

Whether a run is done is decided by its identity alone; a compact record counts as much as the run's own. A run with a
warm start is listed after the run that it starts from, and cannot be executed before that one is done.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dgpbench.config import groups
from dgpbench.config.overrides import argument
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, Sweep, column_name
from dgpbench.runs import store
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.runs.store import BROKEN, CONFLICT, DONE, MISSING

SHARED = ("task", "dataset", "method.num_layers", "protocol", "budget", "split", "seed")  # by a run and its start
BLOCKED = "blocked"
STATES = (DONE, BROKEN, MISSING, CONFLICT, BLOCKED)
NEVER_DONE = {BROKEN: "failed", CONFLICT: "has a record of other settings or code", BLOCKED: "cannot be run either"}


@dataclass(frozen=True)
class Planned:
    """One run of an item, and its state once ``plan_of`` has looked it up.

    :param state: ``done``, ``failed``, ``missing``, ``conflict``: its place has a record of other settings or code, or
        ``blocked``: it is missing, and the run that it starts from is not done and will not be
    """

    series: str  # the name of its column
    run: Run
    overrides: tuple[str, ...]  # the arguments of ``dgpbench run``
    start: "Planned | None" = None  # the run that it starts from
    state: str = MISSING
    why: str = ""  # of a blocked run or a conflict, one sentence

    @property
    def directory(self) -> Path:
        """The directory of its record."""
        return self.run.directory


def wanted(item: Item, sweep: Sweep) -> Iterator[Planned]:
    """Yield every run of a sweep, in its order.

    :raises UserError: for a name that does not exist, or a start that is not one run
    """
    for group in groups.GROUPS:  # a file may name a method or protocol that is not installed
        for name in sweep.values.get(group, ()):
            if not groups.exists(group, name):
                raise UserError(
                    f"{item.name} needs {group}={name}, which is not installed; exclude it with {group}=..."
                )
    for chosen in sweep.combinations([key for key in sweep.values if key not in ("split", "seed")]):
        first = resolve_overrides([*_arguments(chosen), *item.external.values()])
        starts: dict[tuple[int, int], Planned] = {}  # by split and seed
        if sweep.start is not None:
            shared = {key: (chosen[key],) if key in chosen else sweep.values[key] for key in SHARED}
            runs = list(wanted(item, replace(sweep.start, values={**sweep.start.values, **shared})))
            starts = {(each.run.split, each.run.seed): each for each in runs}
            if len(starts) < len(runs):
                several = f"{item.name} has several runs of {runs[0].series} for one to start from"
                raise UserError(f"{several}; narrow them to one")
        for last in sweep.combinations(("split", "seed")):
            run = replace(first, split=int(last["split"]), seed=int(last["seed"]))
            overrides = (*_arguments({**chosen, **last}), *item.external.values())
            start = starts.get((run.split, run.seed))
            if start is not None:
                run = run.starting_from(start.run)
                overrides = (*overrides, argument("init_from", str(run.init_from)))
            yield Planned(sweep.name_of(run.card.name), run, overrides, start)


def _arguments(chosen: Mapping[str, str]) -> list[str]:
    return [argument(key, value) for key, value in chosen.items()]


def plan_of(item: Item) -> list[Planned]:
    """Return every run of an item once, in the item's order, and before each the run that it starts from."""
    planned: dict[Path, Planned] = {}

    def add(each: Planned) -> None:
        if each.start is not None:
            add(each.start)
        if each.directory in planned:
            return
        run = each.run
        found = store.state_of(run.limits.results_dir, run.identity, run.config_hash)
        state, why = found.name, found.why
        start = None if each.start is None else planned[each.start.directory]
        if state == MISSING and start is not None and start.state in NEVER_DONE:
            state, why = BLOCKED, f"{run.directory} starts from {start.directory}, which {NEVER_DONE[start.state]}"
        planned[each.directory] = replace(each, state=state, why=why)

    for sweep in item.sweeps:
        for each in wanted(item, sweep):
            add(each)
    return list(planned.values())


def count(runs: list[Planned]) -> dict[str, int]:
    """Return the number of runs in each state."""
    return {state: sum(run.state == state for run in runs) for state in STATES}


def matrix(runs: list[Planned]) -> str:
    """Return a table of data sets by methods, the longer list as rows: '3/10' done, and the failures and conflicts."""
    from tabulate import tabulate

    names = [column_name(each.series, each.run.method.num_layers) for each in runs]
    rows: dict[str, dict[str, list[Planned]]] = {}
    for name, each in zip(names, runs, strict=True):
        rows.setdefault(each.run.dataset_name, {}).setdefault(name, []).append(each)

    def cell(runs: list[Planned]) -> str:
        counts = count(runs)
        worse = "".join(f", {counts[state]:,} {state}" for state in (BROKEN, CONFLICT, BLOCKED) if counts[state])
        return f"{counts[DONE]}/{len(runs)}{worse}" if runs else ""

    columns = list(dict.fromkeys(names))
    lines = [[dataset, *(cell(cells.get(name, [])) for name in columns)] for dataset, cells in rows.items()]
    headings = ["data set", *columns]
    if len(columns) > len(rows):
        headings, *lines = (list(each) for each in zip(["method", *columns], *lines, strict=True))
    return tabulate(lines, headers=headings, tablefmt="simple", disable_numparse=True)
