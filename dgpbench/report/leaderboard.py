"""Data of the report's leaderboard: scores of each group of runs, and every run.

A *board* is a task, protocol and budget. Its methods are ranked on the same splits of each data set, those that most of
them have. Groups are those of ``html_grids.with_groups``. The page's script ranks and draws what the reader chooses.
"""

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from dgpbench.predictive.scores import METRICS, Metric
from dgpbench.report import cells, statistics
from dgpbench.report.tables import unit_of
from dgpbench.runs.identity import Identity
from dgpbench.runs.summary import decimals

BOARD = ["task", "protocol", "budget"]


def page_data(frame: pd.DataFrame, results_dir: str, folder: Path) -> dict[str, Any]:
    """Return the data of the page's script as JSON values.

    :param frame: records with the columns of ``with_groups``
    :param folder: folder of the page, where links to records start
    """
    from scipy.stats import chi2

    metrics = [name for name in METRICS if name in frame and frame[name].notna().any()]
    groups = {row.group: _described(row) for row in frame.drop_duplicates("group").itertuples(index=False)}
    for group, scored in _scores(frame, metrics):
        groups[group] |= scored
    ranked = [group for group in groups.values() if group.get("scores")]
    boards = Counter(tuple(group[axis] for axis in BOARD) for group in ranked)
    methods = Counter((*(group[axis] for axis in BOARD), group["dataset"]) for group in ranked)
    sizes = range(3, max(methods.values(), default=0) + 1)
    return {
        "metrics": metrics,
        "units": {name: unit_of(name) for name in metrics},
        "boards": [board for board, _ in boards.most_common()],
        "groups": groups,
        "runs": _runs(frame, metrics, results_dir),
        "records": [results_dir, quote(os.path.relpath(results_dir, folder))],
        "level": statistics.LEVEL,
        "friedman": {size: float(chi2.isf(statistics.LEVEL, size - 1)) for size in sizes},
        "nemenyi": {size: statistics.critical_difference(size, 1) for size in sizes},
    }


def _described(row: Any) -> dict[str, Any]:
    """Return what the runs of a group share; ``command`` lacks the split."""
    identity = Identity(**{axis.name: getattr(row, axis.name) for axis in fields(Identity)})
    arguments = [text for text in identity.arguments() if not text.startswith("split=")]
    method, changed = method_and_changes(row)
    return {
        **{axis: getattr(row, axis) for axis in (*BOARD, "dataset")},
        "method": method,
        "changed": changed,
        "command": shlex.join(["dgpbench", "run", *arguments]),
    }


def method_and_changes(row: Any) -> tuple[str, str]:
    """Name a method, as in 'star L3', and what is not at its default: 'training.learning_rate=0.1 seed=1'."""
    method = row.method if row.L == "" else f"{row.method} L{row.L}"
    return method, f"{row.settings} seed={row.seed}".strip() if row.seed else row.settings


def _scores(frame: pd.DataFrame, metrics: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each group with its median seconds and its scores as (mean, mean loss, text), by metric.

    The numbers are None unless all splits of the board have them. Splits that settings were tuned on are left out.
    """
    columns = [*BOARD, "dataset", "group", "settings", "split", "status", "timed", "seconds_total", *metrics]
    frame = frame.assign(timed=frame.index.isin(cells.timed_alike(frame[frame["status"] == "done"]).index))
    for _, rows in frame.loc[frame["is_evaluation_split"], columns].groupby([*BOARD, "dataset"], sort=False):
        splits = usual_splits(rows)
        for group, runs in rows[rows["split"].isin(splits)].groupby("group", sort=False):
            done = runs[runs["status"] == "done"]
            scores = {}
            for name, column in zip(metrics, done[metrics].to_numpy(dtype=float).T, strict=True):
                values = column[np.isfinite(column)]
                scores[name] = _score(METRICS[name], values, len(splits), len(done))
            is_timed = len(done) == len(splits) and done["timed"].all()
            seconds = float(done["seconds_total"].median()) if is_timed else None
            yield group, {"scores": scores, "seconds": seconds}


def _score(metric: Metric, values: np.ndarray, wanted: int, done: int) -> tuple[float | None, float | None, str]:
    if len(values) < wanted:
        return None, None, cells.NONE if not len(values) and done == wanted else f"{len(values)}/{wanted}"
    mean = float(values.mean())
    digits = decimals(mean, 3)
    error = f" ({values.std(ddof=1) / np.sqrt(wanted):.{digits}f})" if wanted > 1 else ""
    return mean, float(np.mean([metric.loss(value) for value in values])), f"{mean:.{digits}f}{error}"


def usual_splits(rows: pd.DataFrame) -> tuple[int, ...]:
    """Return the splits of a data set that most groups at default settings have, else most groups; of equals, more."""
    begun = [(tuple(sorted(runs["split"])), runs["settings"].iloc[0]) for _, runs in rows.groupby("group")]
    every, usual = Counter(splits for splits, _ in begun), Counter(splits for splits, changed in begun if not changed)
    return max(every, key=lambda splits: (usual[splits], every[splits], len(splits)))


def _runs(frame: pd.DataFrame, metrics: list[str], results_dir: str) -> list[list[Any]]:
    """Return group, split, status, reason, seconds, hash, commit, record and scores of each run."""
    numbers = frame[metrics].astype(float).to_numpy().tolist()
    scores = [[None if value != value else float(f"{value:.6g}") for value in row] for row in numbers]
    plain = frame[["group", "split", "status"]].assign(
        reason=[reason if isinstance(reason, str) else "" for reason in frame["reason"]],
        seconds=frame["seconds_total"].round(1),
        hash=frame["config_hash"].str[:12],
        commit=frame["commit"],
        path=[os.path.relpath(path, results_dir) for path in frame["path"]],
    )
    return [[*row, each] for row, each in zip(plain.to_numpy().tolist(), scores, strict=True)]
