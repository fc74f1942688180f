"""Open a file, or the one member that is needed of a zip archive, without unpacking anything to disk.

A member is found by its exact name and only ever read, so a name with ``..`` in it can do no harm; a member that
claims to be far larger than its compressed bytes is refused before a byte of it is read.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

MAX_BYTES = 4 * 1024**3
# Numbers in text compress ten to thirty times.
MAX_RATIO = 200


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[BinaryIO]:
    """The file at a path, or a member of the zip archive there, open for reading."""
    if member is None:
        with path.open("rb") as file:
            yield file
    else:
        with zipfile.ZipFile(path) as archive, archive.open(_checked(archive, member)) as file:
            yield cast(BinaryIO, file)


def _checked(archive: zipfile.ZipFile, member: str) -> zipfile.ZipInfo:
    info = archive.getinfo(member)
    # zipfile reads no more than the declared size, so checking the declaration is enough.
    if info.file_size > min(MAX_BYTES, MAX_RATIO * max(info.compress_size, 1)):
        raise zipfile.BadZipFile(f"{member} claims {info.file_size} bytes in {info.compress_size} compressed ones")
    return info


def sha256_of(path: Path, member: str | None = None) -> str:
    """sha256 of a file, or of a member of the zip archive there."""
    with opened(path, member) as file:
        return hashlib.file_digest(cast(io.BufferedIOBase, file), "sha256").hexdigest()
