"""Where a command's text goes: to standard output or error, or to a file that is whole or not there."""

import sys
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.system.files import ANOTHER_OUTPUT, replacing

TEXTS = ("md", "tex", "csv", "html")
PICTURES = ("png", "pdf", "svg")


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


def format_of(given: str | None, output: str | None, formats: tuple[str, ...]) -> str:
    """Return the requested format, else that of the file's ending, else the first of ``TEXTS`` or ``PICTURES``.

    :raises UserError: if the two disagree, or the ending is not a format
    """
    suffix = Path(output).suffix.lstrip(".").lower() if output else ""
    endings = f".{', .'.join(formats)}"
    if formats == PICTURES and output and suffix not in PICTURES:
        raise UserError(f"--output {output} must end in {endings}, which names its format")
    if given is None and suffix not in (*formats, "txt", ""):
        raise UserError(f"--output {output} does not end in {endings}; choose the format with --format")
    if given and suffix in formats and given != suffix:
        raise UserError(f"--format {given} and --output {output} disagree; leave one of them out")
    return given or (suffix if suffix in formats else formats[0])


def say(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)
