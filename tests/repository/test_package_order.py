"""Order of the packages, direction of imports, and modules that must not import TensorFlow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dgpbench

PACKAGE = Path(dgpbench.__file__).parent
# Each room imports those before it, and itself.
ROOMS = (
    *(
        "errors",
        "seeds",
        "system",
        "config",
        "predictive",
        "data",
        "gp",
        "training",
        "methods",
        "plugins",
        "runs",
        "baselines",
    ),
    *("saved_model", "estimator", "skpro_estimator", "scoringbench"),
    *("experiments", "report", "benchmarks", "commands", "cli", "__main__"),
)
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
# TensorFlow may be imported at the top of these rooms' files; elsewhere inside functions alone, or not at all.
TENSORFLOW_ROOMS = ("gp", "training", "methods")
HEAVY = {"tensorflow", "gpflow", "tensorflow_probability", "tf_keras"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> list[tuple[str, bool]]:
    """Return (module, whether at the top level) for every import of a file, including those for type checkers."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found += [(f"{node.module}.{name.name}", id(node) in top) for name in node.names]
        elif isinstance(node, ast.Import):
            found += [(name.name, id(node) in top) for name in node.names]
    return found


def own(path: Path) -> list[str]:
    """The dotted names that a file imports from the package."""
    return [name for name, _ in imported(path) if name.startswith("dgpbench.")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_from_its_own_package_and_those_before_it(path):
    allowed = ROOMS[: ROOMS.index(room_of(path)) + 1]
    wrong = [name for name in own(path) if name.split(".")[1] not in (*allowed, "__version__")]
    assert not wrong


def test_every_package_is_in_the_order_and_at_most_ten_files_are_at_top():
    assert {room_of(path) for path in FILES} == set(ROOMS)
    assert len(list(PACKAGE.glob("*.py"))) <= 10


def test_imports_have_no_cycle():
    modules = {".".join(("dgpbench", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in FILES}
    arrows = {module: {_module(name, modules) for name in own(path)} - {None} for module, path in modules.items()}
    done: set[str] = set()
    while ready := {module for module in arrows if module not in done and arrows[module] <= done}:
        done |= ready
    assert not set(arrows) - done


def _module(name: str, modules: dict[str, Path]) -> str | None:
    """The module that a dotted name is, or is in."""
    return next((known for known in (name, name.rpartition(".")[0]) if known in modules), None)


@pytest.mark.parametrize("path", [path for path in FILES if room_of(path) not in TENSORFLOW_ROOMS], ids=str)
def test_tensorflow_is_imported_at_the_top_in_its_packages_only(path):
    assert not {name.split(".")[0] for name, at_top in imported(path) if at_top} & HEAVY


@pytest.mark.parametrize(
    "module",
    [
        "cli",
        "runs.execute",
        "experiments.engine",
        "report.html",
        "commands.validate",
        "commands.predict",
        "estimator",
    ],
)
def test_an_entry_module_is_imported_without_tensorflow(module):
    code = f"import sys, dgpbench.{module}; assert not {HEAVY!r} & set(sys.modules), sorted(sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-500:]


def test_settings_are_attributes_and_never_looked_up_by_a_string():
    import re

    looked_up = re.compile(r"\b(run|method|training|prediction|task|limits|settings)(\.get\(|\[)\"")
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in FILES
        if room_of(path) not in ("config", "report", "commands")  # these read conf/ and records, which are files
        for line in path.read_text().splitlines()
        if looked_up.search(line)
    ]
    assert found == []
