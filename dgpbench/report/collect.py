"""All records of a results folder as one tidy frame: what every table, figure and comparison starts from.

One row for each run: its identity, how it ended, its scores and seconds. ``overrides`` and ``config`` hold the record's
own mappings, so that a table can pick exactly the runs it is about; arrays stay in the files beside the record.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.runs import store

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = ("task", "dataset", "method", "num_layers", "protocol", "budget", "split", "seed")
COLUMNS = (*IDENTITY, "overrides", "status", "reason", "iterations", "config_hash", "path", "config")


def collect(results_dir: str | Path = "results") -> "pd.DataFrame":
    """One row for each run below ``results_dir``; damaged records are named on standard error and left out.

    Columns: ``COLUMNS``, each score under its own name, ``seconds_tracing``, ``seconds_training``, ...
    ``frame.attrs["problems"]`` lists what was wrong with the records that were left out, one sentence each.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for path, found in store.find_records(results_dir):
        try:
            if isinstance(found, ValueError):
                raise found
            rows.append(_row(found, path.parent))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            problems.append(str(problem) if isinstance(problem, ValueError) else f"{path} is not a record of dgpbench")
    for sentence in problems:
        print(f"dgpbench: skipped: {sentence}", file=sys.stderr)
    extra = dict.fromkeys(key for row in rows for key in row if key not in COLUMNS)
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *extra])
    frame.attrs["problems"] = problems
    return frame


def _row(record: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    who = record["identity"]
    named = {key: who[key] for key in (*IDENTITY, "overrides")}
    plain = {key: record[key] for key in ("status", "reason", "iterations", "config_hash", "config")}
    seconds = {f"seconds_{key}": value for key, value in record["seconds"].items()}
    return named | plain | {"path": str(directory)} | dict(record["scores"]) | seconds
