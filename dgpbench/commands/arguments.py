"""Arguments that several commands share, and the parser that they are added to."""

import argparse
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from dgpbench.errors import UserError


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
