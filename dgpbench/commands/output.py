"""Where a command's text goes: to standard output or error, or to a file that is whole or not there."""

import sys
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.report.rendering import FORMATS
from dgpbench.system.files import ANOTHER_OUTPUT, replacing


def write_output(text: str, output: str | None) -> None:
    """Print a text, or write it to a file; create its folder.

    :raises UserError: where the file cannot be written
    """
    if output is None:
        print(text, end="")
        return
    path = Path(output)
    with replacing(path, ANOTHER_OUTPUT) as partial:
        partial.write_text(text, encoding="utf-8")
    print(f"written: {path}")


def form_of(given: str | None, output: str | None) -> str:
    """Return the requested format, else that of the file's ending, else Markdown.

    :raises UserError: if the two disagree, or the ending is not a format
    """
    suffix = Path(output).suffix.lstrip(".").lower() if output else ""
    if given is None and suffix not in (*FORMATS, "txt", ""):
        raise UserError(f"--output {output} does not end in .{', .'.join(FORMATS)}; choose the format with --format")
    if given and suffix in FORMATS and given != suffix:
        raise UserError(f"--format {given} and --output {output} disagree; leave one of them out")
    return given or (suffix if suffix in FORMATS else "md")


def say(text: str) -> None:
    """A line on standard error, for whoever is watching."""
    print(text, file=sys.stderr, flush=True)


def say_nothing(text: str) -> None:
    """For nobody."""
