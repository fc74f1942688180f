"""Records of runs: the identity that names a run's directory, and files that are whole or not there at all.

    results/runs/<task>/<dataset>/<method>-L<layers>/<protocol>-<budget>/split<k>-seed<s>[+key=value,...]/
        record.json  points.parquet  trace.parquet  posterior.npz  parameters.npz

``record.json`` is put in place last and holds size and sha256 of the others: where it exists, the run is complete.
"""

import hashlib
import io
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from dgpbench.config.canonical import digest, plain
from dgpbench.errors import UserError
from dgpbench.runs import fields
from dgpbench.runs.fields import FILES
from dgpbench.runs.identity import Identity
from dgpbench.system.files import refusing_unwritable, write_whole

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from filelock import BaseFileLock

SCHEMA = 2
RECORD, POINTS, TRACE, POSTERIOR = "record.json", "points.parquet", "trace.parquet", "posterior.npz"
PARAMETERS = "parameters.npz"  # of the finished model, to start another run from, or to predict new rows
LARGEST_RECORD = 2**26  # bytes; one with a long list of columns has less than a megabyte
FAILED = ("failed", "diverged", "timeout")  # an interrupted run is still to do


class Record(TypedDict):
    """Everything about a run but its arrays. Times are ISO 8601 in UTC; seconds and scores are finite numbers.

    ``schema`` and ``files`` are filled in by ``write_run``. Numbers that are not finite are refused, but for ``config``
    and ``identity``, where they become the strings nan, inf and -inf, and ``notes``, where they become null.
    """

    schema: int
    status: str  # one of fields.STATUSES
    reason: str | None  # one sentence, for every status but done
    traceback: str | None
    identity: dict[str, Any]  # the fields of runs.identity.Identity, overrides in full
    objective: NotRequired[str]  # the name of what trace.parquet has under ``elbo``; records of schema 1 lack it
    scores: dict[str, float]  # metric -> score, original units
    seconds: dict[str, float]  # tracing, training, prediction, total; with the training before a run was resumed
    iterations: int | None
    config: dict[str, Any]  # resolved
    config_hash: str
    start: NotRequired[dict[str, str]]  # with init_from: name and sha256 of the parameters
    model: NotRequired[dict[str, Any] | None]  # runs.description; earlier records, and runs that failed, lack it
    data: dict[str, Any]  # name, n, d, n_train, n_test, digest_xy, digest_xy_ordered, files, verified, dropped
    git: dict[str, Any] | None  # commit, dirty
    versions: dict[str, str | None]
    host: dict[str, Any]
    started: str
    finished: str
    notes: list[Any]  # what the method has to say about its fit
    files: dict[str, dict[str, Any]]  # name -> bytes, sha256
    digest: NotRequired[str]  # fields.digest_of the rest; earlier records lack it


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

    :raises UserError: when the disk is full or read-only; the older record, if any, is untouched
    :raises ValueError: when the record holds a number that is not finite
    """
    directory = Path(directory)
    contents = _contents({POINTS: points, TRACE: trace}, {POSTERIOR: posterior, PARAMETERS: parameters})
    files = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()}
    contents[RECORD] = _encode({**record, "schema": SCHEMA, "files": files})
    with refusing_unwritable(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for leftover in directory.glob(".partial-*"):  # of a run that was killed while it wrote
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-", ignore_cleanup_errors=True) as staged:
            for name, data in contents.items():
                write_whole(Path(staged, name), data)
            _publish(Path(staged), directory, contents)
    return directory / RECORD


def _contents(frames, archives) -> dict[str, bytes]:
    """The bytes of each file that there is, in memory: what is hashed is then what is written."""
    contents = {name: frame.to_parquet(None, index=False) for name, frame in frames.items() if frame is not None}
    return contents | {name: npz(arrays) for name, arrays in archives.items() if arrays is not None}


def npz(arrays: "Mapping[str, np.ndarray]") -> bytes:
    """The bytes of an archive of arrays; nothing is pickled.

    :raises ValueError: for an array of objects
    """
    import numpy as np

    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise ValueError(f"posterior arrays must be numeric, and {objects[0]} is not: it would be pickled")
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _publish(staged: Path, directory: Path, names: Mapping[str, bytes]) -> None:
    (directory / RECORD).unlink(missing_ok=True)
    for name in (*FILES, RECORD):  # the record last
        if name in names:
            os.replace(staged / name, directory / name)
        else:
            (directory / name).unlink(missing_ok=True)
    _sync(directory)


def _sync(directory: Path) -> None:
    """Make the moves themselves last through a loss of power."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _encode(record: Mapping[str, Any]) -> bytes:
    lenient: dict[str, Callable[[float], Any]] = {"config": str, "identity": str, "notes": lambda number: None}
    values = {key: plain(value, lenient.get(key, _refuse(key))) for key, value in record.items()}
    for key in ("reason", "traceback"):  # messages name files whose names need not be text
        values[key] = values[key] and values[key].encode("utf-8", "backslashreplace").decode()
    if (problem := fields.problem_of_raw(values)) is not None:
        raise ValueError(f"the record could not be read again: {problem}")
    return _spelt({**values, "digest": fields.digest_of(values)})


def _spelt(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _refuse(key: str):
    def refuse(number: float) -> None:
        raise ValueError(f"the record's {key} holds {number}; numbers in a record are finite")

    return refuse


# Reading --------------------------------------------------------------------------------------------------------------


def read_record(path: str | os.PathLike) -> Record:
    """The record in a file, or in a run's directory.

    :raises ValueError: when the file is truncated, damaged, changed or something else's, or of a later dgpbench
    """
    path = Path(path)
    path = path / RECORD if path.is_dir() else path
    record = _content(path)
    if (problem := fields.problem_of_raw(record)) is not None:
        raise ValueError(f"{path} is not as dgpbench writes it: {problem}")
    if record.pop("digest", None) not in (None, (now := fields.digest_of(record))):
        raise ValueError(f"{path} was changed after it was written: its digest is not that of its content, {now}")
    return cast(Record, record)


def _content(path: Path) -> dict[str, Any]:
    """What a file has in it, if that is a record of this dgpbench or an earlier one."""
    facts = path.stat()  # once: another process may replace the record at any time
    if not stat.S_ISREG(facts.st_mode):
        raise ValueError(f"{path} is not a file")
    if facts.st_size > LARGEST_RECORD:
        raise ValueError(f"{path} is not a record of dgpbench: it is {facts.st_size:,} bytes long")
    try:
        record = fields.parse(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ValueError(f"{path} is truncated or damaged: {problem}") from None
    if not isinstance(record, dict) or type(record.get("schema")) is not int:
        raise ValueError(f"{path} is not a record of dgpbench")
    if record["schema"] > SCHEMA:
        raise ValueError(f"{path} has schema {record['schema']}, of a later dgpbench; this one reads up to {SCHEMA}")
    return record


def read_if_present(directory: str | os.PathLike) -> Record | None:
    """The record of a run, or None where there is none that can be read: the run is still to do."""
    try:
        return read_record(Path(directory, RECORD))
    except (OSError, ValueError):
        return None


def damage(directory: str | os.PathLike) -> str | None:
    """What is wrong with a record that cannot be read; None where there is none, or a whole one."""
    try:
        read_record(Path(directory, RECORD))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        return str(problem)
    return None


def refuse_file(results_dir: str | os.PathLike) -> None:
    """
    :raises UserError: where a results folder is a file; one that is not there has no records yet
    """
    if os.path.exists(results_dir) and not os.path.isdir(results_dir):
        raise UserError(f"{results_dir} is a file; results_dir= names a folder, the one that holds runs/ and records/")


def find_records(results_dir: str | os.PathLike) -> Iterator[tuple[Path, Record | ValueError]]:
    """Every record below ``results_dir``, in order of path, or in its place the problem with it.

    :raises UserError: where ``results_dir`` is a file
    """
    refuse_file(results_dir)
    for path in _record_files(os.path.join(results_dir, "runs")):
        try:
            yield Path(path), read_record(path)
        except (ValueError, OSError) as problem:
            yield Path(path), problem if isinstance(problem, ValueError) else ValueError(f"{path}: {problem}")


def _record_files(folder: str, above: tuple[os.stat_result, ...] = ()) -> Iterator[str]:
    """
    :param above: the folders that lead here; a link back to one of them is not followed
    """
    try:
        here = os.stat(folder)
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        yield os.path.join(folder, RECORD)  # whoever reads it names the reason
        return
    if any(os.path.samestat(here, each) for each in above):
        return
    if any(entry.name == RECORD for entry in found):  # a run holds no other run; its checkpoints need not be searched
        yield os.path.join(folder, RECORD)
        return
    for entry in found:
        if not entry.name.startswith("."):
            yield from _record_files(entry.path, (*above, here))


def verify_run(directory: str | os.PathLike) -> list[str]:
    """What is wrong with a run's files, one sentence each; an empty list when they are whole."""
    directory = Path(directory)
    path = directory / RECORD
    try:
        record = read_record(path)
    except FileNotFoundError:
        return [f"{directory} has no {RECORD}"]
    except (ValueError, OSError) as problem:
        return [str(problem)]
    return list(_problems(directory, record))


def _problems(directory: Path, record: Record) -> Iterator[str]:
    path = directory / RECORD
    if path.read_bytes() != _spelt(_content(path)):
        yield f"{path} is not spelt as dgpbench writes it"
    if (problem := fields.inconsistency(record)) is not None:
        yield f"{path} contradicts itself: {problem}"
    for name, stored in sorted(record["files"].items()):
        if (problem := problem_of(directory / name, stored)) is not None:
            yield problem
    for name in FILES:
        if name not in record["files"] and (directory / name).exists():
            yield f"{directory / name} is not mentioned in its record"
    if Identity(**record["identity"]).directory("").parts[1:] != directory.absolute().parts[-5:]:
        yield f"{directory} holds the record of another run"


def problem_of(path: Path, stored: Mapping[str, Any]) -> str | None:
    """What is wrong with a file, whose size and sha256 were stored; None where it is whole."""
    if not path.is_file():  # a pipe or a device would be read without end
        return f"{path} is {'not a file' if path.exists() else 'missing'}"
    if path.stat().st_size != stored["bytes"]:
        return f"{path} is {path.stat().st_size} bytes long instead of {stored['bytes']}"
    if hashlib.sha256(path.read_bytes()).hexdigest() != stored["sha256"]:
        return f"{path} has other contents than its record says"
    return None


def read_posterior(directory: str | os.PathLike, beginning: tuple[str, ...] = ("",)) -> "dict[str, np.ndarray]":
    """The posterior's arrays by name, those whose name has such a beginning; pickled objects are refused."""
    import numpy as np

    with np.load(Path(directory, POSTERIOR), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files if name.startswith(beginning)}


def read_parameters(directory: str | os.PathLike) -> "dict[str, np.ndarray]":
    """The finished model's parameters by path; pickled objects are refused."""
    import numpy as np

    with np.load(Path(directory, PARAMETERS), allow_pickle=False) as arrays:
        return dict(arrays)


# Locks ----------------------------------------------------------------------------------------------------------------


@contextmanager
def lock(
    directory: str | os.PathLike, timeout: float = -1, say: Callable[[str], None] = lambda text: None
) -> Iterator[None]:
    """Hold a run for one process: another that asks for it waits, and then finds what the first has written.

    The lock is freed when its process ends, however it ends.

    :param directory: as ``Identity.directory`` gave it
    :param timeout: seconds to wait, for ever if negative
    :param say: told where another process holds the run
    :raises filelock.Timeout: when another process holds the run for longer than ``timeout``
    """
    from filelock import Timeout

    run = Path(directory).absolute()
    if len(run.parts) < 7 or run.parts[-6] != "runs":
        raise ValueError(f"{directory} is not the directory of a run")
    path = run.parents[5] / ".locks" / f"{digest('/'.join(run.parts[-5:]))}.lock"
    with refusing_unwritable(path):
        held = shared_lock(path)
        try:
            held.acquire(timeout=0)
        except Timeout:
            say(f"another process is at {directory}: waiting until it ends")
            held.acquire(timeout=timeout)
    try:
        yield
    finally:
        held.release()


def shared_lock(path: Path) -> "BaseFileLock":
    """A lock in a folder beside the results, for everybody who can write to the results."""
    from filelock import FileLock

    path.parent.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(exist_ok=True)
    mode = stat.S_IMODE(path.parent.parent.stat().st_mode)
    with suppress(PermissionError):  # it is another user's
        path.parent.chmod(mode)
    return FileLock(path, mode=mode & 0o666)
