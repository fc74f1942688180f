"""A compact record: a run's record without its arrays, and the few numbers of those that tables and figures need.

It has the keys of ``store.Record`` as far as it keeps them, so that readers take either. It has no traceback, names no
folder of a machine and no host, and adds

    split_digest      of the sorted numbers of the test rows: equal for two runs that were scored on the same rows
    elbo              the mean of the last tenth of the trace's objective
    steps_per_second  iterations for each second of training, tracing excluded
    pit_counts        test rows in each of 20 bins of the probability integral transform, from 0 to 1
    coverage_counts   test rows inside the central intervals of nominal coverage 0.05, 0.10, ..., 0.95

What needs more than that, row by row or step by step, is not kept and needs the run's own files: traces, posteriors,
and the calibration study, whose medians run over the rows of all splits together.
"""

import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.config.canonical import digest
from dgpbench.runs import store
from dgpbench.runs.fields import PIT_BINS

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

KEPT = ("schema", "status", "objective", "identity", "scores", "seconds", "iterations", "config", "config_hash", "git")
KEPT_OF_DATA = ("name", "n", "d", "n_train", "n_test", "scale_y", "digest_xy", "digest_xy_ordered", "verified")
KEPT_OF_HOST = ("cpu", "threads")
LONGEST_NOTE = 200
_FOLDER = re.compile(r"(?<![\w.:/])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\",;:]+[/\\])+")


def of_run(directory: str | Path) -> dict[str, Any]:
    """The compact record of a run, from its files.

    :raises ValueError: where they are damaged, or its settings name a folder of this machine
    """
    directory = Path(directory)
    record = store.read_record(directory)
    _check_portable(directory, record)
    points, trace = (_table(directory, record, name) for name in (store.POINTS, store.TRACE))
    return {
        **{key: record[key] for key in KEPT if key in record},  # type: ignore[literal-required]
        "reason": None if record["reason"] is None else without_folders(record["reason"]),
        "data": {key: record["data"][key] for key in KEPT_OF_DATA if key in record["data"]},
        "host": {key: record["host"].get(key) for key in KEPT_OF_HOST},
        "versions": dict(record["versions"]),
        "started": record["started"],
        "finished": record["finished"],
        "notes": [_short(note) for note in record["notes"]],
        **({"start": record["start"]} if "start" in record else {}),
        "files": _sums(directory, record),
        "split_digest": None if points is None else split_digest(points["row"]),
        "elbo": None if trace is None else final_elbo(trace),
        "steps_per_second": _rate(record),
        **_calibration(points),
    }


def split_digest(rows: "pd.Series") -> str:
    """16 hexadecimal digits that stand for a set of test rows, in any order."""
    return digest(",".join(map(str, sorted(int(row) for row in rows))))


def final_elbo(trace: "pd.DataFrame") -> float | None:
    """The mean objective of the last tenth of a trace: single values are estimates from one minibatch."""
    values = trace["elbo"].to_numpy()
    last = float(values[-max(1, len(values) // 10) :].mean()) if len(values) else float("nan")
    return last if abs(last) < float("inf") else None


def pit_counts(pit: "np.ndarray", bins: int = PIT_BINS) -> list[int]:
    """Rows in each bin of the probability integral transform."""
    import numpy as np

    return np.histogram(pit, bins, range=(0, 1))[0].tolist()


def coverage_counts(pit: "np.ndarray") -> list[int]:
    """Rows inside the central intervals of nominal coverage 0.05, 0.10, ..., 0.95."""
    import numpy as np

    from dgpbench.predictive.metrics import CENTRAL_INTERVALS

    return (np.abs(pit[:, None] - 0.5) <= CENTRAL_INTERVALS / 2).sum(axis=0).tolist()


def without_folders(text: str) -> str:
    """A text in which every path is the name of its file alone."""
    return _FOLDER.sub("", text)


def _calibration(points: "pd.DataFrame | None") -> dict[str, list[int] | None]:
    if points is None or "pit" not in points:
        return {"pit_counts": None, "coverage_counts": None}
    pit = points["pit"].to_numpy()
    return {"pit_counts": pit_counts(pit), "coverage_counts": coverage_counts(pit)}


def _rate(record: Mapping[str, Any]) -> float | None:
    seconds, steps = record["seconds"].get("training"), record["iterations"]
    return steps / seconds if seconds and steps else None


def _sums(directory: Path, record: Mapping[str, Any]) -> dict[str, str]:
    """sha256 of the run's files by name, its record's own among them."""
    own = hashlib.sha256((directory / store.RECORD).read_bytes()).hexdigest()
    return {name: stored["sha256"] for name, stored in record["files"].items()} | {store.RECORD: own}


def _table(directory: Path, record: Mapping[str, Any], name: str) -> "pd.DataFrame | None":
    """One of a run's tables, if its record has it and it is what the record says."""
    import pandas as pd

    if name not in record["files"]:
        return None
    path = directory / name
    data = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(data).hexdigest() != record["files"][name]["sha256"]:
        raise ValueError(f"{path} is missing or has other contents than its record says")
    return pd.read_parquet(io.BytesIO(data))


def _short(note: Any) -> Any:
    """What a note says in single values; a method's long lists stay with the run."""
    if isinstance(note, Mapping):
        return {key: _short(value) for key, value in note.items() if not isinstance(value, list | Mapping)}
    return without_folders(note)[:LONGEST_NOTE] if isinstance(note, str) else note


def _check_portable(directory: Path, record: Mapping[str, Any]) -> None:
    """A run that was started from a folder of this machine is no run of another one."""
    for text in _texts([record["identity"], record["config"]]):
        if without_folders(text) != text:
            raise ValueError(f"{directory} names a folder of this machine in its settings ({text}), and stays here")


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []
