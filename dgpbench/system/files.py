"""Files that are whole or not there at all, and one sentence where they cannot be written."""

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dgpbench.errors import UserError

ENOUGH = 2**20  # bytes that are free on a disk which is not full
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
    """Turn a full, read-only or forbidden disk, and a path that can be no folder, into one sentence.

    :param advice: how the user says where else to write
    """
    try:
        yield
    except OSError as problem:
        if (said := of_temporary_folder(problem, Path(target))) is not None:
            raise UserError(said) from problem
        if problem.errno not in CANNOT_WRITE:
            raise
        why = os.strerror(problem.errno)
        if problem.errno in NO_FOLDER:
            raise UserError(f"{target} cannot be written ({why}: {problem.filename}); {advice}") from problem
        raise UserError(
            f"{target} cannot be written ({why}; {_room(Path(target))} free there); make room, or {advice}"
        ) from problem


def of_temporary_folder(problem: OSError, target: Path) -> str | None:
    """What to do where it is the folder for temporary files that has no room, and not what was to be written.

    :param target: what was to be written
    """
    advice = "make room there, or set TMPDIR to another folder"
    if str(problem.strerror).startswith("No usable temporary directory"):
        return f"no temporary file can be written ({problem.strerror}); {advice}"
    if problem.errno not in FULL or tempfile.tempdir is None:
        return None
    folder = Path(tempfile.tempdir)
    if shutil.disk_usage(folder).free > ENOUGH or shutil.disk_usage(_existing(target)).free <= ENOUGH:
        return None
    return f"the folder for temporary files, {folder}, is full; {advice}"


@contextmanager
def replacing(target: str | os.PathLike, advice: str = ANOTHER_FOLDER) -> Iterator[Path]:
    """A path beside the target for what takes its place when the block ends well, and vanishes when it does not.

    A link stays, and what it leads to is replaced. A pipe or a terminal stays too: the whole is written into it.

    :param advice: how the user says where else to write
    :raises UserError: when the disk is full or read-only, an older target is untouched; where the target can be no file
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
    """Whether a pipe or a terminal is there, which is written to; a folder, a disk or a socket is refused."""
    if target.is_dir():
        raise UserError(f"{target} is a folder, and what is written here is a file; {advice}")
    if not target.exists() or target.is_file():
        return False
    if not (target.is_fifo() or target.is_char_device()):
        raise UserError(f"{target} is neither a file nor a pipe, and cannot be written; {advice}")
    return True


def check_file(target: Path, advice: str) -> None:
    """Make the folder of a file and see that the file can be written: before hours of work whose result goes there.

    :raises UserError: where it cannot
    """
    with refusing_unwritable(target, advice):
        if not _is_stream(target, advice):
            check_folder(Path(os.path.realpath(target)).parent, advice)


def check_folder(folder: Path, advice: str) -> None:
    """Make a folder and, for a moment, a file in it.

    :raises UserError: where that cannot be done
    """
    with refusing_unwritable(folder, advice):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _existing(target: Path) -> Path:
    return next((folder for folder in (target, *target.absolute().parents) if folder.exists()), Path("/"))


def _room(target: Path) -> str:
    return f"{shutil.disk_usage(_existing(target)).free / 2**20:,.0f} MiB"
