"""``dgpbench data``: fetch, verify, import and locate the files of the data sets."""

from argparse import ArgumentParser, Namespace

from dgpbench.commands.console import add_actions
from dgpbench.data import datasets

ACTIONS = {
    "fetch": "download and verify",
    "verify": "verify every cached table again",
    "import": "import files that were downloaded by hand",
    "where": "print the cache, the mirror and their files",
}
GOOD = ("ready", "ok", "absent", "imported")


def add_arguments(parser: ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    for name in ("fetch", "verify"):
        actions[name].add_argument("names", nargs="*", metavar="DATASET", help="data sets (default: all)")
    actions["import"].add_argument("path", help="a file (an archive or its content) or a folder of them")


def data(options: Namespace) -> int:
    """Execute one action; return 1 if a data set is not available or a file is damaged."""
    if options.action == "where":
        cache, mirror, files = datasets.where()
        print(f"cache   {cache} ({len(files)} files; DGPBENCH_CACHE moves it)")
        print(f"mirror  {mirror or 'none (DGPBENCH_MIRROR names a directory or URL laid out as <host>/<path>)'}")
        for path in files:
            print(f"  {path.relative_to(cache)}  {path.stat().st_size:,} bytes")
        return 0
    if options.action == "import":
        rows = datasets.import_path(options.path)
    else:
        rows = {"fetch": datasets.fetch, "verify": datasets.verify}[options.action](options.names)
    for row in rows:
        print(f"{row.name:<12} {row.status:<9} {row.detail}", flush=True)
    return int(any(row.status not in GOOD for row in rows))
