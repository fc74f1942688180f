"""``dgpbench``: the subcommands, and how a call ends.

Exit codes: 0 done or skipped; 1 a run failed, diverged or timed out; 2 refused input, before anything ran;
130 and 143 interrupted. Nothing heavy is imported here: ``--help`` and ``list`` answer at once.
"""

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from dgpbench import __version__
from dgpbench.errors import UserError
from dgpbench.system import files, interrupts, terminal

# With a default of its own, since argparse else calls them required where another argument is missing.
_OVERRIDES: dict[str, Any] = {"nargs": "*", "metavar": "KEY=VALUE", "default": []}
WITH_ACTIONS = ("data", "results", "bench")  # commands that print their help when no action is given
GROUPS = ("methods", "datasets", "tasks", "protocols", "budgets", "experiments")


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are one sentence."""

    def __init__(self, **given: Any):
        super().__init__(**given)
        # For the help alone: `_with_plugins` takes it from the arguments.
        self.add_argument("--plugin", metavar="FILE", help="load methods from a Python file (repeatable)")

    def error(self, message: str) -> NoReturn:
        from dgpbench.config.settings import did_you_mean

        quoted = re.findall(r"'([^']*)'", message)  # in a complaint of a choice: what was given, then what there is
        hint = did_you_mean(quoted[0], quoted[1:]) if "invalid choice" in message else ""
        raise UserError(f"{message}{hint}; `{self.prog} --help` says what works")


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
    commands.add_parser("validate", help="check what `run` would be given, and run nothing", add_help=False)

    listing = commands.add_parser(
        "list", help="what there is: methods, datasets, tasks, protocols, budgets, experiments"
    )
    listing.add_argument("group", choices=GROUPS)
    listing.add_argument("--json", action="store_true", help="print JSON")

    _add_models(commands)
    show = commands.add_parser("show", help="one run, or a fitted model: its scores, settings and picture")
    show.add_argument("run", help="the run's directory, below results/runs, FILE.jsonl:LINE, or a directory of `fit`")
    show.add_argument("--plot", action="store_true", help="write its picture")
    show.add_argument("--output", help="where the picture goes (default: figure.png beside the record)")
    show.add_argument("--json", action="store_true", help="print the record")

    _add_data(commands)
    _add_items(commands)
    _add_results(commands)
    _add_bench(commands)
    _add_report(commands)
    cite = commands.add_parser("cite", help="whom to cite for a method or a data set, and its licence")
    cite.add_argument("name", metavar="METHOD|DATASET")
    about = "fit a method to small made-up tables and say which demands of the contract it meets"
    check_method = commands.add_parser(
        "check-method", help=about, description=f"{about}; exit code 1 where one is not."
    )
    check_method.add_argument(
        "name", metavar="METHOD", help="one of ours, of an installed package, or of --plugin FILE"
    )
    check_method.add_argument("overrides", help="settings; budget=smoke unless told", **_OVERRIDES)
    doctor = commands.add_parser("doctor", help="versions, threads, cache, and what is missing")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_models(commands) -> None:
    example = "dgpbench fit dataset=csv dataset.path=houses.csv dataset.target=price method=mf --output model/"
    text = "fit a model to all rows of a table and keep it, to predict new rows"
    fit = commands.add_parser("fit", help=text, description=f"{text[0].upper()}{text[1:]}: {example}")
    fit.add_argument("overrides", help="as `run` takes them", **_OVERRIDES)
    fit.add_argument("--output", required=True, metavar="DIRECTORY", help="where the model goes")
    fit.add_argument(
        "--holdout",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="share of the rows that a first fit is scored on; 0 skips that (default: 0.1)",
    )
    predict = commands.add_parser("predict", help="mean, standard deviation and quantiles of new rows")
    predict.add_argument("model", help="a directory that `fit` wrote, or a finished run's")
    predict.add_argument("table", metavar="FILE", help="the new rows, with the columns that were fitted to")
    predict.add_argument(
        "--output", metavar="FILE", help="a csv file, also as .gz, .bz2 or .xz (default: standard output)"
    )
    predict.add_argument(
        "--quantiles", default="0.05,0.5,0.95", metavar="P,...", help="probabilities (default: 0.05,0.5,0.95)"
    )
    predict.add_argument(
        "--id",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column of FILE to copy to the predictions (repeatable)",
    )
    reading = "how the file is read where it differs from the training file, as in dataset.encoding=utf-16"
    predict.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=reading)


def _add_data(commands) -> None:
    data = commands.add_parser("data", help="fetch, verify, import or locate data sets")
    actions = data.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    for name, text in (("fetch", "download and verify"), ("verify", "check every cached table again")):
        action = actions.add_parser(name, help=text)
        action.add_argument("names", nargs="*", metavar="DATASET", help="data sets (default: all)")
    importing = actions.add_parser("import", help="take files that were fetched by hand")
    importing.add_argument("path", help="a file (an archive or what is inside it) or a folder of them")
    actions.add_parser("where", help="the cache, the mirror and the files in them")


def _add_items(commands) -> None:
    """The commands about a published item; overrides narrow it, before or after the options."""
    texts = {
        "plan": "the runs of a published item: done, failed, missing, and the time left",
        "reproduce": "run what is missing of a published item, then render it",
        "table": "a published table from the records that there are; `table all` writes every one",
        "figure": "the picture of a published figure, or the scores and ranks of a table; `figure all` draws every one",
        "compare": "our numbers beside the published ones, with a verdict for each cell",
        "check": "compare with stored reference numbers: exit code 1 where one has moved",
    }
    parsers = {name: commands.add_parser(name, help=text) for name, text in texts.items()}
    for parser in parsers.values():
        parser.add_argument("item", metavar="ITEM", help="such as lindinger2020_table1: dgpbench list experiments")
        parser.add_argument("overrides", help="such as dataset=boston,energy 'split=range(2)'", **_OVERRIDES)
    parsers["plan"].add_argument("--json", action="store_true", help="print JSON")
    parsers["reproduce"].add_argument("--retry-failed", action="store_true", help="run failed runs again")
    parsers["reproduce"].add_argument("--workers", type=int, default=1, metavar="N", help="runs at a time (default: 1)")
    _add_engine(parsers["reproduce"])
    for name in ("table", "compare"):
        parsers[name].add_argument(
            "--format", choices=("md", "tex", "csv", "html"), help="(default: what --output ends in, else md)"
        )
        parsers[name].add_argument("--output", metavar="FILE", help="where it goes (default: standard output)")
    parsers["table"].add_argument(
        "--metric", metavar="NAME", help="a score in place of those that the item shows, such as crps"
    )
    parsers["figure"].add_argument(
        "--format", choices=("png", "pdf", "svg"), help="(default: what --output ends in, else png)"
    )
    parsers["figure"].add_argument(
        "--output",
        metavar="FILE",
        help="where it goes (default: results/figures/ITEM.png, ITEM-BUDGET.png where the budget is not the paper's); "
        "an item's further pictures go beside it, as FILE-NAME; of `figure all` a folder",
    )
    check = parsers["check"]
    check.add_argument(
        "--tolerance", type=float, required=True, metavar="T", help="how far a mean may move, in its unit"
    )
    check.add_argument(
        "--reference", metavar="FILE", help="a table as csv (default: results/reference/ITEM-BUDGET.csv)"
    )


def _add_report(commands) -> None:
    report = commands.add_parser(
        "report", help="one offline HTML file with all tables, comparisons, statistics and figures"
    )
    report.add_argument(
        "results_dir",
        nargs="?",
        type=_folder,
        default="results",
        help="the folder that holds runs/ (default: results)",
    )
    report.add_argument("--output", metavar="FILE", help="where it goes (default: report.html in that folder)")


def _folder(text: str) -> str:
    """A folder, also as the commands that take settings have it: results_dir=FOLDER."""
    return text.removeprefix("results_dir=")


def _add_engine(reproduce) -> None:
    reproduce.add_argument(
        "--engine", choices=("local", "slurm"), default="local", help="where runs go (default: here)"
    )
    reproduce.add_argument(
        "--launcher", metavar="FILE", help="slurm: your site's settings, as in conf/launcher/slurm.yaml"
    )
    reproduce.add_argument("--wait", action="store_true", help="slurm: come back when the jobs have ended")


def _add_bench(commands) -> None:
    bench = commands.add_parser("bench", help="milliseconds per gradient step, beside a counted floor and beside peers")
    actions = bench.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    texts = {
        "steps": "our methods: dgpbench bench steps methods=mf,star,fc M=128,64,256 --output steps.csv",
        "peers": "mean field beside GPflux and GPyTorch, where they are installed",
    }
    for name, text in texts.items():
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument(
            "overrides", nargs="*", metavar="KEY=VALUE", help="sizes and settings; a wrong one lists them"
        )
        action.add_argument("--output", metavar="FILE", help="a CSV file (default: standard output)")


def _add_results(commands) -> None:
    results = commands.add_parser("results", help="look after the records")
    actions = results.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    verify = actions.add_parser("verify", help="check every record, raw or compact, and the files beside it")
    verify.add_argument(
        "results_dir",
        nargs="?",
        type=_folder,
        default="results",
        help="the folder that holds runs/ (default: results)",
    )
    verify.add_argument(
        "--quarantine", action="store_true", help="move damaged runs to quarantine/, so that they run again"
    )
    verify.add_argument(
        "--rescore", action="store_true", help="compute scores again from points.parquet, and name those that differ"
    )
    texts = {
        "export": "write one line a run to results/records, which is committed: those of some items, or all",
        "import": "take raw or compact records that another machine has made",
        "trace": "from each number of an item to its runs, and the command that repeats one",
        "redo": "carry a run out again and ask whether its scores agree: exit code 1 where they do not",
    }
    actions_of = {name: actions.add_parser(name, help=text, description=text) for name, text in texts.items()}
    for name, words in {"export": "[ITEM ...] [KEY=VALUE ...]", "import": "PATH ...", "redo": "RUN"}.items():
        actions_of[name].add_argument("overrides", nargs="*", metavar=words, help=_WORDS[name])
    actions_of["trace"].add_argument("item", metavar="ITEM", help="such as lindinger2020_table1")
    actions_of["trace"].add_argument("overrides", help="such as dataset=boston", **_OVERRIDES)
    actions_of["redo"].add_argument("--random", action="store_true", help="one of them, by chance")


_WORDS = {
    "export": "items, and what narrows them; results_dir=FOLDER is where records are (default: results)",
    "import": "folders that hold runs/, .jsonl files or folders of them; results_dir=FOLDER is where they go",
    "redo": "a run's directory, FILE.jsonl:LINE, or the settings that name it; with --random an item, or settings",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["-sc"]:
        return _complete(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of another encoding gets \xdf, and no traceback
    code = 0
    try:
        try:
            with terminal.escaping():
                code = _answer(arguments)
        finally:
            if sys.stdout is not None:  # None where it was closed before we began
                sys.stdout.flush()  # here, where it can still be said that it fails
    except BrokenPipeError:  # the reader of our output has closed it
        _discard_output()
    except OSError as problem:
        said = files.of_temporary_folder(problem, Path.cwd())
        if said is None:
            if problem.errno not in files.FULL:
                raise
            _discard_output()
            said = f"the output cannot be written ({os.strerror(problem.errno)}); make room, or send it elsewhere"
        print(f"dgpbench: {said}", file=sys.stderr)
        return 2
    return code


def _discard_output() -> None:
    """Send what is left of the output nowhere, so that Python does not try to write it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _answer(arguments: list[str]) -> int:
    try:
        with interrupts.handled():
            return _dispatch(_with_plugins(arguments))
    except UserError as refusal:
        print(f"dgpbench: {refusal}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as missing:
        if (missing.name or "dgpbench").startswith("dgpbench"):
            raise
        print(f"dgpbench: the package {missing.name} is not installed; README.md, Install, says how", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print("dgpbench: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return interrupts.EXIT_CODES[interrupt.args[0] if interrupt.args else "SIGINT"]


def _with_plugins(arguments: list[str]) -> list[str]:
    """The arguments without ``--plugin FILE``; from here on a method that there is not is looked for among plug-ins."""
    from dgpbench.config import groups

    groups.find_by(_find, _offers)
    if not any(argument.partition("=")[0] == "--plugin" for argument in arguments):
        return arguments
    from dgpbench.methods.plugins import take_flags

    return take_flags(arguments)


def _find(group: str, name: str) -> bool:
    from dgpbench.methods import plugins

    return plugins.find(group, name)


def _offers(group: str) -> list[str]:
    from dgpbench.methods import plugins

    return plugins.offers(group)


def _dispatch(arguments: list[str]) -> int:
    if arguments in ([], *([name] for name in WITH_ACTIONS)):
        arguments = [*arguments, "--help"]
    if arguments[:1] in (["run"], ["validate"]):
        return _command(arguments[0])(arguments[1:])
    options = _parse(arguments)
    return _command({"list": "listing"}.get(options.command, options.command).replace("-", "_"))(options)


def _command(name: str) -> Callable[..., int]:
    return getattr(import_module(f"dgpbench.commands.{name}"), name)


def _parse(arguments: list[str]) -> argparse.Namespace:
    """The options; overrides may also follow options, which argparse alone does not take."""
    parser = build_parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and (not hasattr(options, "overrides") or any(text.startswith("-") for text in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.overrides = [*options.overrides, *rest]
    if getattr(options, "output", None) == "":
        parser.error("argument --output: an empty text names no place")
    return options


def _complete(arguments: list[str]) -> int:
    """Hydra's tab completion calls the program as ``dgpbench -sc query=bash`` and reads the line typed so far."""
    from dgpbench.commands.run import call_hydra

    line = os.environ.get("COMP_LINE", "")
    os.environ["COMP_LINE"] = line.replace(" run ", " ", 1)
    os.environ["COMP_POINT"] = str(len(os.environ["COMP_LINE"]))
    return call_hydra(arguments)
