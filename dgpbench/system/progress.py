"""Progress of a run: a live bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PLAIN_SECONDS = 10.0


class Row(Protocol):
    """What progress reads of a row of the trace."""

    iteration: int
    seconds: float
    elbo: float  # the objective, whatever its name
    validation_tll: float | None


@contextmanager
def progress(title: str, *, objective: str, shown: bool) -> Iterator:
    """Yields ``report(row, max_iterations)``, to be called whenever there is something to say.

    :param objective: the name of what is maximised, such as ELBO
    """
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
        print(
            f"{title}: iteration {row.iteration}/{total}  {_text(row, objective)}  {left:.0f} s left",
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
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as live:
        task = live.add_task(title, total=None, text="starting")
        yield lambda row, total: live.update(task, completed=row.iteration, total=total, text=_text(row, objective))
