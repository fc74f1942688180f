"""Checkpoints: the state of a run in one file, so that a run killed at any step resumes and ends in the same bits.

Batches and samples are functions of (seed, step), so the state is the variables, the iteration and the trace. Each file
is a NumPy archive, whose members carry checksums, and is put in place whole; the newest that can be read counts.
"""

import json
import os
import time
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

KEPT = 2


@dataclass
class Checkpoints:
    """The checkpoints of one run.

    :param directory: where they lie, or None to keep none
    :param key: of the run's settings; a checkpoint of other settings is passed over
    :param every_seconds: least time between two checkpoints
    """

    directory: Path | None = None
    key: str = ""
    every_seconds: float = 60.0
    _last: float = field(default_factory=time.monotonic)

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        return self.directory is not None and time.monotonic() - self._last >= self.every_seconds

    def save(self, iteration: int, variables: Sequence[Any], progress: dict[str, Any]) -> None:
        """Write the values of TensorFlow variables and what the clock knows; keep the newest few files."""
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"step-{iteration:09d}.npz"
        partial = path.with_suffix(".partial")
        about = json.dumps({"key": self.key, "iteration": iteration, "progress": progress}).encode()
        arrays = {f"v{index}": variable.numpy() for index, variable in enumerate(variables)}
        with open(partial, "wb") as file:
            np.savez(file, about=np.frombuffer(about, np.uint8), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        for old in self._files()[KEPT:]:
            old.unlink(missing_ok=True)
        self._last = time.monotonic()

    def restore(self, variables: Sequence[Any]) -> tuple[int, dict[str, Any]] | None:
        """Put the newest readable checkpoint's values into the variables; its iteration and the clock's progress."""
        for path in self._files():
            loaded = self._read(path, variables)
            if loaded is not None:
                arrays, about = loaded
                for variable, value in zip(variables, arrays, strict=True):
                    variable.assign(value)
                return about["iteration"], about["progress"]
        return None

    def clear(self) -> None:
        """Remove all of them: the run has ended."""
        for path in self._files():
            path.unlink(missing_ok=True)
        if self.directory is not None and self.directory.is_dir():
            self.directory.rmdir()

    def _files(self) -> list[Path]:
        return [] if self.directory is None else sorted(self.directory.glob("step-*.npz"), reverse=True)

    def _read(self, path: Path, variables: Sequence[Any]) -> tuple[list[np.ndarray], dict[str, Any]] | None:
        """Values and facts of one file, or None where it is damaged or of another run."""
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                arrays = [file[f"v{index}"] for index in range(len(variables))]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            return None
        fits = all(array.shape == tuple(variable.shape) for array, variable in zip(arrays, variables, strict=True))
        return (arrays, about) if fits and about["key"] == self.key else None
