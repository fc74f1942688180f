"""The contract of a method from outside, and how one joins the methods of this package.

    fit(train, settings, seeds, log) -> predictor          predictor.predict(X, seed) -> predictive

train has standardised X [N, D] and Y [N, 1]; a predictive is a ``Gaussian``, ``GaussianMixture``, ``Quantiles`` or
``Samples`` of the rows X [N*, D], in standard units, noise included.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.config import groups
from dgpbench.config.compose import FACTS
from dgpbench.config.settings import declared
from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.methods import contract
from dgpbench.methods.contract import FitSettings, Seeds
from dgpbench.methods.settings import MethodSettings, Sizes
from dgpbench.plugins.imported import imported_files, imported_packages
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.predictive import Predictive, Quantiles, Samples
from dgpbench.training.log import TrainingLog
from dgpbench.training.settings import TrainingSettings

TAKEN = (*FACTS, "kind", "num_layers", "budgets", "code")
ENTRY_POINT = "entry point "
# Packages that import no TensorFlow; whatever imports others may need it.
LIGHT = frozenset({"numpy", "scipy", "pandas", "scikit-learn", "ngboost", "xgboost", "lightgbm"})
PREDICTIVES = (GaussianMixture, Quantiles, Samples)
_sources: dict[str, "Source"] = {}
_packages: dict[str, Mapping[str, str]] = {}


@dataclass(frozen=True)
class Settings(MethodSettings):
    """The settings of a plug-in's method: derive a frozen dataclass of ``setting(help, default=...)`` fields."""

    def check_installed(self) -> None:
        """Refuse a method that names packages (``Method(packages=...)``) of which one is not here."""
        for package, how in _packages[self.name].items():
            if not _is_here(package):
                raise UserError(f"method={self.name} needs the package {package}, which is not installed: {how}")

    def memory(self, sizes: Sizes, training: TrainingSettings, num_samples: int) -> dict[str, int]:
        """Nothing is known of it."""
        del sizes, training, num_samples
        return {}

    def recorded(self) -> dict[str, Any]:
        """All values, and the digest of the code: a record made by another version is never taken for this one's."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"code": _sources[self.name].digest}


def _is_here(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # what it would be a part of is missing too
        return False


@dataclass(frozen=True)
class Method:
    """A method: its name, its ``fit`` and its settings.

    :param name: as ``method=NAME``, of letters, digits and _
    :param fit: ``fit(train, settings, seeds, log) -> predictor``; ``settings`` is an instance of ``settings``, and
        ``seeds`` has a number for each kind of draw: initial, holdout, batches, samples, prediction
    :param settings: a frozen dataclass derived from ``Settings``, every field with a default
    :param citation: as a reader should cite it, or a key of conf/references.yaml
    :param budgets: budget -> values of settings at that budget
    :param packages: the packages that ``fit`` imports and may lack, by the names they are imported by, each with what
        installs it; a run is refused before it starts where one is missing
    :param restore: ``restore(settings, arrays) -> predictor``, from what ``predictor.parameters()`` gave; None where
        fitted models cannot be saved
    """

    name: str
    fit: Callable[[Regression, Any, Seeds, TrainingLog], Any]
    settings: type[Settings] = Settings
    title: str = ""
    citation: str = ""
    budgets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    restore: Callable[[Any, Mapping[str, np.ndarray]], Any] | None = None


@dataclass(frozen=True)
class Source:
    """Where a method's code is.

    :param location: a file's path, or ``entry point NAME``
    :param digest: of the code
    :param file: what it is in, where that is known
    """

    location: str
    digest: str
    file: Path | None = field(default=None, compare=False)

    @property
    def offers(self) -> str | None:
        """The name of the entry point, if it is one."""
        return self.location.removeprefix(ENTRY_POINT) if self.location.startswith(ENTRY_POINT) else None

    @classmethod
    def of_file(cls, path: Path) -> "Source":
        """A file, known by its bytes and those of the modules that it imports, but for installed ones."""
        files = (path, *imported_files(path))
        digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:16]
        return cls(str(path.resolve()), digest, path)


def register(method: Method, source: Source) -> None:
    """Make ``method=NAME`` work.

    :raises UserError: for a name that is taken, or settings that have no defaults
    """
    known = _sources.get(method.name)
    if known == source:
        return
    taken = {*groups.names("method"), *(name for name in groups.offered("method") if name != source.offers)}
    if known is not None or method.name in taken:
        raise UserError(f"there is a method named {method.name} already; give the plug-in's another name")
    _check_names(method)
    defaults, family = _defaults(method), f"{contract.OUTSIDE}{method.name}"
    _sources[method.name], _packages[method.name] = source, method.packages
    facts: dict[str, Any] = {
        "name": method.name,
        "title": method.title or method.name,
        "citation": method.citation,
        "family": family,
        "objective": "objective",
        "single_layer": True,
        "optimisers": ["own"],
        "precisions": ["float64"],
        "num_layers": 1,
    }
    budgets = {name: dict(values) for name, values in method.budgets.items()}
    groups.add("method", method.name, facts | defaults | {"budgets": budgets})
    contract.add(family, contract.Family(method.settings, _fitted(method), _restored(method)))
    _tell_hydra(facts, {key: f"${{budgeted:{key}}}" for key in defaults})


def location_of(name: str) -> str:
    """Where the code of a method is."""
    return _sources[name].location


def packages_of(name: str) -> list[str]:
    """The packages that the code of a method from outside imports; none for one of this package."""
    source = _sources.get(name)
    return [] if source is None or source.file is None else imported_packages(source.file)


def needs_tensorflow(name: str) -> bool:
    """Whether a method may use TensorFlow: ours do, and plug-ins whose import statements do not exclude it."""
    source = _sources.get(name)
    return (
        source is None or source.file is None or source.file.suffix != ".py" or not LIGHT.issuperset(packages_of(name))
    )


def is_loaded(name: str) -> bool:
    """Whether a method came from outside and is loaded."""
    return name in _sources


def is_of_this_code(recorded: Mapping[str, Any]) -> bool:
    """Whether the method's settings in a record are of the code that is loaded; where none is, they are."""
    made, name = recorded.get("code"), recorded["name"]
    return made is None or not is_loaded(name) or made == _sources[name].digest


def differing(config: Mapping[str, Any]) -> str:
    """What differs where a record's configuration is not that of its run: settings, or the code of a plug-in."""
    return "other settings" if is_of_this_code(config["method"]) else "other code of the method"


def _check_names(method: Method) -> None:
    """
    :raises UserError: for a name, a setting or a budget that cannot be asked for on a command line
    """
    if not isinstance(method.name, str) or not re.fullmatch(r"[A-Za-z]\w*", method.name, re.ASCII):
        raise UserError(f"a method cannot be named '{method.name}'; use letters, digits and _, as in my_method")
    if not isinstance(method.settings, type) or not issubclass(method.settings, Settings):
        raise UserError(
            f"{method.name}: its settings are a frozen dataclass derived from Settings, not {method.settings!r}"
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
        raise UserError(f"{method.name}: budgets are values of settings by budget, as in {{'smoke': {{'steps': 10}}}}")
    for budget, values in method.budgets.items():
        if budget not in groups.names("budget"):
            raise UserError(
                f"{method.name}: there is no budget '{budget}'; it is one of {', '.join(groups.names('budget'))}"
            )
        if unknown := [name for name in values if name not in known]:
            raise UserError(f"{method.name}: budget {budget} sets {unknown[0]}, which is none of its settings")


def _defaults(method: Method) -> dict[str, Any]:
    of_fields = {
        each.name: list(each.default) if isinstance(each.default, tuple) else each.default  # a field takes no list
        for each in fields(method.settings)
    }
    own = {name: of_fields[name] for name in declared(method.settings) if name != "num_layers"}
    if lacking := [name for name, value in own.items() if value is MISSING]:
        raise UserError(f"{method.name}: setting {lacking[0]} needs a default, as in setting(..., default=1.0)")
    return own


def _tell_hydra(facts: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """A choice of the group method, as a file of conf/method would be, and the optimiser that it has."""
    from hydra.core.config_store import ConfigStore

    node = {"defaults": [{"override /optimiser@_global_.optimiser": "own"}], **facts, **settings}
    store = ConfigStore.instance().store
    store(group="method", name=facts["name"], node=node, provider="dgpbench plug-in")
    store(group="optimiser", name="own", node={"optimiser": "own"}, package="training", provider="dgpbench plug-in")


# What the plug-in gives, as the house wants it ------------------------------------------------------------------------


class Adapted:
    """A plug-in's predictor with all that the contract of this package's methods asks for.

    :param inner: what the plug-in's ``fit`` returned; its ``diagnostics``, if it has any, are kept in the record
    :param is_saved: whether its parameters are, which takes a ``restore``
    """

    def __init__(self, name: str, inner: Any, *, is_saved: bool):
        if not callable(getattr(inner, "predict", None)):
            raise TypeError(f"{name}: fit returned {type(inner).__name__}; it returns an object with predict(X, seed)")
        if is_saved and not callable(getattr(inner, "parameters", None)):
            raise TypeError(f"{name}: it has restore=, which takes what {type(inner).__name__}.parameters() would give")
        self.name, self.inner, self.is_saved = name, inner, is_saved
        self.diagnostics: dict[str, Any] = dict(getattr(inner, "diagnostics", None) or {})

    def predict(self, X: np.ndarray, seed: int) -> Predictive:
        """Predictions of the rows X [N, D], seen to be of the right kind and shape."""
        found = self.inner.predict(X, seed)
        if not isinstance(found, PREDICTIVES):
            raise TypeError(
                f"{self.name}: predict returned {type(found).__name__}; it returns Gaussian(mean, variance), "
                "GaussianMixture(means, variances), Quantiles(levels, values) or Samples(draws)"
            )
        if found.shape != (len(X), 1):
            raise ValueError(f"{self.name}: predictions have shape {found.shape}, and the rows are {len(X)}")
        return found

    def posterior(self) -> dict[str, np.ndarray]:
        """None that the house could draw."""
        return {}

    def parameters(self) -> dict[str, np.ndarray]:
        """The arrays that ``restore`` takes, if there is one.

        :raises TypeError: for what cannot be saved as arrays of numbers
        """
        if not self.is_saved:
            return {}
        given = self.inner.parameters()
        if not isinstance(given, Mapping):
            raise TypeError(f"{self.name}: parameters() returned {type(given).__name__}; it returns arrays by name")
        arrays = {str(name): np.asarray(value) for name, value in given.items()}
        if bad := [name for name, array in arrays.items() if array.dtype.hasobject]:
            raise TypeError(f"{self.name}: parameters() holds {bad[0]}, which is no array of numbers or texts")
        return arrays


def _fitted(method: Method) -> Callable[..., Adapted]:
    def fit(train: Regression, settings: FitSettings, seeds: Seeds, log: TrainingLog) -> Adapted:
        own = deepcopy(settings.method)  # a list of settings is shared by all runs of a process
        inner = log.training(lambda: method.fit(train, own, seeds, log))
        return Adapted(method.name, inner, is_saved=method.restore is not None)

    return fit


def _restored(method: Method) -> Callable[..., Adapted] | None:
    if (restore := method.restore) is None:
        return None
    return lambda settings, arrays: Adapted(method.name, restore(deepcopy(settings.method), arrays), is_saved=False)
