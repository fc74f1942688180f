"""``dgpbench bench``: what a gradient step costs."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from dgpbench.benchmarks import cases, peers, steps
from dgpbench.commands.output import say, write_output
from dgpbench.system.files import ANOTHER_OUTPUT, check_file


def bench(options: Namespace) -> int:
    """Time the cells, write the table; 1 where a cell could not be timed."""
    plan = _beside_peers(options.overrides) if options.action == "peers" else cases.parse(options.overrides)
    if options.output:
        check_file(Path(options.output), ANOTHER_OUTPUT)
    frame = steps.measure(plan, say)
    write_output(frame.to_csv(index=False, float_format="%.6g"), options.output)
    return int(frame["problem"].notna().any())


def _beside_peers(overrides: list[str]) -> cases.Plan:
    """Our mean field and every installed peer at the same setting, all interleaved."""
    codes = [cases.OURS, *peers.installed()]
    plan = cases.parse(overrides, methods=["mf"])
    beside = [replace(cell, code=code) for cell in plan.cells for code in codes]
    return replace(plan, cells=beside)
