"""Carries out a list of runs: in this process one after the other, or in several workers of one thread each.

A run ends as an ``Outcome`` and never raises; one that starts from another waits until that one is done. What memory a
run does not free ends with its worker, after ``MAX_TASKS`` runs; a worker that is killed costs the run it had, with
those that start from it, and no other.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from dgpbench.experiments.starts import blocked, chains, waiting
from dgpbench.runs import limits
from dgpbench.runs.outcomes import Outcome
from dgpbench.runs.resolve import Run
from dgpbench.system import interrupts

if TYPE_CHECKING:
    from concurrent.futures import Future

MAX_TASKS = 20
STEP_SECONDS = 30.0  # that a worker may take to reach the end of its step
Report = Callable[[int, Run, Outcome], None]


def engine(runs: Sequence[Run], workers: int, report: Report = lambda number, run, outcome: None) -> list[Outcome]:
    """Carry out all runs; ``report`` is called for each as it ends, with the number that have ended."""
    ended = _here(runs) if workers == 1 else _in_workers(runs, workers)
    outcomes = []
    for run, outcome in ended:
        outcomes.append(outcome)
        report(len(outcomes), run, outcome)
    return outcomes


def one_run(run: Run) -> Outcome:
    """One run, whatever happens: what is no record is an outcome."""
    from dgpbench.runs.execute import execute

    return execute(run)


def _in_worker(run: Run) -> Outcome:
    """One run in a worker, which SIGTERM ends with a checkpoint; Ctrl-C is the parent's, which then sends SIGTERM."""
    with interrupts.handled([signal.SIGTERM]):
        try:
            return one_run(run)
        except KeyboardInterrupt:
            os._exit(interrupts.EXIT_CODES["SIGTERM"])  # no next run


def _end_with_parent() -> None:
    """Have this worker end, with a checkpoint, when its parent is killed: nobody else would tell it to."""
    threading.Thread(target=_end_after, args=(multiprocessing.parent_process(),), daemon=True).start()


def _end_after(parent: Any) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STEP_SECONDS)
    os._exit(interrupts.EXIT_CODES["SIGTERM"])


def _here(runs: Sequence[Run]) -> Iterator[tuple[Run, Outcome]]:
    ended: dict[Path, Outcome] = {}
    for run in (run for chain in chains(runs) for run in chain):
        ended[run.directory] = blocked(run, ended) or one_run(run)
        yield run, ended[run.directory]


def _in_workers(runs: Sequence[Run], workers: int) -> Iterator[tuple[Run, Outcome]]:
    """Runs in a pool; processes are spawned, since a forked TensorFlow does not work."""
    from multiprocessing import active_children, get_context

    from pebble import ProcessPool

    others = set(active_children())
    spawning = get_context("spawn")
    pool = ProcessPool(workers, MAX_TASKS, initializer=_end_with_parent, context=spawning)
    try:
        yield from _as_they_end(
            runs, lambda run: pool.schedule(_in_worker, (run.without_progress(),), timeout=_limit(run))
        )
        pool.close()
    finally:
        pool.stop()
        _end_workers(others)
        pool.join()


def _as_they_end(runs: Sequence[Run], schedule: Callable[[Run], "Future"]) -> Iterator[tuple[Run, Outcome]]:
    """Schedule every run that waits for no other, and behind each that is done those that start from it."""
    ready, after = waiting(runs)
    ended: SimpleQueue[Future] = SimpleQueue()
    running: dict[Future, Run] = {}

    def begin(run: Run) -> None:
        future = schedule(run)
        running[future] = run
        future.add_done_callback(ended.put)

    def settle(run: Run, outcome: Outcome) -> Iterator[tuple[Run, Outcome]]:
        yield run, outcome
        for each in after.get(run.directory, ()):
            stopped = blocked(each, {run.directory: outcome})
            if stopped is None:
                begin(each)
            else:
                yield from settle(each, stopped)

    for run in ready:
        begin(run)
    while running:
        future = ended.get()
        yield from settle(running.pop(future), _outcome(future))


def _limit(run: Run) -> float | None:
    """Seconds after which a worker is killed that neither its own limit nor its watchdog has ended."""
    return None if run.limits.seconds is None else run.limits.seconds + 10 * limits.GRACE_SECONDS


def _end_workers(others: set) -> None:
    """Ask every worker to stop, at the end of its step and with a checkpoint, and wait: the pool itself waits 3 s."""
    from multiprocessing import active_children

    workers = set(active_children()) - others
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(STEP_SECONDS)


def _outcome(future: "Future") -> Outcome:
    """What a worker sent back, or how it died."""
    from pebble import ProcessExpired

    try:
        return future.result()
    except ProcessExpired as death:
        return _death(death.exitcode)
    except TimeoutError:
        return Outcome("timeout", None, f"{limits.HUNG}, from outside and without a record")
    except Exception as problem:
        return Outcome("failed", None, f"{type(problem).__name__}: {problem}")


def _death(code: int) -> Outcome:
    """What the exit code of a worker says, which is minus the signal's number where a signal ended it."""
    if code in (limits.EXIT_CODE_OF_WORKER, -limits.ENDING):
        return Outcome("timeout", None, limits.HUNG)
    how = f"was killed (signal {-code})" if code < 0 else f"ended with exit code {code}"
    return Outcome("failed", None, f"the worker {how}; the next call tries again")


def terminal_report(total: int) -> Report:
    """One line on standard error for each run that ends, and why those failed that did; the same reason once."""
    said: set[str] = set()

    def report(number: int, run: Run, outcome: Outcome) -> None:
        axes = run.identity
        what = f"method={axes.method} method.num_layers={axes.num_layers} dataset={axes.dataset} split={axes.split}"
        print(f"[{number}/{total}] {outcome.status:<9} {what}", file=sys.stderr, flush=True)
        if outcome.status not in ("done", "skipped") and outcome.message not in said:
            said.add(outcome.message)
            print(outcome.message, file=sys.stderr, flush=True)

    return report
