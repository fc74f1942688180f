"""A long sweep needs no more memory than a short one, in one process and in a pool."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
from fault_tools import TINY

from dgpbench.runs import store

RUNS, WARM = 30, 5  # the first few runs fill caches and allocators
# One run's graphs take some 13 MB: kept, they add 330 MB in 25 runs, 130 MB in a worker's 10. Allocators sway by a few.
BOUND = 64 * 2**20
WEIGHING = """
import psutil
from dgpbench.runs import execute as flow
execute = flow.execute
def weighed(*given):
    outcome = execute(*given)
    print("weighs", psutil.Process().memory_info().rss)
    return outcome
flow.execute = weighed
from dgpbench.cli import main
code = main(arguments)
"""


def test_thirty_runs_in_one_process_need_no_more_memory_than_five(fork_server, tmp_path):
    sweep = ["run", *TINY, f"split=range({RUNS})", "--multirun"]
    job = fork_server.run(sweep, tmp_path, code=WEIGHING)
    weights = [int(line.split()[1]) for line in job.text.splitlines() if line.startswith("weighs ")]
    assert len(weights) == RUNS
    assert max(weights[WARM:]) - weights[WARM - 1] < BOUND


def test_thirty_runs_in_a_pool_need_no_more_memory_than_five_a_worker(tmp_path):
    runs = ["dataset=boston", "method=mf,star", "method.num_layers=2,3", "split=range(8)"]  # which need no download
    item = ["lindinger2020_table1", *runs, "budget=smoke", "method.num_inducing=8", "training.max_iterations=60"]
    command = [sys.executable, "-m", "dgpbench", "reproduce", *item, "--workers", "2"]
    with (tmp_path / "log.txt").open("w") as log:
        pool = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
        weights = _weighed(pool, tmp_path)
    assert pool.returncode == 0, (tmp_path / "log.txt").read_text()
    assert len(list(store.find_records(tmp_path / "results"))) >= RUNS
    early = max(weight for done, weight in weights if done <= 2 * WARM)
    assert max(weight for _, weight in weights) - early < BOUND


def _weighed(pool: subprocess.Popen, folder: Path) -> list[tuple[int, int]]:
    """(runs done, bytes of the heaviest worker), several times a second until the pool ends."""
    weights = []
    while pool.poll() is None:
        done = sum(1 for _ in folder.rglob(store.RECORD))
        weights.append((done, max(map(_weight, psutil.Process(pool.pid).children(recursive=True)), default=0)))
        time.sleep(0.2)
    return weights


def _weight(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
