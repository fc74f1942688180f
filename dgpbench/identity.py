"""What makes two runs the same run: the directory that names it, and the hash of its settings."""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

MAX_COMPONENT_BYTES = 150  # file systems take 255, and temporary names need room


def identity_directory(
    results_dir: str | os.PathLike,
    *,
    task: str,
    dataset: str,
    method: str,
    num_layers: int,
    protocol: str,
    budget: str,
    split: int,
    seed: int,
    overrides: Mapping[str, object],
) -> Path:
    """The directory of a run; two runs share it if and only if all of this is equal, names and values.

    The order of ``overrides`` and the way a number is written (1e-3, 0.001) do not matter.
    """
    components = [task, dataset, f"{method}-L{num_layers}", f"{_safe(protocol)}-{_safe(budget, more='-')}"]
    safe = [*map(_component, components[:3]), _shortened(components[3])]
    return Path(results_dir, "runs", *safe, _last_component(f"split{split}-seed{seed}", overrides))


def _last_component(base: str, overrides: Mapping[str, object]) -> str:
    pairs = sorted(f"{_safe(key)}={_safe(canonical(value))}" for key, value in overrides.items())
    text = ",".join(pairs)
    if not text:
        return base
    return f"{base}+{text}" if len(f"{base}+{text}") <= MAX_COMPONENT_BYTES else f"{base}+{digest(text)}"


def _component(text: str) -> str:
    return _shortened(_safe(str(text)))


def _shortened(safe: str) -> str:
    return safe if len(safe) <= MAX_COMPONENT_BYTES else f"{safe[: MAX_COMPONENT_BYTES // 2]}+{digest(safe)}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _safe(text: str, more: str = "") -> str:
    """Percent-escape all but letters, digits and ``_ . - ~``, a leading dot (``..`` is a folder) and ``more``."""
    escaped = quote(text, safe="")
    for character in more:
        escaped = escaped.replace(character, f"%{ord(character):02X}")
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped


def canonical(value: Any) -> str:
    """One text for each value: 0.001 for 1e-3 and '1e-3', 20 for 20.0, true, null, [1,2] without spaces."""
    value = plain(value, str)
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_constant=str)
        except ValueError:
            return value
    return json.dumps(_whole(value), sort_keys=True, separators=(",", ":")) if not isinstance(value, str) else value


def _whole(value: Any) -> Any:
    """Floats without a fraction as integers, at any depth."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def config_hash(config: Mapping[str, Any]) -> str:
    """sha256 of canonical JSON, for a configuration without what changes no result (results_dir, num_threads)."""
    text = json.dumps(plain(config, str), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any, non_finite) -> Any:
    """Value as JSON has it: NumPy's numbers and arrays, tuples, mappings and paths become plain ones."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each, non_finite) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each, non_finite) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return non_finite(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
