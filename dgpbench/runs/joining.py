"""Records join the compact ones: what is there stays, contradictions are refused, files are whole or as before."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgpbench.errors import UserError
from dgpbench.runs import archive, lines, store
from dgpbench.runs.lines import Line
from dgpbench.system import files


@dataclass(frozen=True)
class Joining:
    """Records that are to join the compact ones.

    :param runs: each with the name of the file that it goes to unless it is in one
    :param pairs: the same of direct comparisons
    """

    runs: tuple[tuple[Line, str], ...]
    pairs: tuple[tuple[Line, str], ...] = ()


def join(results_dir: str | Path, joining: Joining, *, replacing: bool) -> dict[str, int]:
    """Write the files that change, each whole or not at all; how many lines were added, replaced and left as they were.

    A line stays in the file in which it is, and none is removed. To do the same again changes no byte; a process that
    is killed between two files leaves each of them whole, and the next call does the rest.

    :param replacing: whether a record that agrees with the one that is there takes its place
    :raises Contradiction: before anything is written
    """
    counts = {"added": 0, "replaced": 0, "unchanged": 0}
    with _held(results_dir):
        there = archive.load(results_dir)
        if there.problems:  # to write the file again would lose the line
            raise UserError(f"{there.problems[0].removesuffix('; the first is shown')}; nothing was written")
        runs = {key: (line.record, _file_of(line)) for key, line in there.runs.items()}
        pairs = {pair: (line.record, _file_of(line)) for pair, line in there.pairs.items()}
        for new, home in joining.runs:
            old = there.runs.get(new.key)
            kept = archive.best(new, old) if replacing else archive.best(old, new)
            _place(runs, new.key, (kept or new).record, home, counts)
        for new, home in joining.pairs:
            pair = archive.pair_of(new)
            _place(pairs, pair, archive.agreeing(there.pairs.get(pair), new).record, home, counts)
        _write(Path(results_dir, archive.FOLDER), runs, pairs)
    return counts


@contextmanager
def _held(results_dir: str | Path) -> Iterator[None]:
    """The compact records, for one process at a time."""
    path = Path(results_dir, ".locks", "records.lock")
    with files.refusing_unwritable(path):
        held = store.shared_lock(path)
        held.acquire()
    try:
        yield
    finally:
        held.release()


def _file_of(line: Line) -> str:
    return Path(line.source.rpartition(":")[0]).name


def _place(placed: dict, key: Any, record: Mapping[str, Any], home: str, counts: dict[str, int]) -> None:
    before, home = placed.get(key, (None, home))
    counts["added" if before is None else "unchanged" if before == record else "replaced"] += 1
    placed[key] = (record, home)


def _write(folder: Path, runs: Mapping[Any, Any], pairs: Mapping[Any, Any]) -> None:
    for leftover in folder.glob(".partial-*"):  # of a process that was killed
        leftover.unlink(missing_ok=True)
    for name in sorted({home for _, home in (*runs.values(), *pairs.values())}):
        in_file = [[record for record, home in group.values() if home == name] for group in (runs, pairs)]
        data, path = lines.encode(*in_file), folder / name
        if not path.is_file() or path.read_bytes() != data:
            with files.replacing(path) as partial:
                files.write_whole(partial, data)
