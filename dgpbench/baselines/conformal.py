"""Conformal calibration around any method: split conformal predictive systems (Vovk et al. 2020), by crepes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dgpbench.baselines.held_out import held_out_rows
from dgpbench.config import groups
from dgpbench.data.standardise import Found, Regression
from dgpbench.errors import UserError
from dgpbench.methods import plugins
from dgpbench.methods.interface import Seeds
from dgpbench.plugins import GaussianMixture, Method, Quantiles, Settings, setting
from dgpbench.runs.fit import fit, with_fewer_inducing_points
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.training.monitor import Monitor

groups.find_by(plugins.__name__)  # a base may be a method of an installed package, in any process
LEVELS = np.arange(1, 200) / 200  # of the quantiles where there are more calibration rows
OF_THE_BASE = ("method.", "training.", "prediction.", "protocol=", "optimiser=", "precision=")  # how its settings begin


@dataclass(frozen=True)
class ConformalSettings(Settings):
    """A base method and its calibration."""

    base: str = setting("method to calibrate", default="sgp")
    base_budget: str = setting("budget of the base", words=("paper", "laptop", "smoke"), default="paper")
    base_settings: list = setting("other settings of the base, such as ['method.num_layers=2']", default=())
    calibration: float = setting("share of the training rows that calibrate", above=0, below=1, default=0.25)
    normalise: bool = setting("divide residuals by the base's standard deviation, where it has one", default=True)

    def base_run(self) -> Run:
        """Return the base with its settings, which are those for a table of the user's own."""
        if others := [each for each in map(str, self.base_settings) if not each.startswith(OF_THE_BASE)]:
            raise UserError(
                f"method.base_settings has '{others[0]}', which is not a setting of the base; "
                f"one begins with {', '.join(OF_THE_BASE)}"
            )
        chosen = [f"method={self.base}", f"budget={self.base_budget}", "dataset=csv", "precision=float64"]
        return resolve_overrides([*chosen, *map(str, self.base_settings)])

    def check_installed(self) -> None:
        """Refuse a missing package, an unknown base or a setting that the base does not have."""
        super().check_installed()
        self.base_run().method.check_installed()


class Calibrated:
    """A fitted base with its conformal predictive system."""

    def __init__(self, base: Any, train: Regression, settings: ConformalSettings, seed: int):
        from crepes import ConformalPredictiveSystem

        mean, deviation = centre_and_deviation(base.predict(train.X, seed))
        self.base, self.normalised = base, settings.normalise and deviation is not None
        self.system = ConformalPredictiveSystem()
        self.system.fit(train.Y[:, 0] - mean, sigmas=deviation if self.normalised else None)
        num_rows = len(train.X)
        self.ranks = np.unique(np.clip(np.round(LEVELS * (num_rows + 1)), 1, num_rows))
        self.levels = self.ranks / (num_rows + 1)
        self.diagnostics = dict(base.diagnostics) | {"calibration_rows": num_rows, "normalised": self.normalised}

    def predict(self, X: np.ndarray, seed: int) -> Quantiles:
        """Return the quantiles mean + deviation * r_(i) at levels i / (n + 1), with the base's mean.

        r_(i) is the i-th smallest of the n calibration residuals.
        """
        predictions = self.base.predict(X, seed)
        mean, deviation = centre_and_deviation(predictions)
        between = 100 * (self.ranks - 0.5) / (len(self.system.alphas) + 1)  # percentiles: crepes takes the next rank
        sigmas = deviation if self.normalised else None
        values = self.system.predict_percentiles(mean, sigmas=sigmas, higher_percentiles=between)
        return Quantiles(self.levels, values.T, getattr(predictions, "mean", mean))


def centre_and_deviation(predictions: Found) -> tuple[np.ndarray, np.ndarray | None]:
    """Return mean and standard deviation, [N] each; the median if there is no mean, None if there is no deviation."""
    if isinstance(predictions, GaussianMixture):
        return predictions.mean[:, 0], np.sqrt(predictions.variance[:, 0])
    columns = predictions.columns(np.zeros(predictions.shape), {"q50": 0.5})
    centre = columns.get("mean", columns.get("q50"))
    if centre is None:
        raise UserError("method.base predicts neither a mean nor a median: choose another one")
    return centre[:, 0], np.sqrt(columns["variance"][:, 0]) if "variance" in columns else None


def fit_conformal(train: Regression, settings: ConformalSettings, seeds: Seeds, monitor: Monitor) -> Calibrated:
    """Fit the base to some of the training rows, and calibrate it on the others."""
    parts = held_out_rows(len(train.X), settings.calibration, seeds.holdout, at_least=2)
    proper, calibration = (Regression(train.X[rows], train.Y[rows]) for rows in parts)
    run = with_fewer_inducing_points(settings.base_run(), len(proper.X))
    timed = replace(monitor, max_seconds=run.training.max_seconds)  # the whole of this fit counts as training, once
    return Calibrated(fit(run, proper, seeds, timed).predictor, calibration, settings, seeds.prediction)


CONFORMAL = Method(
    "conformal",
    fit_conformal,
    ConformalSettings,
    title="Conformal predictive system around a method (crepes)",
    packages={"crepes": "pip install 'dgpbench[conformal]'"},
    citation="vovk2020",
    budgets={budget: {"base_budget": budget} for budget in ("laptop", "smoke")},
)
