"""Tools of the fault table: a tiny run, a fork server, and waiting for a condition."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from dgpbench.runs import store

TINY = [
    "dataset=diabetes",
    "budget=smoke",
    "method=mf",
    "method.num_layers=2",
    "method.num_inducing=8",
    "training.max_iterations=60",
    "progress=false",
    "plot=false",
]
COMMAND = "from dgpbench.cli import main; code = main(arguments)"
EVERY_STEP = {"DGPBENCH_CHECKPOINT_SECONDS": "0"}


@dataclass(frozen=True)
class Job:
    """A child process of the fork server."""

    fork_server: "ForkServer"
    pid: int
    log: Path

    def wait(self) -> int:
        """Return the exit code, or minus the signal that ended the process."""
        return self.fork_server.request({"pid": self.pid})

    @property
    def text(self) -> str:
        """Printed output."""
        return self.log.read_text()


class ForkServer:
    """Client of ``fork_server.py``."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.count = 0
        assert self._answer() == "ready"

    def start(self, arguments: list[str], folder: Path, code: str = COMMAND, **environment: str) -> Job:
        """Start ``dgpbench ARGUMENTS`` in a folder, or other code."""
        self.count += 1
        log = folder / f"log-{self.count}.txt"
        request = {"arguments": arguments, "folder": str(folder), "code": code, "output": str(log)}
        return Job(self, self.request(request | {"environment": environment}), log)

    def run(self, arguments: list[str], folder: Path, **more: str) -> Job:
        """Start and wait for exit code 0."""
        job = self.start(arguments, folder, **more)
        code = job.wait()
        assert code == 0, job.text
        return job

    def request(self, request: dict):
        """Send a request and return the response."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self):
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        """Kill the server and all processes that a failed test has left running."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            child.kill()
        self.process.kill()
        self.process.wait(10)


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition is true.

    :raises AssertionError: after this many seconds
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def the_record(folder: Path) -> dict:
    """Return the only record below a folder, after verifying its files."""
    (path,) = folder.rglob(store.RECORD)
    assert store.verify_run(path.parent) == []
    return store.read_record(path)


def one_sentence(text: str) -> str:
    """Return an error message after checking that it is one line without a traceback."""
    text = text.strip()
    assert text.startswith("dgpbench: "), text
    assert "\n" not in text, text
    assert "Traceback" not in text, text
    return text


def mounted(target: Path, options: str) -> bool:
    """Mount or remount a tmpfs; return whether that succeeded."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(target)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
