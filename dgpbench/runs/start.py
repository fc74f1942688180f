"""The finished run that another starts from, ``init_from``: its name in identities, its place, its parameters."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from dgpbench.errors import UserError
from dgpbench.runs import store
from dgpbench.runs.identity import Identity
from dgpbench.runs.record import file_problem

if TYPE_CHECKING:
    import numpy as np


def name_of(given: str) -> str:
    """What identities call a run: ``runs/<task>/.../split<k>-seed<s>...``, whatever machine and folder it lies in.

    A text that is no run's directory stays as it is.
    """
    parts = PurePath(os.path.normpath(given)).parts
    return "/".join(parts[-6:]) if len(parts) >= 6 and parts[-6] == "runs" else given


def identity(given: str, results_dir: str, split: int, task: Mapping[str, Any], digest: str) -> Identity:
    """Which run that is.

    :param split: of the run that starts there, as its task's settings and the digest of its table
    :raises UserError: where there is no such run, it did not finish, or it was trained on other rows, which may be rows
        that the new one is tested on
    """
    record = _finished(given, results_dir)[1]
    before = Identity(**record["identity"])
    if (before.split, record["config"]["task"], record["data"]["digest_xy"]) != (split, dict(task), digest):
        raise UserError(
            f"init_from={given} was trained on the rows of {before.task} split {before.split} of {before.dataset}; a "
            f"run starts from one of its own data set, task and split (here {task['name']} split {split}), or rows "
            "that it is tested on would have trained it"
        )
    return before


def parameters(given: str, results_dir: str) -> "tuple[dict[str, np.ndarray], str]":
    """The parameters of the finished run to start from, and their sha256.

    :raises UserError: where there is no such run, it did not finish, or its parameters are not those of its record
    """
    directory, record = _finished(given, results_dir)
    stored = record["files"].get(store.PARAMETERS)
    path = directory / store.PARAMETERS
    problem = f"{path} is not mentioned in its record" if stored is None else file_problem(path, stored)
    if stored is None or problem is not None:
        raise UserError(f"init_from={given} has damaged parameters: {problem}; run it again first")
    try:
        return store.read_parameters(directory), stored["sha256"]
    except (OSError, EOFError, ValueError, BadZipFile) as problem:
        raise UserError(f"init_from={given} has no readable parameters ({problem}); rerun it first") from None


def _finished(given: str, results_dir: str) -> tuple[Path, dict[str, Any]]:
    """A run that lies below ``results_dir`` or where its path says."""
    below = Path(results_dir, given)
    directory = below if below.is_dir() else Path(given)
    try:
        record = store.read_record(directory / store.RECORD)
    except FileNotFoundError:
        record = None
    except (OSError, ValueError) as problem:
        raise UserError(f"init_from={given} has a damaged record: {problem}; run it again first") from None
    if record is None or record["status"] != "done":
        raise UserError(
            f"init_from={given} is not the directory of a finished run; those lie below results/runs, and a name that "
            f"begins with runs/ is looked for below results_dir={results_dir}"
        )
    return directory, record
