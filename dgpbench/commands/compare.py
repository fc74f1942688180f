"""``dgpbench compare``: ours beside the published value."""

from argparse import ArgumentParser, Namespace

from dgpbench.commands.console import TEXTS, add_format, add_item, format_of, write_output
from dgpbench.report.compare import comparison, render


def compare(options: Namespace) -> int:
    """Print or write the comparison."""
    made = comparison(options.item, options.overrides)
    write_output(render(made, format_of(options.format, options.output, TEXTS)), options.output)
    return 0


def add_arguments(parser: ArgumentParser) -> None:
    add_item(parser)
    add_format(parser, TEXTS)
    parser.add_argument("--output", metavar="FILE", help="file of the comparison (default: standard output)")
