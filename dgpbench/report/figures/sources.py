"""Data of figures: the files beside the records, by run and data set. Computes nothing of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.report.figures.page import WIDE, Panel
from dgpbench.report.figures.style import label
from dgpbench.runs import store

OBJECTIVE = "objective"  # of a record that does not name its own
MOST = 8  # curves of a panel that can be told apart


class NoRuns(UserError):
    """No run of an item is done yet."""


def tables(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the per-row tables of all runs, one below the other, with dataset, method, num_layers, split and run.

    :raises UserError: if no run kept such a table, or only some of the runs have their files here
    """
    _require_files(runs, name)
    parts = []
    for run in runs.itertuples():
        if (path := Path(run.path, name)).is_file():
            who = {"dataset": run.dataset, "method": run.series, "num_layers": run.num_layers, "split": run.split}
            if name == store.TRACE:
                who["objective"] = store.read_record(run.path).get("objective", OBJECTIVE)
            parts.append(pd.read_parquet(path).assign(**who, run=run.path).dropna(axis=1, how="all"))
    if not parts:
        raise UserError(f"none of these runs kept its {name}, which this figure is drawn from")
    return pd.concat(parts, ignore_index=True)


def _require_files(runs: pd.DataFrame, name: str) -> None:
    """Refuse runs without files: a figure of some of the runs under a title that counts all would mislead."""
    if missing := sum(not Path(path).is_dir() for path in runs["path"]):
        raise UserError(
            f"this figure is drawn from {name}, and {missing} of {len(runs)} runs have a compact record only; "
            "copy results/runs from the machine that ran them, or run them here with another results_dir="
        )


def posterior(run: pd.Series) -> dict[str, np.ndarray]:
    """Return the arrays that a run kept of its posterior.

    :raises UserError: if it kept none, or its files are elsewhere
    """
    _require_files(run.to_frame().T, store.POSTERIOR)
    try:
        return store.read_arrays(Path(run["path"], store.POSTERIOR))
    except FileNotFoundError:
        raise UserError(f"{run['path']} has no {store.POSTERIOR}, which this figure is drawn from") from None


def first_of_each(runs: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Yield ('STAR L3, boston, split 0', run) of the first split of each method on each data set."""
    for (dataset, method, num_layers), rows in runs.groupby(["dataset", "series", "num_layers"], sort=False):
        first = rows.sort_values(["split", "seed"]).iloc[0]
        yield f"{label(method, num_layers)}, {dataset}, split {first['split']}", first


def curves(
    dataset: str, draw: Callable, frame: pd.DataFrame, runs: pd.DataFrame, size: tuple[float, float] = WIDE
) -> list[Panel]:
    """Return panels of a data set's curves: at most MOST in colour, a method's depths together, the others in grey.

    :param frame: the frame to draw, with columns method and num_layers
    :param runs: the item's runs, from which the counts of incomplete cells are taken
    """
    counts = runs[runs["dataset"] == dataset].assign(method=lambda rows: rows["series"])
    counts = counts[["method", "num_layers", "count", "wanted"]].drop_duplicates()
    frame = frame.merge(counts, how="left", on=["method", "num_layers"])
    groups: list[list[str]] = [[]]
    room = MOST
    for method, depths in frame.groupby("method", sort=False)["num_layers"].nunique().items():
        if depths > room and groups[-1]:
            groups.append([])
            room = MOST
        groups[-1].append(str(method))
        room -= depths
    if len(groups) == 1:
        return [Panel(dataset, draw, frame, size)]
    panels = []
    for number, names in enumerate(groups, 1):
        marked = frame.assign(behind=~frame["method"].isin(names))
        ordered = marked.sort_values("behind", ascending=False, kind="stable")
        panels.append(Panel(f"{dataset} ({number} of {len(groups)})", draw, ordered, size))
    return panels
