"""Where plug-ins come from: an entry point of an installed package, or a file that the command line names.

Nothing is loaded unless its name is asked for, but for our own baselines by `list methods`; no data file and no record
names code.
"""

import copyreg
import sys
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.methods.contract import settings_class
from dgpbench.methods.settings import MethodSettings
from dgpbench.plugins.method import ENTRY_POINT, Method, Settings, Source, is_loaded, location_of, register

GROUP = "dgpbench.methods"
FLAG = "--plugin"
OURS = "dgpbench 0.1.0"  # whatever the version: records of this package's methods are told apart by their commits


def load(location: str) -> list[str]:
    """Load what a ``Source`` says, or a file; the names of its methods."""
    if location.startswith(ENTRY_POINT):
        return load_entry_point(location.removeprefix(ENTRY_POINT))
    return load_file(Path(location))


def loaded() -> list[str]:
    """Where the code of every loaded plug-in is, each place once: what another process gives to ``load``."""
    return list(dict.fromkeys(location_of(name) for name in groups.added("method")))


def load_file(path: str | Path) -> list[str]:
    """Run a Python file and register every ``Method`` that stands in it under a name, but for imported baselines.

    Modules beside it can be imported, as when Python runs the file.

    :raises UserError: where it is not there, fails, or holds none
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise UserError(f"{FLAG} {path}: there is no such file")
    module_name = f"dgpbench_plugin_{path.stem}"
    spec = spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{FLAG} {path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickles look for it there
    if (folder := str(path.parent.resolve())) not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as problem:
        raise UserError(f"{FLAG} {path} cannot be loaded: {type(problem).__name__}: {problem}") from problem
    found = [value for value in vars(module).values() if isinstance(value, Method) and not _is_offered(value)]
    if not found:
        raise UserError(f"{FLAG} {path} holds no Method, as in METHOD = Method('my_method', fit, MySettings)")
    for method in found:
        _add(method, Source.of_file(path))
    return [method.name for method in found]


def load_entry_point(name: str) -> list[str]:
    """Load the method that an installed package offers under a name.

    :raises UserError: where none does, or it cannot be imported
    """
    point = _points().get(name)
    if point is None:
        raise UserError(f"no installed package offers a method named {name} (entry points of the group {GROUP})")
    try:
        method = point.load()
    except UserError:
        raise
    except (Exception, SystemExit) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise UserError(f"method={name}, the entry point {point.value}, cannot be imported: {why}") from problem
    if not isinstance(method, Method) or method.name != name:
        raise UserError(f"the entry point {name} = {point.value} is no Method of that name")
    found = find_spec(point.module)
    file = Source.of_file(Path(found.origin)) if found and found.origin and Path(found.origin).is_file() else None
    _add(method, Source(f"{ENTRY_POINT}{name}", _digest(point, file), file.file if file else None))
    return [name]


def _is_offered(method: Method) -> bool:
    """Whether it is the very method that an installed package offers under its name."""
    point = _points().get(method.name)
    return point is not None and point.module in sys.modules and point.load() is method


def _add(method: Method, source: Source) -> None:
    """Register a method, whose settings then travel to a worker by where its code is."""
    register(method, source)
    copyreg.pickle(method.settings, _reduced)


def _reduced(settings: Settings) -> tuple[Any, ...]:
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return _again, (location_of(settings.name), values)


def _again(location: str, values: dict[str, Any]) -> MethodSettings:
    if not is_loaded(values["name"]):  # a worker goes on with the code that it began with
        load(location)
    return settings_class(groups.describe("method", values["name"])["family"])(**values)


def find(group: str, name: str) -> bool:
    """For ``groups.find_by``: load a method by its name where an installed package offers it."""
    return group == "method" and name in _points() and bool(load_entry_point(name))


def offers(group: str) -> list[str]:
    """For ``groups.find_by``: the methods that installed packages offer."""
    return list(_points()) if group == "method" else []


def take_flags(arguments: list[str]) -> list[str]:
    """The arguments without ``--plugin FILE``, whose files are loaded."""
    left, given = [], iter(arguments)
    for argument in given:
        flag, equals, value = argument.partition("=")
        if flag != FLAG:
            left.append(argument)
            continue
        path = value if equals else next(given, None)
        if not path:
            raise UserError(f"{FLAG} needs a file, as in {FLAG} my_method.py")
        load_file(path)
    return left


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _digest(point: EntryPoint, file: Source | None) -> str:
    """The version of the package that it comes from, and the digest of its file, if it has one."""
    if point.dist and point.dist.name == "dgpbench":
        return OURS
    version = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    return version if file is None else f"{version} {file.digest}"
