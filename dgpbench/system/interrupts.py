"""Ctrl-C and SIGTERM: handled at once, or during training at the end of the step; a second signal never waits."""

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
    """Turn the signals into KeyboardInterrupt with the signal's name during the block."""
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
    """Defer a first signal until ``raise_pending`` is called, or the block ends."""
    _State.waiting, _State.pending = True, None
    try:
        yield
    finally:
        _State.waiting = False
    raise_pending()


def is_pending() -> bool:
    """Return True if a signal was deferred."""
    return _State.pending is not None


def raise_pending() -> None:
    """Raise the deferred signal, if there is one."""
    name, _State.pending = _State.pending, None
    if name is not None:
        raise KeyboardInterrupt(name)
