"""Rerun a run and check that its scores match its record.

The same processor, versions and number of threads give the same bits. Others round differently, and training amplifies
that, so that scores may then differ by the method's entry in ``BOUNDS``; docs/cost.md has the measured differences
behind it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.plugins.method import is_of_this_code
from dgpbench.runs import store
from dgpbench.runs.compact import split_digest
from dgpbench.runs.identity import Identity
from dgpbench.runs.lines import Line
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.system import provenance

# In nats of the test log-likelihood; docs/cost.md has the largest differences that were measured, which are smaller.
# Exact methods and trees come to the same fit and a variational fit ends near the same optimum; power EP and networks
# end in another one, and a chain that is rounded otherwise is another chain.
BOUNDS = {
    **dict.fromkeys(("bayesian_ridge", "gpr", "gradient_boosting_quantiles", "mc_dropout"), 0.001),
    **dict.fromkeys(("sgpr", "fitc", "sgp", "mf", "mf_fixed_z", "star", "fc", "fc_mc", "stripes", "arrow"), 0.02),
    **dict.fromkeys(("chain", "custom", "sod", "sod_random", "sod_leverage", "sod_dpp"), 0.02),
    **dict.fromkeys(("aep", "aepmcm"), 0.3),
    "deep_ensemble": 0.5,
    "sghmc": 1.5,
}
OTHERS = 0.3  # of methods that were not measured, plug-ins among them
LARGEST_PART = 0.3  # of a score in units of y, and of the rows that a share counts
ROWS = 2  # test rows that rounding may move across the end of an interval


@dataclass(frozen=True)
class Verdict:
    """Whether a run's scores are those of its record, with a table of both."""

    agrees: bool
    text: str


def again(line: Line, folder: str | Path, table: Sequence[str] = ()) -> Run:
    """The run of a record, with results in another folder, and as many threads as it had, if the machine has them.

    :param table: where a user's own table is, ``dataset=csv dataset.path=FILE ...``: a record holds its digest alone
    :raises UserError: where it is not done, or what names it now means other settings or other code
    """
    record = line.record
    if not line.is_done:
        raise UserError(f"{line.source} has no scores to compare with: it is {record['status']}")
    arguments = _arguments(line, table)
    try:
        run = resolve_overrides(arguments)
    except UserError as refusal:
        raise UserError(f"{line.source} cannot be run again ({refusal})") from None
    if run.config_hash != record["config_hash"]:
        if not is_of_this_code(record["config"]["method"]):
            raise UserError(f"{line.source} was made by other code of {run.card.name} than is loaded: run it anew")
        raise UserError(
            f"{line.source} was made with other settings than `dgpbench run {' '.join(arguments)}` has now; "
            f"its code is commit {commit_of(record)}"
        )
    threads = min(record["host"].get("threads") or run.limits.num_threads, provenance.processors())
    limits = replace(run.limits, results_dir=str(folder), num_threads=threads, timeout_minutes=None)
    return replace(run, limits=limits).quietly()


def _arguments(line: Line, table: Sequence[str]) -> list[str]:
    """What ``dgpbench run`` takes to carry out the run of a record."""
    identity = Identity(**line.record["identity"])
    if files := [key for key in identity.overrides if key.endswith(("path", "_file"))]:
        raise UserError(f"{line.source} names a file in {files[0]}, and no record has a file read: leave it out")
    if groups.exists("dataset", identity.dataset):
        if table:
            raise UserError(f"{line.source} is of dataset={identity.dataset}; leave {' '.join(table)} out")
        return identity.arguments()
    if not table:
        raise UserError(
            f"{line.source} is of a table of your own, {identity.dataset}; say where it is with dataset=csv "
            f"dataset.path=FILE dataset.target={line.record['config']['dataset']['target']} behind the run's name"
        )
    return [text for text in identity.arguments() if not text.startswith("dataset=")] + list(table)


def verdict_of(record: Mapping[str, Any], directory: str | Path) -> Verdict:
    """A record beside the run that repeats it.

    :param directory: of the run that was carried out again
    """
    import pandas as pd

    new = store.read_record(directory)
    rows = split_digest(pd.read_parquet(Path(directory, store.POINTS), columns=["row"])["row"])
    for key in ("digest_xy", "digest_xy_ordered"):
        if record["data"].get(key) != new["data"].get(key):
            return Verdict(False, f"the data differ: {key} {record['data'].get(key)}, now {new['data'].get(key)}")
    if record.get("split_digest", rows) != rows:
        return Verdict(False, f"the test rows differ: digest {record['split_digest']}, now {rows}")
    changes = list(_changes(record, new))
    bound = BOUNDS.get(record["identity"]["method"], OTHERS) if changes else 0.0
    table, beyond = _compared(record["scores"], new["scores"], bound, record["data"]["n_test"])
    code = f"code {commit_of(record)}, now {commit_of(new)}"
    why = ", ".join([*(changes or ["processor, versions and threads are the same"]), code])
    if beyond:
        return Verdict(False, f"{table}\nthe scores DIFFER: {', '.join(beyond)}; {why}")
    if record["scores"] == new["scores"]:
        return Verdict(True, f"{table}\nthe scores agree bit for bit")
    return Verdict(True, f"{table}\nthe scores agree within their bounds, not to the bit; {why}")


def _compared(old: Mapping[str, float], new: Mapping[str, float], bound: float, rows: int) -> tuple[str, list[str]]:
    """A table of every score in both records, and the names of those that differ by more than their bound.

    :param bound: of scores in nats; no difference is accepted where it is 0
    """
    from tabulate import tabulate

    from dgpbench.predictive.metrics import METRICS

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


def commit_of(record: Mapping[str, Any]) -> str:
    """'74d84a4c02b1', with a word where the code had changes; a wheel has none."""
    git = record.get("git")
    return "of a wheel" if git is None else f"{git['commit'][:12]}{' with changes' if git['dirty'] else ''}"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What differs around the two runs that may change the last bits."""
    for what, key in (("processor", "cpu"), ("threads", "threads")):
        if old["host"].get(key) != new["host"].get(key):
            yield f"{what} {old['host'].get(key)}, now {new['host'].get(key)}"
    for name in sorted({*old["versions"], *new["versions"]}):
        if old["versions"].get(name) != new["versions"].get(name):
            yield f"{name} {old['versions'].get(name)}, now {new['versions'].get(name)}"
