"""The cache directory and the user's mirror, and what it takes to write a file whole or not at all."""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dgpbench.errors import Refused

CACHE_VARIABLE = "DGPBENCH_CACHE"
MIRROR_VARIABLE = "DGPBENCH_MIRROR"


def cache_directory() -> Path:
    """$DGPBENCH_CACHE, else the user's cache directory; it need not exist yet."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    import pooch

    return Path(pooch.os_cache("dgpbench"))


def mirror() -> str | None:
    """$DGPBENCH_MIRROR: a URL without its last slash, or a directory that exists."""
    chosen = os.environ.get(MIRROR_VARIABLE) or None
    if chosen is None or chosen.startswith(("http://", "https://")):
        return chosen and chosen.rstrip("/")
    if not Path(chosen).expanduser().is_dir():
        raise Refused(f"{MIRROR_VARIABLE} names {chosen}, which is neither a folder nor an http(s) URL")
    return str(Path(chosen).expanduser().absolute())


@contextmanager
def writing(target: Path) -> Iterator[Path]:
    """A temporary path beside the target that takes its place when the block ends well and vanishes when it does not.

    :raises Refused: when the disk is full or the cache may not be written
    """
    partial = target.with_name(f".partial-{uuid.uuid4().hex}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(target)
    except OSError as error:
        _refuse_what_the_user_can_mend(target, error)
        raise
    finally:
        with suppress(OSError):  # never in place of the error that led here
            partial.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a file if it lies in the cache; a file of the user's is never touched."""
    if path.is_relative_to(cache_directory()):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            _refuse_what_the_user_can_mend(path, error)
            raise


def _refuse_what_the_user_can_mend(path: Path, error: OSError) -> None:
    # requests' exceptions are OSErrors too, without such a number.
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise Refused(
            f"the disk is full while writing {path}: make room, or set {CACHE_VARIABLE} to a folder with room"
        ) from error
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        raise Refused(
            f"{path} cannot be written ({error.strerror}): set {CACHE_VARIABLE} to a folder that can be"
        ) from error
