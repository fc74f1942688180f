"""What makes two runs the same run: the directory that names it, and the hash of its settings.

Records are found, skipped and compared by these two, so what they are made of never changes without a new
``store.SCHEMA``: CONTRIBUTING, "Identity", says what that is, and golden tests hold it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dgpbench.config.canonical import canonical, digest
from dgpbench.config.overrides import argument

MAX_COMPONENT_BYTES = 150  # file systems take 255, and temporary names need room


@dataclass(frozen=True)
class Identity:
    """The axes of a run.

    :param overrides: every other setting that differs from what the named choices give, names and values
    """

    task: str
    dataset: str
    method: str
    num_layers: int
    protocol: str
    budget: str
    split: int
    seed: int
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def directory(self, results_dir: str | os.PathLike) -> Path:
        """Where the run's record lies; two runs share it if and only if all axes are equal.

        The order of ``overrides`` and the way a number is written (1e-3, 0.001) do not matter.
        """
        budget = f"{_safe(self.protocol)}-{_safe(self.budget, more='-')}"
        components = [_component(text) for text in (self.task, self.dataset, f"{self.method}-L{self.num_layers}")]
        last = _last_component(f"split{self.split}-seed{self.seed}", self.overrides)
        return Path(results_dir, "runs", *components, _shortened(budget), last)

    @property
    def key(self) -> str:
        """Its directory below ``runs``, with slashes: the run's name."""
        return "/".join(self.directory("").parts[1:])

    @property
    def order(self) -> tuple[Any, ...]:
        """What records are sorted by: splits as numbers, so that 2 comes before 10."""
        who = (self.task, self.dataset, self.method, self.num_layers, self.protocol, self.budget, self.split, self.seed)
        return (*who, canonical(self.overrides))

    def arguments(self) -> list[str]:
        """What ``dgpbench run`` takes to carry out this run."""
        named = {name: getattr(self, name) for name in ("method", "dataset", "task", "protocol", "budget")}
        numbers = {"method.num_layers": self.num_layers, "split": self.split, "seed": self.seed}
        return [argument(key, canonical(value)) for key, value in {**named, **numbers, **self.overrides}.items()]


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


def _safe(text: str, more: str = "") -> str:
    """Percent-escape all but letters, digits and ``_ . - ~``, a leading dot (``..`` is a folder) and ``more``."""
    escaped = quote(text, safe="")
    for character in more:
        escaped = escaped.replace(character, f"%{ord(character):02X}")
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped
