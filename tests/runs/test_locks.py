"""Locks: of several processes one carries a run out."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
from one_record import directory_of, record_of

from dgpbench.runs import store


def _run_once(directory: Path, started, ran) -> None:
    started.wait()
    with store.lock(directory):
        if store.read_if_present(directory) is None:
            ran.put(os.getpid())
            store.write_run(directory, record_of())


def test_of_three_racing_processes_one_runs_and_the_others_find_its_record(tmp_path):
    context = multiprocessing.get_context("spawn")
    started, ran, directory = context.Barrier(3), context.Queue(), directory_of(tmp_path)
    racers = [context.Process(target=_run_once, args=(directory, started, ran)) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert [racer.exitcode for racer in racers] == [0, 0, 0]
    ran.get(timeout=10)
    assert ran.empty()
    assert store.read_record(directory)["status"] == "done"


def test_a_held_run_keeps_others_out_until_it_is_let_go(tmp_path):
    directory = directory_of(tmp_path)
    attempt = (
        "import sys; from dgpbench.runs import store\n"
        "with store.lock(sys.argv[1], say=lambda text: print(text[:15], flush=True)): print('in')"
    )
    start = lambda: subprocess.Popen([sys.executable, "-c", attempt, directory], stdout=subprocess.PIPE, text=True)
    with store.lock(directory):
        with store.lock(directory_of(tmp_path, split=1)):
            pass  # another run is free
        waiting = start()
        assert waiting.stdout.readline() == "another process\n"
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=1)
    assert waiting.communicate(timeout=60)[0] == "in\n"
    assert start().communicate(timeout=60)[0] == "in\n"


def test_locks_lie_beside_the_runs_and_nowhere_else(tmp_path):
    with store.lock(directory_of(tmp_path)):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".locks"]
    with pytest.raises(ValueError, match="not the directory of a run"), store.lock(tmp_path):
        pass
