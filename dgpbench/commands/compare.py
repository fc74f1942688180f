"""``dgpbench compare``: ours beside the published value."""

from argparse import Namespace

from dgpbench.commands.output import form_of, write_output
from dgpbench.report.compare import comparison, render


def compare(options: Namespace) -> int:
    """Print or write the comparison."""
    made = comparison(options.item, options.overrides)
    write_output(render(made, form_of(options.format, options.output)), options.output)
    return 0
