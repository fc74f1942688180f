"""``dgpbench figure ITEM``: the figure of a published item, or the scores and ranks of a published table."""

from argparse import Namespace
from pathlib import Path

from dgpbench.errors import Refused
from dgpbench.report.collect import collect
from dgpbench.report.items import Item, load

FORMATS = ("png", "pdf", "svg")


def figure(options: Namespace) -> int:
    """Render the figures of an item and name the files."""
    from dgpbench.report.figures import render

    item = load(options.item, options.overrides)
    kind = format_of(options.format, options.output)
    made = render.figures(item, collect(item.results_dir))
    for number, (name, page) in enumerate(made.items()):
        print(f"figure: {render.save(page, _path(item, options.output, kind, name if number else None))}")
    return 0


def format_of(given: str | None, output: str | None) -> str:
    """The format that was asked for, or that the file's name says.

    :raises Refused: where the two disagree, or the name says none
    """
    suffix = Path(output).suffix.lstrip(".").lower() if output else ""
    if output and suffix not in FORMATS:
        raise Refused(f"--output {output} must end in .{', .'.join(FORMATS)}, which names its format")
    if given and suffix and given != suffix:
        raise Refused(f"--format {given} and --output {output} disagree; leave one of them out")
    return given or suffix or "png"


def _path(item: Item, output: str | None, kind: str, name: str | None) -> Path:
    """The file of an item's first figure (``name`` None), or of one of the others."""
    budget = "" if item.budget == "paper" else f"-{item.budget}"
    first = Path(output) if output else Path(item.results_dir, "figures", f"{item.name}{budget}.{kind}")
    return first if name is None else first.with_stem(f"{first.stem}-{name}")
