"""Write the tables and pictures of README.md and docs/ from a checkout's results/records: ``make docs``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dgpbench.errors import UserError
from scripts.docs import pages


def main(arguments: Sequence[str] | None = None) -> int:
    """Update the pages, or with ``--check`` print the files that are not up to date and return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m scripts.docs", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="the checkout (default: current folder)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file is not up to date")
    options = parser.parse_args(arguments)
    print("making every table and picture of README.md and docs/: about a minute", file=sys.stderr, flush=True)
    try:
        changed = pages.update(options.folder, check=options.check)
    except UserError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 2
    if not changed:
        print("README.md and docs/ are current")
    for name in changed:
        if options.check:
            print(f"docs: {name} is not what results/records gives; `make docs` writes it", file=sys.stderr)
        else:
            print(f"written: {name}")
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
