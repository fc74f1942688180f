"""Runs that start where others end: each begins when the run that it starts from is done, or not at all."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dgpbench.runs.outcomes import Outcome
from dgpbench.runs.resolve import Run

ENDED_WELL = ("done", "skipped")


def waiting(runs: Sequence[Run]) -> tuple[list[Run], dict[Path, list[Run]]]:
    """The runs that wait for none of the others, and by the directory of the run that they start from those that do."""
    among = {run.directory for run in runs}
    ready: list[Run] = []
    after: dict[Path, list[Run]] = {}
    for run in runs:
        if run.start is not None and run.start in among:
            after.setdefault(run.start, []).append(run)
        else:
            ready.append(run)
    return ready, after


def chains(runs: Sequence[Run]) -> list[list[Run]]:
    """Each run that waits for none of the others, and behind it those that start from it, directly or not."""
    ready, after = waiting(runs)

    def chain(run: Run) -> list[Run]:
        return [run, *(each for following in after.get(run.directory, ()) for each in chain(following))]

    return [chain(run) for run in ready]


def blocked(run: Run, ended: Mapping[Path, Outcome]) -> Outcome | None:
    """What is said of a run whose start is among those that ended, and is not done; None where it can begin."""
    before = None if run.start is None else ended.get(run.start)
    if before is None or before.status in ENDED_WELL:
        return None
    how = f"the run it starts from, {run.start}, ended as {before.status}"
    return Outcome("blocked", None, f"{run.directory} was not run: {how}")
