"""Canonical text of values, and the hash of a configuration."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def canonical(value: Any) -> str:
    """Return one text for equal values: 0.001 for 1e-3 and '1e-3', 20 for 20.0, true, null, [1,2] without spaces."""
    value = plain(value, str)
    try:
        parsed = json.loads(value, parse_constant=str) if isinstance(value, str) else value
        return parsed if isinstance(parsed, str) else json.dumps(_whole(parsed), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):  # a text that is not JSON, or of too many brackets
        return value


def _whole(value: Any) -> Any:
    """Convert floats without a fraction to integers, at any depth."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def config_hash(config: Mapping[str, Any]) -> str:
    """Return the sha256 of a configuration as canonical JSON; it excludes results_dir, num_threads and the like."""
    text = json.dumps(plain(config, str), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def digest(text: str) -> str:
    """Return a digest of a text, 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(value: Any, non_finite: Callable[[float], Any]) -> Any:
    """Convert NumPy numbers and arrays, tuples, mappings and paths to the types of JSON."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each, non_finite) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each, non_finite) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return non_finite(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
