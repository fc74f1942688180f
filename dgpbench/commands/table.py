"""``dgpbench table``: a published table from the records that there are."""

from argparse import Namespace

from dgpbench.commands.output import put
from dgpbench.report import tables


def table(options: Namespace) -> int:
    """Print or write the table."""
    made = tables.table(options.item, options.overrides)
    put(tables.render(made, options.format), options.output)
    return 0
