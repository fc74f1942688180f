"""Execute a list of runs: one after the other in this process, or in several workers of one thread each.

A run ends as an ``Outcome`` and never raises. A run with a warm start waits until the run that it starts from is done.
Workers are replaced after ``MAX_TASKS`` runs, which frees leaked memory. A killed worker costs its current run and the
runs that start from it, and no other.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from dgpbench.methods.plugins import load, loaded
from dgpbench.runs import limits
from dgpbench.runs.outcomes import Outcome
from dgpbench.runs.resolve import Run
from dgpbench.system import interrupts

if TYPE_CHECKING:
    from concurrent.futures import Future

MAX_TASKS = 20
STEP_SECONDS = 30.0  # enough for a worker to reach the end of its step
ENDED_WELL = ("done", "skipped")
Report = Callable[[int, Run, Outcome], None]


def engine(runs: Sequence[Run], workers: int, report: Report = lambda number, run, outcome: None) -> list[Outcome]:
    """Execute all runs; ``report`` is called for each as it ends, with the number that have ended."""

    def here() -> Iterator[tuple[Run, Outcome]]:
        ended: dict[Path, Outcome] = {}
        for run in chain.from_iterable(chains(runs)):
            ended[run.directory] = blocked(run, ended) or one_run(run)
            yield run, ended[run.directory]

    outcomes: list[Outcome] = []
    for run, outcome in here() if workers == 1 else _in_workers(runs, workers):
        outcomes.append(outcome)
        report(len(outcomes), run, outcome)
    return outcomes


def one_run(run: Run) -> Outcome:
    """Execute one run; errors become an Outcome."""
    from dgpbench.runs.execute import execute

    return execute(run)


def engine_of_cells(runs: Sequence[Run], report: Report) -> list[Outcome]:
    """Execute runs that differ in their split alone as one, where their method allows it, and the others singly."""
    from dgpbench.runs.execute import execute_together
    from dgpbench.runs.fit import trains_together

    cells: dict[str, list[Run]] = {}
    rest = []
    for run in runs:
        if trains_together(run):
            cells.setdefault(replace(run, split=0).config_hash, []).append(run)
        else:
            rest.append(run)
    outcomes: list[Outcome] = []
    for cell in cells.values():
        for run, outcome in zip(cell, execute_together(cell), strict=True):
            outcomes.append(outcome)
            report(len(outcomes), run, outcome)
    return outcomes + engine(rest, 1, lambda number, run, outcome: report(len(outcomes) + number, run, outcome))


def terminal_report(total: int) -> Report:
    """Print a line on standard error for each run that ends, and the reason of a failure once."""
    printed: set[str] = set()

    def report(number: int, run: Run, outcome: Outcome) -> None:
        axes = run.identity
        what = f"method={axes.method} method.num_layers={axes.num_layers} dataset={axes.dataset} split={axes.split}"
        print(f"[{number}/{total}] {outcome.status:<9} {what}", file=sys.stderr, flush=True)
        if outcome.status not in ENDED_WELL and outcome.message not in printed:
            printed.add(outcome.message)
            print(outcome.message, file=sys.stderr, flush=True)

    return report


# Warm starts ----------------------------------------------------------------------------------------------------------


def waiting(runs: Sequence[Run]) -> tuple[list[Run], dict[Path, list[Run]]]:
    """Return the runs that wait for no other, and the others by the directory of the run that they start from."""
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
    """Return a list for each run that waits for no other: itself and all that start from it, directly or not."""
    ready, after = waiting(runs)

    def following(run: Run) -> list[Run]:
        return [run, *chain.from_iterable(map(following, after.get(run.directory, ())))]

    return list(map(following, ready))


def blocked(run: Run, ended: Mapping[Path, Outcome]) -> Outcome | None:
    """Return the outcome of a run that cannot start because the run before it failed; None if it can start."""
    before = None if run.start is None else ended.get(run.start)
    if before is None or before.status in ENDED_WELL:
        return None
    why = f"the run it starts from, {run.start}, ended as {before.status}"
    return Outcome("blocked", None, f"{run.directory} was not run: {why}")


# Workers --------------------------------------------------------------------------------------------------------------


def _in_workers(runs: Sequence[Run], workers: int) -> Iterator[tuple[Run, Outcome]]:
    """Execute runs in a pool of spawned processes: a forked TensorFlow does not work."""
    from pebble import ProcessPool

    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPool(workers, MAX_TASKS, initializer=_start_worker, initargs=[loaded()], context=context)

    def schedule(run: Run) -> "Future":
        seconds = run.limits.seconds  # the pool kills a worker that ignores its own limit and its watchdog
        limit = None if seconds is None else seconds + 10 * limits.GRACE_SECONDS
        return pool.schedule(_in_worker, (run.without_progress(),), timeout=limit)

    try:
        yield from _as_they_end(runs, schedule)
        pool.close()
    finally:
        pool.stop()
        # Workers stop at the end of their step, with a checkpoint; the pool itself waits only 3 s.
        stopping = set(multiprocessing.active_children()) - others
        for worker in stopping:
            worker.terminate()
        for worker in stopping:
            worker.join(STEP_SECONDS)
        pool.join()


def _in_worker(run: Run) -> Outcome:
    """Execute one run in a worker; SIGTERM ends it with a checkpoint. On Ctrl-C the parent sends SIGTERM."""
    with interrupts.handled([signal.SIGTERM]):
        try:
            return one_run(run)
        except KeyboardInterrupt:
            os._exit(interrupts.EXIT_CODES["SIGTERM"])  # without starting its next run


def _start_worker(plug_ins: Sequence[str]) -> None:
    """Load the parent's plug-ins: a method may use another one by its name, as ``conformal`` does."""
    _end_with_parent()
    for location in plug_ins:
        load(location)


def _end_with_parent() -> None:
    """End this worker, with a checkpoint, when its parent is killed: no other process would."""

    def end_after(parent: Any) -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STEP_SECONDS)
        os._exit(interrupts.EXIT_CODES["SIGTERM"])

    threading.Thread(target=end_after, args=(multiprocessing.parent_process(),), daemon=True).start()


def _as_they_end(runs: Sequence[Run], schedule: Callable[[Run], "Future"]) -> Iterator[tuple[Run, Outcome]]:
    """Schedule every run that waits for no other, and each of the others when the run that it starts from is done."""
    ready, after = waiting(runs)
    ended: SimpleQueue[Future] = SimpleQueue()
    running: dict[Future, Run] = {}

    def begin(run: Run) -> None:
        future = schedule(run)
        running[future] = run
        future.add_done_callback(ended.put)

    def settle(run: Run, outcome: Outcome) -> Iterator[tuple[Run, Outcome]]:
        yield run, outcome
        for following in after.get(run.directory, ()):
            stopped = blocked(following, {run.directory: outcome})
            if stopped is None:
                begin(following)
            else:
                yield from settle(following, stopped)

    for run in ready:
        begin(run)
    while running:
        future = ended.get()
        yield from settle(running.pop(future), _outcome(future))


def _outcome(future: "Future") -> Outcome:
    """Return the outcome from a worker, or the cause of its death."""
    from pebble import ProcessExpired

    try:
        return future.result()
    except ProcessExpired as death:
        code = death.exitcode  # minus the signal's number, after a signal
        if code in (limits.EXIT_CODE_OF_WORKER, -limits.ENDING):
            return Outcome("timeout", None, limits.HUNG)
        how = f"was killed (signal {-code})" if code < 0 else f"ended with exit code {code}"
        return Outcome("failed", None, f"the worker {how}; rerun the same command to try again")
    except TimeoutError:
        return Outcome("timeout", None, f"{limits.HUNG}, from outside and without a record")
    except Exception as problem:
        return Outcome("failed", None, f"{type(problem).__name__}: {problem}")
