"""The code of a plug-in: its file, the author's own modules that it imports, and the digest of them all."""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

ENTRY_POINT = "entry point "
INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
OURS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Source:
    """The location and the digest of a method's code.

    :param location: a file's path, or ``entry point NAME``
    :param digest: of the code
    :param file: the file that holds it, where that is known
    """

    location: str
    digest: str
    file: Path | None = field(default=None, compare=False)

    @classmethod
    def of_file(cls, path: Path) -> "Source":
        """Return the source of a file; its digest covers the author's own modules that it imports."""
        files = (path, *imported_files(path))
        digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:16]
        return cls(str(path.resolve()), digest, path)


def imported_packages(path: Path) -> list[str]:
    """Return the installed packages that a file and its author's own modules import, by their distribution names."""
    known = packages_distributions()
    files = (path, *imported_files(path)) if path.suffix == ".py" else ()
    tops = {name.partition(".")[0] for file in files for name, level in _names(file) if level == 0}
    return sorted({package for top in tops for package in known.get(top, ())} - {"dgpbench"})


def imported_files(path: Path) -> list[Path]:
    """Return the files of all modules that a file imports, directly or not, sorted.

    Modules of Python, of installed packages and of dgpbench are left out: their versions identify them.
    """
    files: set[Path] = set()
    left = [path.resolve()] if path.suffix == ".py" else []  # an entry point may lead to a compiled module
    while left:
        new = set(_files(left.pop())) - files - {path.resolve()}
        files |= new
        left += new
    return sorted(files)


def _files(path: Path) -> Iterator[Path]:
    """Yield the files that a file's import statements name; importing a.b runs a too."""
    for name, level in _names(path):
        parts = [part for part in name.split(".") if part]
        for count in range(0 if level else 1, len(parts) + 1):
            file = _beside(path, level, parts[:count]) if level else _file(".".join(parts[:count]))
            if file is not None:
                yield file


def _names(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the names in all import statements, with the number of leading dots; ``from a import b`` may name a.b."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:  # a module that is imported under conditions only
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, 0) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield module, node.level
            yield from ((f"{module}.{each.name}", node.level) for each in node.names)


def _beside(path: Path, level: int, parts: list[str]) -> Path | None:
    """Return the file that ``from .a import b`` names: in the folder of its file for one dot, above that for more."""
    folder = path.parents[min(level, len(path.parents)) - 1]
    *above, last = parts or ["__init__"]
    candidates = (folder.joinpath(*above, f"{last}.py"), folder.joinpath(*parts, "__init__.py"))
    return next((file.resolve() for file in candidates if file.is_file()), None)


def _file(name: str) -> Path | None:
    """Return the file of an author's own module; None for what is installed, built in or not a module."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or not _is_own(top):  # find_spec("a.b") imports a
        return None
    try:
        spec = find_spec(name)
    except (ImportError, AttributeError, ValueError):  # a name imported from a module need not be a module
        return None
    return Path(spec.origin).resolve() if spec and spec.origin and spec.origin.endswith(".py") else None


def _is_own(top: str) -> bool:
    """Return whether a module or package lies outside Python, its installed packages and dgpbench."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return False
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    paths = [Path(place).resolve() for place in places if Path(place).exists() and place]
    return bool(paths) and not any(path.is_relative_to(folder) for path in paths for folder in (*INSTALLED, OURS))
