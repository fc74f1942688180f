"""Ctrl-C and SIGTERM: at once where nothing is at stake, at the end of the step where a run's state is.

A second signal never waits.
"""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

_NAMES = {signal.SIGINT: "SIGINT", signal.SIGTERM: "SIGTERM"}
EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143}


class _State:
    waiting = False
    pending: str | None = None


def _handle(number: int, _frame) -> None:
    name = _NAMES[signal.Signals(number)]
    if _State.waiting and _State.pending is None:
        _State.pending = name
        return
    raise KeyboardInterrupt(name)


@contextmanager
def handled(numbers: Iterable[signal.Signals] = tuple(_NAMES)) -> Iterator[None]:
    """Turn the signals into KeyboardInterrupt with the signal's name, for as long as the block lasts."""
    before = {}
    with suppress(ValueError):  # not the main thread, which alone receives signals
        before = {number: signal.signal(number, _handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Let a first signal wait until ``raise_pending`` is called, or the block ends."""
    _State.waiting, _State.pending = True, None
    try:
        yield
    finally:
        _State.waiting = False
    raise_pending()


def is_pending() -> bool:
    """Whether a signal waits."""
    return _State.pending is not None


def raise_pending() -> None:
    """Raise the signal that waits, if one does."""
    name, _State.pending = _State.pending, None
    if name is not None:
        raise KeyboardInterrupt(name)
