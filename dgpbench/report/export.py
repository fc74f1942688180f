"""Raw runs become compact records, and records of other machines join them; ``homes.py`` says in which files."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.report import cells
from dgpbench.report.collect import frame_of
from dgpbench.report.homes import homes_of
from dgpbench.runs import archive, compact, lines, store
from dgpbench.runs.archive import Found
from dgpbench.runs.identity import Identity
from dgpbench.runs.joining import Joining, join
from dgpbench.runs.lines import Line, Pair
from dgpbench.runs.rescoring import rescore


@dataclass(frozen=True)
class Joined:
    """What has joined the compact records: how many lines were added, replaced and unchanged, and what was left out."""

    counts: dict[str, int]
    left_out: tuple[str, ...]


def export(results_dir: str, items: Sequence[Item] = (), budget: str | None = None) -> Joined:
    """Write the compact records of all runs that have ended, or of those that some items show.

    :raises UserError: where there are none, or one contradicts a line that is there; then nothing is written
    """
    frame = frame_of(_raw(results_dir))
    if items:
        frame = frame[frame["key"].isin({key for item in items for key in cells.select(item, frame)["key"]})]
    if budget is not None:
        frame = frame[frame["budget"] == budget]
    if frame.empty:
        raise UserError(f"{Path(results_dir, 'runs')} holds no run that is asked for; `dgpbench reproduce` makes them")
    return _join(results_dir, frame, replacing=True)


def import_from(results_dir: str, sources: Sequence[str]) -> Joined:
    """Take records from folders with runs/ or records/, from files of compact records, and from folders of those.

    :raises UserError: where a source is none of these, or one record contradicts another; then nothing is written
    """
    runs: dict[str, Found] = {}
    problems: list[str] = []
    pairs: dict[Pair, Line] = {}
    for source in sources:
        for found in _found(Path(source)):
            if isinstance(found, ValueError):
                problems.append(str(found))
            elif isinstance(found, Found):
                known = runs.get(found.key, found)
                runs[found.key] = found if archive.best(known.line, found.line) is found.line else known
            else:
                pairs[archive.pair_of(found)] = archive.agreeing(pairs.get(archive.pair_of(found)), found)
    for found in runs.values():  # beside raw runs too
        archive.best(archive.lookup(results_dir, Identity(**found.line.record["identity"])), found.line)
    joined = _join(results_dir, frame_of(runs.values()), replacing=False, given=list(pairs.values()))
    return replace(joined, left_out=(*problems, *joined.left_out))


def _raw(results_dir: str | Path) -> Iterator[Found | ValueError]:
    """The runs that have ended, each with its own files."""
    for raw in archive.find_raw(results_dir):
        if isinstance(raw, ValueError):
            yield raw
        elif raw.record["status"] != "interrupted":
            yield Found(raw.key, raw, None, {})


def _found(source: Path) -> Iterator[Found | Line | ValueError]:
    """What a source holds: runs, lines of direct comparisons, and what is wrong."""
    if (source / "runs").is_dir():
        yield from _raw(source)
    folder = source / archive.FOLDER if (source / archive.FOLDER).is_dir() else source
    named = [source] if source.is_file() and source.suffix == ".jsonl" else archive.files_in(folder)
    if not named and not (source / "runs").is_dir():
        raise UserError(f"{source} cannot be imported; name a folder with runs/, a .jsonl file or a folder of them")
    for part in map(lines.decode, named):
        yield from map(ValueError, part.problems)
        for line in part.runs:
            yield Found(line.key, line, line.record, {})
        yield from part.pairs


def _join(results_dir: str, frame: pd.DataFrame, *, replacing: bool, given: Sequence[Line] = ()) -> Joined:
    """Compact records of all runs of a frame, with their comparisons, into the files that they belong in."""
    left_out: list[str] = list(frame.attrs["problems"])
    known = frame["budget"].isin(groups.names("budget"))
    left_out += [f"{row.path} has an unknown budget, {row.budget!r}" for row in frame[~known].itertuples()]
    frame = frame[known]
    homes, pair_homes = homes_of(frame)
    there = archive.load(results_dir).runs
    runs = []
    for row in frame.itertuples():
        try:
            record = row.compact or _portable(row.path, there.get(row.key))
        except (ValueError, OSError) as problem:
            left_out.append(str(problem))
        else:
            runs.append((Line(record, row.path), homes[row.key]))
    sources = {line.key: line.source for line, _ in runs}
    compared = {archive.pair_of(line): line for line in given if set(archive.pair_of(line)) <= set(sources)}
    pairs = compared | dict(_compared(pair_homes, sources, compared, left_out))
    both = [(line, pair_homes.get(pair) or homes[pair[0]]) for pair, line in pairs.items()]
    return Joined(join(results_dir, Joining(tuple(runs), tuple(both)), replacing=replacing), tuple(left_out))


def _portable(directory: str, there: Line | None) -> dict[str, Any]:
    """A run's compact record.

    :param there: its line, if it has one: files that were exported before are not rescored
    :raises ValueError: where its files are damaged, or its scores are not those of its points
    """
    record = compact.of_run(directory)
    is_new = there is None or there.record["files"] != record["files"]
    if is_new and store.POINTS in record["files"] and (problems := rescore(Path(directory), record).problems):
        raise ValueError(problems[0])
    return record


def _compared(
    wanted: Iterable[Pair], sources: Mapping[str, str], known: Mapping[Pair, Line], left_out: list[str]
) -> Iterator[tuple[Pair, Line]]:
    """A line for each pair of runs whose rows are here; what cannot be compared is named in ``left_out``."""
    for pair in wanted:
        two = [sources.get(key, "") for key in pair]
        if all(os.path.isfile(os.path.join(source, store.POINTS)) for source in two):
            try:
                line = Line(_comparison(two), " beside ".join(two))
            except ValueError as problem:  # their rows are not the same
                left_out.append(f"{' beside '.join(two)}: {problem}")
            else:
                yield pair, archive.agreeing(known.get(pair), line)


def _comparison(sources: Sequence[str]) -> dict[str, Any]:
    """What the rows of two runs give; the keys of ``cells.COMPARISONS`` are the metrics."""
    first, second = map(store.read_record, sources)
    rows = [cells.points_of(source) for source in sources]
    return {
        "first": first["identity"],
        "second": second["identity"],
        "hashes": [first["config_hash"], second["config_hash"]],
        "rows": len(rows[0]),
        **{name: function(*rows) for name, function in cells.COMPARISONS.items()},
    }
