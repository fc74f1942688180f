"""``dgpbench run``: check the command line, execute the run, and turn outcomes into an exit code.

One run needs no launcher. A sweep goes through ``@hydra.main``, so that all of Hydra's launchers and flags work.
"""

import os
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from dgpbench import __version__
from dgpbench.commands.console import say
from dgpbench.config import groups
from dgpbench.config.compose import compose
from dgpbench.config.overrides import is_multirun, split_arguments
from dgpbench.config.settings import shown
from dgpbench.errors import UserError
from dgpbench.runs import outcomes
from dgpbench.runs.outcomes import Outcome
from dgpbench.runs.resolve import Run, check_overrides, documented, resolve_overrides
from dgpbench.system.files import refusing_unwritable

# Choices that together have every family, optimiser and kind of data with settings.
EXAMPLES = (
    ("dataset=csv",),
    ("method=gpr", "task=folds", "dataset=bimodal"),
    ("method=sgpr",),
    ("method=sghmc",),
    ("method=aep",),
    ("method=sod",),
    ("method=fully_factorised",),
    ("method=sgp", "optimiser=natgrad_adam"),
)

HELP = """dgpbench run [GROUP=NAME ...] [SETTING=VALUE ...] [flags]

Train one method on one split of one data set, score it, and keep a record below results/runs.

  dgpbench run method=star dataset=kin8nm budget=laptop
  dgpbench run method=star,mf dataset=boston 'split=range(10)' --multirun
  dgpbench run dataset=csv dataset.path=table.csv dataset.target=price method=mf

Groups (later wins: method < protocol < budget < command line):
{groups}

Settings [of the families, optimisers or tasks that have them, if not all do]. Defaults are for
protocol=lindinger2020 budget=paper; `dgpbench run GROUP=NAME ... --cfg job` prints those of others:
{settings}

Flags: --multirun (-m) runs every combination of comma-separated values, 'range(10)' or 'glob(*)', which a
shell needs quoted; --cfg job prints the configuration and runs nothing; --hydra-help explains the rest.
--plugin FILE loads methods from a Python file.
A value with commas, '=' or brackets needs quotes inside the shell's."""
MODES = ({"--multirun", "-m"}, {"--cfg", "-c"}, {"--info", "-i"})  # Hydra takes one of them
OWNERS = {"method": "family", "training": "optimiser", "task": "name", "dataset": "kind"}


def run(arguments: Sequence[str]) -> int:
    """Execute ``dgpbench run ARGUMENTS``."""
    if {"--help", "-h"} & set(arguments):
        print(help_text())
        return 0
    if "--version" in arguments:
        print(f"dgpbench {__version__}")
        return 0
    flags, overrides = split_arguments(arguments)
    if "--hydra-help" in flags:
        return call_hydra([*overrides, *flags])
    _check_flags({flag.partition("=")[0] for flag in flags})
    runs = check_overrides(overrides, multirun=is_multirun(flags))
    hydras_own = any(text.lstrip("+~").startswith("hydra") for text in overrides)
    if not flags and not hydras_own:
        return outcomes.exit_code([_execute(runs[0])])
    with outcomes.collecting() as path:
        code = call_hydra([*overrides, *flags])
        ended = outcomes.read(path)
    if len(ended) > 1:
        print(f"{len(ended):,} runs: {outcomes.summary(ended)}")
    return max(code, outcomes.exit_code(ended))


def _check_flags(flags: Set[str]) -> None:
    """Refuse flags of Hydra that have no effect, or end in a traceback."""
    if flags & {"--shell-completion", "-sc"}:
        raise UserError("`dgpbench completion SHELL` prints the completion script; run has none of its own")
    if (alone := flags & {"--resolve", "--package", "-p"}) and not flags & {"--cfg", "-c"}:
        raise UserError(f"{min(alone)} changes what --cfg prints; add --cfg job, or leave it out")
    if len(several := [min(flags & mode) for mode in MODES if flags & mode]) > 1:
        raise UserError(f"{' and '.join(several)} cannot be used together; leave all but one of them out")


def task(cfg: Any) -> None:
    """Execute one run of a sweep; Hydra's launchers call this, in this process or another. It never raises."""
    from hydra.core.hydra_config import HydraConfig

    del cfg  # the overrides contain the same, and also which settings differ from their defaults
    try:
        outcomes.add(_execute(resolve_overrides(HydraConfig.get().overrides.task)))
    except UserError as refusal:  # values that are valid alone may be invalid together
        outcomes.add(Outcome("refused", None, f"dgpbench: {refusal}"))
        print(f"dgpbench: {refusal}", file=sys.stderr, flush=True)


def _execute(run: Run) -> Outcome:
    """Execute a run and draw its picture; print what it will take and how it ended."""
    from dgpbench.runs.execute import execute

    outcome = with_picture(run, execute(run, say if run.limits.progress else lambda text: None))
    stream = sys.stdout if outcome.status in ("done", "skipped") else sys.stderr
    print(outcome.message, file=stream, flush=True)
    return outcome


def with_picture(run: Run, outcome: Outcome) -> Outcome:
    """Draw the picture of a finished run if plot=true; add its place, or the reason of its absence, to the message."""
    if outcome.status != "done" or outcome.directory is None or not run.limits.plot:
        return outcome
    from dgpbench.report.figures.run_figure import save_run_figure

    try:
        line = f"picture: {save_run_figure(Path(outcome.directory))}"
    except UserError as nothing:
        line = f"no picture: {nothing}"
    except Exception as problem:  # matplotlib, fonts, a full disk: the record is written nevertheless
        again = f"`dgpbench show {outcome.directory} --plot` tries again"
        line = f"no picture ({type(problem).__name__}: {problem}); {again}"
    return replace(outcome, message=f"{outcome.message}\n{line}")


def call_hydra(arguments: Sequence[str]) -> int:
    """Call the ``@hydra.main`` function, for sweeps, launchers, ``--cfg`` and completion."""
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from dgpbench.config.compose import register_resolvers

    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise exceptions instead of printing them
    register_resolvers()
    before = sys.argv
    sys.argv = ["dgpbench run", *arguments]
    try:
        with refusing_unwritable("Hydra's folder", "choose another one with hydra.run.dir= or hydra.sweep.dir="):
            hydra.main(version_base="1.3", config_path=str(groups.folder()), config_name="run")(task)()
    except (HydraException, OmegaConfBaseException) as problem:
        raise UserError(str(problem).splitlines()[0]) from None
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.argv = before
    return 0


def help_text() -> str:
    """Return the help of ``dgpbench run``: groups with their choices, settings, Hydra's flags."""
    choices = [f"  {group + '=':<12}{', '.join(groups.names(group))}" for group in groups.GROUPS]
    settings = [
        f"  {key + '=':<32}{meaning} ({accepted}; default {default})" + (f"  [{owners}]" if owners else "")
        for key, meaning, accepted, default, owners in settings_rows()
    ]
    return HELP.format(groups="\n".join(choices), settings="\n".join(settings))


def settings_rows() -> list[tuple[str, str, str, str, str]]:
    """Return key, meaning, accepted values, default and owners of every setting; no owners if all have it."""
    values, rows = _defaults(), []
    for key, setting, owners in documented():
        defaults: dict[str, list[str]] = {}  # value -> the owners that have it
        for owner, value in values[key].items():
            if owner in owners or not owners:
                defaults.setdefault(shown(value), []).append(owner)
        (first, _), *others = defaults.items()
        default = "; ".join([first, *(f"{value} of {', '.join(names)}" for value, names in others)])
        rows.append((key, setting.help, setting.describe(), default, ", ".join(owners)))
    return rows


def _defaults() -> dict[str, dict[str, Any]]:
    """Return the values of each key by owner (a family, an optimiser, a task, a kind of data; else '')."""
    defaults: dict[str, dict[str, Any]] = {}
    for choices in (*EXAMPLES, *((f"method={name}",) for name in groups.added("method"))):
        values = compose(choices).values
        owners = {section: values[section].get(name) for section, name in OWNERS.items()}
        for section, value in values.items():
            for name, each in (value if isinstance(value, Mapping) else {"": value}).items():
                key = f"{section}.{name}" if name else section
                defaults.setdefault(key, {}).setdefault(owners.get(section, ""), each)
    return defaults
