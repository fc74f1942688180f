"""What every method must do, on small made-up tables: ``dgpbench check-method``."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dgpbench.data.standardise import Found, Regression
from dgpbench.errors import Diverged, UserError
from dgpbench.methods.interface import Seeds, restore_function
from dgpbench.models.training import with_fewer_inducing_points
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.quantiles import Quantiles
from dgpbench.predictive.scores import all_scores, per_row
from dgpbench.runs import fitting
from dgpbench.runs.resolve import Run
from dgpbench.seeds import seed_for
from dgpbench.training.monitor import Monitor

SEEDS = Seeds(**{each.name: seed_for(each.name, check="method") for each in fields(Seeds)})
NEW_ROWS = 17
WORST_RMSE = 1.5  # in standard units; the mean of the training targets alone has 1
WIDEST = 20.0  # 90 % interval, in standard units; that of the training targets themselves is 3.3
KEPT = (0, NEW_ROWS // 2, NEW_ROWS - 1)  # rows that stay where all others change
SAME = 1e-6  # relative: the order of sums may change where other rows stand beside


class Skipped(Exception):
    """A demand does not apply to a method; the message gives the reason."""


@dataclass(frozen=True)
class Check:
    """One demand.

    :param ask: None where it is met, else what was seen; raises ``Skipped`` where there is nothing to check
    """

    name: str
    ask: Callable[["Trial"], str | None]


class Trial:
    """A method's fits to small tables, each made once."""

    def __init__(self, run: Run):
        fitting.prepare_libraries(run.method.name, run.limits.num_threads, run.precision)
        self.run = run
        self._fits: dict[tuple[int, int], fitting.Fit] = {}

    def table(self, rows: int, features: int) -> Regression:
        """A smooth function of the features with a little noise, standardised."""
        rng = np.random.default_rng(rows)
        X = rng.normal(size=(rows, features))
        y = np.sin(X[:, 0]) + 0.5 * X[:, -1] + 0.1 * rng.normal(size=rows)
        return Regression((X - X.mean(axis=0)) / X.std(axis=0), ((y - y.mean()) / y.std())[:, None])

    def fit(self, rows: int, features: int, *, anew: bool = False) -> Any:
        """A predictor."""
        if anew or (rows, features) not in self._fits:
            train = self.table(rows, features)
            run = with_fewer_inducing_points(self.run, train)
            self._fits[rows, features] = fitting.fit(run, train, SEEDS, Monitor())
        return self._fits[rows, features].predictor

    def restored(self, rows: int, features: int) -> Any:
        """The predictor made again from its parameters."""
        predictor = self.fit(rows, features)
        try:
            restore = restore_function(self.run.card.family)
        except UserError:
            raise Skipped("it has no restore, so it saves nothing") from None
        return restore(self._fits[rows, features].settings, predictor.parameters())

    def new(self, features: int) -> np.ndarray:
        """Rows to predict."""
        return np.random.default_rng(99).normal(size=(NEW_ROWS, features))


def check(run: Run) -> Iterator[tuple[str, str, str]]:
    """Each demand with 'ok', 'skipped' or 'FAILED', and the reason for the last two.

    :param run: a method with its settings; what it says of data plays no part
    :raises UserError: where a package that it needs is not installed
    """
    run.method.check_installed()
    trial = Trial(replace(run, init_from=None))
    for each in CHECKS:
        try:
            seen = each.ask(trial)
            yield each.name, "FAILED" if seen else "ok", seen or ""
        except Skipped as reason:
            yield each.name, "skipped", str(reason)
        except (Diverged, UserError) as problem:
            yield each.name, "FAILED", str(problem)
        except (Exception, SystemExit) as problem:  # a method may fail in any way
            yield each.name, "FAILED", f"{type(problem).__name__}: {problem}"


def _few_rows(trial: Trial) -> str | None:
    return _shape(trial.fit(20, 1).predict(trial.new(1), SEEDS.prediction))


def _several_features(trial: Trial) -> str | None:
    return _shape(trial.fit(60, 4).predict(trial.new(4), SEEDS.prediction))


def _shape(found: Found) -> str | None:
    if found.shape != (NEW_ROWS, 1):
        return f"predictions of {NEW_ROWS} rows have shape {found.shape}"
    scores = all_scores(per_row(found, np.zeros((NEW_ROWS, 1))))  # refuses what is not finite
    return None if scores else "its predictions give no score at all"


def _units(trial: Trial) -> str | None:
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


def _seeds(trial: Trial) -> str | None:
    first = trial.fit(60, 4)
    before = _shared_generators()
    second = trial.fit(60, 4, anew=True)
    found = second.predict(trial.new(4), SEEDS.prediction)
    if _shared_generators() != before:
        return (
            "it draws from a generator that all share (np.random.*, random.*); draw from seeds.initial, seeds.samples"
        )
    if not _equal(first.predict(trial.new(4), SEEDS.prediction), found, 0.0):
        return "two fits with the same seeds predict differently; draw from seeds.initial, seeds.samples and the like"
    return None


def _shared_generators() -> tuple[Any, ...]:
    """The states of the generators that all code of a process shares."""
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return state["state"]["key"].tobytes(), state["state"]["pos"], random.getstate()


def _other_rows(trial: Trial) -> str | None:
    predictor, X = trial.fit(60, 4), trial.new(4)
    found = predictor.predict(X.copy(), SEEDS.prediction)
    for kept in KEPT:
        beside = 5.0 - 2.0 * X
        beside[kept] = X[kept]
        other = predictor.predict(beside, SEEDS.prediction)
        if not _equal(_row(found, kept), _row(other, kept), SAME):
            return "the prediction of a row depends on the other rows that are asked for: test rows reach the method"
    return None


def _restored(trial: Trial) -> str | None:
    restored = trial.restored(60, 4)
    found, again = (each.predict(trial.new(4), SEEDS.prediction) for each in (trial.fit(60, 4), restored))
    return (
        None
        if _equal(found, again, SAME)
        else "restore(settings, parameters()) predicts otherwise than what was fitted"
    )


def _inputs_kept(trial: Trial) -> str | None:
    asked = trial.new(4)
    trial.fit(60, 4).predict(asked, SEEDS.prediction)
    kept = np.array_equal(asked, trial.new(4))
    return None if kept else "it changes the array of rows that it predicts; others use it too"


def _row(found: Found, row: int) -> list[np.ndarray]:
    """The numbers of one row."""
    if isinstance(found, GaussianMixture):
        return [found.means[:, row], found.variances[:, row]]
    if isinstance(found, Quantiles):
        return [found.values[:, row]] + ([] if found.mean is None else [found.mean[row]])
    return [found.draws[:, row]]


def _equal(a: Any, b: Any, tolerance: float) -> bool:
    if not isinstance(a, list):
        a, b = (per_row(each, np.zeros(each.shape)) for each in (a, b))
        a, b = (list(each.values()) for each in (a, b))
    return all(np.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in zip(a, b, strict=True))


CHECKS = (
    Check("20 rows of one feature", _few_rows),
    Check("60 rows of four features", _several_features),
    Check("standard units", _units),
    Check("equal seeds, equal predictions", _seeds),
    Check("no test row reaches another's prediction", _other_rows),
    Check("the rows it predicts stay as they are", _inputs_kept),
    Check("what it saves predicts the same", _restored),
)
