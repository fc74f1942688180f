"""``dgpbench figure ITEM``: the figure of a published item, or the scores and ranks of a published table."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.commands.console import PICTURES, add_format, add_item, format_of
from dgpbench.errors import UserError
from dgpbench.experiments import items
from dgpbench.report.collect import collect
from dgpbench.system.files import ANOTHER_FOLDER, ANOTHER_OUTPUT

if TYPE_CHECKING:
    import pandas as pd


def figure(options: Namespace) -> int:
    """Render the figures of one item and name the files; ``all`` renders those of every item that has records."""
    if options.item == "all":
        return _all(options)
    item = items.load(options.item, options.overrides)
    kind = format_of(options.format, options.output, PICTURES)
    first = Path(options.output or default_path(item, kind))
    draw(item, collect(item.results_dir, required=True), first, ANOTHER_OUTPUT)
    return 0


def _all(options: Namespace) -> int:
    from dgpbench.report.figures.sources import NoRuns

    kind = options.format or "png"
    if options.output and Path(options.output).suffix.lstrip(".").lower() in PICTURES:
        raise UserError(f"figure all writes many files, so --output {options.output} must be a folder")
    frame, waiting = None, []
    for item in items.every(options.overrides):
        frame = collect(item.results_dir) if frame is None else frame
        path = default_path(item, kind)
        try:
            draw(item, frame, Path(options.output, path.name) if options.output else path, ANOTHER_OUTPUT)
        except NoRuns:
            waiting.append(item.name)
        except UserError as refusal:
            print(f"{item.name}: {refusal}", file=sys.stderr)
    if waiting:
        print(f"no records yet: {', '.join(waiting)}")
    return 0


def draw(item: items.Item, frame: "pd.DataFrame", first: Path, advice: str = ANOTHER_FOLDER) -> None:
    """Write an item's first figure to a file and the others beside it, each named after what it shows."""
    from dgpbench.report.figures.item_figures import figures
    from dgpbench.report.figures.page import save

    for number, (name, page) in enumerate(figures(item, frame).items()):
        path = first.with_stem(f"{first.stem}-{name}") if number else first
        print(f"figure: {save(page, path, advice)}")


def default_path(item: items.Item, kind: str) -> Path:
    """Return the path of an item's first figure, below its results."""
    return Path(item.results_dir, "figures", item.file_name(kind))


def add_arguments(parser: ArgumentParser) -> None:
    add_item(parser)
    add_format(parser, PICTURES)
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file of the figure, or the folder of `figure all` (default: results/figures/ITEM.png, or ITEM-BUDGET.png "
        "if the budget is not the paper's); further figures of an item are written beside it as FILE-NAME",
    )
