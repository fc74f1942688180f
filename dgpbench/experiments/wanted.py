"""Which runs the sweeps of an item are, done or not, and which run each starts from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dgpbench.config import groups
from dgpbench.config.overrides import argument
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, Sweep
from dgpbench.runs.resolve import Run, resolve_overrides

SHARED = ("task", "dataset", "method.num_layers", "protocol", "budget", "split", "seed")  # by a run and its start


@dataclass(frozen=True)
class Wanted:
    """One run of an item, whether it is there or not.

    :param series: the name of its column
    :param overrides: what ``dgpbench run`` takes to carry it out
    :param start: the run that it starts from
    """

    series: str
    run: Run
    overrides: tuple[str, ...]
    start: "Wanted | None" = None


def wanted(item: Item, sweep: Sweep) -> Iterator[Wanted]:
    """Every run of a sweep, in its order.

    :raises UserError: for a name that does not exist, or a start that is not one run
    """
    _check_names(item, sweep)
    for chosen in sweep.combinations([key for key in sweep.values if key not in ("split", "seed")]):
        usual = resolve_overrides([*_texts(chosen), *item.external.values()])
        starts = _starts(item, sweep, chosen)
        for last in sweep.combinations(("split", "seed")):
            run = replace(usual, split=int(last["split"]), seed=int(last["seed"]))
            overrides = (*_texts({**chosen, **last}), *item.external.values())
            start = starts.get((run.split, run.seed))
            if start is not None:
                run = run.starting_from(start.run)
                overrides = (*overrides, argument("init_from", str(run.init_from)))
            yield Wanted(sweep.name_of(run.card.name), run, overrides, start)


def _starts(item: Item, sweep: Sweep, chosen: Mapping[str, str]) -> dict[tuple[int, int], Wanted]:
    """The run that each (split, seed) of a sweep starts from, for some values of its other keys."""
    if sweep.start is None:
        return {}
    shared = {key: (chosen[key],) if key in chosen else sweep.values[key] for key in SHARED}
    found = list(wanted(item, replace(sweep.start, values={**sweep.start.values, **shared})))
    starts = {(each.run.split, each.run.seed): each for each in found}
    if len(starts) < len(found):
        raise UserError(f"{item.name} has several runs of {found[0].series} for one to start from; narrow them to one")
    return starts


def _texts(chosen: Mapping[str, str]) -> list[str]:
    return [argument(key, value) for key, value in chosen.items()]


def _check_names(item: Item, sweep: Sweep) -> None:
    """What an item names must exist: a method or protocol may not be there yet."""
    for group in groups.GROUPS:
        for name in sweep.values.get(group, ()):
            if not groups.exists(group, name):
                raise UserError(
                    f"{item.name} needs {group}={name}, which is not installed; exclude it with {group}=..."
                )
