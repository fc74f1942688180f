"""``dgpbench results``: verify, export, import, trace and rerun records."""

import os
import random
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dgpbench.commands.console import add_actions, add_item, add_overrides, add_results_dir
from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.runs import compact_records, store
from dgpbench.runs.compact_records import StoredRecord
from dgpbench.system import files
from dgpbench.system.progress import counted

ACTIONS = {
    "verify": "verify every record, raw or compact, and the files beside it",
    "export": "write the records of some items, or all, to results/records, one line a run, to be committed",
    "import": "import raw or compact records of another machine",
    "trace": "print the runs behind each number of an item, and the command that reruns one",
    "redo": "rerun a run and check that its scores match its record: exit code 1 if they do not",
}


def results(options: Namespace) -> int:
    """Call the chosen action."""
    actions = {"verify": verify, "export": export, "import": import_, "trace": trace, "redo": redo}
    return actions[options.action](options)


def verify(options: Namespace) -> int:
    """Report every damaged record, and with ``--quarantine`` move its run away; exit code 1 if there is one.

    With ``--rescore`` also report every record with scores that its points do not give; then the exit code is 1 too.
    """
    from dgpbench.runs import rerun

    folder = Path(options.results_dir)
    if (no_results := store.why_no_results(folder)) is not None:
        raise UserError(no_results)
    if not any((folder / name).is_dir() for name in ("runs", compact_records.FOLDER)):  # a wrong folder would pass
        raise UserError(f"{folder} has neither runs/ nor records/; name the folder that contains them")
    compact, problems = rerun.verify_compact(folder)
    for problem in problems:
        print(problem)
    number = damaged = 0
    finished = []
    for path, record in store.find_records(folder):
        number += 1
        if found := store.verify_run(path.parent):
            damaged += 1
            print("\n".join(found))
            if options.quarantine:
                print(_quarantine(folder, path.parent))
        if not isinstance(record, ValueError) and record["status"] == "done":
            finished.append((path.parent, record))
    print(f"{number} records, {damaged} damaged")
    if compact:
        print(f"{compact:,} compact records, {len(problems)} problems")
    differences: list[str] = []
    if options.rescore:
        rescored = [rerun.rescore(*run) for run in finished if run[0].is_dir()]  # others are in quarantine
        differences = [problem for each in rescored for problem in each.problems]
        print("\n".join([*differences, *rerun.summary(rescored)]))
    return int(bool(damaged or problems or differences))


def _quarantine(folder: Path, run: Path) -> str:
    """Move a run out of runs/, so that it counts as missing, without replacing an earlier one; return what was done."""
    first = folder / "quarantine" / run.relative_to(folder / "runs")
    target, number = first, 1
    while target.exists():
        number += 1
        target = first.with_name(f"{first.name}~{number}")
    for place in (run, target.parent):
        if not (actual := place.resolve()).is_relative_to(folder.resolve()):
            return f"not moved: {place} leads through a link to {actual}, outside {folder}; move the run yourself"
    with files.refusing_unwritable(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(run, target)
    return f"moved to {target}"


def export(options: Namespace) -> int:
    """Write compact records; exit code 1 if a run was left out."""
    from dgpbench.experiments.items import load
    from dgpbench.report import export as exporting

    names, overrides = _split(options.overrides)
    if names:
        items = [load(name, overrides) for name in names]
        return _print_result(exporting.export(items[0].results_dir, items), items[0].results_dir)
    values = dict(text.split("=", 1) for text in overrides)
    if unknown := set(values) - {"results_dir", "budget"}:
        raise UserError(
            f"{min(unknown)}= narrows an item; name one, as in `dgpbench results export lindinger2020_table1`"
        )
    if (budget := values.get("budget")) is not None and not groups.exists("budget", budget):
        raise groups.unknown("budget", budget)
    results_dir = values.get("results_dir", "results")
    return _print_result(exporting.export(results_dir, budget=budget), results_dir)


def import_(options: Namespace) -> int:
    """Import records of another machine; exit code 1 if one was left out."""
    from dgpbench.report import export as exporting

    folders = [text for text in options.overrides if text.startswith("results_dir=")]
    paths = [text for text in options.overrides if text not in folders]
    if not paths:
        raise UserError("results import needs a folder that holds runs/, a .jsonl file or a folder of them")
    results_dir = folders[-1].partition("=")[2] if folders else "results"
    return _print_result(exporting.import_from(results_dir, paths), results_dir)


def _print_result(result: tuple[dict[str, int], list[str]], results_dir: str) -> int:
    counts, left_out = result
    for sentence in left_out:
        print(f"dgpbench: left out: {sentence}", file=sys.stderr)
    lines = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    print(f"{Path(results_dir, compact_records.FOLDER)}: {lines}")
    return int(bool(left_out))


def trace(options: Namespace) -> int:
    """Print the runs behind each number of an item."""
    from dgpbench.report import tables

    for line in tables.trace(options.item, options.overrides):
        print(line)
    return 0


def redo(options: Namespace) -> int:
    """Rerun one run, or all that match; exit code 1 if the scores of one do not match its record."""
    if not (options.all or options.random):
        return _redo(*_named(options.overrides))
    matching = _done_runs(options.overrides)
    if options.random:
        return _redo(*_named([random.SystemRandom().choice(matching)]))
    codes = {path: _redo(*_named([path])) for path in matching}
    wrong = [path for path, code in codes.items() if code]
    print(f"{len(codes) - len(wrong)} of {len(codes)} runs agree with their records")
    for path in wrong:
        print(f"to repeat: dgpbench results redo {path}")
    return max(codes.values())


def _redo(stored: StoredRecord, table: Sequence[str]) -> int:
    from dgpbench.runs import rerun
    from dgpbench.runs.execute import execute

    print(f"again: {stored.key} of {stored.source}", flush=True)
    with TemporaryDirectory(prefix="dgpbench-") as folder:
        outcome = execute(rerun.run_of(stored, folder, table))
        if outcome.status != "done" or outcome.directory is None:
            print(outcome.message, file=sys.stderr)
            return 2 if outcome.status == "refused" else 1
        print("\n".join(outcome.message.splitlines()[:-1]))  # the last line is the path of the temporary record
        agrees, text = rerun.verdict_of(stored.record, outcome.directory)
    print(text)
    return int(not agrees)


def _named(words: Sequence[str]) -> tuple[StoredRecord, list[str]]:
    """Return the record that a directory, FILE:LINE or settings name, and the settings of a user's own table."""
    if not words:
        raise UserError("results redo needs a run: its directory, FILE.jsonl:LINE, its settings, or --random")
    table = [text for text in words if re.match(r"dataset[.=]", text)]
    if (stored := store.named(words[0])) is not None:
        if other := [text for text in words[1:] if text not in table]:
            raise UserError(f"{other[0]} cannot be changed when {words[0]} is run again; leave it out")
        return stored, table
    names, overrides = _split(words)
    if names:
        raise UserError(
            f"{names[0]} is not a run; name its directory, FILE.jsonl:LINE, or its settings, or add --random"
        )
    from dgpbench.data import datasets
    from dgpbench.runs.resolve import parse_known, resolve_overrides

    parse_known(overrides)
    run = resolve_overrides(overrides)
    own = run.dataset["kind"] == "csv"
    if own:
        run = run.with_dataset_name(datasets.load(run.dataset).name)
    folder = run.limits.results_dir
    if (stored := store.lookup(folder, run.identity)) is None:
        raise UserError(f"{run.identity.key} has no record in {folder}, so there is nothing to compare with")
    return stored, table if own else []


def _done_runs(words: Sequence[str]) -> list[str]:
    """Return the records of the done runs of an item, or of all items, narrowed by what names a run.

    Runs that start from one that is elsewhere are left out, and counted on standard error.
    """
    from dgpbench.experiments.items import load
    from dgpbench.report import cells
    from dgpbench.report.collect import IDENTITY, collect

    names, overrides = _split(words)
    if len(names) > 1:
        raise UserError(f"redo takes one item, not {' '.join(names)}")
    if names:
        item = load(names[0], overrides)
        results_dir = item.results_dir
        frame = cells.select(item, collect(results_dir, required=True))
    else:
        values = dict(text.split("=", 1) for text in overrides)
        results_dir = values.pop("results_dir", "results")
        frame = collect(results_dir, required=True)
        if unknown := set(values) - set(IDENTITY):
            raise UserError(f"{min(unknown)}= does not choose among runs; {', '.join(IDENTITY)} do")
        for key, value in values.items():
            frame = frame[frame[key].astype(str).isin(value.split(","))]
    frame = frame[(frame["status"] == "done") & (frame["dataset"].isin(groups.names("dataset")))]
    starts = (changed.get("init_from") for changed in frame["overrides"])  # whose parameters no compact record has
    can_start = [start is None or Path(results_dir, start).is_dir() for start in starts]
    if left_out := can_start.count(False):
        print(
            f"dgpbench: {counted(left_out, 'run')} left out, since the start is not in {results_dir}", file=sys.stderr
        )
    frame = frame[can_start]
    if frame.empty:
        raise UserError(f"no run that is done matches {' '.join(words) or 'all'}")
    return list(frame["path"])


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return names and overrides."""
    return [text for text in words if "=" not in text], [text for text in words if "=" in text]


def add_arguments(parser: ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    add_results_dir(actions["verify"])
    quarantine = "move damaged runs to quarantine/, so that they run again"
    actions["verify"].add_argument("--quarantine", action="store_true", help=quarantine)
    rescore = "compute scores again from points.parquet, and name those that differ"
    actions["verify"].add_argument("--rescore", action="store_true", help=rescore)
    items = "items and overrides; results_dir=FOLDER contains the records (default: results)"
    add_overrides(actions["export"], items, "ITEM|KEY=VALUE")
    places = "folders that contain runs/, .jsonl files or folders of them; results_dir=FOLDER is the target"
    add_overrides(actions["import"], places, "PATH")
    add_item(actions["trace"], "such as dataset=boston")
    run = "a run's directory, FILE.jsonl:LINE, or its settings; with --random or --all an item, or settings"
    add_overrides(actions["redo"], run, "RUN")
    which = actions["redo"].add_mutually_exclusive_group()
    which.add_argument("--random", action="store_true", help="pick one at random")
    which.add_argument("--all", action="store_true", help="rerun every run that matches, one after the other")
