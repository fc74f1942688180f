"""Provenance of results: code, packages and machine, without names of hosts, users or folders; its free memory."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from dgpbench.system import tf_session

PACKAGES = ("tensorflow", "tensorflow-probability", "gpflow", "numpy", "scipy", "hydra-core")
SOURCE = Path(__file__).resolve().parents[2]
CGROUP = Path("/sys/fs/cgroup")


@cache  # the state at the first run, not at a later run of a sweep
def git_state(source: Path = SOURCE) -> dict[str, Any] | None:
    """Return the commit of the code, and whether code or configuration differ from it; None outside a checkout.

    A wheel in the environment of another repository is outside: the source must be the top of a checkout.
    """
    top, _, commit = (_git(source, "rev-parse", "--show-toplevel", "HEAD") or "").rpartition("\n")
    if not commit or Path(top).resolve() != source.resolve():
        return None
    changes = _git(source, "status", "--porcelain", "--", "dgpbench", "conf", "pyproject.toml")
    return {"commit": commit, "dirty": changes != ""}


def _git(folder: Path, *arguments: str) -> str | None:
    # Without optional locks, parallel runs do not wait for, or fail on, one another's refresh of git's index.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout.strip()


def versions(more: Sequence[str] = ()) -> dict[str, str | None]:
    """Return the versions of this package, Python and the packages that determine results; None if not installed.

    :param more: packages that a plug-in imports
    """
    from dgpbench import __version__

    found: dict[str, str | None] = {"dgpbench": __version__, "python": platform.python_version()}
    for package in (*PACKAGES, *more):
        found[package] = None
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def host(threads: int | None = None) -> dict[str, Any]:
    """Describe the machine: processor, cores of this process, memory in bytes, threads of this run, GPU, platform."""
    import psutil

    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "memory": psutil.virtual_memory().total,
        "threads": threads,
        "gpu": tf_session.gpu(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available() -> int:
    """Return the free bytes of memory of the machine, or of its container, where caches of files count as free."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        most, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        cached = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())["inactive_file"]
    except (OSError, ValueError):  # not in a container, or "max"
        return free
    return min(free, most - used + int(cached))


def processors() -> int:
    """Return the number of threads that the machine runs at a time, available to this process or not."""
    return os.cpu_count() or 1


def cpu_model(listing: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor from Linux's list, or elsewhere from Python: 'AMD EPYC (family 25, model 17)'.

    In a cloud, processors of several generations have the same name, and their vector units round differently.
    """
    if sys.platform == "linux" and listing.exists():
        lines = listing.read_text(errors="replace").splitlines()
        found = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        if "model name" in found:
            numbers = [f"{key.split()[-1]} {found[key]}" for key in ("cpu family", "model") if key in found]
            return f"{found['model name']} ({', '.join(numbers)})" if numbers else found["model name"]
    return platform.processor() or platform.machine()
