"""``dgpbench data``: fetch, verify, import and locate the files of the data sets."""

from argparse import Namespace

from dgpbench.data import datasets

GOOD = ("ready", "ok", "absent", "imported")


def data(options: Namespace) -> int:
    """Carry out one action; exit code 1 where a data set could not be had or a file is damaged."""
    if options.action == "where":
        return _where()
    if options.action == "import":
        rows = datasets.import_path(options.path)
    else:
        rows = {"fetch": datasets.fetch, "verify": datasets.verify}[options.action](options.names)
    for row in rows:
        print(f"{row.name:<12} {row.status:<9} {row.detail}", flush=True)
    return int(any(row.status not in GOOD for row in rows))


def _where() -> int:
    where = datasets.where()
    print(f"cache   {where.cache} ({len(where.files)} files; DGPBENCH_CACHE moves it)")
    print(f"mirror  {where.mirror or 'none (DGPBENCH_MIRROR names a directory or URL laid out as <host>/<path>)'}")
    for path in where.files:
        print(f"  {path.relative_to(where.cache)}  {path.stat().st_size:,} bytes")
    return 0
