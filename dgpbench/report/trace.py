"""Trace a printed number to its runs: their records, hashes and code, and the command that reruns each."""

import shlex
from collections.abc import Iterator
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

ELSEWHERE = "results_dir=again"  # in the folder of its record the run would be skipped


def trace(name: str, overrides: list[str]) -> Iterator[str]:
    """Yield lines of text: each cell of a table, or each column of a figure, followed by its runs.

    :raises UserError: if none of its runs has a record
    """
    item = load(name, overrides)
    frame = collect(item.results_dir, required=True)
    runs = cells.select(item, frame)
    if runs.empty:
        elsewhere = cells.done_elsewhere(item, runs, frame)
        narrowed = " ".join(["", *item.narrowed])
        raise UserError(
            f"no run of {name}{narrowed} at budget={item.budget} has a record in {item.results_dir}"
            + (f"; {elsewhere}" if elsewhere else "")
        )
    if item.blocks:
        for block, part, _ in tables.table(name, overrides, frame).blocks:
            for cell in part.itertuples(index=False):
                yield from _cell(block, cell, runs)
    else:
        for (dataset, series, num_layers), rows in runs.groupby(cells.KEYS, sort=False):
            yield f"{dataset}, {column_name(series, num_layers)}: {len(rows)} run{'s' * (len(rows) > 1)}"
            for row in rows.itertuples():
                yield from _run(row, f"split {row.split}, {row.status}")
    yield "`dgpbench results redo RECORD` reruns a run and checks that its scores match."


def _cell(block: Block, cell: Any, runs: pd.DataFrame) -> Iterator[str]:
    """Yield a number and its runs; of a direct comparison both runs of each split."""
    count = f"{int(cell.count)} of {int(cell.wanted)} splits"
    text = tables.cell_text(cell, block.digits)
    yield f"{block.metric} of {cell.dataset}, {column_name(cell.method, cell.num_layers)}: {text}, {count}"
    own = runs[(runs["dataset"] == cell.dataset) & (runs["num_layers"] == cell.num_layers)]
    if block.pairs:
        values = cells.compared(block, own).set_index(["series", "split"])["value"]
        done = own[own["status"] == "done"]
        for split in sorted(set(done["split"])):
            if (cell.method, split) in values.index:
                yield f"  split {split}: {values[cell.method, split]:.6g}"
                for side in cell.method.split("_vs_"):
                    for row in done[(done["series"] == side) & (done["split"] == split)].itertuples():
                        yield from _run(row, side)
        return
    rows = own[own["series"] == cell.method]
    values, here = cells.value_of(block.metric)(rows), cells.would_be_here(block.metric, rows)
    for row, value, is_here in zip(rows.itertuples(), values, here, strict=True):
        missing = cells.NONE if is_here else f"{block.metric} needs the run's own files"
        score = missing if pd.isna(value) else f"{value:.6g}"
        yield from _run(row, f"split {row.split}: {score if row.status == 'done' else f'{row.status}: {row.reason}'}")


def _run(row: Any, title: str) -> Iterator[str]:
    """Yield a run's title, the place of its record, its origin, and the command that reruns it."""
    record = store.read_record(row.path) if Path(row.path).is_dir() else row.compact
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if version)
    host = record["host"]
    threads = [f"num_threads={host['threads']}"] if host.get("threads") else []
    file = location_of(row.method) if is_loaded(row.method) else ""
    plugin = [FLAG, file] if Path(file).is_file() else []
    yield f"  {title}"
    yield f"    record: {row.path}"
    yield f"    hash {record['config_hash']}, code {commit_of(record)}, {host.get('cpu')}, {versions}"
    command = ["dgpbench", "run", *Identity(**record["identity"]).arguments(), *threads, ELSEWHERE, *plugin]
    yield f"    again: {shlex.join(command)}"
