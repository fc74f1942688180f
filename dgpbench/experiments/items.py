"""What the papers show: one file of conf/experiment/ for each table or figure, narrowed by overrides.

An item is a list of sub-sweeps, since few tables are a single product (sghmc has one to three layers where star
has two and three), each of which may start from the runs of another (``starts_from``), and of blocks to render. An item
that says what a further method runs on (``open``) takes every plug-in that is loaded, and every method that is named.
Overrides have Hydra's grammar: those that an item sweeps narrow it, the budget, the protocol and the seed are replaced,
and any other setting is changed in every run.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any

from dgpbench.config import groups
from dgpbench.config.canonical import canonical
from dgpbench.config.overrides import parse
from dgpbench.config.settings import declared, did_you_mean
from dgpbench.errors import UserError
from dgpbench.runs.resolve import Limits, parse_known

REPLACED = {"budget": "paper", "protocol": None, "seed": "0"}
AXES = ("task", "dataset", "method", "method.num_layers", "protocol", "budget", "split", "seed")
Values = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Sweep:
    """One product of overrides: key -> values, as texts.

    :param series: the name of its runs where the method's name does not do
    :param start: the series that its runs start from, each from the one of its own data set, depth, split and seed
    :param scheduled: counts of steps among its keys, which a budget shortens as it does the protocol's
    """

    values: Values
    series: str | None = None
    start: "Sweep | None" = None
    scheduled: tuple[str, ...] = ()

    def settings(self) -> dict[str, tuple[str, ...]]:
        """What it sets beyond the identity's own axes."""
        return {key: values for key, values in self.values.items() if key not in AXES}

    def combinations(self, keys: Sequence[str]) -> Iterator[dict[str, str]]:
        """Every combination of the values of some keys, in the order of the keys."""
        for values in product(*(self.values[key] for key in keys)):
            yield dict(zip(keys, values, strict=True))

    def name_of(self, method: str) -> str:
        """The name of its runs in a table."""
        return self.series or method


@dataclass(frozen=True)
class Block:
    """One block of a table: a metric, and its columns: all series, or pairs of them that are compared directly."""

    metric: str
    digits: int = 2
    pairs: tuple[tuple[str, str], ...] = ()
    best: str = ""  # the rule that marks cells, a key of report.marks.RULES


@dataclass(frozen=True)
class Item:
    """A published table or figure: which runs it is about, and how it is rendered.

    :param external: overrides by key that say where and how runs are carried out, not what they compute
    :param results_dir: where its records are
    :param narrowed: the other overrides that were given
    :param open: the sweep of a method that joins, but for its name; None where the methods are the paper's
    """

    name: str
    title: str
    kind: str
    sweeps: tuple[Sweep, ...]
    blocks: tuple[Block, ...] = ()
    figure: str | None = None
    note: str = ""
    external: Mapping[str, str] = field(default_factory=dict)
    results_dir: str = "results"
    narrowed: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    open: Mapping[str, Any] | None = None

    @property
    def budget(self) -> str:
        """The budget of all its runs."""
        return self.sweeps[0].values["budget"][0]

    @property
    def protocol(self) -> str:
        """The protocol of all its runs."""
        return self.sweeps[0].values["protocol"][0]

    def showing(self, metric: str) -> "Item":
        """The same item with one block, of another metric."""
        return replace(self, blocks=(Block(metric, max((block.digits for block in self.blocks), default=2)),))

    def with_task(self, task: str) -> "Item":
        """The same runs on another task."""
        sweeps = (replace(sweep, values={**sweep.values, "task": (task,)}) for sweep in self.sweeps)
        return replace(self, sweeps=tuple(sweeps))


def column_name(series: str, num_layers: int) -> str:
    """How a column is called: 'star L3'; a plug-in's method by its name alone, its settings say how deep it is."""
    sides = series.split("_vs_")
    deep = num_layers > 1 or not groups.files("method").isdisjoint(sides)
    return " vs ".join(sides) + (f" L{num_layers}" if deep else "")


def load(name: str, given: Sequence[str] = (), *, guests: bool = True) -> Item:
    """An item of conf/experiment/, held to its budget and narrowed by overrides in Hydra's grammar.

    :param guests: whether the methods that join an open item are part of it
    :raises UserError: for an unknown item, or overrides that leave nothing of it
    """
    names = groups.names("experiment")
    if name not in names:
        raise UserError(
            f"there is no item '{name}'{did_you_mean(name, names)}; `dgpbench list experiments` shows them all"
        )
    budgets = [each.input_line for each in parse_known(given) if each.key_or_group == "budget"]
    whole = _with_guests(_read(name), given) if guests else _read(name)
    item = _within_budget(narrow(whole, budgets))
    return narrow(item, [text for text in given if text not in budgets])


def every(given: Sequence[str], kinds: Sequence[str] = ("table", "figure")) -> Iterator[Item]:
    """Every item of some kinds that overrides leave something of; standard error says why the others are left out."""
    for name in groups.names("experiment"):
        if _read(name).kind in kinds:
            try:
                yield load(name, given)
            except UserError as refusal:
                print(f"{name}: {refusal}", file=sys.stderr)


def _with_guests(item: Item, given: Sequence[str]) -> Item:
    """An open item with the methods that join it: plug-ins that are loaded, and those that ``method=`` names."""
    if item.open is None:
        return item
    own = {name for sweep in item.sweeps for name in sweep.values["method"]}
    named = [name for each in parse_known(given) if each.key_or_group == "method" for name in values_of(each)]
    guests = [name for name in dict.fromkeys([*groups.added("method"), *named]) if name not in own]
    joined = [_guest(item.open, name) for name in guests if groups.exists("method", name)]
    return replace(item, sweeps=(*item.sweeps, *joined))


def _guest(values: Mapping[str, Any], name: str) -> Sweep:
    layers = {"method.num_layers": 1} if groups.describe("method", name).get("single_layer") else {}
    return _sweep({**values, **layers, "method": name})


def _within_budget(item: Item) -> Item:
    """What the item itself sets, made as small as its budget wants it: its ``caps``, ``shares`` and ``schedule``."""
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
    if "like" in values:  # another item, but for what it says itself
        values = {**groups.describe("experiment", values["like"]), **values}
    usual: dict[str, Any] = {key: values[key] for key in ("task", "protocol", "budget") if key in values}
    blocks = tuple(
        Block(**{**block, "pairs": tuple(map(tuple, block.get("pairs", ())))}) for block in values.get("render", ())
    )
    return Item(
        name=name,
        title=values["title"],
        kind=values["kind"],
        sweeps=_sweeps(name, [{**usual, **sweep} for sweep in values["sweeps"]]),
        blocks=blocks,
        figure=values.get("figure"),
        note=values.get("note", ""),
        options=values.get("options", {}),
        open={**usual, **values["open"]} if "open" in values else None,
    )


def _sweeps(item: str, entries: Sequence[Mapping[str, Any]]) -> tuple[Sweep, ...]:
    """The sub-sweeps of a file; what one starts from stands before it.

    :raises UserError: where it does not
    """
    sweeps: list[Sweep] = []
    for entry in entries:
        name = entry.get("starts_from")
        known = {each.name_of(method): (each, method) for each in sweeps for method in each.values["method"]}
        if name is not None and name not in known:
            raise UserError(f"{item} has a sweep that starts from {name}; before it stand {', '.join(known) or 'none'}")
        start = None if name is None else _with_values(*known[name])
        sweeps.append(replace(_sweep(entry), start=start))
    return tuple(sweeps)


def _with_values(sweep: Sweep, method: str) -> Sweep:
    return replace(sweep, values={**sweep.values, "method": (method,)})


def _sweep(given: Mapping[str, Any]) -> Sweep:
    """A sub-sweep of a file: each value in Hydra's grammar, the replaceable keys at their usual values."""
    texts = {key: str(value) for key, value in given.items() if key not in ("series", "starts_from", "scheduled")}
    parsed = parse([f"{key}={value}" for key, value in texts.items()])
    values = {each.key_or_group: values_of(each) for each in parsed}
    usual = {key: (value,) for key, value in REPLACED.items() if value is not None}
    return Sweep(usual | values, given.get("series"), scheduled=tuple(given.get("scheduled", ())))


def values_of(override: Any, offered: Sequence[str] = ()) -> tuple[str, ...]:
    """The values an override stands for, as texts of one spelling; a glob picks among those offered."""
    from hydra.core.override_parser.types import Glob

    if isinstance(override.value(), Glob):
        return tuple(override.value().filter(list(offered)))
    if not override.is_sweep_override():
        return (_text(override.get_value_element_as_str()),)
    return tuple(_text(text) for text in override.sweep_string_iterator())


def _text(value: str) -> str:
    """One spelling for each value, YAML's; Hydra has read ``false`` and writes it as Python does."""
    bare = value.strip("'\"")
    return canonical({"True": "true", "False": "false"}.get(bare, bare))


def narrow(item: Item, given: Sequence[str]) -> Item:
    """The item with overrides applied: swept keys narrowed, the budget, protocol and seed replaced, others set.

    :raises UserError: where nothing is left, or where runs of different settings would share a cell
    """
    sweeps, external, narrowed = list(item.sweeps), dict(item.external), list(item.narrowed)
    results_dir = item.results_dir
    for override in parse_known(given):
        key = override.key_or_group
        if key in declared(Limits):
            external[key] = override.input_line
            results_dir = str(override.value()) if key == "results_dir" else results_dir
            continue
        if key == "split":
            _check_splits(item.name, sweeps, override)
        kept = [_narrowed(sweep, key, override) for sweep in sweeps]
        if not any(kept):
            offered = dict.fromkeys(value for sweep in item.sweeps for value in sweep.values.get(key, ()))
            raise UserError(
                f"{override.input_line} leaves nothing of {item.name}; its {key} is one of {', '.join(offered)}"
            )
        sweeps = [sweep for sweep in kept if sweep is not None]
        narrowed.append(override.input_line)
    return replace(item, sweeps=tuple(sweeps), external=external, results_dir=results_dir, narrowed=tuple(narrowed))


def _check_splits(name: str, sweeps: Sequence[Sweep], override: Any) -> None:
    """
    :raises UserError: if some of the splits belong to the item and others do not
    """
    offered = dict.fromkeys(split for sweep in sweeps for split in sweep.values["split"])
    wanted = values_of(override, tuple(offered))
    left = [value for value in wanted if value not in offered]
    if left and len(left) < len(wanted):
        raise UserError(f"{override.input_line}: {name} has no split {', '.join(left)}; it has {', '.join(offered)}")


def _narrowed(sweep: Sweep, key: str, override: Any) -> Sweep | None:
    """What an override leaves of a sweep; the series that it starts from changes with it where that is offered too."""
    if sweep.start is not None:
        sweep = replace(sweep, start=_narrowed(sweep.start, key, override) or sweep.start)
    offered = sweep.values.get(key, ())
    if _replaceable(sweep, key):
        wanted = values_of(override, groups.names(key) if key in groups.GROUPS else offered)
        if len(wanted) != 1:
            raise UserError(f"{override.input_line} names {len(wanted)} values; an item takes one {key} at a time")
        return replace(sweep, values={**sweep.values, key: wanted})
    wanted = values_of(override, offered)
    left = tuple(value for value in offered if value in wanted)
    return replace(sweep, values={**sweep.values, key: left}) if left else None


def _replaceable(sweep: Sweep, key: str) -> bool:
    """Whether an override changes the key in every run; what is swept, or makes a series what it is, is narrowed."""
    if key in REPLACED or key not in sweep.values or key in sweep.scheduled:
        return True
    return key not in AXES and sweep.series is None and len(sweep.values[key]) == 1
