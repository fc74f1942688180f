"""``dgpbench doctor``: versions, threads, cache, and what is missing, with how to fix it."""

import json
import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from importlib import metadata
from typing import Any, NamedTuple

from dgpbench.commands.console import add_json

NOT_LISTED = ("dev", "site", "gpu")  # extras of this repository, and one whose line is that of the GPU


class Check(NamedTuple):
    """One line: ``ok`` is None for information."""

    name: str
    found: str
    ok: bool | None
    fix: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    add_json(parser)


def doctor(options: Namespace) -> int:
    """Print every check; return 1 if something is broken."""
    checks = list(_checks())
    if options.json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            mark = {True: "ok ", False: "BAD", None: "   "}[check.ok]
            print(f"{mark} {check.name:<24} {check.found}{'; ' + check.fix if check.fix else ''}")
    return int(any(check.ok is False for check in checks))


def _checks() -> Iterator[Check]:
    """Check Python, the requirements in our metadata, that the large packages can be imported, and the machine."""
    import psutil

    from dgpbench.data import datasets
    from dgpbench.system import tf_session

    fine = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield Check(
        "python", platform.python_version(), fine, "" if fine else "dgpbench runs on Python 3.11, 3.12 and 3.13"
    )
    for requirement in _required(""):
        found, fine = _installed(requirement)
        fix = "" if fine else f"pip install '{requirement.name}{requirement.specifier}'"
        yield Check(requirement.name, found, fine, fix)
    try:
        tf_session.start(1, "float64")
        import pyarrow  # noqa: F401  its newest versions install beside numpy 1 but cannot be imported
        import tensorflow_probability  # noqa: F401  checks that it fits TensorFlow
    except ImportError as problem:
        yield Check("imports", str(problem).splitlines()[0], False, "the versions above do not work together")
    else:
        yield Check("imports", "tensorflow, gpflow, tensorflow_probability and pyarrow", True)
    for extra in metadata.metadata("dgpbench").get_all("Provides-Extra") or []:
        for requirement in _required(extra) if extra not in NOT_LISTED else ():
            found, fine = _installed(requirement)
            fix = "" if fine else f"pip install 'dgpbench[{extra}]'"
            yield Check(f"extra {extra}", f"{requirement.name} {found}", None, fix)
    cache, mirror, files = datasets.where()
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        names = [tf_session.gpu_name(each) for each in tf.config.list_physical_devices("GPU")]
        how = "device=gpu computes on it" if names else "pip install 'dgpbench[gpu]' for an NVIDIA GPU"
        yield Check("GPU", ", ".join(names) or "none", None, how)
    yield Check("cores", str(os.cpu_count()), None, "num_threads= sets how many one run uses (default 1)")
    yield Check("memory", f"{psutil.virtual_memory().total / 2**30:.0f} GiB", None)
    yield Check("cache", f"{cache} ({len(files)} files)", None, "DGPBENCH_CACHE moves it")
    yield Check("mirror", str(mirror or "none"), None, "" if mirror else "DGPBENCH_MIRROR names one")


def _required(extra: str) -> list[Any]:
    """Return the requirements of our own metadata, or those that an extra adds."""
    from packaging.requirements import Requirement

    def holds(requirement: Requirement, extra: str) -> bool:
        return requirement.marker is None or requirement.marker.evaluate({"extra": extra})

    every = [Requirement(text) for text in metadata.requires("dgpbench") or []]
    return [each for each in every if holds(each, extra) and not (extra and holds(each, ""))]


def _installed(requirement: Any) -> tuple[str, bool]:
    """Return the installed version, and whether it fulfils the requirement."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return "not installed", False
    return version, requirement.specifier.contains(version, prereleases=True)
