"""A model on the disk: a directory of plain arrays and JSON, or the directory of a finished run.

    MODEL/
        model.json        kind, model (runs.description), about (choices, data, versions, scores), files, digest
        parameters.npz    the arrays by path; nothing is pickled

``model.json`` is written last. It holds size and sha256 of the other and the digest of its own content: where it
exists the model is whole, and a change is noticed. Both are checked when they are read, whoever wrote them.
"""

import hashlib
import json
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dgpbench.config import groups
from dgpbench.config.canonical import config_hash, plain
from dgpbench.config.settings import typed
from dgpbench.errors import UserError
from dgpbench.methods.plugins import is_of_this_code
from dgpbench.models.model import CHOICES, Choices, Model, refusing
from dgpbench.runs import record as records
from dgpbench.runs import store
from dgpbench.runs.description import FORMAT, Description
from dgpbench.system.files import check_folder, replacing, write_whole
from dgpbench.system.memory import available

MODEL, ARRAYS, DIGEST = "model.json", store.PARAMETERS, "digest"
LARGEST = 2**26  # bytes of model.json; a model of a thousand columns has a tenth of a megabyte
KIND = "dgpbench model"
ABOUT = ("data", "config", "config_hash", "scores", "iterations", "seconds", "notes", "versions", "git", "finished")
ANOTHER = "choose another directory"  # without --output: in Python too
HOW = (
    "`dgpbench fit ... --output DIRECTORY` and, in Python, `save` write one, and the directory of a finished run below "
    "results/runs is one"
)


def check_free(directory: str | Path) -> Path:
    """The directory, if nothing but checkpoints is in it.

    :raises UserError: where a model, or something else, is there already
    """
    directory = Path(directory).expanduser()
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file, and a model is a directory; {ANOTHER}")
    if (directory / MODEL).exists():
        raise UserError(f"{directory} holds a model already; move it away, or {ANOTHER}")
    if directory.is_dir() and any(not path.name.startswith(".") for path in directory.iterdir()):
        raise UserError(f"{directory} holds other files; choose an empty or a new directory")
    return directory


@contextmanager
def prepared(directory: str | Path) -> Iterator[Path]:
    """The directory, free and writable, before hours of training; where nothing came into a new one, it is removed.

    :raises UserError: where something is there already, or nothing can be written
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

    :raises UserError: where something is there already, or nothing can be written
    """
    directory = check_free(directory)
    arrays = store.npz(model.arrays)
    files = {ARRAYS: {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}}
    facts = {"kind": KIND, "model": model.description.to_json(), "about": plain(model.about, str), "files": files}
    facts[DIGEST] = config_hash(facts)
    for name, data in ((ARRAYS, arrays), (MODEL, (json.dumps(facts, indent=1) + "\n").encode())):
        with replacing(directory / name, ANOTHER) as partial:
            write_whole(partial, data)
    return directory


def load(directory: str | Path, say: Callable[[str], object] = warnings.warn) -> Model:
    """The model of a directory that ``save`` wrote, or of a finished run's.

    :param say: told where nothing would show that the model was changed
    :raises UserError: where there is none, or it is damaged, changed or of a later dgpbench
    """
    directory = Path(directory).expanduser()
    if not (directory / MODEL).exists() and not (directory / store.RECORD).exists():
        raise UserError(f"{directory} holds no model; {HOW}")
    with refusing(f"{directory} cannot be loaded"):
        facts = _facts(directory, say) if (directory / MODEL).exists() else _of_record(directory)
        about, files = facts["about"], facts["files"]
        choices = typed(Choices, about["choices"], "choices")
        if any(str(key).endswith("_file") for key in choices.overrides):
            raise ValueError("its choices name a file, and a model holds what it needs itself")
        typed(int, about["iterations"], "iterations")
        _check_code(about["config"]["method"])
        description = Description.from_json(facts["model"])
        arrays = _arrays(directory, files[ARRAYS] if list(files) == [ARRAYS] else None, description)
        return Model(description, arrays, about, str(directory))


def _facts(directory: Path, say: Callable[[str], object]) -> Mapping[str, Any]:
    path = _regular(directory / MODEL)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{MODEL} is {path.stat().st_size:,} bytes long")
    facts = records.parse(path.read_text(encoding="utf-8"))
    if not isinstance(facts, dict) or facts.get("kind") != KIND:
        raise ValueError(f"{MODEL} is not one of dgpbench's")
    made = facts.pop(DIGEST, None)
    if typed(int, facts["model"]["format"], "format") <= FORMAT and made not in (None, config_hash(facts)):
        raise ValueError(f"{MODEL} was changed after it was saved: its digest is not that of its content")
    if made is None:
        say(f"{directory} was saved by an earlier dgpbench, without a digest: nothing shows whether it was changed")
    return facts


def _of_record(directory: Path) -> Mapping[str, Any]:
    """What a run's record says, as ``model.json`` would say it.

    :raises UserError: for a run without a model
    """
    record = store.read_record(_regular(directory / store.RECORD))
    if record["status"] != "done":
        raise UserError(f"it is {record['status']}, so there is nothing to predict with; run it again first")
    model = record.get("model")
    if model is None:
        raise UserError("it was recorded by an earlier dgpbench, which kept no scales; move it away and run it again")
    about = {key: record[key] for key in ABOUT}
    choices = {key: record["identity"][key] for key in CHOICES}
    return {"model": model, "about": {"choices": choices, **about}, "files": {ARRAYS: record["files"][ARRAYS]}}


def _check_code(recorded: Mapping[str, Any]) -> None:
    name = recorded["name"]
    if groups.exists("method", name) and not is_of_this_code(recorded):  # exists() loads what is installed
        raise ValueError(f"it was fitted with another version of the code of {name}; fit it again")


def _regular(path: Path) -> Path:
    """
    :raises ValueError: for a link, which may lead anywhere, or a pipe or device, which may have no end
    """
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{path.name} is missing, or is not a plain file of this directory")
    return path


def _arrays(directory: Path, stored: Mapping[str, Any] | None, description: Description) -> dict[str, np.ndarray]:
    """The arrays, once their digest, and then the sizes that their headers state, are seen to be right.

    :param stored: size and sha256 of their file; None where the model names other files
    """
    if stored is None:
        raise ValueError(f"its files are not {ARRAYS} alone")
    if problem := records.file_problem(_regular(directory / ARRAYS), stored):
        raise ValueError(problem)
    with zipfile.ZipFile(directory / ARRAYS) as archive:
        shapes = dict(_shape(archive, member) for member in archive.infolist())
        if 2 * sum(member.file_size for member in archive.infolist()) > available():
            raise ValueError(f"{ARRAYS} does not fit in the memory that is free")
    description.check_arrays(shapes)
    return store.read_parameters(directory)


def _shape(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[str, tuple[int, ...]]:
    """The name of an array and the shape in its header, whose numbers are all there: ``save`` compresses nothing."""
    if member.compress_size != member.file_size:  # before anything is unpacked: a header may state 4 GB of itself
        raise ValueError(f"{member.filename} is compressed")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, _, kind = read(file)
        if kind.hasobject:
            raise ValueError(f"{member.filename} holds Python objects")
        if file.tell() + math.prod(shape) * kind.itemsize != member.file_size:
            raise ValueError(
                f"{member.filename} is {member.file_size:,} bytes long, and its header says {kind} {shape}"
            )
    return member.filename.removesuffix(".npy"), shape
