"""Standard units from the training rows alone, and the way back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from dgpbench.errors import Refused
from dgpbench.predictions.predictive import Predictive

Found = TypeVar("Found", bound=Predictive)


@dataclass(frozen=True, eq=False)
class Regression:
    """What a method sees: standardised rows.

    :param X: [N, D]
    :param Y: [N, 1]
    """

    X: np.ndarray
    Y: np.ndarray


@dataclass(frozen=True, eq=False)
class Standardiser:
    """x -> (x - mean) / deviation for each feature and the target, standard deviations with ddof = 0.

    :param kept: [D'] column numbers of the features that vary on the training rows
    :param mean_X: [D'], original units
    :param scale_X: [D'], original units
    :param mean_y: original units
    :param scale_y: original units
    :param dropped: names of the features that do not vary
    """

    kept: np.ndarray
    mean_X: np.ndarray
    scale_X: np.ndarray
    mean_y: float
    scale_y: float
    dropped: tuple[str, ...]

    @classmethod
    def fit(
        cls, X: np.ndarray, y: np.ndarray, feature_names: Sequence[str], min_deviation: float = 0.0
    ) -> "Standardiser":
        """Means and deviations of the training rows.

        :param X: [N, D] training rows, original units
        :param y: [N] training targets, original units
        :param min_deviation: features whose deviation is not above it are dropped too, as in the papers' extrapolation
        :raises Refused: when the target or every feature is constant, or a deviation is out of float64's range
        """
        if y.min() == y.max():
            raise Refused(f"the target is {y[0]:g} in all {len(y)} training rows: there is nothing to learn")
        # The computed deviation of a constant column need not be 0 (naval's P1: 2e-16), so compare the values.
        varies = X.max(axis=0) > X.min(axis=0)
        kept = np.flatnonzero(varies & (_deviation(X) > min_deviation) if min_deviation else varies)
        if not len(kept):
            raise Refused(f"no feature varies on the {len(y)} training rows: there is nothing to learn from")
        _check_finite([feature_names[i] for i in kept] + ["the target"], np.column_stack([X[:, kept], y]))
        dropped = tuple(name for i, name in enumerate(feature_names) if i not in kept)
        X = X[:, kept]
        return cls(kept, X.mean(axis=0), X.std(axis=0), float(y.mean()), float(y.std()), dropped)

    def transform(self, X: np.ndarray, y: np.ndarray) -> Regression:
        """Rows in standard units.

        :param X: [N, D], original units, every feature that ``fit`` was given
        :param y: [N], original units
        """
        return Regression(self.inputs(X), (y[:, None] - self.mean_y) / self.scale_y)

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """Features in standard units, [N, D'], of rows X [N, D] in original units, whose targets need not be known."""
        return (X[:, self.kept] - self.mean_X) / self.scale_X

    def restore_inputs(self, X: np.ndarray) -> np.ndarray:
        """Standardised rows in the original units of the features that vary, [N, D']."""
        return X * self.scale_X + self.mean_X

    def restore(self, found: Found) -> Found:
        """Predictions in the original units of y, mean_y + scale_y times what was predicted."""
        return found.shifted_scaled(self.mean_y, self.scale_y)

    def to_json(self) -> dict[str, Any]:
        """As plain data; a float keeps its bits."""
        arrays = {name: getattr(self, name).tolist() for name in ("kept", "mean_X", "scale_X")}
        return arrays | {"mean_y": self.mean_y, "scale_y": self.scale_y, "dropped": list(self.dropped)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Standardiser":
        """What ``to_json`` was called on."""
        mean_X, scale_X = (np.array(plain[name], np.float64) for name in ("mean_X", "scale_X"))
        kept, dropped = np.array(plain["kept"], np.int64), tuple(plain["dropped"])
        return cls(kept, mean_X, scale_X, plain["mean_y"], plain["scale_y"], dropped)


def _deviation(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = values.std(axis=0)
    # A sum of squares beyond float64 must not pass for a column that does not vary.
    return np.where(np.isnan(deviation), np.inf, deviation)


def _check_finite(names: Sequence[str], columns: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = columns.mean(axis=0), _deviation(columns)
    for name, fine in zip(names, np.isfinite(mean) & np.isfinite(deviation**2) & (deviation**2 > 0), strict=True):
        if not fine:
            raise Refused(f"the numbers of {name} are too large or too close together for float64: change its units")
