"""Which runs an item needs, which of them are there, and how long the rest will take.

Whether a run is there is decided by its identity alone, computed as ``dgpbench.run`` does. Hydra composes in a tenth of
a second, which is much for hundreds of runs: so it composes once for each set of choices, and data set, depth, split
and seed are put into the composed configuration before its interpolations are resolved, which gives the same values.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench import config, identity, records
from dgpbench.errors import Refused
from dgpbench.report.collect import FAILED
from dgpbench.report.items import Item, Sweep

if TYPE_CHECKING:
    import pandas as pd

DONE, BROKEN, MISSING, CONFLICT = "done", "failed", "missing", "conflict"
STATES = (DONE, BROKEN, MISSING, CONFLICT)
CHEAP = ("dataset", "method.num_layers", "split", "seed")  # put in after Hydra has composed


@dataclass(frozen=True)
class Planned:
    """One run of an item.

    :param overrides: what ``dgpbench run`` takes, external settings included
    :param state: ``done``, ``failed``, ``missing``, or ``conflict``: a record made with other settings is in its place
    :param seconds: total seconds of its record, where there is one
    """

    series: str
    overrides: tuple[str, ...]
    choices: Mapping[str, str]
    directory: Path
    state: str
    seconds: float | None = None


def plan(item: Item) -> list[Planned]:
    """Every run of an item, each once, in the item's order."""
    planned: dict[Path, Planned] = {}
    for sweep in item.sweeps:
        for run in _of_sweep(item, sweep):
            planned.setdefault(run.directory, run)
    return list(planned.values())


def _of_sweep(item: Item, sweep: Sweep) -> Iterator[Planned]:
    _check_choices(item, sweep)
    for choices in sweep.combinations([key for key in sweep.values if key not in ("split", "seed")]):
        configuration = _resolved(choices)
        changed = _changed(configuration, choices)
        for last in sweep.combinations(("split", "seed")):
            full = configuration | {key: int(value) for key, value in last.items()}
            yield _planned(item, sweep, {**choices, **last}, full, changed)


def _check_choices(item: Item, sweep: Sweep) -> None:
    """What an item names must exist: a method or protocol may not be there yet."""
    for group in config.GROUPS:
        for name in sweep.values.get(group, ()):
            if name not in config.choices(group):
                raise Refused(f"{item.name} needs {group}={name}, which there is not; narrow the item to leave it out")


def _planned(
    item: Item, sweep: Sweep, choices: dict[str, str], configuration: dict[str, Any], changed: dict
) -> Planned:
    directory = identity.identity_directory(
        item.results_dir,
        task=configuration["task"]["name"],
        dataset=configuration["dataset"]["name"],
        method=configuration["method"]["name"],
        num_layers=configuration["method"]["num_layers"],
        protocol=configuration["protocol"]["name"],
        budget=configuration["budget"]["name"],
        split=configuration["split"],
        seed=configuration["seed"],
        overrides=changed,
    )
    state, seconds = _state(directory, configuration)
    texts = (*(f"{key}={value}" for key, value in choices.items()), *item.external)
    return Planned(sweep.name_of(choices["method"]), texts, choices, directory, state, seconds)


def _state(directory: Path, configuration: dict[str, Any]) -> tuple[str, float | None]:
    record = records.read_if_present(directory)
    if record is None:
        return MISSING, None
    if record["status"] in FAILED:
        return BROKEN, record["seconds"].get("total")
    if record["status"] != "done":
        return MISSING, None
    from dgpbench.recording import recorded_config

    same = record["config_hash"] == identity.config_hash(recorded_config(configuration))
    return (DONE if same else CONFLICT), record["seconds"].get("total")


# Configurations without composing each --------------------------------------------------------------------------------


def _resolved(choices: Mapping[str, str]) -> dict[str, Any]:
    """The resolved configuration of some choices, split and seed at their defaults."""
    from omegaconf import OmegaConf

    slow = tuple(f"{key}={value}" for key, value in choices.items() if key not in CHEAP)
    composed = deepcopy(_composed(slow))
    OmegaConf.set_struct(composed, False)
    composed.dataset = config.describe("dataset", choices["dataset"])
    composed.method.num_layers = int(choices["method.num_layers"])
    return config.resolve(composed)


@cache
def _composed(overrides: tuple[str, ...]) -> Any:
    from hydra.errors import HydraException

    try:
        return config.compose(overrides)
    except HydraException as problem:
        raise Refused(str(problem).splitlines()[0]) from None


def _changed(configuration: dict[str, Any], choices: Mapping[str, str]) -> dict[str, Any]:
    """The last part of the identity; named choices alone change nothing, which saves composing them again."""
    named = {*config.GROUPS, "method.num_layers"} - {"optimiser"}
    return config.changed_settings(configuration) if set(choices) - named else {}


# Words and time -------------------------------------------------------------------------------------------------------


def count(runs: list[Planned]) -> dict[str, int]:
    """How many runs are in each state."""
    return {state: sum(run.state == state for run in runs) for state in STATES}


def matrix(runs: list[Planned]) -> str:
    """Data sets by columns: '3/10' done, and how many failed or are in conflict where any are."""
    from tabulate import tabulate

    columns = dict.fromkeys(f"{run.series} L{run.choices['method.num_layers']}" for run in runs)
    rows: dict[str, dict[str, list[Planned]]] = {}
    for run in runs:
        cells = rows.setdefault(run.choices["dataset"], {name: [] for name in columns})
        cells[f"{run.series} L{run.choices['method.num_layers']}"].append(run)
    lines = [[dataset, *map(_cell, cells.values())] for dataset, cells in rows.items()]
    return tabulate(lines, headers=["dataset", *columns], tablefmt="simple", disable_numparse=True)


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
    choices = todo[0].choices
    alike = frame[(frame["budget"] == choices["budget"]) & (frame["protocol"] == choices["protocol"])]
    known = _known_seconds(alike[alike["status"] == "done"])
    estimates = [_estimate(run.choices, known) for run in todo]
    found = [seconds for seconds in estimates if seconds is not None]
    return sum(found) if len(found) == len(todo) else None


_LIKENESS = (("method", "method.num_layers", "dataset"), ("method", "dataset"), ("method",), ())


def _known_seconds(done: "pd.DataFrame") -> dict[tuple[tuple[str, ...], tuple[str, ...]], float]:
    """Median total seconds by what is the same, for each likeness."""
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], float] = {}
    for keys in _LIKENESS:
        columns = [done[key.rpartition(".")[2]].astype(str) for key in keys]
        same = list(zip(*columns, strict=True)) if keys else [()] * len(done)
        for values in set(same):
            chosen = [each == values for each in same]
            known[keys, values] = float(done["seconds_total"][chosen].median())
    return known


def _estimate(choices: Mapping[str, str], known: Mapping[Any, float]) -> float | None:
    for keys in _LIKENESS:
        found = known.get((keys, tuple(choices[key] for key in keys)))
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
