"""The ways in which a run can end without a result."""


class Refused(Exception):
    """Input that cannot be run; the message is one sentence that says what was given and what would work."""

    def __str__(self) -> str:
        """The sentence on one line, whatever was given: line breaks and other control characters as escapes."""
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in super().__str__())


class Diverged(Exception):
    """Training met a loss that is not a finite number, or a chain left the posterior."""


class TimedOut(Exception):
    """A run passed its limit of wall-clock time."""


class NonFinitePredictions(Diverged, ValueError):
    """Predictions that are not finite numbers: the fit they come from has diverged."""
