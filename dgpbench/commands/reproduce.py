"""``dgpbench reproduce``: run what is missing of an item, then render it."""

from argparse import Namespace
from pathlib import Path

from dgpbench.commands.figure import default_path, draw
from dgpbench.commands.output import say
from dgpbench.commands.run import with_picture
from dgpbench.errors import UserError
from dgpbench.experiments import engine, slurm
from dgpbench.experiments.items import Item, load
from dgpbench.experiments.plan import BLOCKED, BROKEN, CONFLICT, MISSING, count, plan_of
from dgpbench.experiments.reproduce import complete, runs_of, say_blocked
from dgpbench.report import published, tables
from dgpbench.report.collect import collect
from dgpbench.report.compare import comparison
from dgpbench.runs import outcomes
from dgpbench.runs.outcomes import Outcome
from dgpbench.runs.resolve import Run
from dgpbench.system.progress import counted


def reproduce(options: Namespace) -> int:
    """Run and render; the exit code is that of the runs."""
    if options.workers < 1:
        raise UserError(f"--workers {options.workers} cannot be used; it takes a whole number of at least 1")
    item = load(options.item, options.overrides)
    if options.engine == "slurm":
        return _on_cluster(item, options)
    if options.wait or options.launcher:
        raise UserError("--wait and --launcher belong to --engine slurm; without it the runs are carried out here")
    done = complete(item, retry_failed=options.retry_failed, workers=options.workers, say=say, report=_report)
    if done.ended:
        say(f"{counted(len(done.ended), 'run')}: {outcomes.summary(done.ended)}")
    if done.kept_failures:
        say(f"{counted(done.kept_failures, 'earlier run')} failed and left alone; --retry-failed runs such again")
    _render(item, options)
    return done.exit_code()


def _on_cluster(item: Item, options: Namespace) -> int:
    """Submit what neither records nor queued jobs have, then render what there is; 1 where runs failed or conflict."""
    launcher = slurm.read_launcher(options.launcher)
    wanted = (MISSING, BROKEN, BLOCKED) if options.retry_failed else (MISSING,)
    runs = plan_of(item)
    todo = [each for each in runs if each.state in wanted]
    say_blocked([] if options.retry_failed else runs, say)
    if todo:
        slurm.carry_out(runs_of(todo, item), launcher, item.results_dir, say, waiting=options.wait)
    counts = count(plan_of(item))
    say(f"{item.name}: " + ", ".join(f"{number} {state}" for state, number in counts.items() if number))
    _render(item, options)
    return int(counts[BROKEN] + counts[CONFLICT] > 0)


def _report(total: int) -> engine.Report:
    """A line for each run that ends, and its picture where that was asked for."""
    tell = engine.terminal_report(total)

    def report(number: int, run: Run, outcome: Outcome) -> None:
        tell(number, run, with_picture(run, outcome))

    return report


def _render(item: Item, options: Namespace) -> None:
    """The item's table and the share that agrees with the paper, and its picture."""
    if item.blocks:
        _print_table(item, options)
    if item.figure:
        try:
            draw(item, collect(item.results_dir), Path(default_path(item, "png")))
        except UserError as refusal:  # an item whose runs all failed has no picture; the runs' exit code stands
            say(f"dgpbench: {refusal}")


def _print_table(item: Item, options: Namespace) -> None:
    frame = collect(item.results_dir)
    print(tables.render(tables.table(options.item, options.overrides, frame), "md"), end="")
    if published.of_item(options.item):
        print("\nBeside the published numbers (dgpbench compare):")
        for share in comparison(options.item, options.overrides, frame).shares():
            print(f"- {share.text}")
