"""``dgpbench``: dispatch to the commands, and exit codes.

Exit codes: 0 done or skipped; 1 a run failed, diverged or timed out; 2 invalid input, before anything ran; 130 and 143
interrupted. A command's module is imported only when it is called, so ``--help`` and ``list`` start at once.
"""

import argparse
import io
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from dgpbench import __version__
from dgpbench.commands.console import Parser, add_overrides
from dgpbench.errors import UserError, printable
from dgpbench.system import files, interrupts

COMMANDS = {
    "run": "train and score: dgpbench run method=star dataset=kin8nm",
    "validate": "check the arguments of `run` without running",
    "list": "list methods, datasets, tasks, protocols, budgets or experiments",
    "fit": "fit a model to all rows of a table and save it, to predict new rows",
    "predict": "predict mean, standard deviation and quantiles of new rows",
    "show": "show the scores, settings and picture of a run or a fitted model",
    "data": "fetch, verify, import or locate data sets",
    "plan": "list the runs of a published item and the time left",
    "reproduce": "run what is missing of a published item, then render it",
    "table": "rebuild a published table from the available records; `table all` writes every one",
    "figure": "draw a published figure, or the scores and ranks of a table; `figure all` draws every one",
    "compare": "compare our numbers with the published ones, with a verdict for each cell",
    "check": "compare with stored reference numbers: exit code 1 if one has changed",
    "results": "verify, export, import, trace or rerun records",
    "bench": "milliseconds per gradient step, beside a counted floor and beside peers",
    "report": "write one offline HTML file with all tables, comparisons, statistics and figures",
    "cite": "citation and licence of a method or data set",
    "completion": "print a script that completes commands, options and names in a shell",
    "check-method": "check that a method fulfils the contract",
    "doctor": "versions, threads, cache, and what is missing",
}
WITH_ACTIONS = ("data", "results", "bench")  # without an action they print their help
HYDRAS = ("run", "validate")  # Hydra parses their arguments
# Spaces of other widths and the joiners of scripts occur in real names, and are harmless.
KEPT = "\n\t\u00a0\u2009\u202f\u3000\u200c\u200d"


class EscapingStream:
    """A text stream that escapes what is not printable: text from files cannot change colours, titles or the cursor."""

    def __init__(self, stream: Any):
        self.rich_proxied_file = stream  # rich draws its bars on the stream with this name

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(printable(text, KEPT))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute one command line and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["-sc"]:
        return _complete(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of another encoding gets \xdf, not a traceback
    code = 0
    try:
        os.getcwd()
    except FileNotFoundError:
        print("dgpbench: the current folder has been removed; change to another one", file=sys.stderr)
        return 2
    try:
        try:
            output, errors = (each and EscapingStream(each) for each in (sys.stdout, sys.stderr))
            with redirect_stdout(output), redirect_stderr(errors), _printed_log():
                code = _handle(arguments)
        finally:
            if sys.stdout is not None:  # None if it was closed before the start
                sys.stdout.flush()  # here, where a failure can still be reported
    except BrokenPipeError:  # the reader of the output has closed it
        _discard_output()
    except OSError as problem:
        message = files.of_temporary_folder(problem, Path.cwd())
        if message is None:
            if problem.errno not in files.FULL:
                raise
            _discard_output()
            message = f"cannot write the output ({os.strerror(problem.errno)}); make room, or write it elsewhere"
        print(f"dgpbench: {message}", file=sys.stderr)
        return 2
    return code


@contextmanager
def _printed_log() -> Iterator[None]:
    """Print on standard error what the package logs."""
    logger, handler = logging.getLogger("dgpbench"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("dgpbench: %(message)s"))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _discard_output() -> None:
    """Send the rest of the output nowhere: Python would try to write it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _handle(arguments: list[str]) -> int:
    """Execute a command; turn invalid input, a missing package and interruptions into exit codes."""
    from dgpbench.config import groups

    groups.find_by("dgpbench.methods.plugins")
    try:
        with interrupts.handled():
            if any(argument.partition("=")[0] == "--plugin" for argument in arguments):
                from dgpbench.methods.plugins import take_flags

                arguments = take_flags(arguments)
            if arguments in ([], *([name] for name in WITH_ACTIONS)):
                arguments = [*arguments, "--help"]
            if arguments and arguments[0] in HYDRAS:
                return _function(arguments[0])(arguments[1:])
            options = _parse(arguments)
            return _function(options.command)(options)
    except UserError as refusal:
        print(f"dgpbench: {refusal}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as missing:
        if (missing.name or "dgpbench").startswith("dgpbench"):
            raise
        print(f"dgpbench: the package {missing.name} is not installed; see docs/howto/install.md", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print("dgpbench: interrupted; run the same command again to resume", file=sys.stderr)
        return interrupts.EXIT_CODES[interrupt.args[0] if interrupt.args else "SIGINT"]


def _module(command: str) -> Any:
    name = "listing" if command == "list" else command.replace("-", "_")
    return import_module(f"dgpbench.commands.{name}")


def _function(command: str) -> Callable[..., int]:
    """Return the function of a command, which has its module's name."""
    module = _module(command)
    return getattr(module, module.__name__.rpartition(".")[2])


def build_parser(complete: Collection[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the arguments of some commands."""
    parser = Parser(
        prog="dgpbench",
        description="Reproducible benchmarks of deep Gaussian processes for regression.",
        epilog="Example: dgpbench run method=star dataset=kin8nm budget=laptop",
    )
    parser.add_argument("--version", action="version", version=f"dgpbench {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        subparser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name in HYDRAS and name in complete:
            add_overrides(subparser, "choices and settings")
        elif name in complete:
            _module(name).add_arguments(subparser)
    return parser


def _parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options; overrides may follow options, which argparse alone does not accept."""
    command = next((text for text in arguments if text in COMMANDS), "")
    parser = build_parser(COMMANDS if command == "completion" else (command,))
    parser.set_defaults(parser=parser)
    options, rest = parser.parse_known_args(arguments)
    advice = f"see `dgpbench {options.command} --help`"
    if rest and (not hasattr(options, "overrides") or any(text.startswith("-") for text in rest)):
        raise UserError(f"unrecognized arguments: {' '.join(rest)}; {advice}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    for name, value in vars(options).items():  # of an unset variable of a shell; Path("") is the current folder
        if value == "":
            flag = f"--{name}" if any(text.startswith(f"--{name}") for text in arguments) else name
            raise UserError(f"argument {flag}: must not be empty; {advice}")
    return options


def _complete(arguments: list[str]) -> int:
    """Complete the line typed so far: Hydra calls the program as ``dgpbench -sc query=bash``."""
    from dgpbench.commands.run import call_hydra

    line = os.environ.get("COMP_LINE", "")
    os.environ["COMP_LINE"] = line.replace(" run ", " ", 1)
    os.environ["COMP_POINT"] = str(len(os.environ["COMP_LINE"]))
    return call_hydra(arguments)
