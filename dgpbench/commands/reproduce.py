"""``dgpbench reproduce``: run what is missing of an item, then render it."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from dgpbench.commands.console import add_item, say
from dgpbench.commands.figure import default_path, draw
from dgpbench.commands.run import with_picture
from dgpbench.errors import UserError
from dgpbench.experiments import engine, slurm
from dgpbench.experiments.items import Item, load
from dgpbench.experiments.plan import BLOCKED, BROKEN, CONFLICT, MISSING, Planned, count, plan_of
from dgpbench.report import published, tables
from dgpbench.report.collect import collect
from dgpbench.report.compare import comparison
from dgpbench.runs import outcomes
from dgpbench.runs.outcomes import Outcome
from dgpbench.runs.resolve import Run
from dgpbench.system.progress import counted


def add_arguments(parser: ArgumentParser) -> None:
    add_item(parser)
    parser.add_argument("--retry-failed", action="store_true", help="run failed runs again")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="runs at a time (default: 1)")
    together = "train the splits of a cell as one model where its method allows it, for a GPU with device=gpu"
    parser.add_argument("--batch-splits", action="store_true", help=together)
    parser.add_argument("--engine", choices=("local", "slurm"), default="local", help="where to run (default: local)")
    launcher = "slurm: settings of your site, as in conf/launcher/slurm.yaml"
    parser.add_argument("--launcher", metavar="FILE", help=launcher)
    parser.add_argument("--wait", action="store_true", help="slurm: return when the jobs have ended")


def reproduce(options: Namespace) -> int:
    """Run and render; return the exit code of the runs."""
    if options.workers < 1:
        raise UserError(f"--workers {options.workers} cannot be used; it takes a whole number of at least 1")
    on_cluster = options.engine == "slurm"
    if options.batch_splits and (options.workers > 1 or on_cluster):
        raise UserError("--batch-splits trains many runs in one process; leave --workers and --engine slurm out")
    if not on_cluster and (options.wait or options.launcher):
        raise UserError("--wait and --launcher need --engine slurm; without it runs are executed on this machine")
    item = load(options.item, options.overrides)
    code = _on_cluster(item, options) if on_cluster else _on_this_machine(item, options)
    _render(item, options)
    return code


def _on_this_machine(item: Item, options: Namespace) -> int:
    """Execute the missing runs, and those in conflict, which are refused one by one; return their exit code.

    It is at least 1 if earlier failures remain.
    """
    runs = plan_of(item)
    todo = _todo(runs, item, options, MISSING, CONFLICT)
    say(f"{item.name}: {counted(len(runs), 'run')}, {len(todo):,} to do")
    _say_blocked(runs, options)
    print_line = engine.terminal_report(len(todo))

    def report(number: int, run: Run, outcome: Outcome) -> None:
        print_line(number, run, with_picture(run, outcome))

    if options.batch_splits:
        ended = engine.engine_of_cells(todo, report)
    else:
        ended = engine.engine(todo, options.workers, report)
    if ended:
        say(f"{counted(len(ended), 'run')}: {outcomes.summary(ended)}")
    failures = 0 if options.retry_failed else count(runs)[BROKEN]
    if failures:
        say(f"{counted(failures, 'earlier run')} failed and not run again; --retry-failed runs such runs")
    return max(outcomes.exit_code(ended), int(failures > 0))


def _todo(runs: list[Planned], item: Item, options: Namespace, *states: str) -> list[Run]:
    """Return the runs in some states, with --retry-failed also those that failed or wait for one that did.

    They draw pictures of single runs only on request.
    """
    states = (*states, BROKEN, BLOCKED) if options.retry_failed else states
    chosen = [each.run for each in runs if each.state in states]
    return [replace(run, limits=replace(run.limits, plot="plot" in item.external)) for run in chosen]


def _say_blocked(runs: list[Planned], options: Namespace) -> None:
    for each in runs:
        if each.state == BLOCKED and not options.retry_failed:
            say(f"not run: {each.why}")


def _on_cluster(item: Item, options: Namespace) -> int:
    """Submit what neither records nor queued jobs have; return 1 after failures or conflicts."""
    launcher = slurm.read_launcher(options.launcher)
    runs = plan_of(item)
    _say_blocked(runs, options)
    if todo := _todo(runs, item, options, MISSING):
        slurm.submit_missing(todo, launcher, item.results_dir, say, waiting=options.wait)
    counts = count(plan_of(item))
    say(f"{item.name}: " + ", ".join(f"{number} {state}" for state, number in counts.items() if number))
    return int(counts[BROKEN] + counts[CONFLICT] > 0)


def _render(item: Item, options: Namespace) -> None:
    """Print the item's table and the share that agrees with the paper, and draw its picture."""
    frame = collect(item.results_dir)
    if item.blocks:
        print(tables.render(tables.table(options.item, options.overrides, frame), "md"), end="")
        if published.of_item(options.item):
            print("\nBeside the published numbers (dgpbench compare):")
            for share in comparison(options.item, options.overrides, frame).shares():
                print(f"- {share.text}")
    if item.figure:
        try:
            draw(item, frame, default_path(item, "png"))
        except UserError as refusal:  # an item without a finished run has no picture; the runs' exit code stands
            say(f"dgpbench: {refusal}")
