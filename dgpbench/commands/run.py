"""``dgpbench run``: checks the command line, hands it to Hydra and turns the outcomes into an exit code."""

import os
import sys
from collections.abc import Sequence

from dgpbench import config, outcomes
from dgpbench.overrides import check_overrides, split_arguments
from dgpbench.settings import SETTINGS


def run(arguments: Sequence[str]) -> int:
    """Carry out ``dgpbench run ARGUMENTS``."""
    if {"--help", "-h"} & set(arguments):
        print(help_text())
        return 0
    flags, overrides = split_arguments(arguments)
    multirun = bool({"--multirun", "-m"} & set(flags))
    if "--hydra-help" not in flags:
        check_overrides(overrides, multirun=multirun)
    with outcomes.collecting() as path:
        code = call_hydra([*overrides, *flags])
        ended = outcomes.read(path)
    if len(ended) > 1:
        print(f"{len(ended)} runs: {outcomes.summary(ended)}")
    return max(code, outcomes.exit_code(ended))


def call_hydra(arguments: Sequence[str]) -> int:
    """Call the real ``@hydra.main`` function, so that sweeps, launchers and ``--cfg`` all work."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from dgpbench.errors import Refused
    from dgpbench.task import task

    os.environ["HYDRA_FULL_ERROR"] = "1"  # exceptions reach us whole
    config.register_resolvers()
    before = sys.argv
    sys.argv = ["dgpbench run", *arguments]
    try:
        hydra.main(version_base="1.3", config_path=str(config.config_directory()), config_name="run")(task)()
    except (HydraException, OmegaConfBaseException) as problem:
        raise Refused(str(problem).splitlines()[0]) from None
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.argv = before
    return 0


def help_text() -> str:
    """What ``dgpbench run --help`` prints: the groups with their choices, the settings, Hydra's flags."""
    lines = [
        "dgpbench run [GROUP=NAME ...] [SETTING=VALUE ...] [flags]",
        "",
        "Train one method on one split of one data set, score it, and keep a record below results/runs.",
        "",
        "  dgpbench run method=star dataset=kin8nm budget=laptop",
        "  dgpbench run method=star,mf dataset=boston 'split=range(10)' --multirun",
        "  dgpbench run dataset=csv dataset.path=table.csv dataset.target=price method=mf",
        "",
        "Groups (later wins: method < protocol < budget < command line):",
    ]
    lines += [f"  {group + '=':<12}{', '.join(config.choices(group))}" for group in config.GROUPS]
    lines += ["", "Settings:"]
    lines += [f"  {key + '=':<32}{setting.help} ({setting.describe()})" for key, setting in SETTINGS.items()]
    lines += [
        "",
        "Flags: --multirun (-m) runs every combination of comma-separated values, 'range(10)' or 'glob(*)', which a",
        "shell needs quoted; --cfg job prints the configuration and runs nothing; --hydra-help explains the rest.",
        "A value that holds commas, '=' or brackets needs quotes of its own inside the shell's.",
    ]
    return "\n".join(lines)
