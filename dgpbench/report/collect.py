"""All records of a results folder as one tidy frame, the source of every table, figure and comparison.

One row for each run, raw or compact: its identity, status, scores and seconds. ``overrides`` and ``config`` are the
record's own mappings, so that a table can select its runs; arrays stay in the files beside the record. ``path`` is the
run's directory, or FILE:LINE of a compact record without files; ``compact`` is the compact record, and ``against`` its
direct comparisons with other runs, by their ``key``.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.config.canonical import canonical
from dgpbench.data.splits import is_evaluation_split
from dgpbench.errors import UserError, printable
from dgpbench.runs import store
from dgpbench.runs.compact_records import StoredRecord
from dgpbench.runs.record import commit_of

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = ("task", "dataset", "method", "num_layers", "protocol", "budget", "split", "seed")
PLAIN = ("status", "reason", "iterations", "num_parameters", "config_hash", "config")
ROWS = ("n_train", "n_test")
WHERE = ("path", "key", "compact", "against")
COLUMNS = (*IDENTITY, "is_evaluation_split", "overrides", *PLAIN, "commit", "gpu", *ROWS, *WHERE)

logger = logging.getLogger(__name__)


def load_results(results_dir: str | Path = "results") -> "pd.DataFrame":
    """Return one row for each run of ``results_dir``, in columns that ``DataFrame.to_parquet`` accepts.

    ``overrides`` and ``config`` are JSON texts: '{}' without overrides. Records that cannot be read are left out, and
    the logger ``dgpbench`` has a warning for each.

    :raises UserError: for a file, a missing folder, or runs/ or records/ itself
    """
    frame = collect(results_dir, required=True).drop(columns=["compact", "against"])
    return frame.assign(overrides=frame["overrides"].map(canonical), config=frame["config"].map(canonical))


def collect(results_dir: str | Path = "results", *, required: bool = False) -> "pd.DataFrame":
    """Return one row for each run of ``results_dir``; problems with it and its records are logged as warnings.

    Columns: ``COLUMNS``, each score under its own name, ``seconds_tracing``, ``seconds_training``, ... Splits that this
    package's settings were chosen on are False in ``is_evaluation_split``: no mean of scores includes them.
    ``frame.attrs["problems"]`` has a sentence for each damaged record, which is left out, and each contradiction.

    :param required: refuse a folder without results
    :raises UserError: for a file
    """
    no_results = store.why_no_results(results_dir)
    if required and no_results is not None:
        raise UserError(no_results)
    frame = frame_of(store.find(results_dir))
    for sentence in filter(None, [no_results, *frame.attrs["problems"]]):
        logger.warning(printable(sentence))
    return frame


def frame_of(runs: "Iterable[StoredRecord | ValueError]") -> "pd.DataFrame":
    """Return the frame of some runs, as ``collect`` returns it."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for found in runs:
        if isinstance(found, ValueError):
            problems.append(str(found))
            continue
        record: Mapping[str, Any] = found.record
        who, config, data = record["identity"], record["config"], record.get("data") or {}
        named = {key: who[key] for key in (*IDENTITY, "overrides")}
        plain = {key: record.get(key) for key in PLAIN} | {key: data.get(key) for key in ROWS}
        plain |= {"commit": commit_of(record), "gpu": record["host"].get("gpu")}
        evaluates = {"is_evaluation_split": is_evaluation_split(who, config.get("dataset", {}))}
        seconds = {f"seconds_{key}": value for key, value in record["seconds"].items()}
        where = {"path": found.source, "key": found.key, "compact": found.compact, "against": found.against}
        # in this order: a score must not replace a part of the identity
        rows.append(dict(record["scores"]) | seconds | named | plain | evaluates | where)
    extra = dict.fromkeys(key for row in rows for key in row if key not in COLUMNS)
    with pd.option_context("future.infer_string", False):  # selecting rows by objects takes half the time
        frame = pd.DataFrame(rows, columns=[*COLUMNS, *extra])
    frame.attrs["problems"] = problems
    return frame
