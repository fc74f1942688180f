"""Which files a plug-in's file imports that no package manager knows: its author's own modules beside it."""

import ast
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
OURS = Path(__file__).resolve().parents[1]


def imported_packages(path: Path) -> list[str]:
    """The installed packages that a file, or a module of its author's, imports, by what they are installed as."""
    known = packages_distributions()
    files = (path, *imported_files(path)) if path.suffix == ".py" else ()
    tops = {name.partition(".")[0] for file in files for name, level in _names(file) if level == 0}
    return sorted({package for top in tops for package in known.get(top, ())} - {"dgpbench"})


def imported_files(path: Path) -> list[Path]:
    """The files of all modules that a file imports, and that these import, in the order of their paths.

    Modules of Python, of installed packages and of dgpbench are known by their versions, and left out.
    """
    found: set[Path] = set()
    left = [path.resolve()] if path.suffix == ".py" else []  # an entry point may lead to a compiled module
    while left:
        new = set(_files(left.pop())) - found - {path.resolve()}
        found |= new
        left += new
    return sorted(found)


def _files(path: Path) -> Iterator[Path]:
    """The files that a file's import statements name; to import a.b runs a too."""
    for name, level in _names(path):
        parts = [part for part in name.split(".") if part]
        for count in range(0 if level else 1, len(parts) + 1):
            file = _beside(path, level, parts[:count]) if level else _file(".".join(parts[:count]))
            if file is not None:
                yield file


def _names(path: Path) -> Iterator[tuple[str, int]]:
    """What import statements name, wherever they stand, with their dots; ``from a import b`` may name a.b."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:  # of a module that is imported under conditions
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, 0) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield module, node.level
            yield from ((f"{module}.{each.name}", node.level) for each in node.names)


def _beside(path: Path, level: int, parts: list[str]) -> Path | None:
    """The file that ``from .a import b`` names: in the folder of its file for one dot, above that for more."""
    folder = path.parents[min(level, len(path.parents)) - 1]
    *above, last = parts or ["__init__"]
    candidates = (folder.joinpath(*above, f"{last}.py"), folder.joinpath(*parts, "__init__.py"))
    return next((file.resolve() for file in candidates if file.is_file()), None)


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
