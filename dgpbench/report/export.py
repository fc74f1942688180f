"""Export raw runs as compact records, and import those of other machines."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pandas as pd

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, load
from dgpbench.report import cells
from dgpbench.report.collect import frame_of
from dgpbench.runs import compact_records, store
from dgpbench.runs.compact_records import Comparison, Pair, StoredRecord, best, newer
from dgpbench.runs.identity import Identity
from dgpbench.runs.rerun import rescore
from dgpbench.system import files

Result = tuple[dict[str, int], list[str]]  # number of lines added, replaced and unchanged; what was left out, and why


def export(results_dir: str, items: Sequence[Item] = (), budget: str | None = None) -> Result:
    """Write the compact records of all runs that have ended, or of those that some items show.

    :raises UserError: if there are none, or one contradicts an existing line; then nothing is written
    """
    frame = frame_of(_ended_runs(results_dir))
    if items:
        frame = frame[frame["key"].isin({key for item in items for key in cells.select(item, frame)["key"]})]
    if budget is not None:
        frame = frame[frame["budget"] == budget]
    if frame.empty:
        raise UserError(f"{Path(results_dir, 'runs')} holds no run that matches; `dgpbench reproduce` makes them")
    return _add_runs(results_dir, frame, {}, replacing=True)


def import_from(results_dir: str, sources: Sequence[str]) -> Result:
    """Import records from folders with runs/ or records/, from files of compact records, and from folders of those.

    :raises UserError: if a source is none of these, or one record contradicts another; then nothing is written
    """
    runs: dict[str, StoredRecord] = {}
    pairs: dict[Pair, Comparison] = {}
    problems: list[str] = []
    for source in sources:
        for found in _records_in(Path(source)):
            if isinstance(found, ValueError):
                problems.append(str(found))
            elif isinstance(found, StoredRecord):
                runs[found.key] = best(runs.get(found.key), found) or found
            else:
                pairs[found.pair] = newer(pairs.get(found.pair), found)
    for run in runs.values():  # may contradict a raw run too
        best(store.lookup(results_dir, Identity(**run.record["identity"])), run)
    counts, left_out = _add_runs(results_dir, frame_of(runs.values()), pairs, replacing=False)
    return counts, [*problems, *left_out]


def _ended_runs(results_dir: str | Path) -> Iterator[StoredRecord | ValueError]:
    for raw in store.find_raw(results_dir):
        if isinstance(raw, ValueError) or raw.record["status"] != "interrupted":
            yield raw


def _records_in(source: Path) -> Iterator[StoredRecord | Comparison | ValueError]:
    if (source / "runs").is_dir():
        yield from _ended_runs(source)
    folder = source / compact_records.FOLDER
    folder = folder if folder.is_dir() else source
    paths = [source] if source.is_file() and source.suffix == ".jsonl" else compact_records.files_in(folder)
    if not paths and not (source / "runs").is_dir():
        raise UserError(f"{source} cannot be imported; name a folder with runs/, a .jsonl file or a folder of them")
    for lines in map(compact_records.decode, paths):
        yield from map(ValueError, lines.problems)
        yield from (replace(run, compact=run.record) for run in lines.runs)
        yield from lines.pairs


def _add_runs(results_dir: str, frame: pd.DataFrame, known: Mapping[Pair, Comparison], *, replacing: bool) -> Result:
    """Write the compact records of all runs of a frame, with their comparisons, to the files assigned to them.

    :param known: comparisons that came with the runs
    """
    left_out = list(frame.attrs["problems"])
    has_budget = frame["budget"].isin(groups.names("budget"))
    left_out += [f"{row.path} has an unknown budget, {row.budget!r}" for row in frame[~has_budget].itertuples()]
    frame = frame[has_budget]
    file_of, pair_files = assign_files(frame)
    lines = compact_records.load(results_dir).runs

    def compact(path: str, line: StoredRecord | None) -> dict[str, Any]:
        record = compact_records.of_run(path)
        is_new = line is None or line.record["files"] != record["files"]  # else it was rescored when it was exported
        if is_new and store.POINTS in record["files"] and (problems := rescore(Path(path), record).problems):
            raise ValueError(problems[0])
        return record

    runs = []
    for row in frame.itertuples():
        try:
            record = row.compact or compact(row.path, lines.get(row.key))
        except (ValueError, OSError) as problem:
            left_out.append(str(problem))
        else:
            runs.append((StoredRecord(record, row.path), file_of[row.key]))
    sources = {run.key: run.source for run, _ in runs}
    pairs = {pair: comparison for pair, comparison in known.items() if sources.keys() >= set(pair)}
    for pair in pair_files:
        both = [sources[key] for key in pair if key in sources]
        if len(both) == 2 and all(os.path.isfile(os.path.join(source, store.POINTS)) for source in both):
            try:
                pairs[pair] = newer(pairs.get(pair), compare(*both))
            except ValueError as problem:  # their rows differ
                left_out.append(f"{' beside '.join(both)}: {problem}")
    placed = [(comparison, pair_files.get(pair) or file_of[pair[0]]) for pair, comparison in pairs.items()]
    return join(results_dir, runs, placed, replacing=replacing), left_out


def compare(first: str, second: str) -> Comparison:
    """Compare two runs with rows stored here.

    :raises ValueError: if their rows differ
    """
    records, rows = ([read(each) for each in (first, second)] for read in (store.read_record, cells.points_of))
    facts = {
        "first": records[0]["identity"],
        "second": records[1]["identity"],
        "hashes": [each["config_hash"] for each in records],
        "rows": len(rows[0]),
    }
    scores = {name: function(*rows) for name, function in cells.COMPARISONS.items()}
    return Comparison(facts | scores, f"{first} beside {second}")


# Files ----------------------------------------------------------------------------------------------------------------


def assign_files(frame: pd.DataFrame) -> tuple[dict[str, str], dict[Pair, str]]:
    """Return the file of compact records of each run, and of each direct comparison that an item makes.

    A run is in one file, even if several items show it: nothing is counted twice and two copies cannot drift apart.
    It is the file of the largest item that shows the run (most runs, then the first name), so that a table which is
    part of another one has no lines of its own; items of papers come before those of this project. Once a run is in a
    file, it stays. Runs of no item go to ``runs-<budget>.jsonl``. Readers read all files of the folder.
    """

    def order(item: Item) -> tuple[bool, int, str]:
        return item.open is not None, -sum(prod(map(len, sweep.values.values())) for sweep in item.sweeps), item.name

    file_of: dict[str, str] = {}
    pairs: dict[Pair, str] = {}
    for budget in sorted(set(frame["budget"])):
        items = [load(name, [f"budget={budget}"]) for name in groups.names("experiment")]
        for item in sorted(items, key=order):
            file, runs = f"{item.name}-{budget}.jsonl", cells.select(item, frame)
            file_of = dict.fromkeys(runs["key"], file) | file_of
            done = runs[runs["status"] == "done"]
            for block in item.blocks:
                for _, both in cells.pairs_of(block, done, ["dataset", "num_layers", "split"]):
                    pairs = dict.fromkeys(zip(both["key_a"], both["key_b"], strict=True), file) | pairs
    return {row.key: f"runs-{row.budget}.jsonl" for row in frame.itertuples()} | file_of, pairs


def join(
    results_dir: str | Path,
    runs: Iterable[tuple[StoredRecord, str]],
    pairs: Iterable[tuple[Comparison, str]],
    *,
    replacing: bool,
) -> dict[str, int]:
    """Add compact records and comparisons, each with the name of its file; count added, replaced and unchanged ones.

    Existing lines stay in their files, and none is removed. Each file is written as a whole or not at all. Repeating
    the call changes no byte; if a process is killed between two files, the next call does the rest.

    :param replacing: whether a record takes the place of an existing one that agrees with it
    :raises Contradiction: before anything is written
    """
    counts = {"added": 0, "replaced": 0, "unchanged": 0}

    def place(lines: dict[Any, tuple[Mapping[str, Any], str]], key: Any, record: Mapping[str, Any], file: str) -> None:
        before, file = lines.get(key, (None, file))
        counts["added" if before is None else "unchanged" if before == record else "replaced"] += 1
        lines[key] = (record, file)

    with store.hold(Path(results_dir, ".locks", "records.lock")):
        archive = compact_records.load(results_dir)
        if archive.problems:  # writing the file again would lose the line
            raise UserError(f"{archive.problems[0].removesuffix('; the first is shown')}; nothing was written")
        placed = {key: (line.record, _file_name(line)) for key, line in archive.runs.items()}
        placed_pairs = {pair: (line.record, _file_name(line)) for pair, line in archive.pairs.items()}
        for run, file in runs:
            old = archive.runs.get(run.key)
            chosen = best(run, old) if replacing else best(old, run)
            place(placed, run.key, (chosen or run).record, file)
        for comparison, file in pairs:
            chosen_pair = newer(archive.pairs.get(comparison.pair), comparison)
            place(placed_pairs, comparison.pair, chosen_pair.record, file)
        folder, kinds = Path(results_dir, compact_records.FOLDER), (placed.values(), placed_pairs.values())
        for leftover in folder.glob(".partial-*"):  # of a process that was killed
            leftover.unlink(missing_ok=True)
        for name in sorted({file for lines in kinds for _, file in lines}):
            in_file = [[record for record, file in lines if file == name] for lines in kinds]
            data, path = compact_records.encode(*in_file), folder / name
            if not path.is_file() or path.read_bytes() != data:
                with files.replacing(path) as partial:
                    files.write_whole(partial, data)
    return counts


def _file_name(line: StoredRecord | Comparison) -> str:
    return Path(line.source.rpartition(":")[0]).name
