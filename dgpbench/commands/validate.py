"""``dgpbench validate``: would ``run`` take this? Nothing is run, and TensorFlow is not imported."""

from collections.abc import Sequence

from dgpbench.overrides import check_overrides, split_arguments


def validate(arguments: Sequence[str]) -> int:
    """Check the arguments of ``dgpbench run``.

    :raises Refused: as ``run`` would, with one sentence
    """
    if {"--help", "-h"} & set(arguments):
        print(
            "dgpbench validate [GROUP=NAME ...] [SETTING=VALUE ...]: check what `run` would be given, and run nothing"
        )
        return 0
    flags, overrides = split_arguments(arguments)
    check_overrides(overrides, multirun=bool({"--multirun", "-m"} & set(flags)))
    print("valid: `dgpbench run` takes it")
    return 0
