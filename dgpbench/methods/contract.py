"""The contract between a method and the rest: the arguments of ``fit``, and what the predictor it returns can do.

fit(train: Regression, settings: FitSettings, seeds: Seeds, log: TrainingLog) -> Predictor
restore(settings: FitSettings, arrays: Mapping[str, np.ndarray]) -> Predictor, from ``Predictor.parameters()``
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.methods.settings import MethodSettings
from dgpbench.training.settings import TrainingSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from dgpbench.data.standardise import Regression
    from dgpbench.training.log import TrainingLog

T = TypeVar("T", bound="DataclassInstance")
Method_ = TypeVar("Method_", bound=MethodSettings, covariant=True)
Training_ = TypeVar("Training_", bound=TrainingSettings, covariant=True)


@dataclass(frozen=True)
class FitSettings(Generic[Method_, Training_]):
    """The settings that a method is given.

    :param method: its own settings
    :param training: those of its optimiser, ``max_iterations`` a number
    :param num_samples: S, samples of a prediction
    :param precision: ``float64``, ``float32`` or ``mixed``
    :param initial: a finished run's parameters by path, to start from; None to start anew
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
    """A fitted method.

    :param diagnostics: what the record should keep about the fit
    """

    diagnostics: dict[str, Any]

    def predict(self, X: np.ndarray, seed: int) -> Any:
        """The predictive mixture at standardised inputs X [N, D], in standard units.

        A ``GaussianMixture`` from every family of this package; a plug-in may have quantiles or samples instead.
        """
        ...

    def posterior(self) -> dict[str, np.ndarray]:
        """The fitted posterior by name, for the record."""
        ...

    def parameters(self) -> dict[str, np.ndarray]:
        """Every parameter by path and whatever else predictions depend on, such as an exact GP's rows.

        Another run can start from them, and ``restore`` makes the predictor anew.
        """
        ...


@dataclass(frozen=True)
class Family:
    """What this module gives of a family, for one that has no file here: a plug-in's.

    :param restore: None where its predictors cannot be saved
    """

    settings: type[MethodSettings]
    fit: Callable[..., Predictor]
    restore: Callable[..., Predictor] | None = None


OUTSIDE = "plug-in "  # how the names of families from outside begin
_outside: dict[str, Family] = {}


def add(family: str, given: Family) -> None:
    """Add a family from outside."""
    _outside[family] = given


def families() -> list[str]:
    """The families of this package, each with a file and its settings in another beside it; then those from outside."""
    own = sorted(path.stem.removesuffix("_settings") for path in Path(__file__).parent.glob("*_settings.py"))
    return [*own, *_outside]


def settings_class(family: str) -> type[MethodSettings]:
    """The settings of a family; imports no TensorFlow."""
    if (guest := _from_outside(family)) is not None:
        return guest.settings
    return import_module(f"dgpbench.methods.{family}_settings").SETTINGS


def fit_function(family: str) -> Callable[["Regression", FitSettings, Seeds, "TrainingLog"], Predictor]:
    """The ``fit`` of a family; imports TensorFlow."""
    guest = _from_outside(family)
    return import_module(f"dgpbench.methods.{family}").fit if guest is None else guest.fit


def restore_function(family: str) -> Callable[[FitSettings, Mapping[str, np.ndarray]], Predictor]:
    """The ``restore`` of a family: a predictor from ``Predictor.parameters()``, without training.

    Its predictions are those of the predictor that was fitted, to the last bit. Imports TensorFlow.
    """
    guest = _from_outside(family)
    if guest is None:
        return import_module(f"dgpbench.methods.{family}").restore
    if (restore := guest.restore) is None:
        name = family.removeprefix(OUTSIDE)
        raise UserError(
            f"{name} has no restore(), by which `dgpbench fit` and DeepGPRegressor predict from a model's arrays; "
            f"`dgpbench run method={name}` takes it"
        )
    return restore


def _from_outside(family: str) -> Family | None:
    """
    :raises UserError: for one whose code is not loaded, and which no installed package offers
    """
    if not family.startswith(OUTSIDE):
        return None
    name = family.removeprefix(OUTSIDE)
    if not groups.exists("method", name):  # which loads what an installed package offers
        raise UserError(f"the method {name} comes from outside: --plugin FILE names the file that it is in")
    return _outside[family]


def pick(cls: type[T], source: "DataclassInstance", **more: Any) -> T:
    """A dataclass filled from the attributes of the same names of another."""
    names = {each.name for each in fields(cls)} & {each.name for each in fields(source)}
    return cls(**{name: getattr(source, name) for name in names} | more)
