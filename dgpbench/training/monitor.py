"""The monitor of a run's training: its trace, times, limits and checkpoints."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dgpbench.errors import TimedOut
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.training.checkpoints import Checkpoints

RECORD_EVERY = 10  # iterations between two rows of the trace, and two validation scores
TEST_SCORES = 100  # test scores in a trace with ``training.trace_test``
Predict = Callable[[Any, int], GaussianMixture]  # (standardised inputs [N, D], seed) -> predictions, in standard units


class Scored(NamedTuple):
    """Scores of the test rows in original units, None where they were not scored.

    ``tll`` is in nats per row, ``rmse`` in units of y.
    """

    tll: float | None = None
    rmse: float | None = None


class TraceRow(NamedTuple):
    """One line of the trace; seconds count training alone, without tracing the graph.

    ``elbo`` is the maximised objective; the record has the family's name for it.
    """

    iteration: int
    seconds: float
    elbo: float
    validation_tll: float | None
    test_tll: float | None = None
    test_rmse: float | None = None


@dataclass
class Monitor:
    """Record the trace, time tracing, training and test scores separately, and enforce limits of wall-clock time.

    :param max_seconds: training stops, without failing, after this many seconds of training
    :param timeout_seconds: the run fails with ``TimedOut`` after this many seconds in all
    :param report: called with (row, max_iterations) whenever a row is recorded
    :param forecast: likewise, to predict the time of training
    :param checkpoints: where the run's state is kept
    :param test: scores a function ``predict`` on the test rows, which training never sees; None to score nothing
    """

    max_seconds: float | None = None
    timeout_seconds: float | None = None
    report: Callable[[TraceRow, int], None] = lambda row, total: None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    forecast: Callable[[TraceRow, int], None] = lambda row, total: None
    test: Callable[[Predict], Scored] | None = None
    trace: list[TraceRow] = field(default_factory=list)
    tracing_seconds: float = 0.0
    training_seconds: float = 0.0
    testing_seconds: float = 0.0
    earlier_seconds: float = 0.0  # of training and test scores, in earlier processes
    prediction_seconds: float | None = None
    retries: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def start_attempt(self, key: str) -> None:
        """Begin a fit; it is resumed only from checkpoints with this key."""
        self.checkpoints.key = key

    def restart(self, note: dict[str, Any]) -> None:
        """Discard an attempt that diverged, except for a note; its time counts only towards the run's limit."""
        self.retries.append({"retry": len(self.retries) + 1, **note})
        self.trace.clear()
        self.tracing_seconds = self.training_seconds = self.testing_seconds = self.earlier_seconds = 0.0

    def seconds(self) -> dict[str, float]:
        """Return the seconds of tracing, training, test scores (if requested) and prediction so far."""
        known = {"tracing": self.tracing_seconds, "training": self.training_seconds}
        known |= {} if self.test is None else {"testing": self.testing_seconds}
        return known if self.prediction_seconds is None else known | {"prediction": self.prediction_seconds}

    def tracing(self, action: Callable):
        """Run ``action`` and count its time as tracing."""
        start = time.perf_counter()
        result = action()
        self.tracing_seconds += time.perf_counter() - start
        self.check()
        return result

    def training(self, action: Callable):
        """Run ``action`` and count its time as training."""
        start = time.perf_counter()
        result = action()
        self.training_seconds += time.perf_counter() - start
        self.check()
        return result

    def predicting(self, action: Callable):
        """Run ``action`` and count its time as prediction."""
        start = time.perf_counter()
        result = action()
        self.prediction_seconds = time.perf_counter() - start
        return result

    def record(
        self,
        iteration: int,
        elbo: float,
        validation_tll: float | None,
        max_iterations: int,
        predict: Predict | None = None,
    ) -> None:
        """Add a row to the trace and report it.

        :param predict: predicts at the current parameters, for test scores
        """
        scores = self._tested(iteration, max_iterations, predict)
        self.trace.append(TraceRow(iteration, self.training_seconds, elbo, validation_tll, *scores))
        self.report(self.trace[-1], max_iterations)
        self.forecast(self.trace[-1], max_iterations)

    def _tested(self, iteration: int, max_iterations: int, predict: Predict | None) -> Scored:
        """Score the test rows at every hundredth of the iterations, in whole rows of the trace, and at the last one."""
        every = RECORD_EVERY * math.ceil(max_iterations / (RECORD_EVERY * TEST_SCORES))
        due = iteration % every == 0 or iteration == max_iterations
        if self.test is None or predict is None or not due:
            return Scored()
        start = time.perf_counter()
        scores = self.test(predict)
        self.testing_seconds += time.perf_counter() - start
        self.check()
        return scores

    def resume(self, variables: Sequence[Any]) -> int:
        """Restore variables and trace from the newest checkpoint; return its iteration, 0 for a new run."""
        found = self.checkpoints.restore(variables)
        if found is None:
            return 0
        iteration, progress = found
        self.trace[:] = [TraceRow(*row) for row in progress["trace"]]
        self.training_seconds = progress["training_seconds"]
        self.testing_seconds = progress.get("testing_seconds", 0.0)
        self.earlier_seconds = self.training_seconds + self.testing_seconds
        return iteration

    def keep(self, iteration: int, variables: Sequence[Any], *, now: bool = False) -> None:
        """Write a checkpoint when one is due, or now."""
        if now or self.checkpoints.due:
            seconds = {"training_seconds": self.training_seconds, "testing_seconds": self.testing_seconds}
            progress = {"trace": self.trace, **seconds}
            self.checkpoints.save(iteration, variables, progress)

    @property
    def spent(self) -> bool:
        """True when the budget of training time is used up."""
        return self.max_seconds is not None and self.training_seconds >= self.max_seconds

    def check(self) -> None:
        """Raise ``TimedOut`` when the whole run has exceeded its limit."""
        elapsed = time.perf_counter() - self.started
        if self.timeout_seconds is not None and elapsed > self.timeout_seconds:
            raise TimedOut(f"the run passed its limit of {self.timeout_seconds / 60:g} minutes (timeout_minutes)")
