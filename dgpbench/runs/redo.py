"""A run carried out again, and whether its scores are those of its record.

The same processor, versions, code, data and number of threads give the same bits. Anything else rounds differently, and
training amplifies that: the optimiser goes another way to an optimum that is as good, as from another seed. So scores
may then differ by ``BOUND``. Seeds give STAR on boston a deviation of 0.03 nats (five of them) and kin8nm one of 0.02;
rounding all columns to float32 moves the same runs by 0.0005 and 0.0008 nats (docs/laptop.md). The bound is three
deviations between seeds, and a hundred times what rounding was seen to do.

A chain of SGHMC has no optimum to come back to: rounded otherwise it is another chain, and may pass the bound with
nothing wrong. Of nine (wine_red, extrapolation, L = 3) two did from one generation of a processor to the next, by 0.12
and 0.13 nats; nine runs of mean field on the same splits moved by 0.0011 at most.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dgpbench.config import groups
from dgpbench.errors import Refused
from dgpbench.plugins.method import is_of_this_code
from dgpbench.runs import store
from dgpbench.runs.compact import split_digest
from dgpbench.runs.identity import Identity
from dgpbench.runs.lines import Line
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.system import provenance

BOUND = (
    0.1  # nats; the share by which a score in units of y may move, as 0.1 nats is 10 % of a scale; and a share of rows
)


@dataclass(frozen=True)
class Verdict:
    """Whether a run's scores are those of its record, in a sentence."""

    agrees: bool
    text: str


def again(line: Line, folder: str | Path, table: Sequence[str] = ()) -> Run:
    """The run of a record, with results in another folder, and as many threads as it had, if the machine has them.

    :param table: where a user's own table is, ``dataset=csv dataset.path=FILE ...``: a record holds its digest alone
    :raises Refused: where it is not done, or what names it now means other settings or other code
    """
    record = line.record
    if not line.is_done:
        raise Refused(f"{line.source} has no scores to compare with: it is {record['status']}")
    arguments = _arguments(line, table)
    try:
        run = resolve_overrides(arguments)
    except Refused as refusal:
        raise Refused(f"{line.source} cannot be run again ({refusal})") from None
    if run.config_hash != record["config_hash"]:
        if not is_of_this_code(record["config"]["method"]):
            raise Refused(f"{line.source} was made by other code of {run.card.name} than is loaded: run it anew")
        raise Refused(
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
        raise Refused(f"{line.source} names a file in {files[0]}, and no record has a file read: leave it out")
    if groups.exists("dataset", identity.dataset):
        if table:
            raise Refused(f"{line.source} is of dataset={identity.dataset}; leave {' '.join(table)} out")
        return identity.arguments()
    if not table:
        raise Refused(
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
    moves = list(_moves(record["scores"], new["scores"]))
    if not moves:
        return Verdict(True, "the scores agree bit for bit")
    changes = list(_changes(record, new))
    why = ", ".join(changes) or "processor, versions, code and threads are the same"
    beyond = [text for text, moved in moves if not changes or not moved <= BOUND]
    if beyond:
        return Verdict(False, f"the scores DIFFER: {', '.join(beyond)}; {why}")
    return Verdict(True, f"the scores agree within {BOUND:g}, not to the bit; {why}")


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
    if old.get("git") != new.get("git") or (new.get("git") or {}).get("dirty"):
        yield f"code {commit_of(old)}, now {commit_of(new)}"


def _moves(old: Mapping[str, float], new: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Each score that both have and that is not the same, and how far it has moved; relative where its unit is y's."""
    from dgpbench.predictions.metrics import METRICS

    for name in sorted({*old} & {*new}):
        if old[name] != new[name]:
            scale = abs(old[name]) if METRICS[name].unit == "units of y" else 1.0
            yield f"{name} {old[name]:.6g}, now {new[name]:.6g}", abs(new[name] - old[name]) / scale
