"""SIGKILL at any moment: half-written files are never read, and resumed runs end in the same bits."""

import os
import random
import signal
import time

import pytest
from fault_tools import EVERY_STEP, TINY, the_record, until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgpbench.runs import store
from dgpbench.runs.identity import Identity

RUN = ["run", *TINY]


@pytest.fixture(scope="module")
def whole(fork_server, tmp_path_factory):
    """(scores, seconds) of a run that nothing disturbed."""
    folder, start = tmp_path_factory.mktemp("whole"), time.monotonic()
    fork_server.run(RUN, folder, **EVERY_STEP)
    return the_record(folder)["scores"], time.monotonic() - start


@pytest.mark.parametrize("moment", range(10))
def test_a_run_killed_at_any_moment_resumes_to_the_same_bits(moment, whole, fork_server, tmp_path):
    scores, seconds = whole
    job = fork_server.start(RUN, tmp_path, **EVERY_STEP)
    time.sleep(random.Random(moment).uniform(0.0, seconds))
    _kill_and_go_on(job, scores, fork_server, tmp_path)


@pytest.mark.parametrize("moment", range(10))
def test_a_run_killed_after_a_checkpoint_resumes_to_the_same_bits(moment, whole, fork_server, tmp_path):
    scores, _ = whole
    job = fork_server.start(RUN, tmp_path, **EVERY_STEP)
    until(lambda: list(tmp_path.rglob("step-*.npz")) or list(tmp_path.rglob(store.RECORD)))
    time.sleep(random.Random(100 + moment).uniform(0.0, 0.5))
    _kill_and_go_on(job, scores, fork_server, tmp_path)


def _kill_and_go_on(job, scores, fork_server, folder) -> None:
    os.kill(job.pid, signal.SIGKILL)
    assert job.wait() in (-signal.SIGKILL, 0)  # 0: it had just ended, and its exit code was not read yet
    fork_server.run(RUN, folder, **EVERY_STEP)
    assert the_record(folder)["scores"] == scores
    assert not list(folder.rglob("step-*"))


WRITER = """
import itertools, numpy as np, pandas as pd
from one_record import directory_of, record_of
from dgpbench.runs.identity import Identity
from dgpbench.runs import store
for number in itertools.count():
    points = pd.DataFrame({"row": np.arange(20_000), "pit": np.full(20_000, float(number))})
    record, posterior = record_of(scores={"tll": float(number)}), {"m": np.full(50_000, number)}
    store.write_run(directory_of(arguments[0]), record, points, None, posterior)
"""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(delay=st.floats(0.0, 0.4))
def test_a_record_killed_while_written_is_never_half_read(delay, fork_server, tmp_path):
    directory, code = _directory(tmp_path), f"import sys; sys.path.insert(0, {str(_tests())!r})\n{WRITER}"
    job = fork_server.start([str(tmp_path)], tmp_path, code=code)
    end = time.monotonic() + delay
    while time.monotonic() < end:
        _read(directory)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    record = _read(directory)
    assert record is None or store.verify_run(directory) == []


def _read(directory):
    """Return the record, or None if it does not exist; a damaged one raises."""
    try:
        return store.read_record(directory / store.RECORD)
    except FileNotFoundError:
        return None


def _tests():
    from pathlib import Path

    return Path(__file__).parents[1]


def _directory(root):
    who = {"task": "interpolation", "dataset": "boston", "method": "star", "num_layers": 3}
    how = {"protocol": "lindinger2020", "budget": "paper", "split": 0, "seed": 0}
    return Identity(**who, **how).directory(root)
