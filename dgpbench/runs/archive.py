"""All records of a results folder, raw runs and compact records alike: what is done, and where its record is.

    results/runs/...                            raw: a run's directory, with its arrays
    results/records/<item>-<budget>.jsonl       compact: a line a run, committed

Of a run that has both, the raw record counts. Where two contradict each other, that is said by naming both.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dgpbench.errors import UserError
from dgpbench.runs import lines, store
from dgpbench.runs.identity import Identity
from dgpbench.runs.lines import Line, Pair

FOLDER = "records"
SAME = 1e-9  # nats: how near a comparison is to the scores of the runs that it is of


class Contradiction(UserError):
    """Two records of one run that cannot both be right."""


@dataclass(frozen=True)
class Archive:
    """The compact records of a results folder.

    :param runs: by the run's name
    :param pairs: direct comparisons, by the names of both runs
    :param against: the same by the name of the first, then of the second
    :param problems: one sentence for each line that is damaged or contradicts another
    """

    runs: Mapping[str, Line]
    pairs: Mapping[Pair, Line]
    against: Mapping[str, Mapping[str, Mapping[str, Any]]]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """A run that has a record.

    :param line: the record that counts, and where it is
    :param compact: its compact record, where it has one
    :param against: its direct comparisons, by the other run's name
    """

    key: str
    line: Line
    compact: Mapping[str, Any] | None
    against: Mapping[str, Mapping[str, Any]]


def best(first: Line | None, second: Line | None) -> Line | None:
    """Of two records of one run the one that counts: done before failed, else the later failure, else the first.

    :raises Contradiction: where both are done, with different settings or different scores
    """
    if first is None or second is None:
        return first or second
    if first.is_done != second.is_done:
        return first if first.is_done else second
    if not first.is_done:
        return second if second.record["finished"] > first.record["finished"] else first
    if first.record["config_hash"] != second.record["config_hash"]:
        raise Contradiction(
            f"{first.source} and {second.source} hold one run made with different settings; remove one of them"
        )
    if first.record["scores"] != second.record["scores"]:
        raise Contradiction(
            f"{first.source} and {second.source} hold different scores of one run "
            f"({_first_difference(first, second)}); remove one of them"
        )
    return first


def _first_difference(first: Line, second: Line) -> str:
    a, b = first.record["scores"], second.record["scores"]
    name = next(name for name in sorted({*a, *b}) if a.get(name) != b.get(name))
    return f"{name} {a.get(name)} and {b.get(name)}"


def lookup(results_dir: str | Path, identity: Identity) -> Line | None:
    """The record of a run, raw or compact, or None where there is none.

    :raises Contradiction: where there are two that contradict each other
    """
    directory = identity.directory(results_dir)
    raw = store.read_if_present(directory)
    return best(None if raw is None else Line(raw, str(directory)), load(results_dir).runs.get(identity.key))


def named(text: str) -> Line | None:
    """The record that a run's directory, its record.json or FILE:LINE names; of a run that is not here the compact one.

    :raises UserError: for a record that is damaged, or a line that is none
    """
    file, _, number = text.rpartition(":")
    if number.isdecimal() and Path(file).is_file():
        return _of_line(Path(file), int(number))
    folder = Path(text).parent if Path(text).name == store.RECORD else Path(text)
    if (folder / store.RECORD).is_file():
        try:
            return Line(store.read_record(folder), str(folder))
        except ValueError as problem:
            raise UserError(f"{problem}; run it again to replace it") from None
    parts = folder.absolute().parts
    if len(parts) < 7 or parts[-6] != "runs":
        return None
    return load(Path(*parts[:-6])).runs.get("/".join(parts[-5:]))


def _of_line(file: Path, number: int) -> Line:
    """
    :raises UserError: where the line is damaged, or no run
    """
    part, source = lines.decode(file), f"{file}:{number}"
    for line in part.runs:
        if line.source == source:
            return line
    for problem in part.problems:
        if problem.startswith(f"{source} "):
            raise UserError(problem)
    those = f'the lines with "kind":"run" are, such as {part.runs[0].source}' if part.runs else "the file holds none"
    raise UserError(f"{source} is no run; {those}")


def find(results_dir: str | Path) -> Iterator[Found | ValueError]:
    """Every run that has a record, raw ones first, and in between what is wrong with records."""
    archive = load(results_dir)
    yield from map(ValueError, archive.problems)
    seen = set()
    for raw in find_raw(results_dir):
        if isinstance(raw, ValueError):
            yield raw
            continue
        seen.add(raw.key)
        compact = archive.runs.get(raw.key)
        try:
            counts = best(raw, compact) or raw
        except Contradiction as problem:
            counts = raw
            yield ValueError(f"{problem}; the first is shown")
        yield Found(raw.key, counts, None if compact is None else compact.record, archive.against.get(raw.key, {}))
    yield from (found for found in _compact(archive) if found.key not in seen)


def find_raw(results_dir: str | Path) -> Iterator[Line | ValueError]:
    """Every raw record, or in its place the problem with it; a directory that was copied or renamed is one."""
    for path, record in store.find_records(results_dir):
        if isinstance(record, ValueError):
            yield record
            continue
        raw = Line(record, str(path.parent))
        if raw.key == "/".join(path.parts[-6:-1]):
            yield raw
        else:
            yield ValueError(f"{path.parent} holds the record of another run, which no score counts; move it away")


def find_compact(results_dir: str | Path) -> Iterator[Found | ValueError]:
    """Every run that has a compact record, as a fresh clone sees it, after what is wrong with records."""
    archive = load(results_dir)
    yield from map(ValueError, archive.problems)
    yield from _compact(archive)


def _compact(archive: Archive) -> Iterator[Found]:
    for key, line in archive.runs.items():
        yield Found(key, line, line.record, archive.against.get(key, {}))


def load(results_dir: str | Path) -> Archive:
    """The compact records of a results folder; read again only when a file has changed."""
    return _load(tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths(results_dir)))


def why_no_results(results_dir: str | Path) -> str | None:
    """Why a folder that is to be read holds no results, in a sentence; None where it may, or has none yet.

    :raises UserError: for a file
    """
    store.refuse_file(results_dir)
    folder = Path(results_dir)
    if not folder.is_dir():
        return (
            f"{folder} does not exist; set results_dir= to the folder that contains runs/ or records/, or fill it with "
            "`dgpbench results import FOLDER`"
        )
    if (folder / "runs").is_dir() or (folder / FOLDER).is_dir():
        return None
    name = folder.resolve().name
    if name in ("runs", FOLDER):
        return f"{folder} is the folder {name}/ of results; results_dir= names the folder that holds it"
    if next(folder.glob("*/*/*-L*/*/split*"), None) is not None:
        return f"{folder} holds runs itself; results_dir= names a folder that holds them below runs/"
    return None


def paths(results_dir: str | Path) -> list[Path]:
    """The files of compact records, in order of name.

    :raises UserError: where the results folder is a file
    """
    store.refuse_file(results_dir)
    return files_in(Path(results_dir, FOLDER))


def files_in(folder: Path) -> list[Path]:
    """The files of a folder of compact records; what a killed process has left half written is none."""
    return sorted(path for path in folder.glob("*.jsonl") if path.is_file() and not path.name.startswith("."))


@lru_cache(maxsize=8)
def _load(signature: tuple[tuple[str, int, int], ...]) -> Archive:
    return gather(lines.decode(Path(path)) for path, _, _ in signature)


def gather(parts: Iterable[lines.Lines]) -> Archive:
    """What several files hold, each run once."""
    runs: dict[str, Line] = {}
    pairs: dict[Pair, Line] = {}
    problems: list[str] = []
    for part in parts:
        problems += part.problems
        for line in part.runs:
            try:
                runs[line.key] = best(runs.get(line.key), line) or line
            except Contradiction as problem:
                problems.append(f"{problem}; the first is shown")
        for line in part.pairs:
            try:
                pairs[pair_of(line)] = agreeing(pairs.get(pair_of(line)), line)
            except Contradiction as problem:
                problems.append(f"{problem}; the first is shown")
    against: dict[str, dict[str, Mapping[str, Any]]] = {}
    for (first, second), line in pairs.items():
        if _is_current((first, second), line, runs):
            against.setdefault(first, {})[second] = line.record
    return Archive(runs, pairs, against, tuple(problems))


def pair_of(line: Line) -> Pair:
    """The names of the two runs of a direct comparison."""
    return Identity(**line.record["first"]).key, Identity(**line.record["second"]).key


def agreeing(old: Line | None, new: Line) -> Line:
    """The newer of two lines about one pair; one about other records of the two runs is out of date.

    :raises Contradiction: where they compare the same records differently
    """
    if old is not None and old.record["hashes"] == new.record["hashes"] and old.record != new.record:
        raise Contradiction(f"{old.source} and {new.source} compare the same two runs differently; remove one of them")
    return new


def _is_current(pair: Pair, line: Line, runs: Mapping[str, Line]) -> bool:
    """Whether a comparison is of the records that there are, and not of runs that were made again since."""
    both = [runs[key].record for key in pair if key in runs]
    if [record["config_hash"] for record in both] != line.record["hashes"]:
        return False
    first, second = (record["scores"].get("tll", math.nan) for record in both)
    difference = line.record.get("tll_difference")
    return difference is None or not abs(first - second - difference) > SAME
