"""Atomic writes, and one sentence if a file cannot be written."""

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dgpbench.errors import UserError

ENOUGH = 2**20  # free bytes of a disk that is not full
FULL = {errno.ENOSPC, errno.EDQUOT}
NO_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
CANNOT_WRITE = {*FULL, *NO_FOLDER, errno.EROFS, errno.EACCES, errno.EPERM}


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Write a new file and flush it to the disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


ANOTHER_FOLDER = "choose another folder with results_dir=FOLDER"
ANOTHER_OUTPUT = "choose another place with --output"


@contextmanager
def refusing_unwritable(target: str | os.PathLike, advice: str = ANOTHER_FOLDER) -> Iterator[None]:
    """Turn the error of a full, read-only or forbidden disk, or of an invalid path, into one sentence.

    :param advice: how to choose another place
    """
    try:
        yield
    except OSError as problem:
        if (full := of_temporary_folder(problem, Path(target))) is not None:
            raise UserError(full) from problem
        if problem.errno not in CANNOT_WRITE:
            raise
        why = os.strerror(problem.errno)
        if problem.errno in NO_FOLDER:
            raise UserError(f"{target} cannot be written ({why}: {problem.filename}); {advice}") from problem
        room = f"{_free_bytes(Path(target)) / 2**20:,.0f} MiB"
        raise UserError(f"{target} cannot be written ({why}; {room} free there); make room, or {advice}") from problem


def of_temporary_folder(problem: OSError, target: Path) -> str | None:
    """Return advice if the folder for temporary files is full, rather than the disk of the target."""
    advice = "make room there, or set TMPDIR to another folder"
    if str(problem.strerror).startswith("No usable temporary directory"):
        return f"no temporary file can be written ({problem.strerror}); {advice}"
    if problem.errno not in FULL or tempfile.tempdir is None:
        return None
    folder = Path(tempfile.tempdir)
    if shutil.disk_usage(folder).free > ENOUGH or _free_bytes(target) <= ENOUGH:
        return None
    return f"the folder for temporary files, {folder}, is full; {advice}"


@contextmanager
def replacing(target: str | os.PathLike, advice: str = ANOTHER_FOLDER) -> Iterator[Path]:
    """Yield a path beside the target; it replaces the target if the block succeeds, and is removed if not.

    The target of a link is replaced. A pipe or a terminal is kept, and receives the whole content.

    :param advice: how to choose another place
    :raises UserError: if the disk is full or read-only (an old target is kept), or the target is not a file
    """
    target = Path(target)
    with refusing_unwritable(target, advice):
        if _is_stream(target, advice):
            with tempfile.TemporaryDirectory() as folder:
                partial = Path(folder, target.name)
                yield partial
                with partial.open("rb") as whole, target.open("wb") as stream:
                    shutil.copyfileobj(whole, stream)
            return
        place = Path(os.path.realpath(target))
        partial = place.with_name(f".partial-{uuid.uuid4().hex}{target.suffix}")  # the suffix names a picture's format
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            os.replace(partial, place)
        finally:
            with suppress(OSError):  # never in place of the error that led here
                partial.unlink(missing_ok=True)


def _is_stream(target: Path, advice: str) -> bool:
    """Return True for a pipe or a terminal; refuse a folder, a disk or a socket."""
    if target.is_dir():
        raise UserError(f"{target} is a folder, but a file is written; {advice}")
    if not target.exists() or target.is_file():
        return False
    if not (target.is_fifo() or target.is_char_device()):
        raise UserError(f"{target} is neither a file nor a pipe, and cannot be written; {advice}")
    return True


def check_file(target: Path, advice: str) -> None:
    """Create the folder of a file and check that the file can be written, before hours of work.

    :raises UserError: if it cannot
    """
    with refusing_unwritable(target, advice):
        if not _is_stream(target, advice):
            check_folder(Path(os.path.realpath(target)).parent, advice)


def check_folder(folder: Path, advice: str) -> None:
    """Create a folder and, for a moment, a file in it.

    :raises UserError: if that fails
    """
    with refusing_unwritable(folder, advice):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _free_bytes(target: Path) -> int:
    existing = next((folder for folder in (target, *target.absolute().parents) if folder.exists()), Path("/"))
    return shutil.disk_usage(existing).free
