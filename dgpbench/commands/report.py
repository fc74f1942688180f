"""``dgpbench report``: one offline HTML file with every table, comparison, statistic and figure that records allow."""

from argparse import Namespace
from pathlib import Path


def report(options: Namespace) -> int:
    """Write the report and say where it is."""
    from dgpbench.report.html import write_report
    from dgpbench.system.provenance import cores

    output = options.output or Path(options.results_dir, "report.html")
    print(f"report: {write_report(options.results_dir, output, cores())}")
    return 0
