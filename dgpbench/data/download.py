"""Obtain a valid copy of a data set's file: from the cache, the mirror directory, or the network.

The content of a file decides whether it is valid. A copy that cannot be read, or has another digest, is
removed from the cache, and the next one is tried.
"""

import hashlib
import io
import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from dgpbench.data.table import SourceFile
from dgpbench.errors import UserError
from dgpbench.system.files import refusing_unwritable, replacing

CACHE_VARIABLE = "DGPBENCH_CACHE"
MIRROR_VARIABLE = "DGPBENCH_MIRROR"
ANOTHER_CACHE = f"set {CACHE_VARIABLE} to another folder"
MAX_BYTES = 4 * 1024**3  # of a download and of an archive's member, beyond any data set here
MAX_RATIO = 200  # of a member's size to its compressed size; numbers in text compress ten to thirty times
CONNECT_AND_READ_SECONDS = (10, 15)
REDIRECT_SECONDS = 60.0
SLOW_BYTES_PER_SECOND, SLOW_AFTER_SECONDS, MAX_SECONDS = 1000, 30.0, 3600.0
BAR_BYTES = 1_000_000  # size from which a download has a progress bar
PAUSES_SECONDS = (0.5, 2.0)  # before a second and a third request
RETRY_SECONDS = 60.0


class Damaged(Exception):
    """A file with invalid content; the message describes the content in a few words."""


class Unavailable(UserError):
    """A file that could not be downloaded."""


class Unreachable(Exception):
    """A URL that did not return its file; the message is a few words."""

    def __init__(self, message: str, *, transient: bool = False):
        super().__init__(message)
        self.transient = transient  # another request may help


# Sources and copies -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """One URL at which a table's file, or an archive with it, was published."""

    url: str
    sha256: str | None = None  # published hash of the file at the URL: it identifies the file and is never required
    member: str | None = None  # path inside the archive, None for a plain file
    member_sha256: str | None = None  # verifies the member where the digest of the table is unknown
    reader: Mapping[str, Any] = field(default_factory=dict)  # ``format`` and options of one of ``published.READERS``

    @property
    def place(self) -> Path:
        """``<host>/<path>`` of the URL, unquoted: where the file lies below the cache or a mirror directory."""
        address = urlsplit(self.url)
        path = PurePosixPath(unquote(address.path).lstrip("/"))
        if ".." in path.parts:
            raise ValueError(f"{self.url} leads out of its host's folder")
        return Path(address.netloc) / path


def sources_of(entries: Iterable[Mapping[str, Any]]) -> tuple[Source, ...]:
    """Return the sources that a configuration lists, in its order."""
    return tuple(Source(**entry) for entry in entries)


def with_unpacked(sources: Sequence[Source]) -> list[Source]:
    """Return the sources, then the unpacked members of archives, where an import puts them; each place once."""
    unpacked = [
        replace(each, url=f"{each.url.rpartition('/')[0]}/{each.member}", sha256=each.member_sha256, member=None)
        for each in sources
        if each.member
    ]
    places: dict[Path, Source] = {}
    for each in (*sources, *unpacked):
        places.setdefault(each.place, each)
    return list(places.values())


@dataclass(frozen=True)
class Copy:
    """A copy of a source's file, and where it came from."""

    source: Source
    path: Path
    origin: str

    @property
    def file(self) -> SourceFile:
        """The file as a record describes it."""
        return SourceFile(self.origin, str(self.path), sha256_of(self.path), self.source.sha256)


@dataclass(frozen=True)
class RequiredFile:
    """One file that a data set needs."""

    sources: tuple[Source, ...]
    accept: Callable[[Copy], Any]  # reads a copy, or raises Damaged
    recognisable: bool  # ``accept`` tells this file from any other, because the content's digest is known


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[BinaryIO]:
    """Open a file, or one member of the zip archive there, without unpacking anything to disk.

    :raises zipfile.BadZipFile: for a member that declares to be far larger than its compressed bytes
    """
    if member is None:
        with path.open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member)
        # zipfile reads no more than the declared size, so checking the declaration is enough.
        if info.file_size > min(MAX_BYTES, MAX_RATIO * max(info.compress_size, 1)):
            raise zipfile.BadZipFile(f"{member} claims {info.file_size} bytes in {info.compress_size} compressed ones")
        with archive.open(info) as file:
            yield cast(BinaryIO, file)


def sha256_of(path: Path, member: str | None = None) -> str:
    """Return the sha256 of a file, or of a member of the zip archive there."""
    with opened(path, member) as file:
        return hashlib.file_digest(cast(io.BufferedIOBase, file), "sha256").hexdigest()


@contextmanager
def damaged_if_unreadable() -> Iterator[None]:
    """Turn a parser's exception into Damaged; missing packages and failing disks are not the file's fault."""
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


# Cache and mirror -------------------------------------------------------------------------------------------------


def cache_directory() -> Path:
    """Return $DGPBENCH_CACHE, else the user's cache directory; it need not exist yet."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("dgpbench")


def mirror() -> Path | str | None:
    """Return $DGPBENCH_MIRROR: an existing directory as a path, or a URL without its last slash."""
    chosen = os.environ.get(MIRROR_VARIABLE)
    if not chosen or chosen.startswith(("http://", "https://")):
        return chosen.rstrip("/") if chosen else None
    if not Path(chosen).expanduser().is_dir():
        raise UserError(f"{MIRROR_VARIABLE} names {chosen}, which is neither a folder nor an http(s) URL")
    return Path(chosen).expanduser().absolute()


def cached(sources: Sequence[Source]) -> Iterator[Copy]:
    """Yield the copies in the cache."""
    return _in_directory(cache_directory(), sources)


def is_here(sources: tuple[Source, ...]) -> bool:
    """Return whether a copy lies in the cache or in a mirror directory, so that no download is needed."""
    directory = mirror()
    local = _in_directory(directory, sources) if isinstance(directory, Path) else ()
    return any(True for _ in chain(cached(sources), local))


def _in_directory(directory: Path, sources: Sequence[Source]) -> Iterator[Copy]:
    """Yield copies with the URL as their origin: a record names the file, not where this machine keeps it."""
    for source in with_unpacked(sources):
        if (path := directory / source.place).is_file():
            yield Copy(source, path, source.url)


# Download ---------------------------------------------------------------------------------------------------------


def obtain(name: str, file: RequiredFile) -> Any:
    """Return what ``file.accept`` makes of the first valid copy.

    :raises UserError: when there is none, listing what was tried
    """
    unreachable: dict[str, str] = {}  # URL -> reason
    damaged: list[str] = []
    for copy in _copies(file.sources, unreachable):
        try:
            return file.accept(copy)
        except Damaged as damage:
            if in_cache := copy.path.is_relative_to(cache_directory()):  # a user's own file is never removed
                with refusing_unwritable(copy.path, ANOTHER_CACHE):
                    copy.path.unlink(missing_ok=True)
            damaged.append(f"{copy.origin if in_cache else copy.path} {damage}")
    advice = (
        f"set {MIRROR_VARIABLE} to a folder or URL laid out as <host>/<path>, "
        "or download the file yourself and run `dgpbench data import PATH`"
    )
    if damaged:
        raise UserError(f"could not obtain a valid copy of {name}: {'; '.join(damaged)}; {advice}")
    tried = "; ".join(f"{url} ({reason})" for url, reason in unreachable.items())
    raise Unavailable(f"{name} could not be downloaded, tried {tried}; {advice}")


def _copies(sources: tuple[Source, ...], unreachable: dict[str, str]) -> Iterator[Copy]:
    """Yield copies of the cache and the mirror, then request each URL once, and after transient faults twice more.

    Further requests begin within ``RETRY_SECONDS``.
    """
    yield from cached(sources)
    place, urls = mirror(), [(source, source.url) for source in sources]
    if isinstance(place, Path):
        yield from _in_directory(place, sources)
    elif place:
        paths = ((source, source.url.partition("://")[2].partition("?")[0]) for source in with_unpacked(sources))
        urls[:0] = [(source, f"{place}/{path}") for source, path in paths]
    begin = time.monotonic()
    for pause in (None, *PAUSES_SECONDS):
        busy = []
        for source, url in urls:
            if pause is not None and time.monotonic() - begin > RETRY_SECONDS:
                return
            time.sleep(pause or 0.0)
            path = cache_directory() / source.place
            try:
                download(url, path)
            except Unreachable as error:
                unreachable[url] = str(error)
                busy += [(source, url)] if error.transient else []
            else:
                yield Copy(source, path, url)
        urls = busy


def download(url: str, target: Path) -> None:
    """Download a URL to a file: whole or not at all, in bounded time and size.

    :raises Unreachable: when the URL does not return its file
    :raises UserError: when the file cannot be written
    """
    import requests
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    try:
        with replacing(target, ANOTHER_CACHE) as unfinished, unfinished.open("wb") as file:
            for data in body(url, target.name):
                file.write(data)
    except (Unreachable, UserError):
        raise
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        raise Unreachable(f"HTTP {status}", transient=status == 429 or status >= 500) from error
    except (requests.Timeout, ReadTimeoutError) as error:  # no retry where the connection failed
        raise Unreachable("no response in time", transient=not isinstance(error, requests.ConnectTimeout)) from error
    except requests.RequestException as error:
        raise Unreachable("no connection") from error
    except ProtocolError as error:
        raise Unreachable("the body ended early", transient=True) from error
    except OSError:  # of the disk
        raise
    except Exception as error:  # requests, urllib3 and http.client each have their own for malformed headers
        raise Unreachable("its response is malformed") from error


def body(url: str, title: str) -> Iterator[bytes]:
    """Yield the body of a response as it arrives, with a progress bar on a terminal if it is large."""
    import requests
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    begin = time.monotonic()

    def check_time(*_: object, **__: object) -> None:
        if time.monotonic() - begin > REDIRECT_SECONDS:
            raise requests.ReadTimeout("too many redirections")

    with requests.get(url, stream=True, timeout=CONNECT_AND_READ_SECONDS, hooks={"response": check_time}) as response:
        response.raise_for_status()
        raw, size, begin = response.raw, 0, time.monotonic()
        read = getattr(raw, "read1", raw.read)  # before urllib3 2.1, a slow body is noticed after each whole chunk
        expected = int(response.headers.get("content-length", 0))
        hidden = expected < BAR_BYTES or not sys.stderr.isatty()
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), disable=hidden) as bar:
            task = bar.add_task(title, total=expected)
            while data := read(65536, decode_content=True):
                size, seconds = size + len(data), time.monotonic() - begin
                if size > MAX_BYTES:
                    raise Unreachable(f"more than {MAX_BYTES:,} bytes")
                slow = seconds > SLOW_AFTER_SECONDS and size < SLOW_BYTES_PER_SECOND * seconds
                if slow or seconds > MAX_SECONDS:
                    raise requests.ReadTimeout("the download is too slow")
                bar.update(task, completed=size)
                yield data
