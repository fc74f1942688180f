"""Progress of a run: an estimate of its time, a bar on a terminal, or a plain line every ten seconds elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dgpbench.errors import printable

PLAIN_SECONDS = 10.0
FIRST_SECONDS = 0.3  # of iterations, from which the rest is estimated
Row = Any  # of a trace: iteration, seconds, elbo (the objective, whatever its name), validation_tll


@contextmanager
def progress(title: str, *, objective: str, shown: bool) -> Iterator:
    """Yield ``report(row, max_iterations)``, which is called for every row of the trace.

    :param objective: the name of the objective, such as ELBO
    """
    title = printable(title)
    last = time.monotonic()
    first: tuple[int, float] | None = None  # the first row's iteration, and when it came

    def text(row: Row) -> str:
        validation = "" if row.validation_tll is None else f"  validation TLL {row.validation_tll:.4f}"
        return f"{objective} {row.elbo:.2f}{validation}"

    def plain_line(row: Row, total: int) -> None:
        nonlocal first, last
        now = time.monotonic()
        if first is None or row.iteration <= first[0]:  # a fit that diverged was restarted
            first = row.iteration, now
        if now - last < PLAIN_SECONDS and row.iteration < total:
            return
        last = now
        done = row.iteration - first[0]
        # By the clock: the seconds of a row are a share where several splits are trained as one model.
        remaining = f"  {(now - first[1]) / done * (total - row.iteration):.0f} s left" if done else ""
        line = f"{title}: iteration {row.iteration:,}/{total:,}  {text(row)}{remaining}"
        print(line, file=sys.stderr, flush=True)

    if not shown:
        yield lambda row, total: None
    elif sys.stderr.isatty():
        from rich import progress as rich
        from rich.console import Console

        columns = (
            *(rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), rich.MofNCompleteColumn()),
            *(rich.TextColumn("{task.fields[text]}"), rich.TimeElapsedColumn(), rich.TimeRemainingColumn()),
        )
        with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(title, total=None, text="starting")
            yield lambda row, total: bar.update(task, completed=row.iteration, total=total, text=text(row))
    else:
        yield plain_line


@dataclass
class Forecast:
    """A ``report`` that estimates the rest of the training time once, from the first iterations.

    The first block is not counted, since memory pools grow in it; nor are tracing and scores.
    """

    say: Callable[[str], None]
    at_most: bool = False  # whether training may end before its last iteration
    max_seconds: float | None = None  # of training, after which it ends
    since: tuple[int, float] | None = None  # the first block's last iteration, and its seconds
    said: bool = False

    def __call__(self, row: Row, total: int) -> None:
        """A block has ended at ``row.iteration`` of ``total``."""
        if self.since is None or row.iteration <= self.since[0]:  # a fit that diverged was restarted
            self.since = row.iteration, row.seconds
        elif not self.said and row.seconds - self.since[1] >= FIRST_SECONDS:
            self.said = True
            pace = (row.seconds - self.since[1]) / (row.iteration - self.since[0])
            left = pace * (total - row.iteration)
            if self.max_seconds is not None:
                left = min(left, max(0.0, self.max_seconds - row.seconds))
            bound = "at most" if self.at_most else "about"
            self.say(f"{bound} {in_words(left)} of training to go, at {1000 * pace:.3g} ms an iteration")


def counted(number: int, what: str) -> str:
    """Return '1 run', '2 runs'."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def in_words(seconds: float) -> str:
    """Return '3 h 20 min'; seconds only below two minutes."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1g} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
