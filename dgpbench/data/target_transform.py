"""Increasing transforms of the target that bring its distribution closer to a Gaussian.

Methods are trained on the standardised z = g(y); predictions and scores are of y in its original units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dgpbench.config.settings import typed
from dgpbench.errors import UserError
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.warped import Warp

HERMITE_NODES = 40  # of the moments of a component
MOST_ROWS = 100_000  # in the fit of the four parameters
LARGEST = 3.0  # absolute log of the width (in standard deviations) and of the tail parameter: a factor of 20


@dataclass(frozen=True)
class Log:
    """z = log y, for targets above 0."""

    @classmethod
    def fit(cls, y: np.ndarray) -> Self:
        """Return the transform; it has no parameters."""
        del y
        return cls()

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return log y; -inf where it does not exist."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(y, 0.0))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return exp z."""
        return np.exp(z)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return log(1 / y); 0 where the density is 0."""
        return -np.log(np.where(np.asarray(y) > 0, y, 1.0))

    def moments(self, mixture: GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
        """Return E[y] and Var[y] in closed form; a quadrature misses the tail of a wide component."""
        each = np.exp(mixture.means + mixture.variances / 2)
        mean = mixture.average(each)
        return mean, mixture.average(each**2 * np.expm1(mixture.variances) + (each - mean) ** 2)


@dataclass(frozen=True)
class SinhArcsinh:
    """z = sinh(delta arcsinh((y - xi) / eta) - epsilon), which removes skewness and heavy or light tails.

    Reference: Jones & Pewsey 2009; warped GPs: Snelson et al. 2004, Rios & Tobar 2019.
    """

    location: float  # xi, units of y
    width: float  # eta, positive, units of y
    skewness: float  # epsilon
    tails: float  # delta, positive; below 1 the tails of y are heavier than a Gaussian's

    @classmethod
    def fit(cls, y: np.ndarray) -> Self:
        """Maximise the likelihood of training targets y [N], with z standard normal."""
        from scipy.optimize import minimize

        centre, spread = y.mean(), y.std()
        values = (y[:: -(-len(y) // MOST_ROWS)] - centre) / spread
        bounds = [(None, None), (-LARGEST, LARGEST), (None, None), (-LARGEST, LARGEST)]
        location, log_width, skewness, log_tails = minimize(
            cls._loss, np.zeros(4), args=(values,), jac=True, bounds=bounds, method="L-BFGS-B"
        ).x
        width = float(spread * np.exp(log_width))
        return cls(float(centre + spread * location), width, float(skewness), np.exp(log_tails).item())

    @staticmethod
    def _loss(parameters: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        """Return -1/N sum_n log p(y_n) without its constant, and its gradient, at (xi, log eta, epsilon, log delta)."""
        location, log_width, skewness, log_tails = parameters
        width, tails = np.exp(log_width), np.exp(log_tails)
        x = (y - location) / width
        arc = np.arcsinh(x)
        angle = tails * arc - skewness
        z = np.sinh(angle)
        loss = 0.5 * z**2 - _log_cosh(angle) + 0.5 * np.log1p(x**2) + log_width - log_tails
        by_angle = z * np.cosh(angle) - np.tanh(angle)
        by_x = by_angle * tails / np.sqrt(1 + x**2) + x / (1 + x**2)
        gradient = [-by_x.mean() / width, 1 - (by_x * x).mean(), -by_angle.mean(), (by_angle * arc).mean() * tails - 1]
        return float(loss.mean()), np.array(gradient)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return z."""
        return np.sinh(self._angle(y))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return y = xi + eta sinh((arcsinh(z) + epsilon) / delta)."""
        return self.location + self.width * np.sinh((np.arcsinh(z) + self.skewness) / self.tails)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return the log of delta cosh(delta arcsinh(x) - epsilon) / (eta sqrt(1 + x^2)) at x = (y - xi) / eta."""
        x = (y - self.location) / self.width
        return np.log(self.tails / self.width) + _log_cosh(self._angle(y)) - 0.5 * np.log1p(x**2)

    def moments(self, mixture: GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
        """Return E[y] and Var[y] by Gauss-Hermite quadrature."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
        deviations = np.sqrt(mixture.variances)
        first, second = (np.zeros(mixture.shape) for _ in range(2))
        # About a typical y, so that the square's rounding is that of the spread.
        centre = self.inverse(mixture.mean)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            y = self.inverse(mixture.means + node * deviations) - centre
            first += weight * mixture.average(y)
            second += weight * mixture.average(y**2)
        return centre + first, second - first**2

    def _angle(self, y: np.ndarray) -> np.ndarray:
        return self.tails * np.arcsinh((y - self.location) / self.width) - self.skewness


TRANSFORMS: dict[str, type[Log | SinhArcsinh]] = {"log": Log, "sinh_arcsinh": SinhArcsinh}


def transformed(y: np.ndarray, warp: Warp | None) -> np.ndarray:
    """Return z = g(y), or y itself.

    :raises UserError: for a target outside the domain of g
    """
    if warp is None:
        return y
    if bad := np.flatnonzero(~np.isfinite(z := warp.forward(y))).tolist():
        raise UserError(
            f"dataset.target_transform=log needs a target above 0, and {len(bad):,} of {len(y):,} values are not, the "
            f"first {y[bad[0]]:g}: dataset.target_transform=sinh_arcsinh accepts any"
        )
    return z


def to_json(warp: Warp) -> dict[str, Any]:
    """Return plain data."""
    name = next(name for name, each in TRANSFORMS.items() if isinstance(warp, each))
    return {"name": name} | vars(warp)


def from_json(plain: Mapping[str, Any]) -> Warp:
    """Restore from ``to_json``.

    :raises ValueError: for invalid data
    """
    values = dict(plain)
    warp = typed(TRANSFORMS[values.pop("name")], values, "warp")
    if isinstance(warp, SinhArcsinh) and not (warp.width > 0 and warp.tails > 0):
        raise ValueError("warp.width and warp.tails must be above 0")
    return warp


def _log_cosh(x: np.ndarray) -> np.ndarray:
    """Return log cosh x without overflow."""
    return np.logaddexp(x, -x) - np.log(2)
