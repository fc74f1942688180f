"""``dgpbench doctor``: versions, threads, cache, and what is missing, each with what mends it."""

import json
import os
import platform
import re
import sys
from argparse import Namespace
from importlib import metadata
from typing import Any, NamedTuple


class Check(NamedTuple):
    """One line: ``ok`` is None for what is merely worth knowing."""

    name: str
    found: str
    ok: bool | None
    mend: str = ""


def doctor(options: Namespace) -> int:
    """Print every check; exit code 1 where something is broken."""
    checks = [_python(), *_packages(), _tensorflow(), *_extras(), *_machine(), *_data()]
    if options.json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            mark = {True: "ok ", False: "BAD", None: "   "}[check.ok]
            print(f"{mark} {check.name:<24} {check.found}{'; ' + check.mend if check.mend else ''}")
    return int(any(check.ok is False for check in checks))


def _python() -> Check:
    fine = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Check(
        "python", platform.python_version(), fine, "" if fine else "dgpbench runs on Python 3.11, 3.12 and 3.13"
    )


def _packages() -> list[Check]:
    """Every runtime requirement of our own metadata, against what is installed."""
    checks = []
    for requirement in _required(""):
        found, fine = _found(requirement)
        checks.append(Check(requirement.name, found, fine, "" if fine else f"pip install '{_plain(requirement)}'"))
    return checks


def _required(extra: str) -> list[Any]:
    """The requirements of our own metadata, or those that an extra adds."""
    from packaging.requirements import Requirement

    def holds(requirement: Requirement, extra: str) -> bool:
        return requirement.marker is None or requirement.marker.evaluate({"extra": extra})

    every = [Requirement(text) for text in metadata.requires("dgpbench") or []]
    return [each for each in every if holds(each, extra) and not (extra and holds(each, ""))]


def _found(requirement: Any) -> tuple[str, bool]:
    """The version that is installed, and whether it is one that we take."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return "not installed", False
    return version, requirement.specifier.contains(version, prereleases=True)


def _plain(requirement: Any) -> str:
    return re.sub(r"\[.*?\]", "", f"{requirement.name}{requirement.specifier}")


def _tensorflow() -> Check:
    from dgpbench.system import tf_session

    try:
        tf_session.start(1, "float64")
        import pyarrow  # noqa: F401  its newest versions install beside numpy 1 but cannot be imported
        import tensorflow_probability  # noqa: F401
    except ImportError as problem:
        return Check("imports", str(problem).splitlines()[0], False, "the versions above do not work together")
    return Check("imports", "tensorflow, gpflow, tensorflow_probability and pyarrow", True)


def _extras() -> list[Check]:
    """What each extra of our own metadata adds, but for the one of developers."""
    checks = []
    for extra in metadata.metadata("dgpbench").get_all("Provides-Extra") or []:
        for requirement in _required(extra) if extra != "dev" else ():
            found, fine = _found(requirement)
            mend = "" if fine else f"in a checkout, pip install '.[{extra}]'"
            checks.append(Check(f"extra {extra}", f"{requirement.name} {found}", None, mend))
    return checks


def _machine() -> list[Check]:
    import psutil

    gigabytes = psutil.virtual_memory().total / 2**30
    return [
        Check("cores", str(os.cpu_count()), None, "num_threads= sets how many one run uses (default 1)"),
        Check("memory", f"{gigabytes:.0f} GiB", None),
    ]


def _data() -> list[Check]:
    from dgpbench.data import datasets

    where = datasets.where()
    return [
        Check("cache", f"{where.cache} ({len(where.files)} files)", None, "DGPBENCH_CACHE moves it"),
        Check("mirror", where.mirror or "none", None, "" if where.mirror else "DGPBENCH_MIRROR names one"),
    ]
