"""What training maximised, in the words of axes and legends: each family has its own objective."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from dgpbench import config

UNNAMED = "objective"


def objective_of(record: Mapping[str, Any]) -> str:
    """The name of the values that a run's trace has under ``elbo``: ELBO, log joint, EP energy, ..."""
    return record.get("objective") or _by_method(record["identity"]["method"])


@cache
def _by_method(method: str) -> str:
    """For records from before the name was kept."""
    if method not in config.choices("method"):
        return UNNAMED
    return str(config.compose([f"method={method}"]).method.objective)


def objective_label(names: Iterable[str]) -> str:
    """'log joint (nats, standardised y)': the axis of a trace, or of several of different families."""
    unique = list(dict.fromkeys(names)) or [UNNAMED]
    return f"{' or '.join(unique)} (nats, standardised y)"
