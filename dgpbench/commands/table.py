"""``dgpbench table``: a published table from the records that there are."""

import sys
from argparse import Namespace
from pathlib import Path

from dgpbench import config
from dgpbench.commands.output import put
from dgpbench.errors import Refused
from dgpbench.report import items, tables
from dgpbench.report.collect import collect


def table(options: Namespace) -> int:
    """Print or write one table; ``all`` writes every table that has records to a folder."""
    if options.item == "all":
        return _all(options)
    made = tables.table(options.item, options.overrides)
    put(tables.render(made, options.format), options.output)
    return 0


def _all(options: Namespace) -> int:
    named = [items.load(name) for name in config.choices("experiment")]
    kept = [item.name for item in named if item.kind == "table"]
    where = [text for text in options.overrides if text.startswith("results_dir=")]
    results_dir = items.load(kept[0], where).results_dir
    frame, folder = collect(results_dir), Path(options.output or Path(results_dir, "tables"))
    for name in kept:
        try:
            made = tables.table(name, options.overrides, frame)
        except Refused as refusal:  # narrowed to nothing: the other items may have something
            print(f"{name}: {refusal}", file=sys.stderr)
            continue
        if made.cells["count"].sum() == 0:
            print(f"{name}: no records of budget {made.item.budget}")
        else:
            budget = "" if made.item.budget == "paper" else f"-{made.item.budget}"
            put(tables.render(made, options.format), str(folder / f"{name}{budget}.{options.format}"))
    return 0
