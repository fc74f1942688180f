"""What is kept of a run while it trains: its trace, its times and limits, its checkpoints."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dgpbench.errors import TimedOut
from dgpbench.training.checkpoints import Checkpoints


class TraceRow(NamedTuple):
    """One line of the trace; seconds count training alone, without tracing the graph.

    ``elbo`` is the objective that is maximised, which some families call otherwise: the record has its name.
    """

    iteration: int
    seconds: float
    elbo: float
    validation_tll: float | None


@dataclass
class TrainingLog:
    """Keeps tracing and training time apart, records the trace and enforces the limits of wall-clock time.

    :param max_seconds: training stops, without failing, after this many seconds of training
    :param timeout_seconds: the run fails with ``TimedOut`` after this many seconds in all
    :param report: called with (row, max_iterations) whenever a row is recorded
    :param checkpoints: where the run's state is kept
    """

    max_seconds: float | None = None
    timeout_seconds: float | None = None
    report: Callable[[TraceRow, int], None] = lambda row, total: None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    trace: list[TraceRow] = field(default_factory=list)
    tracing_seconds: float = 0.0
    training_seconds: float = 0.0
    earlier_seconds: float = 0.0  # of the training, what processes before this one did
    prediction_seconds: float | None = None
    retries: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def begin_again(self, note: dict[str, Any]) -> None:
        """Forget an attempt that diverged but for a note; its time counts in the whole run's limit alone."""
        self.retries.append({"retry": len(self.retries) + 1, **note})
        self.trace.clear()
        self.tracing_seconds = self.training_seconds = self.earlier_seconds = 0.0

    def seconds(self) -> dict[str, float]:
        """Seconds of tracing, training and prediction, as far as the run came."""
        known = {"tracing": self.tracing_seconds, "training": self.training_seconds}
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

    def record(self, iteration: int, elbo: float, validation_tll: float | None, max_iterations: int) -> None:
        """Add a row to the trace and report it."""
        self.trace.append(TraceRow(iteration, self.training_seconds, elbo, validation_tll))
        self.report(self.trace[-1], max_iterations)

    def resume(self, variables: Sequence[Any]) -> int:
        """Restore variables and trace from the newest checkpoint; the iteration to go on from, 0 for a new run."""
        found = self.checkpoints.restore(variables)
        if found is None:
            return 0
        iteration, progress = found
        self.trace[:] = [TraceRow(*row) for row in progress["trace"]]
        self.training_seconds = self.earlier_seconds = progress["training_seconds"]
        return iteration

    def keep(self, iteration: int, variables: Sequence[Any], *, now: bool = False) -> None:
        """Write a checkpoint when one is due, or now."""
        if now or self.checkpoints.due:
            progress = {"trace": self.trace, "training_seconds": self.training_seconds}
            self.checkpoints.save(iteration, variables, progress)

    @property
    def spent(self) -> bool:
        """Whether the budget of training time is used up."""
        return self.max_seconds is not None and self.training_seconds >= self.max_seconds

    def check(self) -> None:
        """Raise ``TimedOut`` where the whole run has passed its limit."""
        elapsed = time.perf_counter() - self.started
        if self.timeout_seconds is not None and elapsed > self.timeout_seconds:
            raise TimedOut(f"the run passed its limit of {self.timeout_seconds / 60:g} minutes (timeout_minutes)")
