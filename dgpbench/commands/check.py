"""``dgpbench check``: have the numbers moved since a reference was stored? For nightly runs."""

import math
from argparse import ArgumentParser, Namespace
from pathlib import Path

from dgpbench.commands.arguments import add_item
from dgpbench.errors import UserError
from dgpbench.experiments.items import load
from dgpbench.report import reference


def check(options: Namespace) -> int:
    """Print a line for each reference cell; exit code 1 where one moved or is missing."""
    if not (math.isfinite(options.tolerance) and options.tolerance >= 0):
        raise UserError(f"--tolerance {options.tolerance} cannot be used; it takes a number of at least 0")
    item = load(options.item, options.overrides)
    path = Path(options.reference) if options.reference else reference.default_path(item)
    lines = reference.check(options.item, options.overrides, path, options.tolerance)
    for _, text in lines:
        print(text)
    moved = sum(not good for good, _ in lines)
    print(f"{len(lines) - moved} of {len(lines)} cells are within {options.tolerance:g} of {path}")
    return int(moved > 0)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``dgpbench check``."""
    add_item(parser)
    tolerance = "largest accepted change of a mean, in the metric's unit"
    parser.add_argument("--tolerance", type=float, required=True, metavar="T", help=tolerance)
    reference = "a table as csv (default: results/reference/ITEM-BUDGET.csv)"
    parser.add_argument("--reference", metavar="FILE", help=reference)
