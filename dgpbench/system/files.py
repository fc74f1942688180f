"""Files that are whole or not there at all, and one sentence where they cannot be written."""

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dgpbench.errors import Refused

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
        if problem.errno not in CANNOT_WRITE:
            raise
        why = os.strerror(problem.errno)
        if problem.errno in NO_FOLDER:
            raise Refused(f"{target} cannot be written ({why}: {problem.filename}); {advice}") from problem
        raise Refused(
            f"{target} cannot be written ({why}; {_room(Path(target))} free there); make room, or {advice}"
        ) from problem


@contextmanager
def replacing(target: str | os.PathLike, advice: str = ANOTHER_FOLDER) -> Iterator[Path]:
    """A path beside the target for what takes its place when the block ends well, and vanishes when it does not.

    :param advice: how the user says where else to write
    :raises Refused: when the disk is full or read-only; an older target is untouched
    """
    target = Path(target)
    partial = target.with_name(f".partial-{uuid.uuid4().hex}{target.suffix}")  # the suffix names a picture's format
    with refusing_unwritable(target, advice):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            os.replace(partial, target)
        finally:
            with suppress(OSError):  # never in place of the error that led here
                partial.unlink(missing_ok=True)


def _room(target: Path) -> str:
    existing = next((folder for folder in (target, *target.absolute().parents) if folder.exists()), Path("/"))
    return f"{shutil.disk_usage(existing).free / 2**20:,.0f} MiB"
