"""Wall-clock limit of a run, ``timeout_minutes``, also where a step never returns.

1. Between steps ``Monitor.check`` raises ``TimedOut``; the run can be resumed from its checkpoint.
2. A grace period later, SIGALRM raises ``TimedOut`` wherever Python waits; a sweep continues.
3. One more grace period later, where C code does not return, a thread writes the record and ends the process.
4. Where C code also holds Python's lock, so that no thread runs, another process writes the record and kills this one:

       python -m dgpbench.runs.limits

   It reads a line of JSON (pid, seconds, directory, record), then nothing until the run ends and closes the pipe.
"""

import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dgpbench.config.canonical import plain
from dgpbench.errors import TimedOut, UserError
from dgpbench.runs import store

GRACE_SECONDS = 30.0  # for the step under way
DYING_SECONDS = 5.0
EXIT_CODE = 1
EXIT_CODE_OF_WORKER = 124  # as timeout(1) has it: a worker that fails in some other way ends with 1
# It has no handler; by its exit code a pool distinguishes a hang from a worker killed for lack of memory.
ENDING = signal.SIGVTALRM
HUNG = "the run passed its limit (timeout_minutes) and did not respond; its process was terminated"


@contextmanager
def limited(
    seconds: float | None, directory: Path, record: Callable[[], Mapping[str, Any]], write: Callable[[str], object]
) -> Iterator[None]:
    """End the block where it hangs past its limit.

    :param seconds: the limit; None for none
    :param record: the record that another process writes to the run's directory if no thread can run
    :param write: writes the record in this process, given the stack of the main thread
    """
    if seconds is None:
        yield
        return
    grace = min(GRACE_SECONDS, seconds)
    request = {
        "pid": os.getpid(),
        "seconds": seconds + 2.5 * grace,
        "directory": os.path.abspath(directory),
        "record": plain(record(), str),
    }
    with _other_process(json.dumps(request)), _alarm_and_thread(seconds, grace, write):
        yield


@contextmanager
def _alarm_and_thread(seconds: float, grace: float, write: Callable[[str], object]) -> Iterator[None]:
    """Raise ``TimedOut`` in the main thread one grace period late; end the process two grace periods late."""
    ended, deciding = threading.Event(), threading.Lock()
    main = threading.main_thread().ident
    assert main is not None  # it was started
    in_main_thread = threading.get_ident() == main  # which alone may set handlers

    def raise_timed_out(_number, _frame) -> None:
        raise TimedOut(f"the run passed its limit of {seconds / 60:g} minutes (timeout_minutes) within one step")

    def watch() -> None:
        if ended.wait(seconds + grace):
            return
        if in_main_thread:
            with deciding:
                if ended.is_set():
                    return
                signal.pthread_kill(main, signal.SIGALRM)
            if ended.wait(grace):
                return
        with deciding:
            if ended.is_set():
                return
            try:
                write("".join(traceback.format_stack(sys._current_frames()[main])))
                print(f"dgpbench: {HUNG}", file=sys.stderr, flush=True)
            finally:  # sys.exit would wait for the thread that hangs
                os._exit(EXIT_CODE if multiprocessing.parent_process() is None else EXIT_CODE_OF_WORKER)

    handler = signal.signal(signal.SIGALRM, raise_timed_out) if in_main_thread else None
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        try:
            with deciding:  # either the block has ended in time or it is being ended, never both
                ended.set()
        finally:  # the signal may arrive as late as here
            ended.set()
            if in_main_thread:
                signal.signal(signal.SIGALRM, handler)


@contextmanager
def _other_process(request: str) -> Iterator[None]:
    """Start the process that ends this one; without it where no process can be started."""
    process = None
    with suppress(OSError):
        process = subprocess.Popen(
            [sys.executable, "-m", "dgpbench.runs.limits"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the run
        )
        assert process.stdin is not None  # a pipe
        process.stdin.write(f"{request}\n")
        process.stdin.flush()
    try:
        yield
    finally:
        if process is not None:
            try:
                process.communicate(timeout=DYING_SECONDS)  # closes its standard input
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# In the other process -------------------------------------------------------------------------------------------------


def main() -> None:
    """Wait for the end of the run or of its time; then stop the run, write its record under its lock, and kill it."""
    begin = time.monotonic()
    with open(0, "rb", buffering=0) as run:  # unbuffered, so that select sees what is left to read
        line = run.readline()
        request = json.loads(line) if line else None
        if request is None or _ends_within(run, request["seconds"]):
            return
        pid = request["pid"]
        _send(pid, signal.SIGSTOP)
        if _ends_within(run, 0):  # just in time
            _send(pid, signal.SIGCONT)
            return
        try:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            facts = {"finished": now, "seconds": {"total": time.monotonic() - begin}}
            write_if_newer(Path(request["directory"]), request["record"] | facts)
        except UserError as refusal:
            print(f"dgpbench: {refusal}", file=sys.stderr, flush=True)
        finally:
            print(f"dgpbench: {HUNG}", file=sys.stderr, flush=True)
            for number in (ENDING, signal.SIGKILL):
                _send(pid, number)
                _send(pid, signal.SIGCONT)  # which delivers the other signal first
                if _ends_within(run, DYING_SECONDS):
                    break


def _ends_within(run, seconds: float) -> bool:  # it closes the pipe, or dies, which closes it too
    return bool(select.select([run], [], [], seconds)[0])


def _send(pid: int, number: int) -> None:
    if os.getppid() == pid:  # else the run has ended, and its number may be another's by now
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def write_if_newer(directory: Path, record: Mapping[str, Any]) -> None:
    """Write the record, unless the run has written its own after all."""
    stored = store.read_if_present(directory)
    if stored is None or (stored.get("started") or "") < record["started"]:
        store.write_run(directory, record)


if __name__ == "__main__":
    main()
