"""Put known faults into a copy of the package one at a time, and check that the tests fail: ``make test-mutants``.

    python tests/mutants/run.py [NAME or FILE ...] [--workers 2] [--list]

The faults are the lists in the YAML files beside this one. Each entry has

    name          name of the fault, words joined by dashes
    function      the function or class that gets the fault: ``marginalise``, ``DeepGP.sample``; with its module,
                  ``layers.build``, if the name alone is not unique
    file          instead of a function: the file that gets the fault
    piece         code that occurs there exactly once; white space and line breaks do not count
    replacement   replacement code
    tests         tests that must fail: ``test_x`` or ``test_x[case]``; ``test_file.py::test_x`` if the name
                  alone is not unique
    review        true for faults that an outside review had found unnoticed
    raises        exception that the tests must end with, if it is one of BROKEN

A fault is noticed when a named test fails: on an assertion, or by an exception, which is printed. The exceptions of
BROKEN mean that the faulty code cannot run: such an entry is an error of the list, unless it names the exception under
``raises``. Tests that fail without the fault, a piece that does not occur exactly once, and a fault that stops pytest
itself are errors of the list too. The exit code is 0 if every fault is noticed, else 1.
TensorFlow is imported once: each fault's tests run in a fork of this process.
"""

import argparse
import ast
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
COPIED = (
    *("dgpbench", "conf", "data", "docs", "tests", "scripts", "results/reference", "pyproject.toml", "Makefile"),
    *("README.md", "GLOSSARY.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "constraints.txt", "constraints-3.13.txt"),
)
SOURCES = ("dgpbench", "scripts/docs")  # of the functions that faults are put into
FAILED = 1  # pytest's exit code where tests failed
HUNG = -1
BROKEN = (SyntaxError, ImportError, NameError, AttributeError, TypeError)
IMPORTED = ("gpflow", "hydra", "hypothesis", "matplotlib.pyplot", "pandas", "scipy.stats", "sklearn.cluster")
SECONDS = 600.0  # a fault may make its tests hang


@dataclass(frozen=True)
class Mutant:
    """A fault and the tests that must notice it."""

    name: str
    piece: str
    replacement: str
    tests: tuple[str, ...]
    function: str | None = None
    file: str | None = None
    review: bool = False
    raises: str | None = None

    def place(self) -> tuple[Path, int, int]:
        """Return the file and the range of characters that the fault replaces; raise LookupError if not unique."""
        if self.file is not None:
            path, begin, end = Path(self.file), 0, None
        else:
            found = _functions().get(self.function, [])
            if len(found) != 1:
                raise LookupError(f"{len(found)} functions are named {self.function}, not one")
            path, begin, end = found[0]
        text = (ROOT / path).read_text(encoding="utf-8")
        tokens = (re.escape(token) for token in re.findall(r"\w+|[^\w\s]", self.piece))
        matches = list(re.compile(r"\s*".join(tokens)).finditer(text, begin, len(text) if end is None else end))
        if len(matches) != 1:
            raise LookupError(f"the piece occurs {len(matches)} times in {self.function or path}, not once")
        return path, *matches[0].span()

    def faulty(self) -> tuple[Path, str]:
        """Return the file and its text with the fault."""
        path, begin, end = self.place()
        text = (ROOT / path).read_text(encoding="utf-8")
        return path, text[:begin] + self.replacement.strip() + text[end:]

    def node_ids(self) -> tuple[str, ...]:
        """Return the tests as pytest names them; raise LookupError if a name is not unique."""
        return tuple(map(_node_id, self.tests))

    def apply(self, root: Path) -> str | None:
        """Put the fault into a copy; return the problem if that fails, else None."""
        try:
            path, text = self.faulty()
        except (LookupError, OSError) as error:
            return str(error)
        (root / path).write_text(text, encoding="utf-8")
        return None


@cache
def _functions() -> dict[str, list[tuple[Path, int, int]]]:
    """Index functions and classes of SOURCES by every dotted end of their names: file, first and last character."""
    functions: dict[str, list[tuple[Path, int, int]]] = {}
    for path in (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        text, relative = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        starts = [0, *accumulate(len(line) for line in text.splitlines(keepends=True))]
        for names, node in _definitions(ast.parse(text), relative.with_suffix("").parts):
            first = min(each.lineno for each in (node, *node.decorator_list))
            place = (relative, starts[first - 1], starts[node.end_lineno])
            for length in range(1, len(names) + 1):
                functions.setdefault(".".join(names[-length:]), []).append(place)
    return functions


def _definitions(tree: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield (*names, node.name), node
            yield from _definitions(node, (*names, node.name))
        elif isinstance(node, ast.stmt):
            yield from _definitions(node, names)


@cache
def _test_files() -> dict[str, list[str]]:
    """Index the files that define each test, and each file by its name."""
    files: dict[str, list[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        relative = path.relative_to(ROOT).as_posix()
        for name in (path.name, *re.findall(r"^ *def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)):
            files.setdefault(name, []).append(relative)
    return files


def _node_id(test: str) -> str:
    file, _, name = test.rpartition("::")
    found = _test_files().get(file or name.partition("[")[0], [])
    if not file and name.endswith(".py"):
        found, name = _test_files().get(name, []), ""
    if len(found) != 1:
        raise LookupError(f"{len(found)} files have {file or name}, not one")
    return f"{found[0]}::{name}" if name else found[0]


def read_all(folder: Path = HERE) -> dict[str, list[Mutant]]:
    """Return the faults of each list, by the list's name."""
    return {path.stem: [_mutant(entry) for entry in yaml.safe_load(path.read_text())] for path in folder.glob("*.yaml")}


def _mutant(entry: dict) -> Mutant:
    return Mutant(**entry | {"tests": tuple(entry["tests"])})


def chosen(lists: dict[str, list[Mutant]], names: list[str]) -> list[Mutant]:
    """Return the faults of the named lists, or with these names; without names, all."""
    everything = [mutant for name in sorted(lists) for mutant in lists[name]]
    if not names:
        return everything
    wanted = {mutant.name for name in names for mutant in lists.get(name, ())} | set(names)
    known = {mutant.name for mutant in everything} | set(lists)
    if unknown := sorted(set(names) - known):
        raise SystemExit(f"unknown fault or list: {', '.join(unknown)}")
    return [mutant for mutant in everything if mutant.name in wanted]


def copy(target: Path) -> Path:
    """Copy the package and its tests to a folder."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "raw", "mutants"))
        elif source.is_file():
            shutil.copy2(source, target / name)
    shared = ROOT.parent / "shared"  # real data files, if present; tests look for them beside the repository
    if shared.is_dir():
        (target.parent / "shared").symlink_to(shared, target_is_directory=True)
    return target


def run_tests(root: Path, tests: tuple[str, ...], log: Path) -> int:
    """Run some tests of a copy in a fork of this process; return pytest's exit code or HUNG."""
    process = get_context("fork").Process(target=_child, args=(root, tests, log))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        return HUNG
    return process.exitcode


class _Failure:
    """Pytest plug-in that writes the exception class of a failed test, and ``broken`` or not, beside the log."""

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
    """Return the fault, 'noticed', 'UNNOTICED' or the problem of the entry, and the seconds."""
    begin = time.perf_counter()
    with TemporaryDirectory(prefix="mutant-") as folder:
        root = copy(Path(folder, "repository"))
        verdict = mutant.apply(root)
        if verdict is None:
            log = Path(folder, "log.txt")
            verdict = _verdict(mutant, run_tests(root, mutant.node_ids(), log), log)
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
    """Run the named tests on an unchanged copy, in a fork for each file; yield a sentence for each failure."""
    by_file: dict[str, set[str]] = {}
    for test in {test for mutant in mutants for test in mutant.node_ids()}:
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
    parser = argparse.ArgumentParser(description="Check that the tests notice known faults.")
    parser.add_argument("names", nargs="*", help="faults or lists of faults; default: all")
    parser.add_argument("--workers", type=int, default=2, help="faults tried at the same time")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    options = parser.parse_args(arguments)
    mutants = chosen(read_all(), options.names)
    if options.list:
        print(*(f"{mutant.name}  {mutant.function or mutant.file}" for mutant in mutants), sep="\n")
        return 0
    begin = time.perf_counter()
    _import_once()
    wrong = list(without_faults(mutants, options.workers))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    noticed = 0
    with ThreadPoolExecutor(options.workers) as pool:
        for mutant, verdict, seconds in pool.map(try_one, mutants):
            noticed += verdict.startswith("noticed")
            print(f"{verdict:10} {mutant.name:60} {seconds:6.1f} s  {mutant.function or mutant.file}", flush=True)
    seconds = time.perf_counter() - begin
    reviewed = sum(mutant.review for mutant in mutants)
    print(f"{noticed} of {len(mutants)} faults noticed ({reviewed} of the list are the review's), {seconds:.0f} s")
    return 0 if noticed == len(mutants) and not wrong else 1


def _import_once() -> None:
    """Import what nearly every test needs; TensorFlow is not started, since it does not survive a fork once started."""
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
