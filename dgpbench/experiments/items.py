"""Published tables and figures: one file of conf/experiment/ for each, narrowed by overrides.

An item is a list of sub-sweeps, since few tables are a single product (sghmc has one to three layers where star has two
and three), and a list of blocks to render. A sweep may start from the runs of another (``starts_from``). An item with
the runs of a further method (``open``) takes every plug-in that is loaded, and every method that is named.

Overrides have Hydra's grammar. They narrow the keys that an item sweeps, replace the budget, the protocol and the seed,
and change any other setting in every run.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any

from dgpbench.config import groups
from dgpbench.config.canonical import canonical
from dgpbench.config.overrides import parse, values
from dgpbench.config.settings import declared, did_you_mean
from dgpbench.errors import UserError
from dgpbench.runs.resolve import Limits, Run, parse_known

REPLACED = {"budget": "paper", "protocol": None, "seed": "0"}
AXES = ("task", "dataset", "method", "method.num_layers", "protocol", "budget", "split", "seed")


@dataclass(frozen=True)
class Sweep:
    """One product of overrides: key -> values, as texts.

    :param start: the series that its runs start from, each from the run of its own data set, depth, split and seed
    """

    values: Mapping[str, tuple[str, ...]]
    series: str | None = None  # the name of its runs, if it is not the method's
    start: "Sweep | None" = None
    scheduled: tuple[str, ...] = ()  # counts of steps among its keys, which a budget shortens like the protocol's

    def settings(self) -> dict[str, tuple[str, ...]]:
        """Return the keys besides the identity's own axes."""
        return {key: values for key, values in self.values.items() if key not in AXES}

    def combinations(self, keys: Sequence[str]) -> Iterator[dict[str, str]]:
        """Yield every combination of the values of some keys, in the order of the keys."""
        for chosen in product(*(self.values[key] for key in keys)):
            yield dict(zip(keys, chosen, strict=True))

    def name_of(self, method: str) -> str:
        """Return the name of its runs in a table."""
        return self.series or method


@dataclass(frozen=True)
class Block:
    """One block of a table: a metric, and its columns: all series, or pairs of series that are compared directly."""

    metric: str
    digits: int = 2
    pairs: tuple[tuple[str, str], ...] = ()
    best: str = ""  # the rule that marks cells, a key of report.tables.RULES


@dataclass(frozen=True)
class Item:
    """A published table or figure: its runs, and how it is rendered."""

    name: str
    title: str
    kind: str
    sweeps: tuple[Sweep, ...]
    blocks: tuple[Block, ...] = ()
    figure: str | None = None
    note: str = ""
    external: Mapping[str, str] = field(default_factory=dict)  # overrides of where and how to run, by key
    results_dir: str = "results"
    narrowed: tuple[str, ...] = ()  # the other overrides
    options: Mapping[str, Any] = field(default_factory=dict)
    open: Mapping[str, Any] | None = None  # a sweep for methods that join; None if the methods are the paper's

    @property
    def budget(self) -> str:
        """The budget of all its runs."""
        return self.sweeps[0].values["budget"][0]

    @property
    def protocol(self) -> str:
        """The protocol of all its runs."""
        return self.sweeps[0].values["protocol"][0]

    def file_name(self, ending: str) -> str:
        """Return 'ITEM.md', or 'ITEM-BUDGET.md' if the budget is not the paper's."""
        budget = "" if self.budget == "paper" else f"-{self.budget}"
        return f"{self.name}{budget}.{ending}"

    def showing(self, metric: str) -> "Item":
        """Return the item with one block, of another metric."""
        return replace(self, blocks=(Block(metric, max((block.digits for block in self.blocks), default=2)),))

    def with_task(self, task: str) -> "Item":
        """Return the item on another task."""
        sweeps = (replace(sweep, values={**sweep.values, "task": (task,)}) for sweep in self.sweeps)
        return replace(self, sweeps=tuple(sweeps))


def column_name(series: str, num_layers: int) -> str:
    """Return the heading of a column: 'star L3'; for a plug-in the method's name, as it has its own depth setting."""
    sides = series.split("_vs_")
    deep = num_layers > 1 or not groups.files("method").isdisjoint(sides)
    return " vs ".join(sides) + (f" L{num_layers}" if deep else "")


def load(name: str, given: Sequence[str] = (), *, guests: bool = True) -> Item:
    """Return an item of conf/experiment/ at its budget, narrowed by overrides in Hydra's grammar.

    :param guests: whether the methods that join an open item are part of it
    :raises UserError: for an unknown item, or overrides that leave nothing of it
    """
    names = groups.names("experiment")
    if name not in names:
        raise UserError(f"unknown item '{name}'{did_you_mean(name, names)}; `dgpbench list experiments` lists them all")
    overrides = parse_known(given)
    budgets = [each for each in overrides if each.key_or_group == "budget"]
    whole = _with_guests(_read(name), overrides) if guests else _read(name)
    item = _within_budget(_narrow(whole, budgets))
    return _narrow(item, [each for each in overrides if each.key_or_group != "budget"])


def every(given: Sequence[str], kinds: Sequence[str] = ("table", "figure")) -> Iterator[Item]:
    """Yield every item of some kinds that overrides leave something of; print on standard error why others are not."""
    for name in groups.names("experiment"):
        if _read(name).kind in kinds:
            try:
                yield load(name, given)
            except UserError as refusal:
                print(f"{name}: {refusal}", file=sys.stderr)


def _with_guests(item: Item, overrides: Sequence[Any]) -> Item:
    """Add the methods that join an open item: plug-ins that are loaded, and those that ``method=`` names."""
    if item.open is None:
        return item
    own = {name for sweep in item.sweeps for name in sweep.values["method"]}
    named = [name for each in overrides if each.key_or_group == "method" for name in values_of(each)]
    joined = []
    for name in dict.fromkeys([*groups.added("method"), *named]):
        if name not in own and groups.exists("method", name):
            layers = {"method.num_layers": 1} if groups.describe("method", name).get("single_layer") else {}
            joined.append(_sweep({**item.open, **layers, "method": name}))
    return replace(item, sweeps=(*item.sweeps, *joined))


def _within_budget(item: Item) -> Item:
    """Apply the ``caps``, ``shares`` and ``schedule`` of the budget to the values that the item itself sets."""
    budget = groups.describe("budget", item.budget)
    caps = budget.get("caps", {})

    def smaller(value: str, share: float, cap: int | None) -> str:
        number = max(1, round(int(value) * share))
        return str(number if cap is None else min(number, cap))

    def held(sweep: Sweep) -> Sweep:
        shares = budget.get("shares", {}) | dict.fromkeys(sweep.scheduled, budget["schedule"])
        small = {
            key: tuple(dict.fromkeys(smaller(value, shares.get(key, 1), caps.get(key)) for value in sweep.values[key]))
            for key in sweep.values
            if key in caps or key in shares
        }
        start = None if sweep.start is None else held(sweep.start)
        return replace(sweep, values={**sweep.values, **small}, start=start)

    return replace(item, sweeps=tuple(map(held, item.sweeps)))


@cache
def _read(name: str) -> Item:
    values = groups.describe("experiment", name)
    if "like" in values:  # its own keys replace those of another item
        values = {**groups.describe("experiment", values["like"]), **values}
    shared: dict[str, Any] = {key: values[key] for key in ("task", "protocol", "budget") if key in values}
    blocks = tuple(
        Block(**{**block, "pairs": tuple(map(tuple, block.get("pairs", ())))}) for block in values.get("render", ())
    )
    return Item(
        name=name,
        title=values["title"],
        kind=values["kind"],
        sweeps=sweeps_of(name, [{**shared, **sweep} for sweep in values["sweeps"]]),
        blocks=blocks,
        figure=values.get("figure"),
        note=values.get("note", ""),
        options=values.get("options", {}),
        open={**shared, **values["open"]} if "open" in values else None,
    )


def sweeps_of(item: str, entries: Sequence[Mapping[str, Any]]) -> tuple[Sweep, ...]:
    """Read the sub-sweeps of a file, each after the one that it starts from.

    :raises UserError: if it comes before
    """
    sweeps: list[Sweep] = []
    for entry in entries:
        start = None
        if (first := entry.get("starts_from")) is not None:
            known = {each.name_of(method): (each, method) for each in sweeps for method in each.values["method"]}
            if first not in known:
                earlier = ", ".join(known) or "none"
                raise UserError(f"{item} has a sweep that starts from {first}; the sweeps before it are: {earlier}")
            before, method = known[first]
            start = replace(before, values={**before.values, "method": (method,)})
        sweeps.append(replace(_sweep(entry), start=start))
    return tuple(sweeps)


def _sweep(given: Mapping[str, Any]) -> Sweep:
    """Read a sub-sweep of a file: each value in Hydra's grammar, replaceable keys at their defaults."""
    texts = {key: str(value) for key, value in given.items() if key not in ("series", "starts_from", "scheduled")}
    parsed = parse([f"{key}={value}" for key, value in texts.items()])
    values = {each.key_or_group: values_of(each) for each in parsed}
    defaults = {key: (value,) for key, value in REPLACED.items() if value is not None}
    return Sweep(defaults | values, given.get("series"), scheduled=tuple(given.get("scheduled", ())))


def values_of(override: Any, offered: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the values of an override in canonical spelling; a glob picks among those offered."""
    yaml = {"True": "true", "False": "false"}  # Hydra writes them as Python does
    return tuple(canonical(yaml.get(value, value)) for value in values(override, offered))


def _narrow(item: Item, overrides: Sequence[Any]) -> Item:
    """Apply overrides: narrow swept keys, replace the budget, protocol and seed, set any other in every run.

    :raises UserError: if nothing is left, or if runs of different settings would share a cell
    """
    sweeps, external, narrowed = list(item.sweeps), dict(item.external), list(item.narrowed)
    results_dir = item.results_dir
    for override in overrides:
        key = override.key_or_group
        if key in declared(Limits):
            external[key] = override.input_line
            results_dir = str(override.value()) if key == "results_dir" else results_dir
            continue
        offered = tuple(dict.fromkeys(value for sweep in sweeps for value in sweep.values.get(key, ())))
        if key == "split":
            wanted = values_of(override, offered)
            absent = [value for value in wanted if value not in offered]
            if absent and len(absent) < len(wanted):
                raise UserError(
                    f"{override.input_line}: {item.name} has no split {', '.join(absent)}; it has {', '.join(offered)}"
                )
        own = [sweep.values.get(key) for sweep in item.sweeps]
        unknown = None in own and set(values_of(override, offered)).isdisjoint(offered)
        is_common = key not in groups.GROUPS and (len(set(own)) == 1 or unknown)
        kept = [_narrowed(sweep, key, override, is_common) for sweep in sweeps]
        if not any(kept):
            offered = tuple(dict.fromkeys(value for sweep in item.sweeps for value in sweep.values.get(key, ())))
            raise UserError(
                f"{override.input_line} leaves nothing of {item.name}; its {key} is one of {', '.join(offered)}"
            )
        sweeps = [sweep for sweep in kept if sweep is not None]
        narrowed.append(override.input_line)
    return replace(item, sweeps=tuple(sweeps), external=external, results_dir=results_dir, narrowed=tuple(narrowed))


def _narrowed(sweep: Sweep, key: str, override: Any, is_common: bool) -> Sweep | None:
    """Apply an override to a sweep and, if it offers the value too, to the series that it starts from.

    :param is_common: the override selects no series: the key names no file of conf/, and its value is the same in all
        sweeps of the item, or given in some and in none as the override has it
    """
    if sweep.start is not None:
        sweep = replace(sweep, start=_narrowed(sweep.start, key, override, is_common) or sweep.start)
    offered = sweep.values.get(key, ())
    # A key that is swept, or that defines a series, is narrowed; any other is replaced in every run.
    swept = key in AXES or len(offered) != 1 or (sweep.series is not None and not is_common)
    if key in REPLACED or key not in sweep.values or key in sweep.scheduled or not swept:
        wanted = values_of(override, groups.names(key) if key in groups.GROUPS else offered)
        if len(wanted) != 1:
            raise UserError(f"{override.input_line} names {len(wanted)} values; an item takes one {key} at a time")
        if key == "seed":  # the only axis that takes numbers beyond those of the item
            declared(Run)["seed"].read(key, override.value())
        return replace(sweep, values={**sweep.values, key: wanted})
    wanted = values_of(override, offered)
    left = tuple(value for value in offered if value in wanted)
    return replace(sweep, values={**sweep.values, key: left}) if left else None
