"""Carries out a list of runs: in this process one after the other, or in several workers of one thread each.

A run is a list of overrides; it ends as an ``Outcome`` and never raises. TensorFlow leaks some 17 MB with each model,
so workers are renewed after ``MAX_TASKS`` runs; a worker that is killed costs the run it had, and no other.
"""

import sys
from collections.abc import Callable, Iterator, Sequence

from dgpbench.outcomes import Outcome

MAX_TASKS = 20
Overrides = tuple[str, ...]
Report = Callable[[int, Overrides, Outcome], None]


def engine(
    runs: Sequence[Overrides], workers: int, report: Report = lambda number, run, outcome: None
) -> list[Outcome]:
    """Carry out all runs; ``report`` is told of each as it ends, with the number that have ended."""
    ended = _here(runs) if workers == 1 else _in_workers(runs, workers)
    outcomes = []
    for run, outcome in ended:
        outcomes.append(outcome)
        report(len(outcomes), run, outcome)
    return outcomes


def one_run(overrides: Overrides) -> Outcome:
    """One run, whatever happens: what is no record is an outcome."""
    from dgpbench import config
    from dgpbench.errors import Refused
    from dgpbench.run import execute

    try:
        return execute(config.compose(overrides))
    except Refused as refusal:
        return Outcome("refused", None, f"dgpbench: {refusal}")


def _here(runs: Sequence[Overrides]) -> Iterator[tuple[Overrides, Outcome]]:
    for run in runs:
        yield run, one_run(run)


def _in_workers(runs: Sequence[Overrides], workers: int) -> Iterator[tuple[Overrides, Outcome]]:
    """Runs in a pool; processes are spawned, since a forked TensorFlow does not work."""
    from concurrent.futures import as_completed
    from multiprocessing import get_context

    from pebble import ProcessPool

    pool = ProcessPool(max_workers=workers, max_tasks=MAX_TASKS, context=get_context("spawn"))
    try:
        futures = {pool.schedule(one_run, args=((*run, "progress=false"),)): run for run in runs}
        for future in as_completed(futures):
            yield futures[future], _outcome(future)
        pool.close()
    finally:
        pool.stop()
        pool.join()


def _outcome(future) -> Outcome:
    """What a worker sent back, or how it died."""
    from pebble import ProcessExpired

    try:
        return future.result()
    except ProcessExpired as death:
        return Outcome("failed", None, f"the worker was killed (exit code {death.exitcode}); the next call tries again")
    except Exception as problem:
        return Outcome("failed", None, f"{type(problem).__name__}: {problem}")


def terminal_report(total: int) -> Report:
    """One line on standard error for each run that ends."""

    def report(number: int, run: Overrides, outcome: Outcome) -> None:
        what = " ".join(text for text in run if text.startswith(("method", "dataset=", "split=")))
        print(f"[{number}/{total}] {outcome.status:<9} {what}", file=sys.stderr, flush=True)
        if outcome.status not in ("done", "skipped"):
            print(outcome.message, file=sys.stderr, flush=True)

    return report
