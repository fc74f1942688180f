"""Every test here is a row of the fault table and carries the marker ``faults``: ``make test-faults`` runs them."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fault_tools import TINY, ForkServer, mounted

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.faults)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    process = ForkServer()
    yield process
    process.end()


@pytest.fixture(scope="session")
def httpserver_listen_address() -> tuple[str, int]:
    return ("127.0.0.1", 0)


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., int]:
    """``dgpbench run`` of a tiny run in this process; its exit code."""
    from dgpbench.cli import main

    def run(*overrides: str, folder: Path = tmp_path / "results") -> int:
        return main(["run", *TINY, f"results_dir={folder}", *overrides])

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a tmpfs, such as ``disk("size=64k")``, and remounts it when called again."""
    target = tmp_path / "disk"
    target.mkdir()

    def disk(options: str) -> Path:
        again = "remount," if target.is_mount() else ""
        if not mounted(target, f"{again}{options}"):
            pytest.skip("mounting a small tmpfs needs root")
        return target

    yield disk
    if target.is_mount():
        subprocess.run(["umount", "-l", str(target)], check=True)
