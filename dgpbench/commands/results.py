"""``dgpbench results``: are all records and the files beside them whole? The other actions are in ``records.py``."""

import os
from argparse import Namespace
from pathlib import Path

from dgpbench.commands import records
from dgpbench.errors import UserError
from dgpbench.runs import archive, rescoring, store, verification
from dgpbench.system import files


def results(options: Namespace) -> int:
    """The action that was asked for."""
    actions = {"verify": verify, "export": records.export, "import": records.import_}
    return (actions | {"trace": records.trace, "redo": records.redo})[options.action](options)


def verify(options: Namespace) -> int:
    """Name every damaged run, and move it away where that is asked for; exit code 1 where there was one.

    With ``--rescore`` also name every record whose scores are not those of its points: exit code 1 too.
    """
    folder = Path(options.results_dir)
    if (problem := archive.why_no_results(folder)) is not None:
        raise UserError(problem)
    compact, wrong = verification.check(folder)
    number = damaged = 0
    for problem in wrong:
        print(problem)
    for path, _ in store.find_records(folder):
        number += 1
        if problems := store.verify_run(path.parent):
            damaged += 1
            for problem in problems:
                print(problem)
            if options.quarantine:
                print(_quarantine(folder, path.parent))
    print(f"{number} records, {damaged} damaged")
    if compact:
        print(f"{compact:,} compact records, {len(wrong)} problems")
    agreed = _rescored(folder) if options.rescore else True
    return int(damaged > 0 or bool(wrong) or not agreed)


def _rescored(folder: Path) -> bool:
    """Name every record whose scores are not those of its points; whether there was none."""
    found = []
    for one in rescoring.rescore_all(folder):
        found.append(one)
        for problem in one.problems:
            print(problem)
    print("\n".join(rescoring.summary(found)))
    return not any(one.problems for one in found)


def _quarantine(folder: Path, run: Path) -> str:
    """Move a run out of runs/, so that it counts as missing, and say so; an earlier one of the same name is kept."""
    wanted = folder / "quarantine" / run.relative_to(folder / "runs")
    target, number = wanted, 1
    while target.exists():
        number += 1
        target = wanted.with_name(f"{wanted.name}~{number}")
    for place in (run, target.parent):
        if not (lies := place.resolve()).is_relative_to(folder.resolve()):
            return f"not moved: {place} leads through a link to {lies}, outside {folder}; move the run yourself"
    with files.refusing_unwritable(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(run, target)
    return f"moved to {target}"
