"""Ends a run from another process, where C code that holds Python's lock and never returns stops every thread.

    python -m dgpbench.runs.timeout_process

reads a line of JSON (pid, seconds, directory, record), then nothing until the run ends. It writes the record that
the run then cannot write.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dgpbench.config.canonical import plain
from dgpbench.errors import UserError
from dgpbench.runs import store
from dgpbench.system import watchdog

ENDING = signal.SIGVTALRM  # has no handler; its exit code tells a pool a hang from a worker killed for lack of memory
DYING_SECONDS = 5.0


@contextmanager
def standing_by(seconds: float | None, directory: Path, record: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Have the block ended from outside, where it hangs and the watchdog's thread cannot run.

    :param seconds: the limit, or None for none; the watchdog has its two chances first
    :param record: what to write in that case
    """
    if seconds is None:
        yield
        return
    request = {
        "pid": os.getpid(),
        "seconds": seconds + 2.5 * min(watchdog.GRACE_SECONDS, seconds),
        "directory": os.path.abspath(directory),
        "record": plain(record(), str),
    }
    process = _start(json.dumps(request))
    try:
        yield
    finally:
        _dismiss(process)


def _start(request: str) -> subprocess.Popen | None:
    """None where there is no room for another process: the run does without."""
    with suppress(OSError):
        process = subprocess.Popen(
            [sys.executable, "-m", "dgpbench.runs.timeout_process"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the run
        )
        assert process.stdin is not None  # a pipe
        with suppress(OSError):
            process.stdin.write(f"{request}\n")
            process.stdin.flush()
        return process
    return None


def _dismiss(process: subprocess.Popen | None) -> None:
    if process is None:
        return
    try:
        process.communicate(timeout=DYING_SECONDS)  # closes its standard input
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# In the other process -------------------------------------------------------------------------------------------------


def main() -> int:
    """Wait for the end of the run, or of its time."""
    begin = time.monotonic()
    with open(0, "rb", buffering=0) as run:  # unbuffered, so that select sees what is left to read
        line = run.readline()
        if not line:
            return 0
        request = json.loads(line)
        if _ends_within(run, request["seconds"]):
            return 0
        return _end(run, request["pid"], Path(request["directory"]), request["record"], begin)


def _end(run, pid: int, directory: Path, record: Mapping[str, Any], begin: float) -> int:
    """Stop the run, write its record under the lock that it still holds, and end it.

    :param begin: ``time.monotonic()`` when the run began
    """
    _send(pid, signal.SIGSTOP)
    if _ends_within(run, 0):  # just in time
        _send(pid, signal.SIGCONT)
        return 0
    try:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        _write(directory, {**record, "finished": now, "seconds": {"total": time.monotonic() - begin}})
    except UserError as refusal:
        print(f"dgpbench: {refusal}", file=sys.stderr, flush=True)
    finally:
        print(f"dgpbench: {watchdog.HUNG}", file=sys.stderr, flush=True)
        _kill(run, pid)
    return 0


def _ends_within(run, seconds: float) -> bool:
    """Whether the run closes the pipe, or dies, which closes it too."""
    return bool(select.select([run], [], [], seconds)[0])


def _kill(run, pid: int) -> None:
    for number in (ENDING, signal.SIGKILL):
        _send(pid, number)
        _send(pid, signal.SIGCONT)  # which delivers the other signal first
        if _ends_within(run, DYING_SECONDS):
            return


def _send(pid: int, number: int) -> None:
    if os.getppid() == pid:  # else the run has ended, and its number may be another's by now
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _write(directory: Path, record: Mapping[str, Any]) -> None:
    """Write the record, unless the run has written its own after all."""
    there = store.read_if_present(directory)
    if there is None or there["started"] < record["started"]:
        store.write_run(directory, record)


if __name__ == "__main__":
    sys.exit(main())
