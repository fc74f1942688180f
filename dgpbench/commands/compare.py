"""``dgpbench compare``: ours beside the published value."""

from argparse import Namespace

from dgpbench.commands.output import put
from dgpbench.report import compare as comparing


def compare(options: Namespace) -> int:
    """Print or write the comparison."""
    made = comparing.compare(options.item, options.overrides)
    put(comparing.render(made, options.format), options.output)
    return 0
