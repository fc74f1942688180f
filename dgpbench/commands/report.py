"""``dgpbench report``: one offline HTML file with every table, comparison, statistic and figure that records allow."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from dgpbench.commands.console import add_results_dir


def report(options: Namespace) -> int:
    """Write the report and print its path."""
    from dgpbench.report.html import write_report
    from dgpbench.system.provenance import cores

    output = options.output or Path(options.results_dir, "report.html")
    print(f"report: {write_report(options.results_dir, output, cores())}")
    return 0


def add_arguments(parser: ArgumentParser) -> None:
    add_results_dir(parser)
    parser.add_argument("--output", metavar="FILE", help="file of the report (default: report.html in that folder)")
