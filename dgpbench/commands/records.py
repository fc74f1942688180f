"""``dgpbench results export``, ``import``, ``trace``, ``redo``: records that leave the machine and can be repeated."""

import random
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.runs import archive
from dgpbench.runs.lines import Line


def export(options: Namespace) -> int:
    """Write compact records; exit code 1 where a run was left out."""
    from dgpbench.experiments.items import load
    from dgpbench.report import export as exporting

    names, given = _apart(options.overrides)
    if names:
        items = [load(name, given) for name in names]
        return _tell(exporting.export(items[0].results_dir, items), items[0].results_dir)
    values = dict(text.split("=", 1) for text in given)
    if unknown := set(values) - {"results_dir", "budget"}:
        raise UserError(
            f"{min(unknown)}= narrows an item; name one, as in `dgpbench results export lindinger2020_table1`"
        )
    results_dir = values.get("results_dir", "results")
    return _tell(exporting.export(results_dir, budget=values.get("budget")), results_dir)


def import_(options: Namespace) -> int:
    """Take records of another machine; exit code 1 where one was left out."""
    from dgpbench.report import export as exporting

    own = [text for text in options.overrides if text.startswith("results_dir=")]
    paths = [text for text in options.overrides if text not in own]
    if not paths:
        raise UserError("results import needs a folder that holds runs/, a .jsonl file or a folder of them")
    results_dir = own[-1].partition("=")[2] if own else "results"
    return _tell(exporting.import_from(results_dir, paths), results_dir)


def trace(options: Namespace) -> int:
    """Print the runs behind each number."""
    from dgpbench.report.trace import trace as tracing

    for line in tracing(options.item, options.overrides):
        print(line)
    return 0


def redo(options: Namespace) -> int:
    """Carry a run out again; exit code 1 where its scores do not agree."""
    from dgpbench.runs import redo as redoing
    from dgpbench.runs.run import execute

    line, table = (_by_chance(options.overrides), []) if options.random else _named(options.overrides)
    print(f"again: {line.key} of {line.source}", flush=True)
    with TemporaryDirectory(prefix="dgpbench-") as folder:
        outcome = execute(redoing.again(line, folder, table))
        if outcome.status != "done" or outcome.directory is None:
            print(outcome.message, file=sys.stderr)
            return 2 if outcome.status == "refused" else 1
        print("\n".join(outcome.message.splitlines()[:-1]))  # the last says where the record is, which goes
        verdict = redoing.verdict_of(line.record, outcome.directory)
    print(verdict.text)
    return int(not verdict.agrees)


def _apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names and overrides."""
    return [text for text in words if "=" not in text], [text for text in words if "=" in text]


def _tell(joined, results_dir: str) -> int:
    for sentence in joined.left_out:
        print(f"dgpbench: left out: {sentence}", file=sys.stderr)
    counts = ", ".join(f"{number:,} {what}" for what, number in joined.counts.items())
    print(f"{Path(results_dir, archive.FOLDER)}: {counts}")
    return int(bool(joined.left_out))


# Which run is meant ---------------------------------------------------------------------------------------------------


def _named(words: Sequence[str]) -> tuple[Line, list[str]]:
    """The record that a directory, FILE:LINE or settings name, and the settings that say where a user's own table is.

    :raises UserError: where there is none
    """
    if not words:
        raise UserError("results redo needs a run: its directory, FILE.jsonl:LINE, its settings, or --random")
    table = [text for text in words if re.match(r"dataset[.=]", text)]
    if (found := archive.named(words[0])) is not None:
        if other := [text for text in words[1:] if text not in table]:
            raise UserError(f"{other[0]} cannot be changed when {words[0]} is carried out again; leave it out")
        return found, table
    names, given = _apart(words)
    if names:
        raise UserError(f"{names[0]} is no run; name its directory, FILE.jsonl:LINE, or its settings, or add --random")
    from dgpbench.data import registry
    from dgpbench.runs.resolve import resolve_overrides

    run = resolve_overrides(given)
    if run.dataset["kind"] != "csv":
        table = []
    else:
        run = run.filed_under(registry.load(run.dataset).name)
    there = archive.lookup(run.limits.results_dir, run.identity)
    if there is None:
        raise UserError(
            f"{run.identity.key} has no record in {run.limits.results_dir}, so there is nothing to compare with"
        )
    return there, table


def _by_chance(words: Sequence[str]) -> Line:
    """One of the done runs of an item, or of all, narrowed by what names a run."""
    from dgpbench.experiments.items import load
    from dgpbench.report import cells
    from dgpbench.report.collect import IDENTITY, collect

    names, given = _apart(words)
    if len(names) > 1:
        raise UserError(f"--random takes one item, not {' '.join(names)}")
    if names:
        item = load(names[0], given)
        frame = cells.select(item, collect(item.results_dir, required=True))
    else:
        values = dict(text.split("=", 1) for text in given)
        frame = collect(values.pop("results_dir", "results"), required=True)
        if unknown := set(values) - set(IDENTITY):
            raise UserError(f"{min(unknown)}= does not choose among runs; {', '.join(IDENTITY)} do")
        for key, value in values.items():
            frame = frame[frame[key].astype(str).isin(value.split(","))]
    frame = frame[(frame["status"] == "done") & (frame["dataset"].isin(groups.names("dataset")))]
    if frame.empty:
        raise UserError(f"no run that is done is among those asked for ({' '.join(words) or 'all'})")
    row = frame.iloc[random.SystemRandom().randrange(len(frame))]
    found = archive.named(row["path"])
    assert found is not None
    return found
