"""Stored runs: write, find, verify and lock them.

    results/runs/<task>/<dataset>/<method>-L<layers>/<protocol>-<budget>/split<k>-seed<s>[+key=value,...]/
        record.json  points.parquet  trace.parquet  posterior.npz  parameters.npz
    results/records/<item>-<budget>.jsonl       compact records, which are committed

``record.json`` is put in place last and holds size and sha256 of the others: where it exists, the run is complete.
Raw records take precedence over compact ones. Contradictory records are reported with both sources.
"""

import hashlib
import io
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.config.canonical import digest, plain
from dgpbench.errors import UserError
from dgpbench.runs import compact_records
from dgpbench.runs import record as records
from dgpbench.runs.compact_records import Contradiction, StoredRecord, best
from dgpbench.runs.identity import Identity
from dgpbench.runs.record import FAILED, FILES, PARAMETERS, POINTS, POSTERIOR, RECORD, SCHEMA, TRACE, read_record
from dgpbench.system.files import refusing_unwritable, write_whole

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

MISSING, DONE, BROKEN, CONFLICT = "missing", "done", "failed", "conflict"
HALF = re.compile("[\ud800-\udfff]")
NOT_FINITE: dict[str, Callable[[float], Any]] = {"config": str, "identity": str, "notes": lambda number: None}


@dataclass(frozen=True)
class State:
    """Whether a run has to be run."""

    name: str  # MISSING, DONE, BROKEN, or CONFLICT if its place holds a record of other settings or of other code
    stored: StoredRecord | None = None  # unless the run is missing
    why: str = ""  # of a conflict, one sentence


def state_of(results_dir: str | Path, identity: Identity, config_hash: str) -> State:
    """Return the state of a run by its raw and its compact record; nothing is changed."""
    try:
        stored = lookup(results_dir, identity)
    except Contradiction as problem:
        return State(CONFLICT, why=str(problem))
    if stored is None:
        return State(MISSING)
    is_same = stored.record["config_hash"] == config_hash
    if stored.is_done and not is_same:
        from dgpbench.methods.plugins import differing

        return State(
            CONFLICT,
            stored,
            f"{stored.source} holds a record made with {differing(stored.record['config'])}, so it is neither re-used "
            "nor overwritten; move it away, or choose another results_dir=",
        )
    if stored.is_done:
        return State(DONE, stored)
    return State(BROKEN, stored) if stored.record["status"] in FAILED and is_same else State(MISSING)


# Finding --------------------------------------------------------------------------------------------------------------


def lookup(results_dir: str | Path, identity: Identity) -> StoredRecord | None:
    """Return the record of a run, raw or compact; None if there is none that can be read.

    :raises Contradiction: if both exist and contradict each other, or the directory holds the record of another run
    """
    directory = identity.directory(results_dir)
    record = read_if_present(directory)
    raw = None if record is None else StoredRecord(record, str(directory))
    if raw is not None and raw.key != identity.key:
        raise Contradiction(f"{directory} holds the record of another run, {raw.key}; move it away")
    return best(raw, compact_records.load(results_dir).runs.get(identity.key))


def find(results_dir: str | Path, *, raw: bool = True) -> Iterator[StoredRecord | ValueError]:
    """Yield the record of every run, raw ones first, and a ValueError for each problem with a record.

    Without raw records the results are those of a fresh clone.
    """
    archive = compact_records.load(results_dir)
    yield from map(ValueError, archive.problems)
    seen = set()
    for run in find_raw(results_dir) if raw else ():
        if isinstance(run, ValueError):
            yield run
            continue
        seen.add(run.key)
        compact = archive.runs.get(run.key)
        try:
            chosen = best(run, compact) or run
        except Contradiction as problem:
            chosen = run
            yield ValueError(f"{problem}; the first is shown")
        yield chosen if compact is None else replace(chosen, compact=compact.record, against=compact.against)
    yield from (compact for key, compact in archive.runs.items() if key not in seen)


def find_raw(results_dir: str | Path) -> Iterator[StoredRecord | ValueError]:
    """Yield every raw record, or the problem with it; a directory that was copied or renamed is a problem."""
    for path, record in find_records(results_dir):
        if isinstance(record, ValueError):
            yield record
            continue
        raw = StoredRecord(record, str(path.parent))
        if raw.key == "/".join(path.parts[-6:-1]):
            yield raw
        else:
            yield ValueError(f"{path.parent} holds the record of another run, which no score counts; move it away")


def find_records(results_dir: str | os.PathLike) -> Iterator[tuple[Path, dict[str, Any] | ValueError]]:
    """Yield every file below ``results_dir``/runs with its record, or the problem with it, in order of path.

    :raises UserError: if ``results_dir`` is a file
    """
    compact_records.refuse_file(Path(results_dir))
    for path in _record_files(os.path.join(results_dir, "runs")):
        try:
            yield Path(path), read_record(path)
        except (ValueError, OSError) as problem:
            yield Path(path), problem if isinstance(problem, ValueError) else ValueError(f"{path}: {problem}")


def _record_files(folder: str, above: tuple[os.stat_result, ...] = ()) -> Iterator[str]:
    """Walk through folders; a link back to one of the folders above is not followed."""
    try:
        here = os.stat(folder)
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        yield os.path.join(folder, RECORD)  # reading it reports the reason
        return
    if any(os.path.samestat(here, each) for each in above):
        return
    if any(entry.name == RECORD for entry in found):  # a run holds no other run; its checkpoints need not be searched
        yield os.path.join(folder, RECORD)
        return
    for entry in found:
        if not entry.name.startswith("."):
            yield from _record_files(entry.path, (*above, here))


def named(text: str) -> StoredRecord | None:
    """Return the record that a run's directory, its record.json or FILE:LINE names; None if there is none.

    If the directory of a run does not exist, its compact record is returned.

    :raises UserError: if the record is damaged, or the line is not a run
    """
    file, _, number = text.rpartition(":")
    if number.isdecimal() and Path(file).is_file():
        source, lines = f"{Path(file)}:{int(number)}", compact_records.decode(Path(file))
        for line in lines.runs:
            if line.source == source:
                return line
        for problem in lines.problems:
            if problem.startswith(f"{source} "):
                raise UserError(problem)
        example = lines.runs[0].source if lines.runs else ""
        runs = f'the lines with "kind":"run" are, such as {example}' if example else "the file holds none"
        raise UserError(f"{source} is not a run; {runs}")
    folder = Path(text).parent if Path(text).name == RECORD else Path(text)
    if (folder / RECORD).is_file():
        try:
            return StoredRecord(read_record(folder), str(folder))
        except ValueError as problem:
            raise UserError(f"{problem}; run it again to replace it") from None
    parts = folder.absolute().parts
    if len(parts) < 7 or parts[-6] != "runs":
        return None
    return compact_records.load(Path(*parts[:-6])).runs.get("/".join(parts[-5:]))


def why_no_results(results_dir: str | Path) -> str | None:
    """Say why a folder cannot hold results; None if it can.

    :raises UserError: for a file
    """
    compact_records.refuse_file(results_dir)
    folder = Path(results_dir)
    if not folder.is_dir():
        return (
            f"{folder} does not exist; set results_dir= to the folder that contains runs/ or records/, or fill it with "
            "`dgpbench results import FOLDER`"
        )
    if (folder / "runs").is_dir() or (folder / compact_records.FOLDER).is_dir():
        return None
    name = folder.resolve().name
    if name in ("runs", compact_records.FOLDER):
        return f"{folder} is the folder {name}/ of results; results_dir= names the folder that holds it"
    if next(folder.glob("*/*/*-L*/*/split*"), None) is not None:
        return f"{folder} holds runs itself; results_dir= names a folder that holds them below runs/"
    return None


# Reading a run's files ------------------------------------------------------------------------------------------------


def read_if_present(directory: str | os.PathLike) -> dict[str, Any] | None:
    """Read the record of a run; None if there is none that can be read, so that the run is missing."""
    with suppress(OSError, ValueError):
        return read_record(Path(directory, RECORD))
    return None


def damage(directory: str | os.PathLike) -> str | None:
    """Return what is wrong with a record that cannot be read; None if it is whole, or there is none."""
    try:
        read_record(Path(directory, RECORD))
    except (OSError, ValueError) as problem:
        return None if isinstance(problem, FileNotFoundError) else str(problem)
    return None


def read_arrays(path: str | os.PathLike, prefixes: tuple[str, ...] = ("",)) -> "dict[str, np.ndarray]":
    """Read the arrays of a posterior, or parameters by path, with such names; pickled objects are refused."""
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files if name.startswith(prefixes)}


def verify_run(directory: str | os.PathLike) -> list[str]:
    """Return what is wrong with a run's files, a sentence for each problem."""
    directory = Path(directory)
    path = directory / RECORD
    try:
        record = read_record(path)
    except FileNotFoundError:
        return [f"{directory} has no {RECORD}"]
    except (ValueError, OSError) as error:
        return [str(error)]
    problems = []
    if path.read_bytes() != _spelt(records.read_content(path)):
        problems.append(f"{path} is not spelt as dgpbench writes it")
    if (problem := records.inconsistency(record)) is not None:
        problems.append(f"{path} contradicts itself: {problem}")
    found = [records.file_problem(directory / name, stored) for name, stored in sorted(record["files"].items())]
    problems += [problem for problem in found if problem is not None]
    extra = [directory / name for name in FILES if name not in record["files"] and (directory / name).exists()]
    problems += [f"{each} is not mentioned in its record" for each in extra]
    if Identity(**record["identity"]).directory("").parts[1:] != directory.absolute().parts[-5:]:
        problems.append(f"{directory} holds the record of another run")
    return problems


# Writing --------------------------------------------------------------------------------------------------------------


def write_run(
    directory: str | os.PathLike,
    record: Mapping[str, Any],
    points: "pd.DataFrame | None" = None,
    trace: "pd.DataFrame | None" = None,
    posterior: "Mapping[str, np.ndarray] | None" = None,
    parameters: "Mapping[str, np.ndarray] | None" = None,
) -> Path:
    """Write a run's files so that its record, whenever it exists, belongs to exactly the files beside it.

    All are first written to a folder beside them; then an older record is removed, the others moved, the record last.
    ``schema``, ``files`` and ``digest`` of the record are filled in. Numbers must be finite, but in ``config`` and
    ``identity``, where they become the strings nan, inf and -inf, and in ``notes``, where they become null.

    :raises UserError: if the disk is full or read-only; an older record is untouched
    :raises ValueError: if the record could not be read again, or arrays would be pickled
    """
    directory = Path(directory)
    frames, archives = {POINTS: points, TRACE: trace}, {POSTERIOR: posterior, PARAMETERS: parameters}
    contents = {name: frame.to_parquet(None, index=False) for name, frame in frames.items() if frame is not None}
    contents |= {name: npz(arrays) for name, arrays in archives.items() if arrays is not None}
    files = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()}
    everything = {**record, "schema": SCHEMA, "files": files}
    values = {key: plain(value, NOT_FINITE.get(key, partial(_refuse, key))) for key, value in everything.items()}
    # The names of files in a message, or a plug-in's texts, need not be valid: halves of surrogate pairs are escaped.
    text = HALF.sub(lambda half: rf"\\u{ord(half[0]):x}", json.dumps(values, ensure_ascii=False))
    try:
        values = records.parse(text)
        if (problem := records.problem_of(values, records.RAW)) is not None:
            raise ValueError(problem)
    except ValueError as unreadable:
        raise ValueError(f"the record could not be read again: {unreadable}") from None
    contents[RECORD] = _spelt({**values, "digest": records.digest_of(values)})
    with refusing_unwritable(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for leftover in directory.glob(".partial-*"):  # of a run that was killed while it wrote
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-", ignore_cleanup_errors=True) as staged:
            for name, data in contents.items():
                write_whole(Path(staged, name), data)
            (directory / RECORD).unlink(missing_ok=True)
            for name in (*FILES, RECORD):
                if name in contents:
                    os.replace(Path(staged, name), directory / name)
                else:
                    (directory / name).unlink(missing_ok=True)
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)  # so that the moves survive a loss of power
            finally:
                os.close(handle)
    return directory / RECORD


def npz(arrays: "Mapping[str, np.ndarray]") -> bytes:
    """Return the bytes of an archive of arrays.

    :raises ValueError: for an array of objects, which would be pickled
    """
    import numpy as np

    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise ValueError(f"posterior arrays must be numeric, and {objects[0]} is not: it would be pickled")
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _refuse(key: str, number: float) -> None:
    raise ValueError(f"the record's {key} holds {number}; numbers in a record are finite")


def _spelt(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


# Locks ----------------------------------------------------------------------------------------------------------------


@contextmanager
def lock(directory: str | os.PathLike, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Hold a run for one process: another process waits, and then finds what the first has written.

    The lock is freed when its process ends, however it ends.

    :param say: called with a message if another process holds the run
    """
    run = Path(directory).absolute()
    if len(run.parts) < 7 or run.parts[-6] != "runs":
        raise ValueError(f"{directory} is not the directory of a run")
    path = run.parents[5] / ".locks" / f"{digest('/'.join(run.parts[-5:]))}.lock"
    with hold(path, lambda: say(f"another process is at {directory}: waiting until it ends")):
        yield


@contextmanager
def hold(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock in a folder beside the results; everybody who can write to the results can acquire it."""
    from filelock import FileLock, Timeout

    with refusing_unwritable(path):
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(exist_ok=True)
        mode = stat.S_IMODE(path.parent.parent.stat().st_mode)
        with suppress(PermissionError):  # the folder belongs to another user
            path.parent.chmod(mode)
        held = FileLock(path, mode=mode & 0o666)
        try:
            held.acquire(timeout=0)
        except Timeout:
            on_wait()
            held.acquire()
    try:
        yield
    finally:
        held.release()
