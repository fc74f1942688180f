"""The cache directory and the user's mirror."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.system.files import refusing_unwritable, replacing

CACHE_VARIABLE = "DGPBENCH_CACHE"
MIRROR_VARIABLE = "DGPBENCH_MIRROR"
ANOTHER_CACHE = f"set {CACHE_VARIABLE} to another folder"


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
        raise UserError(f"{MIRROR_VARIABLE} names {chosen}, which is neither a folder nor an http(s) URL")
    return str(Path(chosen).expanduser().absolute())


def writing(target: Path) -> AbstractContextManager[Path]:
    """A path beside a file of the cache for what takes its place when the block ends well.

    :raises UserError: when the disk is full or the cache may not be written
    """
    return replacing(target, ANOTHER_CACHE)


def remove(path: Path) -> None:
    """Remove a file if it lies in the cache; a file of the user's is never touched."""
    if path.is_relative_to(cache_directory()):
        with refusing_unwritable(path, ANOTHER_CACHE):
            path.unlink(missing_ok=True)
