"""The contract of a method, which our families, the baselines and a user's plug-in implement alike.

    fit(train, settings, seeds, monitor) -> predictor        predictor.predict(X, seed) -> predictions
    restore(settings, arrays) -> predictor                   predictor.parameters() -> arrays

train has standardised X [N, D] and Y [N, 1]; predictions are a ``GaussianMixture``, ``Quantiles`` or ``Samples`` of the
rows X [N*, D], in standard units, noise included. Our families receive ``FitSettings``, since they share optimisers and
prediction settings; a plug-in receives an instance of its own ``Settings``.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.methods.plugin_code import Source
from dgpbench.methods.settings import FAMILIES, MethodSettings, Sizes
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.quantiles import Quantiles, Samples
from dgpbench.training.monitor import Monitor
from dgpbench.training.settings import TrainingSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from dgpbench.data.standardise import Regression

T = TypeVar("T", bound="DataclassInstance")
Method_ = TypeVar("Method_", bound=MethodSettings, covariant=True)
Training_ = TypeVar("Training_", bound=TrainingSettings, covariant=True)
OUTSIDE = "plug-in "  # prefix of the family names of plug-ins
MODULES = {"exact": "single_layer", "sparse": "single_layer"}  # families in a module of another name


@dataclass(frozen=True)
class FitSettings(Generic[Method_, Training_]):
    """The settings of a fit.

    :param method: the method's own settings
    :param training: those of its optimiser, ``max_iterations`` a number
    :param num_samples: S, samples of a prediction
    :param precision: ``float64``, ``float32`` or ``mixed``
    :param initial: a finished run's parameters by path, to start from; None for the usual starting values
    :param common_normals: predict with the same normals for every row, so that a row's prediction depends on no other
    """

    method: Method_
    training: Training_
    num_samples: int
    precision: str = "float64"
    initial: dict[str, np.ndarray] | None = None
    common_normals: bool = False


@dataclass(frozen=True)
class Seeds:
    """One seed for each kind of draw that a method makes."""

    initial: int
    holdout: int
    batches: int
    samples: int
    prediction: int


class Predictor(Protocol):
    """A fitted method; a plug-in's needs ``predict`` alone.

    :param diagnostics: facts about the fit for the record
    """

    diagnostics: dict[str, Any]

    def predict(self, X: np.ndarray, seed: int) -> Any:
        """Return the predictions at standardised inputs X [N, D], in standard units."""
        ...

    def posterior(self) -> dict[str, np.ndarray]:
        """Return the fitted posterior by name, for the record."""
        ...

    def parameters(self) -> dict[str, np.ndarray]:
        """Return every parameter by path, and other arrays that predictions depend on, such as an exact GP's rows.

        Another run can start from them, and ``restore`` builds the predictor from them.
        """
        ...


@dataclass(frozen=True)
class Settings(MethodSettings):
    """The settings of a plug-in: derive a frozen dataclass of ``setting(help, default=...)`` fields."""

    def check_installed(self) -> None:
        """Refuse a method with a missing package (``Method(packages=...)``)."""
        for package, how in plug_ins[self.name].method.packages.items():
            try:
                found = find_spec(package)
            except ModuleNotFoundError:  # the package that it would be a part of is missing
                found = None
            if found is None:
                raise UserError(f"method={self.name} needs the package {package}, which is not installed: {how}")

    def memory(self, sizes: Sizes, training: TrainingSettings, num_samples: int) -> dict[str, int]:
        """Return nothing: a plug-in's memory is unknown."""
        del sizes, training, num_samples
        return {}

    def recorded(self) -> dict[str, Any]:
        """Return all values and the digest of the code, which distinguishes records of two versions."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"code": plug_ins[self.name].source.digest}


@dataclass(frozen=True)
class Method:
    """A method: its name, its ``fit`` and its settings.

    :param name: as ``method=NAME``, of letters, digits and _; of one of ours, the family's
    :param fit: ``fit(train, settings, seeds, monitor) -> predictor``; ``settings`` is an instance of ``settings``, and
        ``seeds`` has a number for each kind of draw: initial, holdout, batches, samples, prediction
    :param settings: a frozen dataclass derived from ``Settings``, every field with a default
    :param citation: the reference to cite, or a key of conf/references.yaml
    :param budgets: budget -> values of settings at that budget
    :param packages: optional packages that ``fit`` imports, by import name, each with how to install it; a run is
        refused before it starts where one is missing
    :param restore: ``restore(settings, arrays) -> predictor``, from the arrays of ``predictor.parameters()``; None
        where fitted models cannot be saved
    """

    name: str
    fit: Callable[["Regression", Any, Seeds, Monitor], Any]
    settings: type[MethodSettings] = Settings
    title: str = ""
    citation: str = ""
    budgets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    restore: Callable[[Any, Mapping[str, np.ndarray]], Any] | None = None


@dataclass(frozen=True)
class PlugIn:
    """A loaded plug-in: its method, checked against the contract, and where its code is."""

    method: Method
    source: Source


plug_ins: dict[str, PlugIn] = {}  # by name; ``methods.plugins`` loads them


def families() -> list[str]:
    """Return the names of our families, then those of the loaded plug-ins."""
    return [*FAMILIES, *(f"{OUTSIDE}{name}" for name in plug_ins)]


def module_of(family: str) -> ModuleType:
    """Import the module of one of our families, and TensorFlow with it."""
    return import_module(f"dgpbench.methods.{MODULES.get(family, family)}")


def method_of(family: str) -> Method:
    """Return the method of a family. For one of ours this imports TensorFlow.

    :raises UserError: for a plug-in that is not loaded and that no installed package offers
    """
    if not family.startswith(OUTSIDE):
        module = module_of(family)
        return Method(family, module.fit, FAMILIES[family], restore=module.restore)
    name = family.removeprefix(OUTSIDE)
    if not groups.exists("method", name):  # loads the method that an installed package offers
        raise UserError(f"the method {name} is a plug-in that is not loaded; name its file with --plugin FILE")
    return plug_ins[name].method


def settings_class(family: str) -> type[MethodSettings]:
    """Return the settings of a family, without importing TensorFlow."""
    return method_of(family).settings if family.startswith(OUTSIDE) else FAMILIES[family]


def fit_function(family: str) -> Callable[["Regression", FitSettings, Seeds, Monitor], Predictor]:
    """Return the ``fit`` of a family."""
    return method_of(family).fit


def fit_together_function(family: str) -> Callable[..., list[Predictor]]:
    """Return the ``fit_together`` of a family whose settings have ``trains_together`` (``deep_fit.DeepFit``)."""
    return module_of(family).fit_together


def restore_function(family: str) -> Callable[[FitSettings, Mapping[str, np.ndarray]], Predictor]:
    """Return the ``restore`` of a family: a predictor from ``Predictor.parameters()``, without training.

    Its predictions are those of the predictor that was fitted, to the last bit.
    """
    method = method_of(family)
    if method.restore is None:
        raise UserError(
            f"{method.name} has no restore(), which `dgpbench fit` and DeepGPRegressor need to predict from a model's "
            f"arrays; use `dgpbench run method={method.name}`"
        )
    return method.restore


def pick(cls: type[T], source: "DataclassInstance", **more: Any) -> T:
    """Fill a dataclass from the attributes of the same names of another."""
    names = {each.name for each in fields(cls)} & {each.name for each in fields(source)}
    return cls(**{name: getattr(source, name) for name in names} | more)


def checked(method: Method) -> Method:
    """Wrap a plug-in's method: it then takes ``FitSettings``, and its predictors are checked."""

    def fit(train: "Regression", settings: FitSettings, seeds: Seeds, monitor: Monitor) -> CheckedPredictor:
        own = deepcopy(settings.method)  # a list of settings is shared by all runs of a process
        predictor = monitor.training(lambda: method.fit(train, own, seeds, monitor))
        return CheckedPredictor(method.name, predictor, is_saved=method.restore is not None)

    def restore(settings: FitSettings, arrays: Mapping[str, np.ndarray]) -> CheckedPredictor:
        assert method.restore is not None
        predictor = method.restore(deepcopy(settings.method), arrays)
        return CheckedPredictor(method.name, predictor, is_saved=False)

    return replace(method, fit=fit, restore=restore if method.restore else None)


class CheckedPredictor:
    """A plug-in's predictor with every part of the contract, its results checked.

    :param inner: the result of the plug-in's ``fit``; its ``diagnostics``, if it has any, are kept in the record
    :param is_saved: whether its parameters are saved, which takes a ``restore``
    """

    def __init__(self, name: str, inner: Any, *, is_saved: bool):
        if not callable(getattr(inner, "predict", None)):
            raise TypeError(f"{name}: fit returned {type(inner).__name__}; it needs a method predict(X, seed)")
        if is_saved and not callable(getattr(inner, "parameters", None)):
            raise TypeError(f"{name}: restore= is set, so {type(inner).__name__} needs a method parameters()")
        self.name, self.inner, self.is_saved = name, inner, is_saved
        self.diagnostics: dict[str, Any] = dict(getattr(inner, "diagnostics", None) or {})

    def predict(self, X: np.ndarray, seed: int) -> GaussianMixture | Quantiles | Samples:
        """Return the predictions of the rows X [N, D], of a checked type and shape."""
        predictions = self.inner.predict(X, seed)
        if not isinstance(predictions, GaussianMixture | Quantiles | Samples):
            raise TypeError(
                f"{self.name}: predict returned {type(predictions).__name__}; it must return Gaussian(mean, variance), "
                "GaussianMixture(means, variances, weights), Quantiles(levels, values) or Samples(draws)"
            )
        if predictions.shape != (len(X), 1):
            raise ValueError(f"{self.name}: predictions have shape {predictions.shape}, but there are {len(X)} rows")
        return predictions

    def posterior(self) -> dict[str, np.ndarray]:
        """Return nothing: plug-ins expose no posterior."""
        return {}

    def parameters(self) -> dict[str, np.ndarray]:
        """Return the arrays that ``restore`` takes, if there is one.

        :raises TypeError: for what cannot be saved as arrays of numbers
        """
        if not self.is_saved:
            return {}
        parameters = self.inner.parameters()
        if not isinstance(parameters, Mapping):
            raise TypeError(f"{self.name}: parameters() returned {type(parameters).__name__}, not arrays by name")
        arrays = {str(name): np.asarray(value) for name, value in parameters.items()}
        if bad := [name for name, array in arrays.items() if array.dtype.hasobject]:
            raise TypeError(f"{self.name}: parameters() has {bad[0]}, which is not an array of numbers or texts")
        return arrays
