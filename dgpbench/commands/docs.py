"""``dgpbench docs``: the generated parts of README.md and docs/, from the compact records."""

import sys
from argparse import Namespace
from pathlib import Path


def docs(options: Namespace) -> int:
    """Write them, or with ``--check`` name the files that are not current: exit code 1 where there are any."""
    from dgpbench.report.docs import pages

    folder = Path(options.folder)
    print("making every table and picture of README.md and docs/ again: about a minute", file=sys.stderr, flush=True)
    if not options.check:
        changed = pages.write(folder)
        print("\n".join(f"written: {name}" for name in changed) or "README.md and docs/ are current")
        return 0
    found = pages.stale(folder)
    for name in found:
        print(f"dgpbench: {name} is not what results/records gives; `make docs` writes it", file=sys.stderr)
    if not found:
        print("README.md and docs/ are current")
    return int(bool(found))
