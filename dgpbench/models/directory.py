"""A model on the disk: a directory of plain arrays and JSON, or the directory of a finished run.

    MODEL/
        model.json        kind, model (runs.description), about (choices, data, versions, scores), files
        parameters.npz    the arrays by path; nothing is pickled

``model.json`` is written last and holds size and sha256 of the other: where it exists, the model is whole.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dgpbench.config import groups
from dgpbench.config.canonical import plain
from dgpbench.errors import Refused
from dgpbench.models.model import CHOICES, Model
from dgpbench.plugins.method import is_of_this_code
from dgpbench.runs import store
from dgpbench.runs.description import Description
from dgpbench.system.files import check_folder, replacing, write_whole

MODEL, ARRAYS = "model.json", store.PARAMETERS
KIND = "dgpbench model"
ABOUT = ("data", "config", "config_hash", "scores", "iterations", "seconds", "notes", "versions", "git", "finished")
ANOTHER = "choose another directory"  # without --output: in Python too
HOW = (
    "`dgpbench fit ... --output DIRECTORY` and, in Python, `save` write one, and the directory of a finished run below "
    "results/runs is one"
)


def check_free(directory: str | Path) -> Path:
    """The directory, if nothing but checkpoints is in it.

    :raises Refused: where a model, or something else, is there already
    """
    directory = Path(directory).expanduser()
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is a file, and a model is a directory; {ANOTHER}")
    if (directory / MODEL).exists():
        raise Refused(f"{directory} holds a model already; move it away, or {ANOTHER}")
    if directory.is_dir() and any(not path.name.startswith(".") for path in directory.iterdir()):
        raise Refused(f"{directory} holds other files; choose an empty or a new directory")
    return directory


@contextmanager
def prepared(directory: str | Path) -> Iterator[Path]:
    """The directory, free and writable, before hours of training; where nothing came into a new one, it is removed.

    :raises Refused: where something is there already, or nothing can be written
    """
    directory = check_free(directory)
    is_new = not directory.exists()
    check_folder(directory, ANOTHER)
    try:
        yield directory
    finally:
        if is_new:
            with suppress(OSError):  # something is in it
                directory.rmdir()


def save(model: Model, directory: str | Path) -> Path:
    """Write a model to a directory of its own.

    :raises Refused: where something is there already, or nothing can be written
    """
    directory = check_free(directory)
    arrays = store.npz(model.arrays)
    files = {ARRAYS: {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}}
    about = plain(model.about, str)
    facts = {"kind": KIND, "model": model.description.to_json(), "about": about, "files": files}
    for name, data in ((ARRAYS, arrays), (MODEL, (json.dumps(facts, indent=1) + "\n").encode())):
        with replacing(directory / name, ANOTHER) as partial:
            write_whole(partial, data)
    return directory


def load(directory: str | Path) -> Model:
    """The model of a directory that ``save`` wrote, or of a finished run's.

    :raises Refused: where there is none, or it is damaged or of a later dgpbench
    """
    directory = Path(directory).expanduser()
    try:
        facts = _facts(directory)
        _check_files(directory, facts["files"])
        _check_code(facts["about"]["config"]["method"])
        return Model(Description.from_json(facts["model"]), store.read_parameters(directory), facts["about"])
    except (ValueError, KeyError, TypeError, OSError) as problem:
        what = problem if isinstance(problem, ValueError | OSError) else f"{type(problem).__name__}: {problem}"
        raise Refused(f"{directory} cannot be loaded: {what}") from None


def _facts(directory: Path) -> Mapping[str, Any]:
    if (directory / MODEL).is_file():
        facts = json.loads((directory / MODEL).read_bytes())
        if not isinstance(facts, dict) or facts.get("kind") != KIND:
            raise ValueError(f"{MODEL} is not one of dgpbench's")
        return facts
    if not (directory / store.RECORD).is_file():
        raise Refused(f"{directory} holds no model; {HOW}")
    return _of_record(directory)


def _of_record(directory: Path) -> Mapping[str, Any]:
    """What a run's record says, as ``model.json`` would say it."""
    record = store.read_record(directory)
    if record["status"] != "done":
        raise Refused(f"{directory} is {record['status']}, so there is nothing to predict with; run it again first")
    model = record.get("model")
    if model is None:
        raise Refused(
            f"{directory} was recorded by an earlier dgpbench, which kept no scales to predict with; move it away and "
            "run it again"
        )
    about = {key: record[key] for key in ABOUT}  # type: ignore[literal-required]
    choices = {key: record["identity"][key] for key in CHOICES}
    return {"model": model, "about": {"choices": choices, **about}, "files": {ARRAYS: record["files"][ARRAYS]}}


def _check_code(recorded: Mapping[str, Any]) -> None:
    name = recorded["name"]
    if groups.exists("method", name) and not is_of_this_code(recorded):  # exists() loads what is installed
        raise ValueError(f"it was fitted with another version of the code of {name}; fit it again")


def _check_files(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    for name, stored in files.items():
        if problem := store.problem_of(directory / name, stored):
            raise ValueError(problem)
