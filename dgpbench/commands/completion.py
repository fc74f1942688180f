"""``dgpbench completion SHELL``: print a script that completes commands, options and names."""

import argparse
from collections.abc import Iterator

from dgpbench.config import groups

INSTALL = {  # how the script of each shell gets into use
    "bash": """add `eval "$(dgpbench completion bash)"` to ~/.bashrc""",
    "zsh": "dgpbench completion zsh > FOLDER/_dgpbench, where $fpath has the folder",
    "fish": "dgpbench completion fish > ~/.config/fish/completions/dgpbench.fish",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(INSTALL))
    parser.epilog = "\n".join(f"{shell}: {words}" for shell, words in INSTALL.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def completion(options: argparse.Namespace) -> int:
    """Print the script for the parser of all commands, ``options.parser``."""
    import shtab

    named = {
        "ITEM": groups.names("experiment"),
        "KEY=VALUE": [f"{group}={name}" for group in groups.GROUPS for name in groups.names(group)],
        "METHOD": groups.names("method"),
        "DATASET": groups.names("dataset"),
        "METHOD|DATASET": [*groups.names("method"), *groups.names("dataset")],
    }
    for action in _actions(options.parser):
        if action.metavar in named:
            action.choices = named[action.metavar]
        elif action.choices is None and action.nargs != 0:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab reads it
    print(shtab.complete(options.parser, options.shell))
    if options.shell == "bash":
        print("COMP_WORDBREAKS=${COMP_WORDBREAKS//=}  # else the text after method= is a word of its own")
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its subparsers."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)
        else:
            yield action
