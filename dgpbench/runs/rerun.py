"""Check records: rerun a run, recompute scores from the kept rows, verify the files of compact records.

The same processor, versions and number of threads give the same bits. Others round differently, and training amplifies
that, so the scores of a rerun may differ by the method's entry in ``BOUNDS`` (docs/explanation/reproducibility.md).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.methods.plugins import is_of_this_code
from dgpbench.predictive.scores import METRICS, rows_from
from dgpbench.runs import compact_records, store
from dgpbench.runs.compact_records import StoredRecord
from dgpbench.runs.identity import Identity
from dgpbench.runs.record import commit_of, inconsistency
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.system import provenance

# In nats of the test log-likelihood; the largest measured ones in interpolation (docs/explanation/reproducibility.md)
# are smaller.
# Exact methods and trees arrive at the same fit, and variational fits near the same optimum; power EP and networks
# arrive at another one, and a chain that is rounded differently is another chain.
BOUNDS = {
    **dict.fromkeys(("bayesian_ridge", "gpr", "gradient_boosting_quantiles", "mc_dropout"), 0.001),
    **dict.fromkeys(("sgpr", "fitc", "sgp", "mf", "mf_fixed_z", "star", "fc", "fc_mc", "stripes", "arrow"), 0.02),
    **dict.fromkeys(("chain", "custom", "sod", "sod_random", "sod_leverage", "sod_dpp"), 0.02),
    **dict.fromkeys(("aep", "aepmcm"), 0.3),
    "deep_ensemble": 0.5,
    "sghmc": 1.5,
}
OTHERS = 0.3  # of methods that were not measured, among them plug-ins
LARGEST_PART = 0.3  # of a score in units of y, and of the rows that a share counts
ROWS = 2  # test rows that rounding may move across the end of an interval
RELATIVE, ABSOLUTE = 1e-9, 1e-12  # of rescored values: the order of a sum depends on the processor and on NumPy


# Rerunning ------------------------------------------------------------------------------------------------------------


def run_of(stored: StoredRecord, folder: str | Path, table: Sequence[str] = ()) -> Run:
    """Return the run of a record, with results in another folder and the recorded number of threads, if available.

    :param table: settings of a user's own table, ``dataset=csv dataset.path=FILE ...``: a record has its digest only
    :raises UserError: if the run is not done, its name now means other settings or other code, or it starts from a run
        that is missing
    """
    record, source = stored.record, stored.source
    if not stored.is_done:
        raise UserError(f"{source} has no scores to compare with: it is {record['status']}")
    identity = Identity(**record["identity"])
    arguments = identity.arguments()
    if files := [key for key in identity.overrides if key.endswith(("path", "_file"))]:
        raise UserError(f"{source} names a file in {files[0]}; records cannot name files to be read")
    if groups.exists("dataset", identity.dataset):
        if table:
            raise UserError(f"{source} is of dataset={identity.dataset}; leave {' '.join(table)} out")
    elif not table:
        raise UserError(
            f"{source} is of a table of your own, {identity.dataset}; add dataset=csv dataset.path=FILE "
            f"dataset.target={record['config']['dataset']['target']} after the run's name"
        )
    else:
        arguments = [text for text in arguments if not text.startswith("dataset=")] + list(table)
    try:
        run = resolve_overrides(arguments)
    except UserError as problem:
        raise UserError(f"{source} cannot be run again ({problem})") from None
    if run.config_hash != record["config_hash"]:
        if not is_of_this_code(record["config"]["method"]):
            raise UserError(f"{source} was produced by another version of {run.card.name}; rerun it")
        raise UserError(
            f"{source} was made with other settings than `dgpbench run {' '.join(arguments)}` has now; "
            f"its code is commit {commit_of(record)}"
        )
    if run.init_from is not None:  # below the results of the record, not of the rerun
        above = Path(source).absolute().parents
        results_dir = next((each.parent for each in above if each.name in ("runs", compact_records.FOLDER)), Path())
        start = results_dir / run.init_from
        if not start.is_dir():
            raise UserError(f"{source} starts from the parameters of {start}, which is missing; run that first")
        run = replace(run, init_from=str(start))
    threads = min(record["host"].get("threads") or run.limits.num_threads, provenance.processors())
    device = "auto" if record["host"].get("gpu") else "cpu"
    limits = replace(run.limits, results_dir=str(folder), num_threads=threads, device=device, timeout_minutes=None)
    return replace(run, limits=limits).without_progress()


def verdict_of(record: Mapping[str, Any], directory: str | Path) -> tuple[bool, str]:
    """Return whether the scores of a rerun in a directory match a record, and a text with a table of both."""
    import pandas as pd

    new = store.read_record(directory)
    rows = compact_records.split_digest(pd.read_parquet(Path(directory, store.POINTS), columns=["row"])["row"])
    for key in ("digest_xy", "digest_xy_ordered"):
        if record["data"].get(key) != new["data"].get(key):
            return False, f"the data differ: {key} {record['data'].get(key)}, now {new['data'].get(key)}"
    if record.get("split_digest", rows) != rows:
        return False, f"the test rows differ: digest {record['split_digest']}, now {rows}"
    before, now = (
        {name: each["host"].get(key) for name, key in {"processor": "cpu", "GPU": "gpu", "threads": "threads"}.items()}
        | {"initial parameters": (each.get("start") or {}).get("parameters_sha256")}
        | each["versions"]
        for each in (record, new)
    )
    names = dict.fromkeys((*before, *sorted(now)))  # of what may change the last bits
    changes = [f"{name} {before.get(name)}, now {now.get(name)}" for name in names if before.get(name) != now.get(name)]
    bound = BOUNDS.get(record["identity"]["method"], OTHERS) if changes else 0.0
    table, beyond = _compared(record["scores"], new["scores"], bound, record["data"]["n_test"])
    changes = changes or ["processor, versions and threads are the same"]
    why = ", ".join([*changes, f"code {commit_of(record)}, now {commit_of(new)}"])
    if beyond:
        return False, f"{table}\nthe scores DIFFER: {', '.join(beyond)}; {why}"
    if record["scores"] == new["scores"]:
        return True, f"{table}\nthe scores agree bit for bit"
    return True, f"{table}\nthe scores agree within their bounds, not to the bit; {why}"


def _compared(old: Mapping[str, float], new: Mapping[str, float], bound: float, rows: int) -> tuple[str, list[str]]:
    """Return a table of every score in both records, and the names of those that differ by more than their bound.

    :param bound: of scores in nats; 0 accepts no difference
    """
    from tabulate import tabulate

    part = min(bound, LARGEST_PART)
    share = part + ROWS / max(rows, 1) if bound else 0.0
    lines, beyond = [], []
    for name in sorted({*old, *new}):
        before, now = old.get(name, math.nan), new.get(name, math.nan)
        unit = METRICS[name].unit if name in METRICS else "nats"
        largest = {"units of y": part * abs(before), "share": share}.get(unit, bound)
        if not abs(now - before) <= largest:
            beyond.append(name)
        lines.append((name, f"{before:.10g}", f"{now:.10g}", f"{now - before:+.2g}", f"{largest:.2g}"))
    return tabulate(lines, ("score", "record", "now", "difference", "bound"), disable_numparse=True), beyond


# Rescoring ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rescored:
    """Result of recomputing the scores of a finished run."""

    problems: tuple[str, ...] = ()  # a sentence for each score that its points do not give, or why there is none
    unchecked: tuple[str, ...] = ()  # scores that its points do not allow, or that are not metrics here
    is_readable: bool = True


def rescore(directory: Path, record: Mapping[str, Any]) -> Rescored:
    """Recompute the scores of a finished run from its ``points.parquet``, by the functions that computed them.

    Tables written before CRPS and quantiles were kept allow fewer of them; the others are named, never guessed.
    """
    import pandas as pd

    try:
        rows = rows_from(pd.read_parquet(directory / store.POINTS))
        scores = {
            name: score
            for name, score in record["scores"].items()
            if name in METRICS and set(METRICS[name].columns) <= set(rows)
        }
        problems = []
        for name, recorded in scores.items():
            recomputed, unit = METRICS[name].of(rows), METRICS[name].unit
            least = 0.0 if unit == "units of y" else ABSOLUTE  # y may be small in its unit
            if not math.isclose(recorded, recomputed, rel_tol=RELATIVE, abs_tol=least):
                apart = f"{abs(recomputed - recorded):.3g} {'' if unit == 'share' else unit}".strip()
                both = f"{recorded:.10g} in the record and {recomputed:.10g} from its points"
                problems.append(f"{directory}: {name} is {both}: {apart} apart")
        return Rescored(tuple(problems), tuple(name for name in record["scores"] if name not in scores))
    except (OSError, ValueError, TypeError, AttributeError) as problem:  # pyarrow's errors are among these
        return Rescored((f"{directory} cannot be rescored: {str(problem).splitlines()[0]}",), is_readable=False)


def summary(rescored: Sequence[Rescored]) -> list[str]:
    """Say how many runs agree, and which scores could not be recomputed."""
    unreadable = sum(not each.is_readable for each in rescored)
    differing = sum(bool(each.problems) for each in rescored) - unreadable
    agreeing, total = len(rescored) - unreadable - differing, len(rescored)
    counts = f"{agreeing:,} of {total:,} finished runs have the scores that their points give, {differing} do not"
    lines = [counts + (f", {unreadable} could not be rescored" if unreadable else "")]
    if unchecked := Counter(name for each in rescored for name in each.unchecked):
        listed = ", ".join(f"{name} of {number}" for name, number in unchecked.items())
        lines.append(f"not recomputed, because the points lack their columns: {listed}")
    return lines


# Verifying compact records --------------------------------------------------------------------------------------------


def verify_compact(results_dir: str | Path) -> tuple[int, list[str]]:
    """Return the number of compact records, and a sentence for each problem with them."""
    files = {path: compact_records.decode(path) for path in compact_records.paths(results_dir)}
    problems = list(compact_records.gather(files.values()).problems)
    for path, lines in files.items():
        written = compact_records.encode((run.record for run in lines.runs), (pair.record for pair in lines.pairs))
        # The comparison also finds digits that change no number.
        if not lines.problems and (actual := path.read_bytes()) != written:
            pairs = zip_longest(actual.split(b"\n"), written.split(b"\n"))
            number = next(number for number, (old, new) in enumerate(pairs, 1) if old != new)
            what = "is not sorted and spelt as dgpbench writes it"
            if lines.undigested:
                what = f"has {lines.undigested} lines without a digest, of an earlier dgpbench: changes go unnoticed"
            command = f"dgpbench results import {path.parent} results_dir={path.parent.parent}"
            problems.append(f"{path}:{number} {what}; `{command}` fixes it")
        for line in lines.runs:
            problems += _problems_of_line(Path(results_dir), line)
    return sum(len(lines.runs) for lines in files.values()), problems


def _problems_of_line(results_dir: Path, line: StoredRecord) -> Iterator[str]:
    """Check a compact record by itself, and against the run's own files if they exist."""
    record = line.record
    if (problem := inconsistency(record)) is not None:
        yield f"{line.source} contradicts itself: {problem}"
    directory = Identity(**record["identity"]).directory(results_dir)
    try:
        raw = compact_records.of_run(directory)
    except (OSError, ValueError):
        return  # no raw run, or a damaged one, which `results verify` reports by itself
    if raw["status"] != "done" and line.is_done:
        return  # failed here, and done elsewhere
    if raw["scores"] != record["scores"]:
        yield f"{line.source} has other scores than {directory}"
    elif raw["files"] != record["files"]:
        names = sorted({*raw["files"], *record["files"]})
        differing = [name for name in names if raw["files"].get(name) != record["files"].get(name)]
        yield f"{line.source} has another sha256 than {directory} of {', '.join(differing)}"
