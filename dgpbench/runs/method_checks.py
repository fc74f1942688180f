"""Checks of a method on small synthetic tables: ``dgpbench check-method``."""

import random
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from dgpbench.data.standardise import Found, Regression
from dgpbench.errors import Diverged, UserError
from dgpbench.methods.interface import Seeds, restore_function
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.quantiles import Quantiles
from dgpbench.predictive.scores import all_scores, per_row
from dgpbench.runs.fit import Fit, fit, with_fewer_inducing_points
from dgpbench.runs.resolve import Run
from dgpbench.seeds import seed_for
from dgpbench.training.monitor import Monitor

SEEDS = Seeds(**{each.name: seed_for(each.name, check="method") for each in fields(Seeds)})
NEW_ROWS = 17
WORST_RMSE = 1.5  # in standard units; the mean of the training targets alone has 1
WIDEST = 20.0  # 90 % interval, in standard units; that of the training targets themselves is 3.3
KEPT = (0, NEW_ROWS // 2, NEW_ROWS - 1)  # rows that stay the same while all others change
SAME = 1e-6  # relative: the order of sums may depend on the number of rows


class Skipped(Exception):
    """A check does not apply to a method; the message gives the reason."""


class Trial:
    """Fits of a method to small tables, each made once."""

    def __init__(self, run: Run):
        self.run = run
        self.fits: dict[tuple[int, int], Fit] = {}

    def table(self, rows: int, features: int) -> Regression:
        """A smooth function of the features with a little noise, standardised."""
        rng = np.random.default_rng(rows)
        X = rng.normal(size=(rows, features))
        y = np.sin(X[:, 0]) + 0.5 * X[:, -1] + 0.1 * rng.normal(size=rows)
        return Regression((X - X.mean(axis=0)) / X.std(axis=0), ((y - y.mean()) / y.std())[:, None])

    def fit(self, rows: int, features: int, *, anew: bool = False) -> Any:
        if anew or (rows, features) not in self.fits:
            run = with_fewer_inducing_points(self.run, rows)
            self.fits[rows, features] = fit(run, self.table(rows, features), SEEDS, Monitor())
        return self.fits[rows, features].predictor

    def predict(self, rows: int, features: int) -> Found:
        return self.fit(rows, features).predict(self.new(features), SEEDS.prediction)

    def new(self, features: int) -> np.ndarray:
        """Return rows to predict."""
        return np.random.default_rng(99).normal(size=(NEW_ROWS, features))


def check(run: Run) -> Iterator[tuple[str, str, str]]:
    """Yield each check with 'ok', 'skipped' or 'FAILED', and the reason for the last two.

    :param run: a method with its settings; its data are ignored
    :raises UserError: if a package that the method needs is not installed
    """
    run.method.check_installed()
    trial = Trial(replace(run, init_from=None))
    for name, problem_of in CHECKS.items():
        try:
            problem = problem_of(trial)
            yield name, "FAILED" if problem else "ok", problem or ""
        except Skipped as reason:
            yield name, "skipped", str(reason)
        except (Diverged, UserError) as error:
            yield name, "FAILED", str(error)
        except (Exception, SystemExit) as error:  # a method may fail in any way
            yield name, "FAILED", f"{type(error).__name__}: {error}"


def check_shape(predictions: Found) -> str | None:
    if predictions.shape != (NEW_ROWS, 1):
        return f"predictions of {NEW_ROWS} rows have shape {predictions.shape}"
    scores = all_scores(per_row(predictions, np.zeros((NEW_ROWS, 1))))  # refuses what is not finite
    return None if scores else "its predictions give no score at all"


def check_units(trial: Trial) -> str | None:
    train, predictor = trial.table(60, 4), trial.fit(60, 4)
    rows = per_row(predictor.predict(train.X, SEEDS.prediction), train.Y)
    for name, what in (("mean", "its mean"), ("q50", "its median")):
        if name in rows and (rmse := float(np.sqrt(np.mean((rows[name] - train.Y) ** 2)))) > WORST_RMSE:
            return (
                f"at the rows it was trained on {what} is {rmse:.2g} standard deviations off, and their mean alone is "
                "1: predictions are in the standardised units of train.Y"
            )
    if {"q05", "q95"} <= set(rows) and (width := float(np.median(rows["q95"] - rows["q05"]))) > WIDEST:
        return (
            f"at the rows it was trained on its 90 % intervals are {width:.2g} standard deviations wide, and that of "
            "the targets alone is 3.3: a Gaussian has its variance, in the standardised units of train.Y squared"
        )
    if not ({"mean", "q50"} & set(rows) or {"q05", "q95"} <= set(rows)):
        raise Skipped("its quantiles give no mean, no median and no 90 % interval")
    return None


def check_seeds(trial: Trial) -> str | None:
    first = trial.fit(60, 4)
    before = _shared_generators()
    second = trial.fit(60, 4, anew=True)
    predictions = second.predict(trial.new(4), SEEDS.prediction)
    if _shared_generators() != before:
        shared = "a generator that all share (np.random.*, random.*)"
        return f"it draws from {shared}; draw from seeds.initial, seeds.samples"
    if not _equal(first.predict(trial.new(4), SEEDS.prediction), predictions, 0.0):
        return "two fits with the same seeds predict differently; draw from seeds.initial, seeds.samples and the like"
    return None


def _shared_generators() -> tuple[Any, ...]:
    """Return the states of the generators that all code of a process shares."""
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002  a method may use it
    return state["state"]["key"].tobytes(), state["state"]["pos"], random.getstate()


def check_other_rows(trial: Trial) -> str | None:
    predictor, X = trial.fit(60, 4), trial.new(4)
    predictions = predictor.predict(X.copy(), SEEDS.prediction)
    for kept in KEPT:
        beside = 5.0 - 2.0 * X
        beside[kept] = X[kept]
        other = predictor.predict(beside, SEEDS.prediction)
        pairs = zip(_row(predictions, kept), _row(other, kept), strict=True)
        if not all(np.allclose(x, y, rtol=SAME, atol=SAME) for x, y in pairs):
            return "the prediction of a row depends on the other rows: test rows reach the method"
    return None


def check_inputs_kept(trial: Trial) -> str | None:
    X = trial.new(4)
    trial.fit(60, 4).predict(X, SEEDS.prediction)
    unchanged = np.array_equal(X, trial.new(4))
    return None if unchanged else "it changes the array of rows that it predicts, which others also use"


def check_restored(trial: Trial) -> str | None:
    predictor = trial.fit(60, 4)
    try:
        restore = restore_function(trial.run.card.family)
    except UserError:
        raise Skipped("it has no restore, so it saves nothing") from None
    restored = restore(trial.fits[60, 4].settings, predictor.parameters())
    same = _equal(trial.predict(60, 4), restored.predict(trial.new(4), SEEDS.prediction), SAME)
    return None if same else "restore(settings, parameters()) predicts otherwise than what was fitted"


def _row(predictions: Found, row: int) -> list[np.ndarray]:
    """Return the numbers of one row."""
    if isinstance(predictions, GaussianMixture):
        return [predictions.means[:, row], predictions.variances[:, row], predictions.relative_weights]
    if isinstance(predictions, Quantiles):
        return [predictions.values[:, row]] + ([] if predictions.mean is None else [predictions.mean[row]])
    return [predictions.draws[:, row]]


def _equal(a: Found, b: Found, tolerance: float) -> bool:
    a_rows, b_rows = (list(per_row(each, np.zeros(each.shape)).values()) for each in (a, b))
    return all(np.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in zip(a_rows, b_rows, strict=True))


# Each returns the problem, or None; it raises ``Skipped`` if it does not apply.
CHECKS: dict[str, Callable[[Trial], str | None]] = {
    "20 rows of one feature": lambda trial: check_shape(trial.predict(20, 1)),
    "60 rows of four features": lambda trial: check_shape(trial.predict(60, 4)),
    "standard units": check_units,
    "equal seeds, equal predictions": check_seeds,
    "no test row reaches another's prediction": check_other_rows,
    "the rows it predicts stay as they are": check_inputs_kept,
    "what it saves predicts the same": check_restored,
}
