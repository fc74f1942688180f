"""``dgpbench check-method``: whether a method keeps the contract that all of them keep."""

from argparse import Namespace
from collections import Counter

from dgpbench.runs.method_checks import check
from dgpbench.runs.resolve import parse_known, resolve_overrides


def check_method(options: Namespace) -> int:
    """Print each demand and whether it is met, failed or skipped; exit code 1 where one failed."""
    small = [f"method={options.name}", "budget=smoke"]
    parse_known([*small, *options.overrides])
    if resolve_overrides(small).training.max_iterations is not None:
        # After the 50 of budget=smoke a deep model may still predict worse than the targets' mean does.
        small.append("training.max_iterations=400")
    count, said = Counter[str](), ""
    for name, verdict, reason in check(resolve_overrides([*small, *options.overrides])):
        count[verdict] += 1
        why = "" if not reason else ": as above" if reason == said else f": {reason}"
        print(f"{verdict:<7} {name}{why}", flush=True)
        said = reason or said
    skipped = f"; {count['skipped']} of {count.total()} demands were skipped" if count["skipped"] else ""
    kept = f"fails {count['FAILED']} of its demands" if count["FAILED"] else "keeps the contract"
    print(f"{options.name} {kept}{skipped}")
    return 1 if count["FAILED"] else 0
