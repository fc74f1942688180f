"""Which files a plug-in's file imports that no package manager knows: its author's own modules beside it."""

import ast
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
OURS = Path(__file__).resolve().parents[1]


def imported_files(path: Path) -> list[Path]:
    """The files of all modules that a file imports, and that these import, in the order of their paths.

    Modules of Python, of installed packages and of dgpbench are known by their versions, and left out.
    """
    found: set[Path] = set()
    left = [path.resolve()] if path.suffix == ".py" else []  # an entry point may lead to a compiled module
    while left:
        new = {file for name in _names(left.pop()) if (file := _file(name)) is not None} - found - {path.resolve()}
        found |= new
        left += new
    return sorted(found)


def _names(path: Path) -> Iterator[str]:
    """The modules that a file's import statements name, wherever they stand; ``from a import b`` may name a.b."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _file(name: str) -> Path | None:
    """The file of an author's own module; None for what is installed, built in or no module at all."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or not _is_own(top):  # to look for a.b is to import a
        return None
    try:
        spec = find_spec(name)
    except (ImportError, AttributeError, ValueError):  # what is imported from a module need not be one
        return None
    return Path(spec.origin).resolve() if spec and spec.origin and spec.origin.endswith(".py") else None


def _is_own(top: str) -> bool:
    """Whether a module, or the folder of a package, lies outside Python, its installed packages and dgpbench."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return False
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    paths = [Path(place).resolve() for place in places if Path(place).exists() and place]
    return bool(paths) and not any(path.is_relative_to(folder) for path in paths for folder in (*INSTALLED, OURS))
