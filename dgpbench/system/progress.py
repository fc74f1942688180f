"""Progress of a run: what it will take, a live bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from dgpbench.errors import printable

PLAIN_SECONDS = 10.0
FIRST_SECONDS = 0.3  # of iterations, by which the rest is estimated


class Row(Protocol):
    """What progress reads of a row of the trace."""

    @property
    def iteration(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    @property
    def elbo(self) -> float: ...  # the objective, whatever its name

    @property
    def validation_tll(self) -> float | None: ...


@contextmanager
def progress(title: str, *, objective: str, shown: bool) -> Iterator:
    """Yields ``report(row, max_iterations)``, to be called whenever there is something to say.

    :param objective: the name of what is maximised, such as ELBO
    """
    title = printable(title)
    if not shown:
        yield lambda row, total: None
    elif sys.stderr.isatty():
        with _bar(title, objective) as report:
            yield report
    else:
        yield _plain_lines(title, objective)


def _text(row: Row, objective: str) -> str:
    validation = "" if row.validation_tll is None else f"  validation TLL {row.validation_tll:.4f}"
    return f"{objective} {row.elbo:.2f}{validation}"


def _plain_lines(title: str, objective: str):
    last = time.monotonic()

    def report(row: Row, total: int) -> None:
        nonlocal last
        if time.monotonic() - last < PLAIN_SECONDS and row.iteration < total:
            return
        last = time.monotonic()
        left = row.seconds / row.iteration * (total - row.iteration)
        remaining = f"  {left:.0f} s left" if row.iteration > 1 else ""  # the first may take no time, or all of it
        print(
            f"{title}: iteration {row.iteration:,}/{total:,}  {_text(row, objective)}{remaining}",
            file=sys.stderr,
            flush=True,
        )

    return report


@contextmanager
def _bar(title: str, objective: str):
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as live:
        task = live.add_task(title, total=None, text="starting")
        yield lambda row, total: live.update(task, completed=row.iteration, total=total, text=_text(row, objective))


@dataclass
class Forecast:
    """A ``report`` that says once, by a run's first iterations, how long the rest of its training will take.

    The first block counts for nothing, since memory pools grow in it, nor does what is not training: tracing, scores.

    :param at_most: whether training may end before its last iteration
    :param max_seconds: of training, after which it ends
    """

    say: Callable[[str], None]
    at_most: bool = False
    max_seconds: float | None = None
    since: tuple[int, float] | None = None  # the first block's last iteration, and its seconds
    said: bool = False

    def __call__(self, row: Row, total: int) -> None:
        """A block has ended at ``row.iteration`` of ``total``."""
        if self.since is None or row.iteration <= self.since[0]:  # a fit that diverged begins again
            self.since = row.iteration, row.seconds
        elif not self.said and row.seconds - self.since[1] >= FIRST_SECONDS:
            self.said = True
            self._say((row.seconds - self.since[1]) / (row.iteration - self.since[0]), row, total)

    def _say(self, pace: float, row: Row, total: int) -> None:
        left = pace * (total - row.iteration)
        if self.max_seconds is not None:
            left = min(left, max(0.0, self.max_seconds - row.seconds))
        bound = "at most" if self.at_most else "about"
        self.say(f"{bound} {in_words(left)} of training to go, at {1000 * pace:.3g} ms an iteration")


def counted(number: int, what: str) -> str:
    """'1 run', '2 runs'."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def in_words(seconds: float) -> str:
    """'3 h 20 min'; seconds only below two minutes."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1g} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
