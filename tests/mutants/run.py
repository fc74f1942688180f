"""Put known faults into a copy of the package one at a time, and ask whether the tests notice: ``make test-mutants``.

    python tests/mutants/run.py [NAME or FILE ...] [--workers 2] [--list]

The faults are the lists in the YAML files beside this one. Each entry has

    name          one name for one fault, in words joined by dashes
    file          the file of the package that it is put into
    piece         text that occurs there exactly once
    replacement   what stands there instead
    tests         the tests that must notice, as pytest names them
    review        true for the faults that an outside review had found unnoticed
    raises        the exception that the tests must end with, where it is one of BROKEN

A fault is noticed when a named test fails: on an assertion, or by an exception, which is printed. The exceptions of
BROKEN tell a fault that cannot run from one that was noticed: such an entry is an error of the list, unless it names
the exception under ``raises``. Tests that do not pass without the fault, a piece that is not there exactly once, and a
fault that stops pytest itself are errors of the list too. Exit code 0 where every fault is noticed, else 1.
TensorFlow is imported once: each fault's tests run in a fork of this process.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
COPIED = ("dgpbench", "conf", "data", "docs", "tests", "scripts", "results/reference", "pyproject.toml", "Makefile")
FAILED = 1  # pytest's exit code where tests failed
HUNG = -1
BROKEN = (SyntaxError, ImportError, NameError, AttributeError, TypeError)
IMPORTED = ("gpflow", "hydra", "hypothesis", "matplotlib.pyplot", "pandas", "scipy.stats", "sklearn.cluster")
SECONDS = 600.0  # a fault may make its tests hang


@dataclass(frozen=True)
class Mutant:
    """One fault, and the tests that must notice it."""

    name: str
    file: str
    piece: str
    replacement: str
    tests: tuple[str, ...]
    review: bool = False
    raises: str | None = None

    def apply(self, root: Path) -> str | None:
        """Put the fault into a copy; why that cannot be done, or None."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        text = path.read_text(encoding="utf-8")
        if text.count(self.piece) != 1:
            return f"the piece occurs {text.count(self.piece)} times in {self.file}, not once"
        path.write_text(text.replace(self.piece, self.replacement), encoding="utf-8")
        return None


def read_all(folder: Path = HERE) -> dict[str, list[Mutant]]:
    """The faults of each list, by the list's name."""
    return {path.stem: [_mutant(entry) for entry in yaml.safe_load(path.read_text())] for path in folder.glob("*.yaml")}


def _mutant(entry: dict) -> Mutant:
    return Mutant(**entry | {"tests": tuple(entry["tests"])})


def chosen(lists: dict[str, list[Mutant]], names: list[str]) -> list[Mutant]:
    """The faults of the named lists, or with these names; all where none is named."""
    everything = [mutant for name in sorted(lists) for mutant in lists[name]]
    if not names:
        return everything
    wanted = {mutant.name for name in names for mutant in lists.get(name, ())} | set(names)
    known = {mutant.name for mutant in everything} | set(lists)
    if unknown := sorted(set(names) - known):
        raise SystemExit(f"there is no fault and no list named {', '.join(unknown)}")
    return [mutant for mutant in everything if mutant.name in wanted]


def copy(target: Path) -> Path:
    """The package and its tests in a folder of their own."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "raw", "mutants"))
        elif source.is_file():
            shutil.copy2(source, target / name)
    shared = ROOT.parent / "shared"  # real data files, where they are; tests look for them beside the repository
    if shared.is_dir():
        (target.parent / "shared").symlink_to(shared, target_is_directory=True)
    return target


def run_tests(root: Path, tests: tuple[str, ...], log: Path) -> int:
    """Pytest's exit code for some tests of a copy, from a fork of this process, or HUNG."""
    process = get_context("fork").Process(target=_child, args=(root, tests, log))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        return HUNG
    return process.exitcode


class _Failure:
    """Pytest plug-in that writes the exception of a failed test beside the log: its class, and ``broken`` or not."""

    def __init__(self, log: Path) -> None:
        self.file = log.with_suffix(".failure")

    def pytest_exception_interact(self, call) -> None:
        kind = call.excinfo.type
        self.file.write_text(f"{kind.__name__}{' broken' if issubclass(kind, BROKEN) else ''}")


def _child(root: Path, tests: tuple[str, ...], log: Path) -> None:
    import pytest

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for handle in (1, 2):
        os.dup2(output, handle)
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root)  # for the processes that tests start
    sys.path.insert(0, str(root))
    options = ["-x", "-q", "-c", str(root / "pyproject.toml"), "--rootdir", str(root)]
    code = pytest.main([*options, *tests], plugins=[_Failure(log)])
    sys.stdout.flush()
    os._exit(int(code))


def try_one(mutant: Mutant) -> tuple[Mutant, str, float]:
    """'noticed' and by which exception, 'UNNOTICED' or what is wrong with the entry; and the seconds it took."""
    begin = time.perf_counter()
    with TemporaryDirectory(prefix="mutant-") as folder:
        root = copy(Path(folder, "repository"))
        verdict = mutant.apply(root)
        if verdict is None:
            log = Path(folder, "log.txt")
            verdict = _verdict(mutant, run_tests(root, mutant.tests, log), log)
    return mutant, verdict, time.perf_counter() - begin


def _verdict(mutant: Mutant, code: int, log: Path) -> str:
    if code == 0:
        return "UNNOTICED"
    if code == HUNG:
        return "noticed, hung"
    if code != FAILED:
        return f"pytest ended with {code}: {_last_line(log)}"
    kind, _, broken = log.with_suffix(".failure").read_text().partition(" ")
    if kind == mutant.raises or not (broken or mutant.raises):
        return "noticed" if kind in ("AssertionError", "Failed") else f"noticed, {kind}"
    return f"BROKEN, the tests end with {kind}: {_last_line(log)}"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return lines[-1] if lines else "no output"


def without_faults(mutants: list[Mutant], workers: int) -> Iterator[str]:
    """The named tests on an unchanged copy, a fork for each file of tests; a sentence for each that does not pass."""
    by_file: dict[str, set[str]] = {}
    for test in {test for mutant in mutants for test in mutant.tests}:
        by_file.setdefault(test.split("::")[0], set()).add(test)
    with TemporaryDirectory(prefix="mutant-") as folder, ThreadPoolExecutor(workers) as pool:
        root = copy(Path(folder, "repository"))
        logs = [Path(folder, f"log-{number}.txt") for number in range(len(by_file))]
        tests = [tuple(sorted(each)) for each in by_file.values()]
        codes = pool.map(run_tests, [root] * len(tests), tests, logs)
        for file, code, log in zip(by_file, codes, logs, strict=True):
            if code != 0:
                yield f"without any fault, pytest ends with {code} on {file}: {_last_line(log)}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Do the tests notice known faults?")
    parser.add_argument("names", nargs="*", help="faults or lists of faults; all where none is named")
    parser.add_argument("--workers", type=int, default=2, help="faults tried at the same time")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    options = parser.parse_args(arguments)
    mutants = chosen(read_all(), options.names)
    if options.list:
        print(*(f"{mutant.name}  {mutant.file}" for mutant in mutants), sep="\n")
        return 0
    begin = time.perf_counter()
    _import_once()
    wrong = list(without_faults(mutants, options.workers))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    noticed = 0
    with ThreadPoolExecutor(options.workers) as pool:
        for mutant, verdict, seconds in pool.map(try_one, mutants):
            noticed += verdict.startswith("noticed")
            print(f"{verdict:10} {mutant.name:60} {seconds:6.1f} s  {mutant.file}", flush=True)
    seconds = time.perf_counter() - begin
    reviewed = sum(mutant.review for mutant in mutants)
    print(f"{noticed} of {len(mutants)} faults noticed ({reviewed} of the list are the review's), {seconds:.0f} s")
    return 0 if noticed == len(mutants) and not wrong else 1


def _import_once() -> None:
    """What nearly every test imports; TensorFlow is not started, since a started one does not survive a fork."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("MPLBACKEND", "Agg")
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")
    errors = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # TensorFlow's chatter at import comes from C++
    for name in IMPORTED:
        import_module(name)
    os.dup2(errors, 2)


if __name__ == "__main__":
    sys.exit(main())
