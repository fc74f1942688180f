"""``dgpbench fit``: fit a model to all rows of a table and save it for ``dgpbench predict``."""

import shutil
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

from dgpbench.commands.console import add_overrides
from dgpbench.errors import Diverged, UserError
from dgpbench.methods.interface import OUTSIDE
from dgpbench.runs import summary
from dgpbench.runs.resolve import Run, parse_known, resolve_overrides
from dgpbench.saved_model import ANOTHER, fit_model, held_out_scores, prepared, save

NOT_HERE = (
    *("task", "split", "init_from", "results_dir", "plot", "timeout_minutes"),
    *("dataset.test_path", "training.trace_test"),
)


def add_arguments(parser: ArgumentParser) -> None:
    example = "dgpbench fit dataset=csv dataset.path=houses.csv dataset.target=price method=mf --output model/"
    parser.description = f"{str(parser.description).rstrip('.')}: {example}"
    add_overrides(parser, "settings, as for `run`")
    parser.add_argument("--output", required=True, metavar="DIRECTORY", help="directory of the model")
    parser.add_argument(
        "--holdout",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="fraction of rows held out from a first fit, to score it; 0 skips that fit (default: 0.1)",
    )


def fit(options: Namespace) -> int:
    """Score held-out rows, fit to all rows, save.

    :raises UserError: before anything is fitted
    """
    for key in (override.key_or_group for override in parse_known(options.overrides)):
        if key in NOT_HERE or key.startswith("task."):
            raise UserError(f"fit trains on all rows of one table and has no {key}; use `dgpbench run` for it")
    run = resolve_overrides([*options.overrides, "plot=false"])
    if not 0 <= options.holdout < 1:
        raise UserError(f"--holdout={options.holdout:g} cannot be used; it must be at least 0 and below 1")
    try:
        with prepared(options.output) as target:
            return _fit_and_save(run, options.holdout, target)
    except Diverged as ended:
        print(f"dgpbench: the fit diverged, and no model was saved: {ended}", file=sys.stderr)
        return 1
    except UserError:
        raise
    except Exception as ended:  # a plug-in may fail in any way; an error of ours needs its traceback
        if not run.card.family.startswith(OUTSIDE):
            raise
        print(f"dgpbench: the fit failed, and no model was saved: {type(ended).__name__}: {ended}", file=sys.stderr)
        return 1


def _fit_and_save(run: Run, share: float, target: Path) -> int:
    from dgpbench.data import datasets
    from dgpbench.training.checkpoints import Checkpoints, interval

    table = datasets.load(run.dataset)
    run = run.with_dataset_name(table.name)
    kept = target / ".checkpoint"
    # Named by the data: an interrupted fit resumes only with the same rows.
    names = (f"{table.digest_xy[:16]}-without-{share:g}", f"{table.digest_xy[:16]}-all")
    first, second = (Checkpoints(kept / name, every_seconds=interval()) for name in names)
    held_out = held_out_scores(run, table, share, first) if share else None
    if held_out:
        scores = summary.held_out_lines(held_out.num_test, held_out.num_train, held_out.scores)
        repeated = summary.repeated_lines(held_out.num_repeated, held_out.num_test)
        print("\n".join([*scores, *repeated]), flush=True)
    model = fit_model(run, table, checkpoints=second)
    if held_out:
        model = replace(model, about={**model.about, "scores": held_out.scores, "held_out": held_out.num_test})
    save(model, target)
    shutil.rmtree(kept, ignore_errors=True)
    print(summary.of_model(model.about))
    if held_out:
        print("  the scores above are those of the first fit; this one has seen every row")
        method, name = model.about["choices"]["method"], model.about["data"]["name"]
        title = f"{method} on {name}: {held_out.num_test:,} rows held out at random"
        from dgpbench.report.figures.page import save as save_figure
        from dgpbench.report.figures.run_figure import run_figure

        try:
            figure = run_figure(held_out.points, None, held_out.scores, title, target=model.description.target)
            print(f"picture: {save_figure(figure, target / 'figure.png', ANOTHER)}")
        except Exception as problem:  # matplotlib, fonts, a full disk: the model is saved nevertheless
            print(f"no picture ({type(problem).__name__}: {problem})")
    print(f"model: {target}")
    return 0
