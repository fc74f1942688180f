"""``reproduce``: runs what an item still lacks, then renders what there is."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dgpbench.experiments import engine
from dgpbench.experiments.items import Item
from dgpbench.experiments.plan import BLOCKED, BROKEN, CONFLICT, MISSING, Planned, plan_of
from dgpbench.runs import outcomes
from dgpbench.runs.resolve import Run
from dgpbench.system.progress import counted


@dataclass(frozen=True)
class Reproduction:
    """How it went: the runs that were planned, the outcomes of those carried out, and the old failures left alone."""

    planned: list[Planned]
    ended: list[outcomes.Outcome]
    kept_failures: int

    def exit_code(self) -> int:
        """That of the outcomes; 1 where earlier failures stay."""
        return max(outcomes.exit_code(self.ended), int(self.kept_failures > 0))


def to_do(runs: list[Planned], *, retry_failed: bool) -> list[Planned]:
    """The missing runs, and those in conflict so that they are refused aloud; failed ones, and what waits for them, on
    request."""
    states = (MISSING, CONFLICT, BROKEN, BLOCKED) if retry_failed else (MISSING, CONFLICT)
    return [run for run in runs if run.state in states]


def say_blocked(runs: list[Planned], say: Callable[[str], None]) -> None:
    """Name each run that cannot be carried out, and why."""
    for each in runs:
        if each.state == BLOCKED:
            say(f"not run: {each.why}")


def complete(
    item: Item,
    *,
    retry_failed: bool = False,
    workers: int = 1,
    say: Callable[[str], None] = print,
    report: Callable[[int], engine.Report] = engine.terminal_report,
    carry_out: Callable[..., list[outcomes.Outcome]] = engine.engine,
) -> Reproduction:
    """Carry out the missing runs of an item.

    :param report: from the number of runs to the function that is called for each as it ends
    :param carry_out: ``engine.engine``, or what a test puts in its place
    """
    runs = plan_of(item)
    todo = to_do(runs, retry_failed=retry_failed)
    left = [] if retry_failed else [each for each in runs if each.state in (BROKEN, BLOCKED)]
    say(f"{item.name}: {counted(len(runs), 'run')}, {len(todo):,} to do")
    say_blocked(left, say)
    ended = carry_out(runs_of(todo, item), workers, report(len(todo))) if todo else []
    return Reproduction(runs, ended, sum(each.state == BROKEN for each in left))


def runs_of(planned: list[Planned], item: Item) -> list[Run]:
    """What to carry out: without a picture of each single run, unless it was asked for."""
    pictures = "plot" in item.external
    return [replace(each.run, limits=replace(each.run.limits, plot=pictures)) for each in planned]
