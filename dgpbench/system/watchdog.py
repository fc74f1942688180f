"""Ends a run that hangs: where no step returns, the run's own log never gets to look at its limit.

Two chances: a signal, which ends whatever Python waits for, so that the record is written and a sweep goes on; then,
where C++ never returns, a thread that writes the record itself and ends the process. Where no thread can run either,
``runs.timeout_process`` ends the process.
"""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dgpbench.errors import TimedOut

GRACE_SECONDS = 30.0  # for the run's own log, which keeps more: a step may be under way
EXIT_CODE = 1
EXIT_CODE_OF_WORKER = 124  # as timeout(1) has it: a worker that fails in some other way ends with 1
HUNG = "the run passed its limit (timeout_minutes) and did not answer: its process was ended"


@contextmanager
def limited(seconds: float | None, last_words: Callable[[str], object]) -> Iterator[None]:
    """Watch over the block for as long as it may take.

    :param seconds: the limit, or None for none
    :param last_words: called, with where the main thread hangs, before the process is ended
    """
    if seconds is None:
        yield
        return
    ended, deciding = threading.Event(), threading.Lock()
    handler = _raising(seconds)
    watcher = threading.Thread(
        target=_watch, args=(seconds, ended, deciding, last_words, handler is not None), daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        try:
            with deciding:  # either the block has ended in time or it is being ended, never both
                ended.set()
        finally:  # the signal may arrive as late as here
            ended.set()
            if handler is not None:
                signal.signal(signal.SIGALRM, handler)


def _raising(seconds: float):
    """Have SIGALRM raise TimedOut in the main thread; the previous handler, or None outside the main thread."""

    def raise_timed_out(_number, _frame) -> None:
        raise TimedOut(f"the run passed its limit of {seconds / 60:g} minutes (timeout_minutes) within one step")

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        return None
    return signal.signal(signal.SIGALRM, raise_timed_out)


def _watch(seconds: float, ended: threading.Event, deciding: threading.Lock, last_words, by_signal: bool) -> None:
    main, grace = threading.main_thread().ident, min(GRACE_SECONDS, seconds)
    assert main is not None  # it was started
    if ended.wait(seconds + grace):
        return
    if by_signal:
        with deciding:
            if ended.is_set():
                return
            signal.pthread_kill(main, signal.SIGALRM)
        if ended.wait(grace):
            return
    with deciding:
        if not ended.is_set():
            _end(main, last_words)


def _end(main: int, last_words) -> None:
    try:
        last_words("".join(traceback.format_stack(sys._current_frames()[main])))
        print(f"dgpbench: {HUNG}", file=sys.stderr, flush=True)
    finally:
        # sys.exit would wait for the thread that hangs.
        os._exit(EXIT_CODE if multiprocessing.parent_process() is None else EXIT_CODE_OF_WORKER)
