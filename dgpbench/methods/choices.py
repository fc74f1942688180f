"""What a method is told: its own settings, those of training and those of prediction, resolved from conf/."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True)
class Choices:
    """The resolved configuration of one run, as far as a method may see it.

    :param method: the keys of ``method`` in conf/
    :param training: the keys of ``training``
    :param prediction: the keys of ``prediction``
    :param initial: a finished run's parameters by path, to start from; None to start anew
    """

    method: dict[str, Any]
    training: dict[str, Any]
    prediction: dict[str, Any]
    initial: dict[str, np.ndarray] | None = None


def choices_of(config: dict[str, Any], initial: dict[str, np.ndarray] | None = None) -> Choices:
    """What a resolved configuration tells its method."""
    method = config["method"] | {"precision": config["precision"]}
    return Choices(method, config["training"], config["prediction"], initial)


@dataclass(frozen=True)
class Seeds:
    """One seed for each kind of draw that a method makes."""

    initial: int
    holdout: int
    batches: int
    samples: int
    prediction: int


def pick(cls: type[T], settings: dict[str, Any], **more: Any) -> T:
    """A dataclass filled from the settings of the same names."""
    names = {field.name for field in fields(cls)}
    return cls(**({key: value for key, value in settings.items() if key in names} | more))
