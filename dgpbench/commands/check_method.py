"""``dgpbench check-method``: whether a method keeps the contract that all of them keep."""

from argparse import Namespace

from dgpbench.models.method_checks import check
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.runs.validation import parse_known


def check_method(options: Namespace) -> int:
    """Print each demand and whether it is met; exit code 1 where one is not."""
    small = [f"method={options.name}", "budget=smoke"]
    parse_known([*small, *options.overrides])
    if resolve_overrides(small).training.max_iterations is not None:
        # After the 50 of budget=smoke a deep model may still predict worse than the targets' mean does.
        small.append("training.max_iterations=400")
    failed, said = 0, None
    for name, problem in check(resolve_overrides([*small, *options.overrides])):
        failed += problem is not None
        why = "" if problem is None else ": as above" if problem == said else f": {problem}"
        print(f"{'ok    ' if problem is None else 'FAILED'}  {name}{why}", flush=True)
        said = problem or said
    print(f"{options.name} {'keeps the contract' if not failed else f'fails {failed} of its demands'}")
    return 1 if failed else 0
