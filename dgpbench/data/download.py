"""Find a good copy of a file: in the cache, then in the mirror, then on the network.

What a file holds decides whether it is good. A copy that cannot be read, or whose content has another digest, is
removed from the cache and the next one is tried.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from dgpbench.data.archives import sha256_of
from dgpbench.data.cache import MIRROR_VARIABLE, cache_directory, mirror, remove
from dgpbench.data.registry import is_at_hand, specs
from dgpbench.data.sources import Source, with_unpacked
from dgpbench.data.table import SourceFile
from dgpbench.data.transfer import Unreachable, download
from dgpbench.errors import UserError

PAUSES_SECONDS = (0.5, 2.0)
AGAIN_SECONDS = 60.0
Content = TypeVar("Content")


class Damaged(Exception):
    """A file that does not hold what it should; the message says what it holds, in a few words."""


@dataclass(frozen=True)
class Copy:
    """A copy of a source's file, and where it came from."""

    source: Source
    path: Path
    origin: str

    @property
    def file(self) -> SourceFile:
        """What a record says of the file."""
        return SourceFile(self.origin, str(self.path), sha256_of(self.path), self.source.sha256)


@dataclass(frozen=True)
class Part:
    """One file that a data set needs.

    :param sources: that may give it
    :param accept: reads a copy, or raises Damaged
    :param recognisable: whether ``accept`` tells this file from any other: the content's digest is known
    """

    sources: tuple[Source, ...]
    accept: Callable[[Copy], object]
    recognisable: bool


def obtain(name: str, sources: tuple[Source, ...], accept: Callable[[Copy], Content]) -> Content:
    """What ``accept`` makes of the first good copy.

    :raises UserError: when there is none, saying what was tried
    """
    unreachable: dict[str, str] = {}  # by URL, in a few words
    damaged: list[str] = []
    for copy in _copies(sources, unreachable):
        try:
            return accept(copy)
        except Damaged as damage:
            in_cache = copy.path.is_relative_to(cache_directory())  # from where it is removed
            damaged.append(f"{copy.origin if in_cache else copy.path} {damage}")
            remove(copy.path)
    raise UserError(_all_damaged(name, damaged) if damaged else _no_copy(name, unreachable))


def cached(sources: tuple[Source, ...]) -> Iterator[Copy]:
    """The copies that are in the cache."""
    for source in with_unpacked(sources):
        path = cache_directory() / source.place
        if path.is_file():
            yield Copy(source, path, source.url)


def is_here(sources: tuple[Source, ...]) -> bool:
    """Whether a copy lies in the cache or in a mirror directory, so that nothing need be downloaded."""
    where = mirror()
    local = _in_directory(Path(where), sources) if where and not where.startswith(("http://", "https://")) else iter(())
    return any(True for _ in chain(cached(sources), local))


def _copies(sources: tuple[Source, ...], unreachable: dict[str, str]) -> Iterator[Copy]:
    yield from cached(sources)
    where, asked = mirror(), [(source, source.url) for source in sources]
    if where and where.startswith(("http://", "https://")):
        asked[:0] = [
            (source, f"{where}/{source.url.partition('://')[2].partition('?')[0]}") for source in with_unpacked(sources)
        ]
    elif where:
        yield from _in_directory(Path(where), sources)
    yield from _downloaded(asked, unreachable)


def _in_directory(directory: Path, sources: tuple[Source, ...]) -> Iterator[Copy]:
    """Files of a mirror directory, read where they are."""
    for source in with_unpacked(sources):
        path = directory / source.place
        if path.is_file():
            yield Copy(source, path, source.url)  # a record says what file it was, not where this machine keeps it


def _downloaded(asked: list[tuple[Source, str]], unreachable: dict[str, str]) -> Iterator[Copy]:
    """Ask each URL once, then those again whose fault may pass: twice, and no longer than ``AGAIN_SECONDS`` in all."""
    begin = time.monotonic()
    for pause in (None, *PAUSES_SECONDS):
        busy = []
        for source, url in asked:
            if pause is not None and time.monotonic() - begin > AGAIN_SECONDS:
                return
            time.sleep(pause or 0.0)
            path = cache_directory() / source.place
            try:
                download(url, path)
            except Unreachable as error:
                unreachable[url] = str(error)
                busy += [(source, url)] if error.passing else []
            else:
                yield Copy(source, path, url)
        asked = busy


@contextmanager
def damage_when_unreadable() -> Iterator[None]:
    """Turn what a parser raises into Damaged; a missing package or a failing disk is not the fault of the file."""
    try:
        yield
    except (Damaged, ImportError, MemoryError):
        raise
    except Exception as error:
        # Each format's parser has exceptions of its own; bz2 raises OSErrors without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        words = " ".join(str(error).split())[:120]
        raise Damaged(f"cannot be read ({type(error).__name__}: {words})") from error


def _all_damaged(name: str, damaged: list[str]) -> str:
    return f"no good copy of {name} could be had: {'; '.join(damaged)}; {_other_ways()}"


def _no_copy(name: str, unreachable: Mapping[str, str]) -> str:
    tried = [f"{url} ({why})" for url, why in unreachable.items()]
    at_hand = ", ".join(other for other, spec in specs().items() if is_at_hand(spec))
    return (
        f"{name} could not be downloaded, tried {'; '.join(tried)}; {_other_ways()}, "
        f"or take a data set that needs no download ({at_hand})"
    )


def _other_ways() -> str:
    return (
        f"set {MIRROR_VARIABLE} to a folder or URL laid out as <host>/<path>, "
        "or fetch a file by hand and run `dgpbench data import PATH`"
    )
