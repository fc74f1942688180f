"""Identity of a run: the directory that names it.

Records are found, skipped and compared by identity and by the hash of ``Run.config``, so neither changes without a new
``store.SCHEMA``. CONTRIBUTING.md, "Identity", defines both, and golden tests check them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from dgpbench.config.canonical import canonical, digest
from dgpbench.config.overrides import argument

MAX_COMPONENT_BYTES = 150  # file systems accept 255, and temporary names need room


@dataclass(frozen=True)
class Identity:
    """The axes of a run; ``overrides`` is every other setting that differs from what the named choices give."""

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
        """Return the directory of the run's record; two runs share it if and only if all axes are equal.

        The order of ``overrides`` and the format of a number (1e-3, 0.001) do not matter.
        """
        components = [
            _shortened(_safe(each)) for each in (self.task, self.dataset, f"{self.method}-L{self.num_layers}")
        ]
        budget = _safe(self.budget).replace("-", "%2D")  # protocol a-b with budget c is not a with b-c
        choices = _shortened(f"{_safe(self.protocol)}-{budget}")
        last = f"split{self.split}-seed{self.seed}"
        pairs = sorted(f"{_safe(key)}={_safe(canonical(value))}" for key, value in self.overrides.items())
        if text := ",".join(pairs):
            whole = f"{last}+{text}"
            last = whole if len(whole) <= MAX_COMPONENT_BYTES else f"{last}+{digest(text)}"
        return Path(results_dir, "runs", *components, choices, last)

    @property
    def key(self) -> str:
        """The run's name: its directory below ``runs``, with slashes."""
        return "/".join(self.directory("").parts[1:])

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key of records; splits are compared as numbers, so that 2 comes before 10."""
        axes = [getattr(self, axis.name) for axis in fields(self) if axis.name != "overrides"]
        return (*axes, canonical(self.overrides))

    def arguments(self) -> list[str]:
        """Return the arguments of ``dgpbench run`` that execute this run."""
        named = {name: getattr(self, name) for name in ("method", "dataset", "task", "protocol", "budget")}
        numbers = {"method.num_layers": self.num_layers, "split": self.split, "seed": self.seed}
        return [argument(key, canonical(value)) for key, value in {**named, **numbers, **self.overrides}.items()]


def name_of_run(path: str) -> str:
    """Return ``runs/<task>/.../split<k>-seed<s>...`` for a run's directory, independent of machine and folder.

    Any other text is returned unchanged.
    """
    parts = PurePath(os.path.normpath(path)).parts
    return "/".join(parts[-6:]) if len(parts) >= 6 and parts[-6] == "runs" else path


def _shortened(safe: str) -> str:
    return safe if len(safe) <= MAX_COMPONENT_BYTES else f"{safe[: MAX_COMPONENT_BYTES // 2]}+{digest(safe)}"


def _safe(text: str) -> str:
    """Percent-escape all but letters, digits and ``_ . - ~``, and a leading dot: ``..`` is a folder."""
    escaped = quote(text, safe="")
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped
