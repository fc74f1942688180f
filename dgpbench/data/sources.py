"""Where a file may come from: its URLs, and the place that each URL has in the cache and in a mirror."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Source:
    """One URL at which a table's file, or an archive that holds it, was published.

    :param sha256: of the file at the URL, where one was published; it says from whom a file is, no more
    :param member: path inside the archive, None for a plain file
    :param member_sha256: of the member; what vouches for a table whose content digest is not known
    :param reader: ``format`` and options of the function in ``readers`` that reads the file or the member
    :param local: true for a place that no URL serves: the member unpacked beside its archive
    """

    url: str
    sha256: str | None = None
    member: str | None = None
    member_sha256: str | None = None
    reader: Mapping[str, Any] = field(default_factory=dict)
    local: bool = False

    @property
    def place(self) -> Path:
        """``<host>/<path>`` of the URL, unquoted: where the file lies below the cache or a mirror directory."""
        address = urlsplit(self.url)
        path = PurePosixPath(unquote(address.path).lstrip("/"))
        if ".." in path.parts:
            raise ValueError(f"{self.url} leads out of its host's folder")
        return Path(address.netloc) / path

    @property
    def unpacked(self) -> "Source":
        """The member as a plain file beside its archive, where an import by hand puts it."""
        url = f"{self.url.rpartition('/')[0]}/{self.member}"
        return Source(url, self.member_sha256, None, self.member_sha256, self.reader, local=True)


def sources_of(entries: Iterable[Mapping[str, Any]]) -> tuple[Source, ...]:
    """The sources that a configuration lists, in its order."""
    return tuple(Source(**entry) for entry in entries)


def with_unpacked(sources: Iterable[Source]) -> list[Source]:
    """The sources, then the unpacked members of the archives among them, each place once."""
    sources = list(sources)
    every = sources + [source.unpacked for source in sources if source.member]
    return list({source.place: source for source in reversed(every)}.values())[::-1]
