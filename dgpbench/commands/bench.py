"""``dgpbench bench``: the cost of a gradient step."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

from dgpbench.benchmarks import peers, timing
from dgpbench.commands.console import add_actions, add_overrides, say, write_output
from dgpbench.system.files import ANOTHER_OUTPUT, check_file

ACTIONS = {
    "steps": "our methods: dgpbench bench steps methods=mf,star,fc M=128,64,256 --output steps.csv",
    "peers": "mean field beside GPflux and GPyTorch, if they are installed",
}


def add_arguments(parser: ArgumentParser) -> None:
    for action in add_actions(parser, ACTIONS).values():
        add_overrides(action, "sizes and settings; a wrong one lists them")
        action.add_argument("--output", metavar="FILE", help="a CSV file (default: standard output)")


def bench(options: Namespace) -> int:
    """Time the cells and write the table; return 1 if a cell could not be timed."""
    if options.action == "peers":  # our mean field and every installed peer at the same setting, interleaved
        codes = [timing.OURS, *peers.installed()]
        plan = timing.parse(options.overrides, methods=["mf"])
        plan = replace(plan, cells=[replace(cell, code=code) for cell in plan.cells for code in codes])
    else:
        plan = timing.parse(options.overrides)
    if options.output:
        check_file(Path(options.output), ANOTHER_OUTPUT)
    frame = timing.measure(plan, say)
    write_output(frame.to_csv(index=False, float_format="%.6g"), options.output)
    return int(frame["problem"].notna().any())
