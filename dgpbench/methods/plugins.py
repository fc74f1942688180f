"""Plug-ins: methods from a file (``--plugin FILE``) or an entry point of an installed package.

A plug-in is loaded only when its name is used; `list methods` also loads our own baselines. No data file and no record
names code.
"""

import copyreg
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.config import groups
from dgpbench.config.compose import FACTS
from dgpbench.config.settings import declared
from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.methods.interface import OUTSIDE, Method, PlugIn, Seeds, Settings, checked, plug_ins, settings_class
from dgpbench.methods.plugin_code import ENTRY_POINT, Source, imported_packages
from dgpbench.methods.settings import MethodSettings
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.quantiles import Gaussian, Quantiles
from dgpbench.training.monitor import Monitor

GROUP = "dgpbench.methods"
FLAG = "--plugin"
OURS = "dgpbench 0.1.0"  # at every version: a record's commit identifies the code of this package's methods
TAKEN = (*FACTS, "kind", "num_layers", "budgets", "code")
# Packages that import no TensorFlow; code that imports others may need it.
LIGHT = frozenset({"numpy", "scipy", "pandas", "scikit-learn", "ngboost", "xgboost", "catboost", "lightgbm"})
LEVELS = tuple(np.round(np.concatenate([[0.005, 0.01, 0.025], np.arange(1, 20) / 20, [0.975, 0.99, 0.995]]), 3))


# Loading ------------------------------------------------------------------------------------------------------------


def load(location: str) -> list[str]:
    """Load the code at a ``Source``'s location, or a file; return the names of its methods."""
    if location.startswith(ENTRY_POINT):
        return load_entry_point(location.removeprefix(ENTRY_POINT))
    return load_file(Path(location))


def loaded() -> list[str]:
    """Return the location of every loaded plug-in's code, each once, for ``load`` in another process."""
    return list(dict.fromkeys(plug_in.source.location for plug_in in plug_ins.values()))


def load_file(path: str | Path) -> list[str]:
    """Run a Python file and register every ``Method`` that it defines; baselines that it imports stay as they are.

    It can import modules beside it, as when Python runs the file.

    :raises UserError: for a missing file, one that fails, or one without a ``Method``
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise UserError(f"{FLAG} {path}: file not found")
    module_name = f"dgpbench_plugin_{path.stem}"
    spec = spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{FLAG} {path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # where dataclasses and pickles look for it
    if (folder := str(path.parent.resolve())) not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as problem:
        raise UserError(f"{FLAG} {path} cannot be loaded: {type(problem).__name__}: {problem}") from problem
    methods = [value for value in vars(module).values() if isinstance(value, Method) and not _is_offered(value)]
    if not methods:
        raise UserError(f"{FLAG} {path} defines no Method, as in METHOD = Method('my_method', fit, MySettings)")
    for method in methods:
        register(method, Source.of_file(path))
    return [method.name for method in methods]


def load_entry_point(name: str) -> list[str]:
    """Load the method that an installed package offers under a name.

    :raises UserError: where none does, or where it cannot be imported
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
        raise UserError(f"the entry point {name} = {point.value} is not a Method of that name")
    spec = find_spec(point.module)
    file = Source.of_file(Path(spec.origin)) if spec and spec.origin and Path(spec.origin).is_file() else None
    register(method, Source(f"{ENTRY_POINT}{name}", _digest(point, file), file.file if file else None))
    return [name]


def _digest(point: EntryPoint, file: Source | None) -> str:
    """Return the version of the package that offers the method, and the digest of its file, if it has one."""
    if point.dist and point.dist.name == "dgpbench":
        return OURS
    version = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    return version if file is None else f"{version} {file.digest}"


def _is_offered(method: Method) -> bool:
    """Return whether it is the very object that an installed package offers under its name."""
    point = _points().get(method.name)
    return point is not None and point.module in sys.modules and point.load() is method


def find(group: str, name: str) -> bool:
    """Load a method by its name where an installed package offers it (for ``groups.find_by``)."""
    return group == "method" and name in _points() and bool(load_entry_point(name))


def offers(group: str) -> list[str]:
    """Return the methods that installed packages offer (for ``groups.find_by``)."""
    return list(_points()) if group == "method" else []


def take_flags(arguments: list[str]) -> list[str]:
    """Remove ``--plugin FILE`` from the arguments and load the files."""
    left, remaining = [], iter(arguments)
    for argument in remaining:
        flag, equals, value = argument.partition("=")
        if flag != FLAG:
            left.append(argument)
            continue
        path = value if equals else next(remaining, None)
        if not path:
            raise UserError(f"{FLAG} needs a file, as in {FLAG} my_method.py")
        load_file(path)
    return left


def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


# Registering --------------------------------------------------------------------------------------------------------


def register(method: Method, source: Source) -> None:
    """Make ``method=NAME`` work: in conf/, in Hydra, in the registry of plug-ins, and in worker processes.

    :raises UserError: for a name that is taken, or settings without defaults
    """
    known = plug_ins.get(method.name)
    if known is not None and known.source == source:
        return
    offered = (name for name in groups.offered("method") if source.location != f"{ENTRY_POINT}{name}")
    taken = {*groups.names("method"), *offered}
    if known is not None or method.name in taken:
        raise UserError(f"a method named {method.name} already exists; rename the plug-in's")
    _check(method)
    defaults = _defaults(method)
    facts: dict[str, Any] = {
        "name": method.name,
        "title": method.title or method.name,
        "citation": method.citation,
        "family": f"{OUTSIDE}{method.name}",
        "objective": "objective",
        "single_layer": True,
        "optimisers": ["own"],
        "precisions": ["float64"],
        "num_layers": 1,
    }
    plug_ins[method.name] = PlugIn(checked(method), source)
    budgets = {name: dict(values) for name, values in method.budgets.items()}
    groups.add("method", method.name, facts | defaults | {"budgets": budgets})
    copyreg.pickle(method.settings, _reduce)
    _add_to_hydra(facts, {key: f"${{budgeted:{key}}}" for key in defaults})


def _reduce(settings: MethodSettings) -> tuple[Any, ...]:
    """Pickle the settings of a plug-in by the location of its code and their values."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return _rebuild, (location_of(settings.name), values)


def _rebuild(location: str, values: dict[str, Any]) -> MethodSettings:
    if not is_loaded(values["name"]):  # a worker continues with the code that it started with
        load(location)
    return settings_class(f"{OUTSIDE}{values['name']}")(**values)


def location_of(name: str) -> str:
    """Return the location of a method's code."""
    return plug_ins[name].source.location


def packages_of(name: str) -> list[str]:
    """Return the packages that a plug-in's code imports; none for a method of ours."""
    file = plug_ins[name].source.file if name in plug_ins else None
    return [] if file is None else imported_packages(file)


def needs_tensorflow(name: str) -> bool:
    """Return whether a method may use TensorFlow: ours do, and plug-ins unless their import statements exclude it."""
    file = plug_ins[name].source.file if name in plug_ins else None
    return file is None or file.suffix != ".py" or not LIGHT.issuperset(imported_packages(file))


def is_loaded(name: str) -> bool:
    """Return whether a method is a loaded plug-in."""
    return name in plug_ins


def is_of_this_code(recorded: Mapping[str, Any]) -> bool:
    """Return whether the method's settings in a record are of the loaded code; true where none is loaded."""
    digest, name = recorded.get("code"), recorded["name"]
    return digest is None or name not in plug_ins or digest == plug_ins[name].source.digest


def differing(config: Mapping[str, Any]) -> str:
    """Say what differs between a record's configuration and its run: settings, or the code of a plug-in."""
    return "other settings" if is_of_this_code(config["method"]) else "other code of the method"


def _check(method: Method) -> None:
    """
    :raises UserError: for a name, a setting or a budget that the command line cannot set
    """
    if not isinstance(method.name, str) or not re.fullmatch(r"[A-Za-z]\w*", method.name, re.ASCII):
        raise UserError(f"a method cannot be named '{method.name}'; use letters, digits and _, as in my_method")
    if not callable(method.fit):
        raise UserError(f"{method.name}: fit must be a function, as in Method('my_method', fit), not {method.fit!r}")
    if not isinstance(method.packages, Mapping) or not all(isinstance(each, str) for each in method.packages):
        raise UserError(
            f"{method.name}: packages must map import names to how to install them, as in "
            "{'torch': 'pip install torch'}"
        )
    if not isinstance(method.settings, type) or not issubclass(method.settings, Settings):
        raise UserError(
            f"{method.name}: settings must be a frozen dataclass derived from Settings, not {method.settings!r}"
        )
    try:
        known = declared(method.settings)
    except (TypeError, NameError) as problem:
        raise UserError(f"{method.name}: {problem}") from None
    own = [
        name
        for each in method.settings.__mro__
        if each not in Settings.__mro__
        for name in vars(each).get("__annotations__", ())
    ]
    if taken := [name for name in own if name in TAKEN]:
        raise UserError(f"{method.name}: a setting cannot be named {taken[0]}; reserved names: {', '.join(TAKEN)}")
    if not all(isinstance(each, Mapping) for each in (method.budgets, *method.budgets.values())):
        raise UserError(f"{method.name}: budgets must map budgets to settings, as in {{'smoke': {{'steps': 10}}}}")
    for budget, values in method.budgets.items():
        if budget not in groups.names("budget"):
            raise UserError(f"{method.name}: unknown budget '{budget}'; available: {', '.join(groups.names('budget'))}")
        if unknown := [name for name in values if name not in known]:
            raise UserError(f"{method.name}: budget {budget} sets {unknown[0]}, which is not one of its settings")


def _defaults(method: Method) -> dict[str, Any]:
    defaults = {
        each.name: list(each.default) if isinstance(each.default, tuple) else each.default  # a field takes no list
        for each in fields(method.settings)
    }
    defaults = {name: defaults[name] for name in declared(method.settings) if name != "num_layers"}
    if lacking := [name for name, value in defaults.items() if value is MISSING]:
        raise UserError(f"{method.name}: setting {lacking[0]} needs a default, as in setting(..., default=1.0)")
    return defaults


def _add_to_hydra(facts: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Add a choice of the group method, as a file of conf/method would, and its optimiser."""
    from hydra.core.config_store import ConfigStore

    node = {"defaults": [{"override /optimiser@_global_.optimiser": "own"}], **facts, **settings}
    store = ConfigStore.instance().store
    store(group="method", name=facts["name"], node=node, provider="dgpbench plug-in")
    store(group="optimiser", name="own", node={"optimiser": "own"}, package="training", provider="dgpbench plug-in")


# Estimators of scikit-learn as methods ------------------------------------------------------------------------------


def from_sklearn(
    name: str,
    build: Callable[[Any, int], Any],
    settings: type[Settings] = Settings,
    *,
    levels: Sequence[float] = LEVELS,
    **more: Any,
) -> Method:
    """Wrap an estimator with ``fit(X, y)`` and ``predict(X, return_std=True)`` or ``predict_quantiles(X, q)``.

        METHOD = from_sklearn("bayesian_ridge", lambda settings, seed: BayesianRidge())

    Quantiles are predicted at ``levels`` where the estimator has them. Otherwise each row gets a Gaussian, and the
    standard deviation must be that of y, noise included. The intervals of an estimator that leaves the noise out, such
    as scikit-learn's ``GaussianProcessRegressor`` without a ``WhiteKernel``, are too narrow.

    :param build: (settings, seed below 2^32) -> estimator
    :param more: ``title``, ``citation``, ``budgets`` of ``Method``
    """

    def fit(train: Regression, settings: Settings, seeds: Seeds, monitor: Monitor) -> "Estimated":
        del monitor
        estimator = build(settings, seeds.samples % 2**32)
        _check_estimator(name, estimator)
        estimator.fit(train.X, train.Y[:, 0])
        return Estimated(estimator, tuple(levels))

    return Method(name, fit, settings, **more)


def _check_estimator(name: str, estimator: Any) -> None:
    """
    :raises TypeError: for what cannot be fitted, or gives no uncertainty
    """
    if isinstance(estimator, type) or not callable(getattr(estimator, "fit", None)):
        what = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"{name}: build returned {what}; it must return an estimator, such as BayesianRidge()")
    if callable(getattr(estimator, "predict_quantiles", None)):
        return
    parameters = signature(estimator.predict).parameters.values()
    if not any(each.name == "return_std" or each.kind is each.VAR_KEYWORD for each in parameters):
        raise TypeError(
            f"{name}: {type(estimator).__name__} has neither predict(X, return_std=True) nor predict_quantiles(X, q), "
            "so it has no predictive distribution; add one in a fit function of your own"
        )


@dataclass
class Estimated:
    """A fitted estimator."""

    estimator: Any
    levels: tuple[float, ...]

    def predict(self, X: np.ndarray, seed: int) -> Quantiles | GaussianMixture:
        """Quantiles where the estimator has them, else Gaussians."""
        del seed
        if hasattr(self.estimator, "predict_quantiles"):
            values = np.asarray(self.estimator.predict_quantiles(X, list(self.levels)))  # [N, K]
            return Quantiles(np.array(self.levels), values.T)
        mean, deviation = self.estimator.predict(X, return_std=True)
        return Gaussian(mean, np.square(deviation))
