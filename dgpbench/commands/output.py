"""Where a command's text goes: to standard output or error, or to a file that is whole or not there."""

import sys
from pathlib import Path

from dgpbench.system.files import replacing


def write_output(text: str, output: str | None) -> None:
    """Print a text, or write it to a file, whose folder is made where it is missing.

    :raises Refused: where the file cannot be written
    """
    if output is None:
        print(text, end="")
        return
    path = Path(output)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
    print(f"written: {path}")


def say(text: str) -> None:
    """A line on standard error, for whoever is watching."""
    print(text, file=sys.stderr, flush=True)


def say_nothing(text: str) -> None:
    """For nobody."""
