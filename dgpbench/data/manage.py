"""What ``dgpbench data`` does: fetch, verify, import files fetched by hand, and say where everything lies."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from dgpbench.data.archives import sha256_of
from dgpbench.data.cache import cache_directory, mirror, writing
from dgpbench.data.download import Copy, Damaged, Part, cached
from dgpbench.data.registry import is_at_hand, load, loader, specs
from dgpbench.data.sources import Source, with_unpacked
from dgpbench.errors import UserError

# A file that neither its name nor its hash tells is read on trial, up to this size.
TRIAL_BYTES = 64_000_000
TRIAL_SUFFIXES = {".zip", ".csv", ".txt", ".data", ".arff", ".xls", ".xlsx"}


class Row(NamedTuple):
    """One line of an answer."""

    name: str
    status: str
    detail: str


@dataclass(frozen=True)
class Where:
    """Where the files of the data sets lie."""

    cache: Path
    mirror: str | None
    files: tuple[Path, ...]


def fetch(names: Sequence[str] = ()) -> list[Row]:
    """Load each data set once, all that are downloaded if none is named; status "ready" or "refused"."""
    return [_fetched(name, spec) for name, spec in _chosen(names).items()]


def _fetched(name: str, spec: dict[str, Any]) -> Row:
    try:
        table = load(spec)
    except UserError as refusal:
        return Row(name, "refused", str(refusal))
    origins = ", ".join(file.origin for file in table.sources) or spec["kind"]
    return Row(name, "ready", f"{table.num_rows:,} x {table.X.shape[1]}, {table.verified}, from {origins}")


def verify(names: Sequence[str] = ()) -> list[Row]:
    """Read every cached file again; status "ok", "damaged" or "absent". Nothing is removed."""
    return [row for name, spec in _chosen(names).items() for row in _verified(name, spec)]


def _verified(name: str, spec: dict[str, Any]) -> list[Row]:
    rows = [_checked(name, part, copy) for part in _parts(spec) for copy in cached(part.sources)]
    if is_at_hand(spec):
        state = _fetched(name, spec)
        rows.append(Row(name, "ok" if state.status == "ready" else "damaged", state.detail))
    return rows or [Row(name, "absent", f"dgpbench data fetch {name}")]


def _checked(name: str, part: Part, copy: Copy) -> Row:
    try:
        part.accept(copy)
    except Damaged as damage:
        return Row(name, "damaged", f"{copy.path} {damage}")
    return Row(name, "ok", str(copy.path))


def import_path(path: str | Path) -> list[Row]:
    """Copy a file fetched by hand, or every file of a folder that some data set knows, into the cache.

    A file is known by its name or its sha256, else by trial; in every case its content decides.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise UserError(f"there is no file or folder {path} to import")
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    rows = [row for file in files for row in _imported(file)]
    if not any(row.status == "imported" for row in rows):
        damage = [f"{row.name}: {row.detail}" for row in rows]
        raise UserError(f"{path} holds no file of a data set{''.join(f'; {each}' for each in damage)}")
    return rows


def _imported(file: Path) -> Iterator[Row]:
    """The places that a file takes in the cache, for each data set at most one."""
    sha256 = sha256_of(file)
    for name, spec in specs().items():
        rows = [row for part in _parts(spec) for row in _tried(name, part, file, sha256)]
        yield from [row for row in rows if row.status == "imported"][:1] or rows[:1]


def _tried(name: str, part: Part, file: Path, sha256: str) -> Iterator[Row]:
    """Try the sources that a file may be a copy of; a file of a known name that is damaged is worth a word."""
    sources = with_unpacked(part.sources)
    named = [source for source in sources if file.name == source.place.name or sha256 == source.sha256]
    trial = [source for source in sources if source not in named] if part.recognisable else []
    for source in named + [source for source in trial if _may_be(file, source)]:
        try:
            part.accept(Copy(source, file, str(file)))
        except Damaged as damage:
            if source in named:
                yield Row(name, "damaged", f"{file} {damage}")
        else:
            yield Row(name, "imported", f"{file} as {_store(file, source)}")
            return


def _may_be(file: Path, source: Source) -> bool:
    ending = file.suffix.lower()
    small = ending in TRIAL_SUFFIXES and file.stat().st_size <= TRIAL_BYTES
    return small and (ending == ".zip") == (source.member is not None)


def _store(file: Path, source: Source) -> Path:
    target = cache_directory() / source.place
    if file.resolve() != target.resolve():
        with writing(target) as partial:
            shutil.copyfile(file, partial)
    return target


def where() -> Where:
    """The cache directory, the mirror and the files in the cache."""
    cache = cache_directory()
    files = sorted(path for path in cache.rglob("*") if path.is_file() and not path.name.startswith(".partial-"))
    return Where(cache, mirror(), tuple(files))


def _chosen(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    known = {name: spec for name, spec in specs().items() if spec["kind"] != "csv"}
    for name in names:
        if name not in known:
            meant = "".join(f"; did you mean {close}?" for close in get_close_matches(name, known, n=1))
            raise UserError(f"{name} is no data set; there are {', '.join(known)}{meant}")
    chosen = names or [name for name, spec in known.items() if not is_at_hand(spec)]
    return {name: known[name] for name in chosen}


def _parts(spec: dict[str, Any]) -> list[Part]:
    return loader(spec).parts(spec) if "sources" in spec else []
