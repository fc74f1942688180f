"""What training maximised, in the words of axes and legends: each family has its own objective."""

from collections.abc import Iterable, Mapping
from typing import Any

UNNAMED = "objective"


def objective_of(record: Mapping[str, Any]) -> str:
    """The name of the values that a run's trace has under ``elbo``: ELBO, log joint, EP energy, ..."""
    return record.get("objective", UNNAMED)


def objective_label(names: Iterable[str]) -> str:
    """'log joint (nats, standardised y)': the axis of a trace, or of several of different families."""
    unique = list(dict.fromkeys(names)) or [UNNAMED]
    return f"{' or '.join(unique)} (nats, standardised y)"
