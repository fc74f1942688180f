"""Standardise tables by their training rows, and restore the original units of predictions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.config.settings import typed
from dgpbench.data import target_transform
from dgpbench.data.target_transform import TRANSFORMS, transformed
from dgpbench.errors import UserError
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.quantiles import Quantiles, Samples
from dgpbench.predictive.scores import Predicted
from dgpbench.predictive.warped import Warp, warped

Found = GaussianMixture | Quantiles | Samples  # predictions in standard units
ROUNDING = 4 * np.finfo(np.float64).eps  # relative difference of two results of the same sum


@dataclass(frozen=True, eq=False)
class Regression:
    """Standardised rows, as methods see them: X [N, D], Y [N, 1]."""

    X: np.ndarray
    Y: np.ndarray


@dataclass(frozen=True, eq=False)
class Standardiser:
    """x -> (x - mean) / deviation for each feature and the target, standard deviations with ddof = 0."""

    kept: np.ndarray  # [D'] column numbers of the features that vary on the training rows
    mean_X: np.ndarray  # [D'], original units
    scale_X: np.ndarray  # [D'], original units
    mean_y: float  # original units, or the units of g(y)
    scale_y: float  # as ``mean_y``
    dropped: tuple[str, ...]  # names of the features that do not vary
    warp: Warp | None = None  # g, if the target is transformed first

    @classmethod
    def fit(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        feature_names: Sequence[str],
        min_deviation: float = 0.0,
        target_transform: str = "none",
    ) -> "Standardiser":
        """Fit means and deviations to training rows X [N, D] and y [N] in original units.

        :param min_deviation: drop features with at most this deviation too, as in the papers' extrapolation
        :param target_transform: name of a transform of the target to fit first, or ``none``
        :raises UserError: when the target or every feature is constant, or a deviation is out of float64's range
        """
        if not varies(y[:, None])[0]:
            raise UserError(f"the target is {y[0]:g} in all {len(y):,} training rows: there is nothing to learn")
        kept = np.flatnonzero(varies(X) & (_deviation(X) > min_deviation) if min_deviation else varies(X))
        if not len(kept):
            raise UserError(f"no feature varies on the {len(y):,} training rows: there is nothing to learn from")
        columns = np.column_stack([X[:, kept], y])
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variance = columns.mean(axis=0), _deviation(columns) ** 2
        for i in np.flatnonzero(~(np.isfinite(mean) & np.isfinite(variance) & (variance > 0)))[:1]:
            name = feature_names[kept[i]] if i < len(kept) else "the target"
            raise UserError(f"the numbers of {name} are too large or too close together for float64: change its units")
        dropped = tuple(name for i, name in enumerate(feature_names) if i not in kept)
        X = X[:, kept]
        warp = TRANSFORMS[target_transform].fit(y) if target_transform in TRANSFORMS else None
        z = transformed(y, warp)
        return cls(kept, X.mean(axis=0), X.std(axis=0), float(z.mean()), float(z.std()), dropped, warp)

    def transform(self, X: np.ndarray, y: np.ndarray) -> Regression:
        """Return X [N, D], with all features of ``fit``, and y [N] in standard units."""
        return Regression(self.inputs(X), (transformed(y, self.warp)[:, None] - self.mean_y) / self.scale_y)

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """Return features X [N, D] in standard units [N, D']."""
        return (X[:, self.kept] - self.mean_X) / self.scale_X

    def restore_inputs(self, X: np.ndarray) -> np.ndarray:
        """Return standardised rows [N, D'] in the original units of the features that vary."""
        return X * self.scale_X + self.mean_X

    def restore(self, predictions: Found) -> Predicted:
        """Return predictions in the original units of y: mean_y + scale_y times the prediction, through g's inverse."""
        restored = predictions.shifted_scaled(self.mean_y, self.scale_y)
        return restored if self.warp is None else warped(restored, self.warp)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; floats keep their bits."""
        arrays = {name: getattr(self, name).tolist() for name in ("kept", "mean_X", "scale_X")}
        plain = arrays | {"mean_y": self.mean_y, "scale_y": self.scale_y, "dropped": list(self.dropped)}
        return plain if self.warp is None else plain | {"warp": target_transform.to_json(self.warp)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], feature_names: Sequence[str]) -> "Standardiser":
        """Restore from ``to_json``.

        :param feature_names: of all features, in order
        :raises ValueError: for invalid data
        """
        kinds = {"kept": tuple[int, ...], "mean_X": tuple[float, ...], "scale_X": tuple[float, ...]}
        lists = {name: typed(kind, plain[name], f"scaler.{name}") for name, kind in kinds.items()}
        kept = np.array(lists["kept"], np.int64)
        mean_X, scale_X = (np.array(lists[name], np.float64) for name in ("mean_X", "scale_X"))
        mean_y, scale_y = (typed(float, plain[name], f"scaler.{name}") for name in ("mean_y", "scale_y"))
        constant = tuple(name for i, name in enumerate(feature_names) if i not in {*lists["kept"]})
        if not lists["kept"] or lists["kept"] != tuple(sorted({*lists["kept"]} & {*range(len(feature_names))})):
            raise ValueError(f"scaler.kept must be increasing numbers of the {len(feature_names)} features")
        if not len(kept) == len(mean_X) == len(scale_X) or tuple(plain["dropped"]) != constant:
            raise ValueError("scaler.kept, mean_X, scale_X and dropped disagree about the features")
        if not (np.all(scale_X > 0) and scale_y > 0):
            raise ValueError("scaler.scale_X and scale_y must be above 0")
        warp = target_transform.from_json(plain["warp"]) if "warp" in plain else None
        return cls(kept, mean_X, scale_X, mean_y, scale_y, constant, warp)


def varies(values: np.ndarray) -> np.ndarray:
    """Check which columns of [N, D] vary by more than rounding, such as that of 0.3 and 0.1 + 0.2.

    Deviations do not tell: that of a column of equal numbers may differ from 0 (naval's P1: 2e-16).
    """
    low, high = values.min(axis=0), values.max(axis=0)
    with np.errstate(over="ignore"):
        return high - low > ROUNDING * np.maximum(np.abs(low), np.abs(high))


def _deviation(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = values.std(axis=0)
    # A sum of squares beyond float64 must not look like a constant column.
    return np.where(np.isnan(deviation), np.inf, deviation)
