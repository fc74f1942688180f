"""Checkpoints: the state of a run in one file, so that a run killed at any step resumes and ends in the same bits.

Batches and samples are functions of (seed, step), so the state is the variables, the iteration and the trace. Each file
is a NumPy archive with checksums, written atomically; a run resumes from the newest readable one.
"""

import io
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.errors import UserError
from dgpbench.system.files import replacing, write_whole

KEPT = 2
EVERY_SECONDS = 60.0
INTERVAL_VARIABLE = "DGPBENCH_CHECKPOINT_SECONDS"  # for runs that may be stopped at any time, and for tests


def interval() -> float:
    """Return the minimum number of seconds between two checkpoints: the user's, else a minute.

    :raises UserError: for an invalid value of the user's
    """
    value = os.environ.get(INTERVAL_VARIABLE) or EVERY_SECONDS
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise UserError(f"{INTERVAL_VARIABLE}={value} is invalid; set a number of seconds, 0 or more")
    return seconds


@dataclass
class Checkpoints:
    """The checkpoints of one run.

    :param directory: their folder, or None for no checkpoints
    :param key: of the run's settings; checkpoints of other settings are ignored
    :param every_seconds: minimum time between two checkpoints
    """

    directory: Path | None = None
    key: str = ""
    every_seconds: float = EVERY_SECONDS
    _last: float = field(default_factory=time.monotonic)

    @property
    def due(self) -> bool:
        """True when the next checkpoint is due."""
        return self.directory is not None and time.monotonic() - self._last >= self.every_seconds

    def save(self, iteration: int, variables: Sequence[Any], progress: dict[str, Any]) -> None:
        """Write the values of TensorFlow variables and the monitor's progress; keep the newest few files.

        :raises UserError: when the disk is full or read-only; the older files are untouched
        """
        if self.directory is None:
            return
        path = self.directory / f"step-{iteration:09d}.npz"
        about = json.dumps({"key": self.key, "iteration": iteration, "progress": progress}).encode()
        arrays = {f"v{index}": variable.numpy() for index, variable in enumerate(variables)}
        buffer = io.BytesIO()
        np.savez(buffer, about=np.frombuffer(about, np.uint8), **arrays)
        with replacing(path) as partial:
            write_whole(partial, buffer.getbuffer())
        for old in self._files()[KEPT:]:
            old.unlink(missing_ok=True)
        self._last = time.monotonic()

    def restore(self, variables: Sequence[Any]) -> tuple[int, dict[str, Any]] | None:
        """Assign the newest readable checkpoint to the variables; return its iteration and the monitor's progress.

        Unreadable files are removed: newer by name, they would outlive the files that the run writes next.
        """
        for path in self._files():
            loaded = self._read(path, variables)
            if loaded is not None:
                arrays, about = loaded
                for variable, value in zip(variables, arrays, strict=True):
                    variable.assign(value)
                return about["iteration"], about["progress"]
            path.unlink(missing_ok=True)
        return None

    def clear(self) -> None:
        """Remove all checkpoints, and partial files of a killed process: the run has ended."""
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _files(self) -> list[Path]:
        return [] if self.directory is None else sorted(self.directory.glob("step-*.npz"), reverse=True)

    def _read(self, path: Path, variables: Sequence[Any]) -> tuple[list[np.ndarray], dict[str, Any]] | None:
        """Return the values and facts of one file, or None where it is damaged or of another run."""
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                arrays = [file[f"v{index}"] for index in range(len(variables))]
            fits = all(
                array.shape == tuple(variable.shape) and array.dtype == variable.dtype.as_numpy_dtype
                for array, variable in zip(arrays, variables, strict=True)
            )
            return (arrays, about) if fits and about["key"] == self.key else None
        except Exception:  # a damaged archive can raise nearly anything, and an older one may be intact
            return None
