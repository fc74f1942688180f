"""From runs to the frames that figures draw: reads the files beside the records, computes nothing of its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.report import step_times
from dgpbench.report.figures.style import label
from dgpbench.report.objectives import objective_of
from dgpbench.runs import store

ALONG = {"method.num_inducing": "M", "method.num_layers": "L", "method.width": "tau"}
ALIKE = ("data", "B", "R", "precision", "threads")  # what timings that are drawn together share


class NoRuns(UserError):
    """An item of which no run is done yet."""


def tables(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """The per-row tables of all runs, one below the other, beside dataset, method, num_layers, split and run.

    :raises UserError: where no run kept such a table, or the files of some are elsewhere
    """
    _refuse_compact(runs, name)
    parts = [pd.read_parquet(path).assign(**who) for path, who in _files(runs, name)]
    if not parts:
        raise UserError(f"none of these runs kept its {name}, which this figure is drawn from")
    return pd.concat([part.dropna(axis=1, how="all") for part in parts], ignore_index=True)


def _files(runs: pd.DataFrame, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for run in runs.itertuples():
        path = Path(run.path, name)
        if path.is_file():
            who = {"dataset": run.dataset, "method": run.series, "num_layers": run.num_layers}
            objective = {"objective": objective_of(store.read_record(run.path))} if name == store.TRACE else {}
            yield path, who | {"split": run.split, "run": run.path} | objective


def _refuse_compact(runs: pd.DataFrame, name: str) -> None:
    """A figure of some of the runs under a title that counts all would mislead."""
    if missing := sum(not Path(path).is_dir() for path in runs["path"]):
        raise UserError(
            f"this figure is drawn from {name}, and of {missing} of {len(runs)} runs there is a compact record only; "
            "copy results/runs from where they were carried out, or carry them out here with another results_dir="
        )


def posterior(run: pd.Series) -> dict[str, np.ndarray]:
    """The arrays that a run kept of its posterior.

    :raises UserError: where it kept none, or its files are elsewhere
    """
    _refuse_compact(run.to_frame().T, store.POSTERIOR)
    try:
        return store.read_posterior(run["path"])
    except FileNotFoundError:
        raise UserError(f"{run['path']} has no {store.POSTERIOR}, which this figure is drawn from") from None


def per_dataset(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(data set, its rows), in order of appearance."""
    yield from frame.groupby("dataset", sort=False)


def first_of_each(runs: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """('STAR L3, boston, split 0', run) of the first split of each method on each data set."""
    for (dataset, method, num_layers), rows in runs.groupby(["dataset", "series", "num_layers"], sort=False):
        first = rows.sort_values(["split", "seed"]).iloc[0]
        yield f"{label(method, num_layers)}, {dataset}, split {first['split']}", first


def timings(runs: pd.DataFrame, folder: Path, methods: Sequence[str]) -> pd.DataFrame:
    """Milliseconds per step with the sizes they belong to: of the runs, and else of the tables that ``bench steps``
    has written to a folder: rows of these methods, at the batch, precision and threads that most of them have.

    :raises UserError: where there is neither
    """
    if len(runs):
        return pd.DataFrame([_timing(run) for _, run in runs.iterrows()])
    tables = [_ours(pd.read_csv(path), methods) for path in sorted(folder.glob("*.csv"))]
    found = [_longest(tables, method) for method in methods if any(method in set(rows["method"]) for rows in tables)]
    if not found:
        names = ",".join(methods)
        raise NoRuns(
            f"no run of this item is done, and {folder} holds no timings of {names}; "
            f"`dgpbench bench steps methods={names} M=64,128,256 --output {folder / 'steps.csv'}` makes some"
        )
    rows = pd.concat(found, ignore_index=True)
    for key in [key for key in (*ALIKE, "cpu") if key in rows]:
        rows = rows[rows[key] == rows[key].mode().iloc[0]]
    return rows


def _longest(tables: Sequence[pd.DataFrame], method: str) -> pd.DataFrame:
    """The timings of a method in the table that has most: a curve is of one session, as machines differ by the hour."""
    return max((rows[rows["method"] == method] for rows in tables), key=len)


def _ours(bench: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The rows of a table that time these methods; none of another kind of table."""
    if not {"code", *ALIKE, *step_times.COLUMNS} <= set(bench):
        return bench[:0]
    return bench[(bench["code"] == "dgpbench") & bench["method"].isin(methods) & bench["ms_per_step"].notna()]


def _timing(run: pd.Series) -> dict[str, Any]:
    method = run["config"]["method"]
    given = {"M": method["num_inducing"], "L": run["num_layers"], "tau": method["width"]}
    sizes = {
        size: pd.to_numeric(value, errors="coerce") for size, value in given.items()
    }  # a width may be the word 'inputs'
    return {"method": run["series"], **sizes, "ms_per_step": 1000 * run["seconds_training"] / run["iterations"]}


def with_inputs(run: pd.Series) -> pd.DataFrame:
    """The run's per-row table with each row's input x, looked up in the data set that its record names.

    :raises UserError: for another kind of data set, or one that is no longer the one that was run
    """
    from dgpbench.data import datasets

    _refuse_compact(run.to_frame().T, store.POINTS)
    record = store.read_record(run["path"])
    spec = groups.describe("dataset", run["dataset"]) if run["dataset"] in groups.names("dataset") else {}
    if spec.get("kind") != "synthetic":  # a figure fetches nothing
        raise UserError(f"predictions are drawn for the synthetic data sets of one input, and {run['dataset']} is none")
    table = datasets.load(spec | record["config"]["dataset"])
    if record["data"].get("digest_xy") != table.digest_xy:
        raise UserError(f"{run['path']} was run on another version of {run['dataset']}, so its inputs are not known")
    points = tables(run.to_frame().T, store.POINTS)
    return points.assign(x=table.X[points["row"].to_numpy(), 0])
