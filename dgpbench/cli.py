"""``dgpbench``: the subcommands, and how a call ends.

Exit codes: 0 done or skipped; 1 a run failed, diverged or timed out; 2 refused input, before anything ran;
130 and 143 interrupted. Nothing heavy is imported here: ``--help`` and ``list`` answer at once.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from dgpbench import __version__
from dgpbench.errors import Refused

GROUPS = ("methods", "datasets", "tasks", "protocols", "budgets", "experiments")


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; `{self.prog} --help` says what works")


def build_parser() -> argparse.ArgumentParser:
    """The grammar of the command line; ``run`` is not in it, since Hydra reads its own arguments."""
    parser = _Parser(
        prog="dgpbench",
        description="Reproducible benchmarks of deep Gaussian processes for regression.",
        epilog="Example: dgpbench run method=star dataset=kin8nm budget=laptop",
    )
    parser.add_argument("--version", action="version", version=f"dgpbench {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    commands.add_parser("run", help="train and score: dgpbench run method=star dataset=kin8nm", add_help=False)

    listing = commands.add_parser("list", help="what there is: methods, datasets, tasks, protocols, budgets, experiments")
    listing.add_argument("group", choices=GROUPS)
    listing.add_argument("--json", action="store_true", help="print JSON")

    show = commands.add_parser("show", help="one run: its scores, settings and picture")
    show.add_argument("run", help="the run's directory, below results/runs")
    show.add_argument("--plot", action="store_true", help="write its picture")
    show.add_argument("--output", help="where the picture goes (default: figure.png beside the record)")
    show.add_argument("--json", action="store_true", help="print the record")

    _add_data(commands)
    doctor = commands.add_parser("doctor", help="versions, threads, cache, and what is missing")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_data(commands) -> None:
    data = commands.add_parser("data", help="fetch, verify, import or locate data sets")
    actions = data.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    for name, text in (("fetch", "download and verify"), ("verify", "check every cached table again")):
        action = actions.add_parser(name, help=text)
        action.add_argument("names", nargs="*", metavar="DATASET", help="data sets (default: all)")
    importing = actions.add_parser("import", help="take files that were fetched by hand")
    importing.add_argument("path", help="a file (an archive or what is inside it) or a folder of them")
    actions.add_parser("where", help="the cache, the mirror and the files in them")


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["-sc"]:
        return _complete(arguments)
    try:
        with _terminations_as_interrupts():
            return _dispatch(arguments)
    except Refused as refusal:
        print(f"dgpbench: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        code = 143 if interrupt.args == ("SIGTERM",) else 130
        print("dgpbench: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return code
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone
        return 0


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["run"]:
        from dgpbench.commands.run import run

        return run(arguments[1:])
    options = build_parser().parse_args(arguments)
    if options.command == "list":
        from dgpbench.commands.listing import listing as command
    elif options.command == "show":
        from dgpbench.commands.show import show as command
    elif options.command == "data":
        from dgpbench.commands.data import data as command
    else:
        from dgpbench.commands.doctor import doctor as command
    return command(options)


class _terminations_as_interrupts:  # noqa: N801
    """SIGTERM ends a run as Ctrl-C does: cleanly, with its own exit code."""

    def __enter__(self) -> None:
        try:
            self._before = signal.signal(signal.SIGTERM, self._interrupt)
        except ValueError:  # not in the main thread: signals are not ours
            self._before = None

    def __exit__(self, *_) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    @staticmethod
    def _interrupt(_number, _frame) -> NoReturn:
        raise KeyboardInterrupt("SIGTERM")


def _complete(arguments: list[str]) -> int:
    """Hydra's tab completion calls the program as ``dgpbench -sc query=bash`` and reads the line typed so far."""
    from dgpbench.commands.run import call_hydra

    line = os.environ.get("COMP_LINE", "")
    os.environ["COMP_LINE"] = line.replace(" run ", " ", 1)
    os.environ["COMP_POINT"] = str(len(os.environ["COMP_LINE"]))
    return call_hydra(arguments)
