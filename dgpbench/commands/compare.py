"""``dgpbench compare``: ours beside the published value."""

from argparse import Namespace

from dgpbench.commands.output import write_output
from dgpbench.report import compare as comparing


def compare(options: Namespace) -> int:
    """Print or write the comparison."""
    made = comparing.compare(options.item, options.overrides)
    write_output(comparing.render(made, options.format), options.output)
    return 0
