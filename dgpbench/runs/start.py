"""The finished run that another starts from, ``init_from``: its name in identities, its place, its parameters."""

import os
from pathlib import Path, PurePath
from typing import TYPE_CHECKING
from zipfile import BadZipFile

from dgpbench.errors import Refused
from dgpbench.runs import store
from dgpbench.runs.identity import Identity

if TYPE_CHECKING:
    import numpy as np


def name_of(given: str) -> str:
    """What identities call a run: ``runs/<task>/.../split<k>-seed<s>...``, whatever machine and folder it lies in.

    A text that is no run's directory stays as it is.
    """
    parts = PurePath(os.path.normpath(given)).parts
    return "/".join(parts[-6:]) if len(parts) >= 6 and parts[-6] == "runs" else given


def identity(given: str, results_dir: str) -> Identity:
    """Which run that is.

    :raises Refused: where there is no such run, or it did not finish
    """
    return Identity(**_finished(given, results_dir)[1]["identity"])


def parameters(given: str, results_dir: str) -> "dict[str, np.ndarray]":
    """The parameters of the finished run to start from.

    :raises Refused: where there is no such run, it did not finish, or its parameters are damaged
    """
    directory, _ = _finished(given, results_dir)
    try:
        return store.read_parameters(directory)
    except (OSError, EOFError, ValueError, BadZipFile) as problem:
        raise Refused(f"init_from={given} has no parameters that can be read ({problem}); run it again first") from None


def _finished(given: str, results_dir: str) -> tuple[Path, store.Record]:
    """A run that lies below ``results_dir`` or where its path says."""
    below = Path(results_dir, given)
    directory = below if below.is_dir() else Path(given)
    record = store.read_if_present(directory)
    if record is None or record["status"] != "done":
        raise Refused(
            f"init_from={given} is not the directory of a finished run; those lie below results/runs, and a name that "
            f"begins with runs/ is looked for below results_dir={results_dir}"
        )
    return directory, record
