"""``dgpbench table``: rebuild a published table from the available records."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from dgpbench.commands.console import TEXTS, add_format, add_item, format_of, write_output
from dgpbench.errors import UserError
from dgpbench.experiments import items
from dgpbench.report import tables
from dgpbench.report.collect import collect


def table(options: Namespace) -> int:
    """Print or write one table; ``all`` writes every table that has records to a folder."""
    if options.item == "all":
        return _all(options)
    made = tables.table(options.item, options.overrides, metric=options.metric)
    write_output(tables.render(made, format_of(options.format, options.output, TEXTS)), options.output)
    return 0


def _all(options: Namespace) -> int:
    frame, form = None, options.format or "md"
    if options.output and Path(options.output).suffix.lstrip(".").lower() in TEXTS:
        raise UserError(f"table all writes many files, so --output {options.output} must be a folder")
    for item in items.every(options.overrides, kinds=("table",)):
        frame = collect(item.results_dir) if frame is None else frame
        try:
            made = tables.table(item.name, options.overrides, frame, options.metric)
        except UserError as refusal:  # without such a metric: the other items may have it
            print(f"{item.name}: {refusal}", file=sys.stderr)
            continue
        if made.cells["count"].sum() == 0:
            print(f"{item.name}: no records of budget {item.budget}")
        else:
            folder = options.output or Path(item.results_dir, "tables")
            write_output(tables.render(made, form), str(Path(folder, item.file_name(form))))
    return 0


def add_arguments(parser: ArgumentParser) -> None:
    add_item(parser)
    add_format(parser, TEXTS)
    output = "file of the table (default: standard output), or the folder of `table all` (default: results/tables)"
    parser.add_argument("--output", metavar="FILE", help=output)
    metric = "a score, seconds_training or num_parameters instead of what the item shows"
    parser.add_argument("--metric", metavar="NAME", help=metric)
