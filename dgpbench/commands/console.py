"""What commands share: their arguments, and where their text goes."""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from dgpbench.errors import UserError
from dgpbench.system.files import ANOTHER_OUTPUT, replacing

TEXTS = ("md", "tex", "csv", "html")
PICTURES = ("png", "pdf", "svg")

# Arguments ---------------------------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """argparse with one-sentence errors and the flag ``--plugin``, which ``cli.main`` handles."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.add_argument("--plugin", metavar="FILE", help="load methods from a Python file (repeatable)")

    def error(self, message: str) -> NoReturn:
        """Raise a UserError that names the closest choice."""
        from dgpbench.config.settings import did_you_mean

        quoted = re.findall(r"'([^']*)'", message)  # for an invalid choice: the value, then the choices
        hint = did_you_mean(quoted[0], quoted[1:]) if "invalid choice" in message else ""
        raise UserError(f"{message}{hint}; see `{self.prog} --help`")


def add_actions(parser: argparse.ArgumentParser, texts: Mapping[str, str]) -> dict[str, argparse.ArgumentParser]:
    """Add the actions of a command, such as ``fetch`` of ``data``; return their parsers."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    return {name: actions.add_parser(name, help=text, description=text) for name, text in texts.items()}


def add_overrides(parser: argparse.ArgumentParser, help: str, metavar: str = "KEY=VALUE") -> None:
    """Add overrides, before or after the options."""
    # argparse reports them as required beside another missing argument, unless they have a default.
    parser.add_argument("overrides", nargs="*", metavar=metavar, default=[], help=help)


def add_item(parser: argparse.ArgumentParser, example: str = "such as dataset=boston,energy 'split=range(2)'") -> None:
    """Add a published item and the overrides that narrow it."""
    parser.add_argument("item", metavar="ITEM", help="such as lindinger2020_table1; see `dgpbench list experiments`")
    add_overrides(parser, example)


def add_results_dir(parser: argparse.ArgumentParser) -> None:
    """Add the results folder, also as other commands take it: results_dir=FOLDER."""
    parser.add_argument(
        "results_dir",
        nargs="?",
        type=lambda text: text.removeprefix("results_dir="),
        default="results",
        help="folder that contains runs/ (default: results)",
    )


def add_format(parser: argparse.ArgumentParser, formats: tuple[str, ...]) -> None:
    """Add the format of the output; the first one is the default."""
    parser.add_argument("--format", choices=formats, help=f"(default: the ending of --output, else {formats[0]})")


def add_json(parser: argparse.ArgumentParser, help: str = "print JSON") -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help=help)


# Output ------------------------------------------------------------------------------------------------------------


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
