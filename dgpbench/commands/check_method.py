"""``dgpbench check-method``: check that a method fulfils the contract of all methods."""

from argparse import ArgumentParser, Namespace
from collections import Counter

from dgpbench.commands.console import add_overrides
from dgpbench.errors import UserError
from dgpbench.runs.method_checks import check
from dgpbench.runs.resolve import parse_known, resolve_overrides


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Fit a method to small artificial tables and check each demand of the contract; exit code 1 if one is not met."
    )
    parser.add_argument("name", metavar="METHOD", help="ours, an installed package's, or one of --plugin FILE")
    add_overrides(parser, "settings (default: budget=smoke, with 400 iterations)")


def check_method(options: Namespace) -> int:
    """Print for each demand whether it is met, failed or skipped; return 1 if one failed."""
    small = [f"method={options.name}", "budget=smoke"]
    if "method" in {each.key_or_group for each in parse_known([*small[1:], *options.overrides])}:
        raise UserError(f"check-method {options.name} has method= too; name one method")
    parse_known(small)
    if resolve_overrides(small).training.max_iterations is not None:
        # After the 50 of budget=smoke a deep model may still predict worse than the targets' mean does.
        small.append("training.max_iterations=400")
    count, last = Counter[str](), ""
    for name, verdict, reason in check(resolve_overrides([*small, *options.overrides])):
        count[verdict] += 1
        why = "" if not reason else ": as above" if reason == last else f": {reason}"
        print(f"{verdict:<7} {name}{why}", flush=True)
        last = reason or last
    skipped = f"; {count['skipped']} of {count.total()} demands were skipped" if count["skipped"] else ""
    kept = f"fails {count['FAILED']} of its demands" if count["FAILED"] else "keeps the contract"
    print(f"{options.name} {kept}{skipped}")
    return int(count["FAILED"] > 0)
