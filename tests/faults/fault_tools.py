"""What the rows of the fault table share: a tiny run, a warm worker, and how to wait for something to happen."""

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
    """A child of the zygote."""

    zygote: "Zygote"
    pid: int
    log: Path

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        return self.zygote.ask({"pid": self.pid})

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.log.read_text()


class Zygote:
    """The warm process; see ``zygote.py``."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
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
        return Job(self, self.ask(request | {"environment": environment}), log)

    def run(self, arguments: list[str], folder: Path, **more: str) -> Job:
        """Start and wait for exit code 0."""
        job = self.start(arguments, folder, **more)
        code = job.wait()
        assert code == 0, job.text
        return job

    def ask(self, request: dict):
        """One request, one answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self):
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        """End it, and whatever a test that failed has left running."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            child.kill()
        self.process.kill()
        self.process.wait(10)


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is true.

    :raises AssertionError: where that takes too long
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def the_record(folder: Path) -> dict:
    """The only record below a folder, its files checked."""
    (path,) = folder.rglob(store.RECORD)
    assert store.verify_run(path.parent) == []
    return store.read_record(path)


def one_sentence(text: str) -> str:
    """What a user is told of what cannot be done: one line, no traceback."""
    text = text.strip()
    assert text.startswith("dgpbench: "), text
    assert "\n" not in text, text
    assert "Traceback" not in text, text
    return text


def mounted(target: Path, options: str) -> bool:
    """Mount a tmpfs, or remount it; whether that could be done."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(target)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
