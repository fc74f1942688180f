"""Exceptions that end a run without a result, and escaping of foreign text."""


def printable(text: str, keep: str = "") -> str:
    """Escape control, formatting and other invisible characters, so that a terminal does not interpret them.

    :param keep: characters to leave unchanged, such as line breaks
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


class UserError(Exception):
    """Invalid input. The message is one sentence: what is wrong, then what to do."""

    def __str__(self) -> str:
        """Return the message on one line."""
        return printable(super().__str__())


class Diverged(Exception):
    """Training reached a loss that is not finite, or a chain left the posterior."""


class TimedOut(Exception):
    """A run exceeded its wall-clock limit."""


class NonFinitePredictions(Diverged, ValueError):
    """Predictions are not finite: the fit has diverged."""
