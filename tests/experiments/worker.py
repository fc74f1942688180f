"""In place of a worker's run: spawned processes see no other patch, and find this file by its name."""

import signal
import time

from dgpbench.runs import store
from dgpbench.runs.outcomes import Outcome
from dgpbench.system import interrupts


def after_its_start(run):
    """Take longer if other runs start from this one; fail on split 0, and if the start has left no mark yet."""
    if run.split == 0 and run.start is None:
        return Outcome("failed", None, "a toy failure")
    if run.start is not None and not (run.start / "mark").exists():
        return Outcome("refused", None, f"{run.start} was not there")
    if run.start is None:
        time.sleep(0.5)
    run.directory.mkdir(parents=True)
    (run.directory / "mark").touch()
    assert store.read_if_present(run.directory) is None
    return Outcome("done", str(run.directory), "")


def until_told(run):
    """Work for a minute, and leave a mark on a signal to end."""
    run.directory.mkdir(parents=True)
    (run.directory / "begun").touch()
    with interrupts.handled([signal.SIGTERM]):
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            (run.directory / "ended").touch()
    return Outcome("done", str(run.directory), "")
