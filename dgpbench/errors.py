"""The ways in which a run can end without a result, and how texts from elsewhere are shown."""


def printable(text: str, keep: str = "") -> str:
    """Escape control, formatting and other invisible characters, so that a terminal shows a text and never obeys it.

    :param keep: characters that are left as they are, such as line breaks
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


class UserError(Exception):
    """Input that cannot be run; the message is one sentence that says what was given and what would work."""

    def __str__(self) -> str:
        """The sentence on one line, whatever was given."""
        return printable(super().__str__())


class Diverged(Exception):
    """Training met a loss that is not a finite number, or a chain left the posterior."""


class TimedOut(Exception):
    """A run passed its limit of wall-clock time."""


class NonFinitePredictions(Diverged, ValueError):
    """Predictions that are not finite numbers: the fit they come from has diverged."""
