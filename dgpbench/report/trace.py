"""From a printed number to the runs that it is the mean of: their records, hashes, code, and how to repeat one."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from dgpbench.errors import UserError
from dgpbench.experiments.items import Block, column_name, load
from dgpbench.methods.plugins import FLAG, is_loaded, location_of
from dgpbench.report import cells, tables
from dgpbench.report.collect import collect
from dgpbench.runs import store
from dgpbench.runs.identity import Identity
from dgpbench.runs.rerun import commit_of

ELSEWHERE = "results_dir=again"  # where the record is, the run would be skipped


def trace(name: str, given: list[str]) -> Iterator[str]:
    """Lines of text: each cell of a table, or each column of a figure, and below it its runs.

    :raises UserError: where none of its runs has a record
    """
    item = load(name, given)
    frame = collect(item.results_dir, required=True)
    runs = cells.select(item, frame)
    if runs.empty:
        elsewhere = cells.done_elsewhere(item, runs, frame)
        asked = " ".join(["", *item.narrowed])
        raise UserError(
            f"no run of {name}{asked} at budget={item.budget} has a record in {item.results_dir}"
            + (f"; {elsewhere}" if elsewhere else "")
        )
    if not item.blocks:
        yield from _columns(runs)
    else:
        made = tables.table(name, given, frame)
        for block, part, _ in made.blocks:
            for cell in part.itertuples(index=False):
                yield from _cell(block, cell, runs)
    yield "`dgpbench results redo RECORD` carries a run out again and says whether its scores agree."


def _columns(runs: pd.DataFrame) -> Iterator[str]:
    for (dataset, series, num_layers), rows in runs.groupby(cells.KEYS, sort=False):
        yield f"{dataset}, {column_name(series, num_layers)}: {len(rows)} run{'s' * (len(rows) > 1)}"
        for row in rows.itertuples():
            yield from _run(row, f"split {row.split}, {row.status}")


def _cell(block: Block, cell: Any, runs: pd.DataFrame) -> Iterator[str]:
    """A number and the runs behind it; of a direct comparison both sides of each split."""
    count = f"{int(cell.count)} of {int(cell.wanted)} splits"
    text = tables.cell_text(cell, block.digits)
    yield f"{block.metric} of {cell.dataset}, {column_name(cell.method, cell.num_layers)}: {text}, {count}"
    own = runs[(runs["dataset"] == cell.dataset) & (runs["num_layers"] == cell.num_layers)]
    if block.pairs:
        yield from _comparisons(block, cell.method, own)
        return
    rows = own[own["series"] == cell.method]
    values, here = cells.value_of(block.metric)(rows), cells.would_be_here(block.metric, rows)
    for row, value, known in zip(rows.itertuples(), values, here, strict=True):
        missing = cells.NONE if known else f"{block.metric} needs the run's own files"
        score = missing if pd.isna(value) else f"{value:.6g}"
        yield from _run(row, f"split {row.split}: {score if row.status == 'done' else f'{row.status}: {row.reason}'}")


def _comparisons(block: Block, column: str, own: pd.DataFrame) -> Iterator[str]:
    values = cells.compared(block, own).set_index(["series", "split"])["value"]
    done = own[own["status"] == "done"]
    for split in sorted(set(done["split"])):
        if (column, split) in values.index:
            yield f"  split {split}: {values[column, split]:.6g}"
            for side in column.split("_vs_"):
                for row in done[(done["series"] == side) & (done["split"] == split)].itertuples():
                    yield from _run(row, side)


def _run(row: Any, title: str) -> Iterator[str]:
    """A run in three lines: what it gave, where its record is, and the command that carries it out again."""
    record: Mapping[str, Any] = store.read_record(row.path) if Path(row.path).is_dir() else row.compact
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if version)
    host = record["host"]
    threads = [f"num_threads={host['threads']}"] if host.get("threads") else []
    yield f"  {title}"
    yield f"    record: {row.path}"
    yield f"    hash {record['config_hash']}, code {commit_of(record)}, {host.get('cpu')}, {versions}"
    command = ["dgpbench", "run", *Identity(**record["identity"]).arguments(), *threads, ELSEWHERE, *_flags(row.method)]
    yield f"    again: {shlex.join(command)}"


def _flags(method: str) -> list[str]:
    """The flag that brings a method of a file."""
    found = location_of(method) if is_loaded(method) else ""
    return [FLAG, found] if Path(found).is_file() else []
