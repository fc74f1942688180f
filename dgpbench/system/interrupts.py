"""Ctrl-C and SIGTERM: handled at once, or during training at the end of the step; a second signal never waits."""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

EXIT_CODES = {"SIGINT": 130, "SIGTERM": 143}


class _State:
    waiting = False
    pending: str | None = None


@contextmanager
def handled(numbers: Iterable[signal.Signals] = (signal.SIGINT, signal.SIGTERM)) -> Iterator[None]:
    """Turn the signals into KeyboardInterrupt with the signal's name during the block."""

    def handle(number: int, _frame) -> None:
        name = signal.Signals(number).name
        if not _State.waiting or _State.pending is not None:
            raise KeyboardInterrupt(name)
        _State.pending = name

    before = {}
    with suppress(ValueError):  # not the main thread, which alone receives signals
        before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Defer a first signal until ``raise_pending`` is called, or the block ends, even by an error."""
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
