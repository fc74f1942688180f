"""Compact records: one line for each run, without its arrays but with the few numbers of them that tables need.

    results/records/<item>-<budget>.jsonl

    {"id": "5f..", "kind": "shared", "config": {..}, ..}       fields that runs of a file share; they name its id
    {"kind": "run", "format": 2, "identity": {..}, ..}         a run: its other fields
    {"kind": "pair", "first": {..}, "second": {..}, ..}        a direct comparison of two runs on one split

The lines of a kind stand together, in this order, sorted by identity, so that two machines that know the same runs
write the same bytes. ``digest``, or ``id`` of shared lines, is the digest of the line's content; lines of earlier
versions have none until they are imported again.

A compact record has the fields of record.json, except that it has no traceback and names neither host nor folders, and

    files             sha256 by file name
    split_digest      of the sorted numbers of the test rows: equal for two runs that were scored on the same rows
    elbo              the mean of the last tenth of the trace's objective
    steps_per_second  iterations for each second of training, tracing excluded
    pit_counts        test rows in each of 20 bins of the probability integral transform, from 0 to 1
    coverage_counts   test rows inside the central intervals of nominal coverage 0.05, 0.10, ..., 0.95

Everything else needs the run's own files: traces, posteriors, and the calibration study, which takes medians over
the rows of all splits together.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from dgpbench.config.canonical import digest
from dgpbench.errors import UserError
from dgpbench.runs import record as records
from dgpbench.runs.identity import Identity
from dgpbench.runs.record import as_text, digest_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

FOLDER = "records"
FORMAT = 2
KEPT = (
    "schema", "status", "objective", "identity", "scores", "seconds", "iterations", "num_parameters", "config",
    "config_hash", "git",
)  # fmt: skip
KEPT_OF_DATA = ("name", "n", "d", "n_train", "n_test", "scale_y", "digest_xy", "digest_xy_ordered", "verified")
LONGEST_NOTE = 200
OWN = {"config": ("split", "seed"), "data": ("scale_y",)}  # not part of the shared line
SAME = 1e-9  # nats: largest difference between a comparison and the scores of its two runs
Pair = tuple[str, str]
_FOLDER = re.compile(r"(?<![\w.:/])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\",;:]+[/\\])+")


class Contradiction(UserError):
    """Two records of one run that cannot both be right."""


@dataclass(frozen=True)
class StoredRecord:
    """A record and where it is."""

    record: Mapping[str, Any]
    source: str  # a run's directory, or FILE:LINE
    compact: Mapping[str, Any] | None = None  # the run's compact record, if it has one
    against: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # direct comparisons, by the other run's key

    @cached_property
    def key(self) -> str:
        """The run's name."""
        return Identity(**self.record["identity"]).key

    @property
    def is_done(self) -> bool:
        """Whether the run finished."""
        return self.record["status"] == "done"


@dataclass(frozen=True)
class Comparison:
    """A direct comparison of two runs and where it is."""

    record: Mapping[str, Any]
    source: str

    @cached_property
    def pair(self) -> Pair:
        """The keys of both runs."""
        return Identity(**self.record["first"]).key, Identity(**self.record["second"]).key


@dataclass(frozen=True)
class Lines:
    """The content of a file."""

    runs: tuple[StoredRecord, ...]
    pairs: tuple[Comparison, ...]
    problems: tuple[str, ...]  # a sentence for each line that is damaged or not a compact record
    undigested: int = 0  # lines without a digest


@dataclass(frozen=True)
class Archive:
    """The compact records of a results folder."""

    runs: Mapping[str, StoredRecord]
    pairs: Mapping[Pair, Comparison]
    problems: tuple[str, ...]  # a sentence for each line that is damaged or contradicts another


# From a run's files ---------------------------------------------------------------------------------------------------


def of_run(directory: str | Path) -> dict[str, Any]:
    """Return the compact record of a run.

    :raises ValueError: if its files are damaged, or its settings name a folder of this machine
    """
    directory = Path(directory)
    record = records.read_record(directory)
    for text in _texts([record["identity"], record["config"]]):
        if without_folders(text) != text:
            raise ValueError(f"{directory} names a folder of this machine in its settings ({text}), and stays here")
    seconds, steps = record["seconds"].get("training"), record["iterations"]
    sums = {name: stored["sha256"] for name, stored in record["files"].items()}
    return {
        **{key: record[key] for key in KEPT if key in record},
        "reason": None if record["reason"] is None else without_folders(record["reason"]),
        "data": {key: record["data"][key] for key in KEPT_OF_DATA if key in record["data"]},
        "host": {key: record["host"].get(key) for key in ("cpu", "threads")}
        | ({"gpu": record["host"]["gpu"]} if record["host"].get("gpu") else {}),
        "versions": dict(record["versions"]),
        "started": record.get("started"),
        "finished": record["finished"],
        "notes": [_short(note) for note in record["notes"]],
        **({"start": record["start"]} if "start" in record else {}),
        "files": sums | {records.RECORD: hashlib.sha256((directory / records.RECORD).read_bytes()).hexdigest()},
        "steps_per_second": steps / seconds if seconds and steps else None,
        **_of_tables(directory, record["files"]),
    }


def _of_tables(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields that are numbers of a run's tables.

    :raises ValueError: if a table is damaged, or has other columns than dgpbench writes
    """
    import pandas as pd

    tables = {}
    for name in (name for name in (records.POINTS, records.TRACE) if name in files):
        if (problem := records.file_problem(directory / name, files[name])) is not None:
            raise ValueError(problem)
        tables[name] = pd.read_parquet(directory / name)
    points, trace = tables.get(records.POINTS), tables.get(records.TRACE)
    pit = None if points is None or "pit" not in points else points["pit"].to_numpy()
    try:
        return {
            "split_digest": None if points is None else split_digest(points["row"]),
            "elbo": None if trace is None else final_elbo(trace),
            "pit_counts": None if pit is None else pit_counts(pit),
            "coverage_counts": None if pit is None else coverage_counts(pit),
        }
    except (KeyError, TypeError) as problem:
        raise ValueError(f"{directory} has other columns than dgpbench writes: {problem}") from None


def split_digest(rows: "pd.Series") -> str:
    """Return 16 hexadecimal digits that stand for a set of test rows, in any order."""
    return digest(",".join(map(str, sorted(int(row) for row in rows))))


def final_elbo(trace: "pd.DataFrame") -> float | None:
    """Return the mean objective of the last tenth of a trace: single values are estimates from one minibatch."""
    values = trace["elbo"].to_numpy()
    last = float(values[-max(1, len(values) // 10) :].mean()) if len(values) else math.nan
    return last if math.isfinite(last) else None


def pit_counts(pit: "np.ndarray") -> list[int]:
    """Count rows in each bin of the probability integral transform."""
    import numpy as np

    return np.histogram(pit, records.PIT_BINS, range=(0, 1))[0].tolist()


def coverage_counts(pit: "np.ndarray") -> list[int]:
    """Count rows inside the central intervals of nominal coverage 0.05, 0.10, ..., 0.95."""
    import numpy as np

    from dgpbench.predictive.scores import CENTRAL_INTERVALS

    return (np.abs(pit[:, None] - 0.5) <= CENTRAL_INTERVALS / 2).sum(axis=0).tolist()


def without_folders(text: str) -> str:
    """Return a text with every path shortened to the name of its file."""
    return _FOLDER.sub("", text)


def _short(note: Any) -> Any:
    """Keep the single values of a note; a method's long lists stay with the run."""
    if isinstance(note, Mapping):
        return {key: _short(value) for key, value in note.items() if not isinstance(value, list | Mapping)}
    return without_folders(note)[:LONGEST_NOTE] if isinstance(note, str) else note


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


# Lines ----------------------------------------------------------------------------------------------------------------


def encode(runs: Iterable[Mapping[str, Any]], pairs: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """Return the bytes of a file with these runs and comparisons, in any order."""
    shared: dict[str, dict[str, Any]] = {}
    lines = []
    for record in sorted(runs, key=lambda record: Identity(**record["identity"]).order):
        common = {key: _without(record[key], OWN.get(key, ())) for key in records.SHARED if key in record}
        name = digest(as_text(common))
        shared[name] = {"kind": "shared", "id": name, **common}
        own = {**_without(record, records.SHARED), "scale_y": record["data"].get("scale_y")}
        lines.append({"kind": "run", "format": FORMAT, **own, "shared": name})
    both = sorted(pairs, key=lambda pair: (Identity(**pair["first"]).order, Identity(**pair["second"]).order))
    lines += [{"kind": "pair", **pair} for pair in both]
    every = [*(shared[name] for name in sorted(shared)), *({**line, "digest": digest_of(line)} for line in lines)]
    return "".join(f"{as_text(line)}\n" for line in every).encode()


def decode(path: Path) -> Lines:
    """Read a file; lines that are damaged, changed or not as ``record`` declares them become problems."""
    problems: list[str] = []
    runs: list[StoredRecord] = []
    pairs: list[Comparison] = []
    shared: dict[str, Any] = {}
    orphans: dict[str, int] = {}  # number of runs by the damaged shared line that they name
    undigested = 0
    for source, text, line in _objects(path, problems):
        kind, version, problem = line.get("kind"), line.get("format", FORMAT), None
        form = _FORMS.get(kind) if isinstance(kind, str) else None
        if form is None:
            problem = "is not a compact record"
        elif type(version) is not int:
            problem = f"is not a compact record: its format is {shortened(version)}, not a whole number"
        elif version != FORMAT:
            which = "a later" if version > FORMAT else "an earlier"
            problem = f"has format {version}, of {which} dgpbench; this one reads {FORMAT}"
        elif (wrong := records.problem_of(line, form)) is not None:
            problem = f"is not a compact record: {wrong}"
        else:
            problem = _change(text, line)
        undigested += problem is None and kind != "shared" and "digest" not in line
        line = _without(line, ("kind", "digest"))
        if kind == "shared":  # a damaged one too, so that its runs are reported together
            shared[str(line.pop("id", ""))] = line if problem is None else source
        if problem is None and kind == "run":
            common = shared.get(line["shared"])
            if isinstance(common, str):
                orphans[common] = orphans.get(common, 0) + 1
            elif common is None:
                problem = f"names the shared line {shortened(line['shared'])}, which the file does not have before it"
            else:
                config = common["config"] | {key: line["identity"][key] for key in OWN["config"]}
                data = common["data"] | ({} if line["scale_y"] is None else {"scale_y": line["scale_y"]})
                own = _without(line, ("shared", "format", "scale_y"))
                runs.append(StoredRecord(own | common | {"config": config, "data": data}, source))
        elif problem is None and kind == "pair":
            pairs.append(Comparison(line, source))
        if problem is not None:
            problems.append(f"{source} {problem}")
    problems += [f"{source} is left out with all runs that share it: {count}" for source, count in orphans.items()]
    return Lines(tuple(runs), tuple(pairs), tuple(problems), undigested)


def _objects(path: Path, problems: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield FILE:LINE, the text and its JSON object for each line that has one."""
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as problem:
        problems.append(f"{path} cannot be read: {problem.strerror}")
        return
    for number, text in enumerate(texts[:-1] if texts[-1] == "" else texts, 1):
        source = f"{path}:{number}"
        try:
            line = records.parse(text)
        except ValueError as problem:
            problems.append(f"{source} is truncated or damaged: {problem}")
            continue
        if isinstance(line, dict):
            yield source, text, line
        else:
            problems.append(f"{source} is not a compact record")


_FORMS = {"run": records.LINE, "pair": records.PAIR, "shared": records.SHARED_LINE}


def _change(text: str, line: Mapping[str, Any]) -> str | None:
    name, rest = ("id", ("id", "kind")) if line["kind"] == "shared" else ("digest", ("digest",))
    own = f'"id":"{line[name]}","kind":"shared",' if name == "id" else f'"digest":"{line.get(name)}",'
    if name not in line or line[name] == digest(text.replace(own, "", 1)):  # fast: spelt as ``encode`` does
        return None
    if line[name] == (now := digest(as_text(_without(line, rest)))):
        return None
    return f"was changed after it was written: its {name} is {line[name]}, and that of its content {now}"


def _without(values: Any, keys: Iterable[str]) -> Any:
    return {key: value for key, value in values.items() if key not in keys} if isinstance(values, Mapping) else values


# All files of a folder ------------------------------------------------------------------------------------------------


def load(results_dir: str | Path) -> Archive:
    """Read the compact records of a results folder; again only after a file has changed.

    :raises UserError: if the results folder is a file
    """
    return _load(tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths(results_dir)))


@lru_cache(maxsize=8)
def _load(signature: tuple[tuple[str, int, int], ...]) -> Archive:
    return gather(decode(Path(path)) for path, _, _ in signature)


def paths(results_dir: str | Path) -> list[Path]:
    """Return the files of compact records of a results folder, sorted.

    :raises UserError: if the results folder is a file
    """
    refuse_file(results_dir)
    return files_in(Path(results_dir, FOLDER))


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder of compact records, without those that a killed process left half written."""
    return sorted(path for path in folder.glob("*.jsonl") if path.is_file() and not path.name.startswith("."))


def refuse_file(results_dir: str | Path) -> None:
    """Refuse a file as results folder; a folder that does not exist has no records yet.

    :raises UserError: for a file
    """
    if Path(results_dir).exists() and not Path(results_dir).is_dir():
        raise UserError(f"{results_dir} is a file; results_dir= names a folder, the one that holds runs/ and records/")


def gather(files: Iterable[Lines]) -> Archive:
    """Merge the lines of several files."""
    runs: dict[str, StoredRecord] = {}
    pairs: dict[Pair, Comparison] = {}
    problems: list[str] = []
    comparisons: list[Comparison] = []
    for file in files:
        problems += file.problems
        comparisons += file.pairs
        for line in file.runs:
            try:
                runs[line.key] = best(runs.get(line.key), line) or line
            except Contradiction as problem:
                problems.append(f"{problem}; the first is shown")

    def is_current(comparison: Comparison) -> bool:  # no run has been rerun since with other settings
        hashes = [runs[key].record["config_hash"] for key in comparison.pair if key in runs]
        return hashes == comparison.record["hashes"]

    for comparison in sorted(comparisons, key=is_current):  # a current one replaces others, in whichever file it is
        try:
            pairs[comparison.pair] = newer(pairs.get(comparison.pair), comparison)
        except Contradiction as problem:
            problems.append(f"{problem}; the first is shown")
    against: dict[str, dict[str, Mapping[str, Any]]] = {}
    for (first, second), comparison in pairs.items():
        if not is_current(comparison):
            continue
        tlls = [runs[key].record["scores"].get("tll", math.nan) for key in (first, second)]
        if not abs(tlls[0] - tlls[1] - comparison.record["tll_difference"]) > SAME:
            against.setdefault(first, {})[second] = comparison.record
    runs = {key: replace(run, compact=run.record, against=against.get(key, {})) for key, run in runs.items()}
    return Archive(runs, pairs, tuple(problems))


def best(first: StoredRecord | None, second: StoredRecord | None) -> StoredRecord | None:
    """Choose between two records of one run: done before failed, else the later failure, else the first.

    :raises Contradiction: if both are done, with different settings or different scores
    """
    if first is None or second is None:
        return first or second
    if first.is_done != second.is_done:
        return first if first.is_done else second
    if not first.is_done:
        return second if second.record["finished"] > first.record["finished"] else first
    if first.record["config_hash"] != second.record["config_hash"]:
        raise Contradiction(
            f"{first.source} and {second.source} hold one run made with different settings; remove one of them"
        )
    if first.record["scores"] != second.record["scores"]:
        a, b = first.record["scores"], second.record["scores"]
        name = next(name for name in sorted({*a, *b}) if a.get(name) != b.get(name))
        raise Contradiction(
            f"{first.source} and {second.source} hold different scores of one run "
            f"({name} {a.get(name)} and {b.get(name)}); remove one of them"
        )
    return first


def newer(old: Comparison | None, new: Comparison) -> Comparison:
    """Return the newer of two comparisons of one pair; the older may be of earlier records of the runs.

    :raises Contradiction: if they compare the same records differently
    """
    if old is not None and old.record["hashes"] == new.record["hashes"] and old.record != new.record:
        raise Contradiction(f"{old.source} and {new.source} compare the same two runs differently; remove one of them")
    return new
