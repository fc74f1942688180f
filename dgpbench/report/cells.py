"""The cells of a table: for each data set and column the mean over splits, its standard error, and what is missing.

A mean is over the done runs of one budget, one protocol and one seed; a failed split is counted, never averaged over.
Columns of a cell frame: metric, dataset, method (the series' name), num_layers, mean, stderr, count, failed, wanted,
done (runs, with such a score or without), unknown (done runs, or pairs of them, that lack the value in their compact
records and have their files elsewhere).
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.config import groups
from dgpbench.config.canonical import canonical
from dgpbench.errors import UserError
from dgpbench.experiments.items import Block, Item, Sweep, load
from dgpbench.experiments.plan import plan_of
from dgpbench.experiments.plan import wanted as wanted_runs
from dgpbench.methods.plugins import is_of_this_code
from dgpbench.predictive.scores import mean_density_difference, win_share
from dgpbench.runs import compact_records, store
from dgpbench.runs.identity import Identity
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.runs.store import CONFLICT
from dgpbench.training.settings import OPTIMISERS

KEYS = ["dataset", "series", "num_layers"]
NONE = "none"  # text of a cell with done runs and no such score: quantiles have no density


def select(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """Select the runs of an item, done or not, each with the name of its ``series``.

    If the runs of a cell have different settings, those without the item's present settings get the status
    ``conflict``: a mean over two settings would be of neither.
    """
    parts = []
    for sweep in item.sweeps:
        runs = _in_agreement(item, sweep, _matching(item, sweep, frame))
        parts.append(runs.assign(series=[sweep.name_of(method) for method in runs["method"]]))
    selected = pd.concat(parts).drop_duplicates([*KEYS, "split", "path"])
    return selected.sort_values([*KEYS, "split"], kind="stable", ignore_index=True)


def done_runs(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """Select the done runs of an item, in the order of its methods, each with its cell's ``count`` and ``wanted``."""
    runs = select(item, frame)
    expected = wanted(item).rename_axis("place").reset_index()
    done = runs[runs["status"] == "done"].astype({"num_layers": int}).merge(expected, how="left", on=KEYS)
    done = done.assign(count=done.groupby(KEYS)["split"].transform("size"))
    return done.sort_values(["place", "split"], kind="stable").drop(columns="place")


def num_runs(item: Item) -> int:
    """Return the number of runs of an item; a cell of a table has one for each split, a figure along M or tau more."""
    runs = [
        (sweep.name_of(one["method"]), one["method.num_layers"], one["dataset"], one["split"])
        for sweep in item.sweeps
        for one in sweep.combinations(["method", "method.num_layers", "dataset", "split", *sweep.settings()])
    ]
    if len(item.sweeps) > 1 and len(set(runs)) < len(runs):
        return len(plan_of(item))  # two sweeps may share a run, as in Fig. S7: only its identity shows it
    return len(runs)


def within_reach(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """Select the records of an item's methods and data sets, of any task and budget; later selections are faster."""
    offered = {key: {value for sweep in item.sweeps for value in sweep.values[key]} for key in ("method", "dataset")}
    return frame[frame["method"].isin(offered["method"]) & frame["dataset"].isin(offered["dataset"])]


def _matching(item: Item, sweep: Sweep, frame: pd.DataFrame) -> pd.DataFrame:
    """Select the runs of a sweep, done or not."""
    rows = np.arange(len(frame))
    for key in ("budget", "protocol", "task", "dataset", "method", "method.num_layers", "split", "seed"):
        offered, found = set(sweep.values[key]), frame[key.rpartition(".")[2]].to_numpy()
        rows = rows[np.fromiter((str(found[row]) in offered for row in rows), bool, len(rows))]
    settings, changed, config = sweep.settings(), frame["overrides"].to_numpy(), frame["config"].to_numpy()
    if sweep.start is not None or "init_from" in settings:  # the run that each starts from is part of its identity
        started = frame.iloc[[row for row in rows if "init_from" in changed[row]]]
        if started.empty:
            return started
        directories = {each.run.identity.directory("") for each in wanted_runs(item, sweep)}
        axes = [each.name for each in fields(Identity)]
        return started[[Identity(**row[axes]).directory("") in directories for _, row in started.iterrows()]]
    chosen = [
        set(changed[row]) <= set(settings)  # another learning rate is another column
        and all(canonical(setting_in(config[row], key)) in values for key, values in settings.items())
        and is_of_this_code(config[row]["method"])
        for row in rows
    ]
    return frame.iloc[rows[np.array(chosen, dtype=bool)]]


def _in_agreement(item: Item, sweep: Sweep, runs: pd.DataFrame) -> pd.DataFrame:
    """Mark the runs of a sweep that are in conflict; settings are resolved only if runs differ in theirs."""
    swept, differ = [key for key in sweep.settings() if key != "init_from"], False
    first: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for *cell, config in zip(*(runs[key] for key in ("dataset", "method", "num_layers", "config")), strict=True):
        axes = (*cell, *(canonical(setting_in(config, key)) for key in swept))
        shared = common(config)
        differ |= first.setdefault(axes, shared) != shared
    if not differ or not all(groups.exists("method", name) for name in sweep.values["method"]):
        return runs
    hashes = {each.run.config_hash for each in wanted_runs(item, sweep)}
    return runs.assign(status=runs["status"].where(runs["config_hash"].isin(hashes), CONFLICT))


def common(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that the runs of a cell share: all but split, seed and initial run."""
    return {key: value for key, value in config.items() if key not in ("split", "seed", "init_from")}


def setting_in(config: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key in a resolved configuration, or its default; None if it has neither.

    A record omits settings that are newer than it and at their default (``config.settings.recorded``).
    """
    value: Any = config
    for part in ("training.optimiser" if key == "optimiser" else key).split("."):
        value = value.get(part, MISSING) if isinstance(value, Mapping) else MISSING
    if value is not MISSING:
        return value
    section, _, name = key.partition(".")
    settings = None
    if section == "training" and section in config:
        settings = OPTIMISERS.get(config["training"]["optimiser"])
    elif section == "method" and groups.exists("method", config["method"]["name"]):
        settings = _method_settings(config["method"]["name"])
    defaults = [each.default for each in fields(settings) if each.name == name] if settings else []
    return defaults[0] if defaults and defaults[0] is not MISSING else None


@cache
def _method_settings(name: str) -> type[Any]:
    return type(resolve_overrides([f"method={name}"]).method)


def wanted(item: Item) -> pd.DataFrame:
    """List every column and data set of an item, in its order, with the number of splits of a complete cell."""
    rows = [
        (one["dataset"], sweep.name_of(one["method"]), int(one["method.num_layers"]), len(sweep.values["split"]))
        for sweep in item.sweeps
        for one in sweep.combinations(("method", "method.num_layers", "dataset"))
    ]
    return pd.DataFrame(rows, columns=[*KEYS, "wanted"]).drop_duplicates(KEYS, ignore_index=True)


def cells(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """Return all cells of all blocks of an item, missing ones included."""
    return of_runs(item, select(item, frame))


def of_runs(item: Item, runs: pd.DataFrame) -> pd.DataFrame:
    """Return all cells from the item's runs, as ``select`` returns them."""
    single, parts = wanted(item), []
    for block in item.blocks:
        failed, done = runs[runs["status"].isin(store.FAILED)], runs[runs["status"] == "done"]
        if block.pairs:
            expected, values = _pairs_wanted(block, single), compared(block, done).assign(here=False)
            sides = [failed[failed["series"].isin(pair)].assign(series="_vs_".join(pair)) for pair in block.pairs]
            failed = pd.concat(sides).drop_duplicates([*KEYS, "split"])  # a split may fail on both sides
        else:
            expected = single
            done = timed_alike(done) if block.metric.startswith("seconds_") else done
            here = would_be_here(block.metric, done)
            values = done[[*KEYS, "split"]].assign(value=value_of(block.metric, done), here=here)
        groups = values.astype({"value": float}).assign(unknown=values["value"].isna() & ~values["here"]).groupby(KEYS)
        summary = groups["value"].agg(["mean", "count"]).assign(unknown=groups["unknown"].sum(), done=groups.size())
        num_failed, stderr = failed.groupby(KEYS).size().rename("failed"), groups["value"].sem().rename("stderr")
        merged = expected.join(summary, on=KEYS).join(num_failed, on=KEYS).join(stderr, on=KEYS)
        counts = ["count", "failed", "unknown", "done"]
        merged[counts] = merged[counts].astype(float).fillna(0).astype(int)
        parts.append(merged.assign(metric=block.metric).rename(columns={"series": "method"}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def done_elsewhere(item: Item, runs: pd.DataFrame, frame: pd.DataFrame) -> str | None:
    """Name the other budgets in ``frame`` with more done runs of an item than ``runs``; None if there are none."""
    narrowed = [text for text in item.narrowed if not text.startswith("budget=")]
    others = {}
    for budget in sorted(set(groups.names("budget")) & set(frame["budget"]) - {item.budget}):
        with suppress(UserError):  # a budget of fewer splits may have none of the requested ones
            others[budget] = select(load(item.name, [*narrowed, f"budget={budget}"]), frame)
    done = (runs["status"] == "done").sum()
    counts = {budget: (each["status"] == "done").sum() for budget, each in others.items()}
    more = [f"{count} at budget={budget}" for budget, count in counts.items() if count > done]
    return f"more of its runs are done at other budgets: {', '.join(more)}" if more else None


def incomplete_text(row) -> str:
    """Return the text of a cell without all splits: 7/10, or none if its runs are done and have no such score."""
    return NONE if has_none(row) else f"{int(row.count)}/{int(row.wanted)}"


def has_none(row) -> bool:
    """Check that all runs of a cell are done and none of them has such a score."""
    return bool(row.done >= row.wanted and not row.count and not row.unknown)


# Values of single runs ------------------------------------------------------------------------------------------------


def timed_alike(runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out the runs on a GPU unless all are: a mean of seconds over both kinds would be of neither."""
    on_gpu = runs["gpu"].notna()
    return runs if on_gpu.all() else runs[~on_gpu]


def timed_sentence(done: pd.DataFrame) -> str | None:
    """Describe the effect of ``timed_alike`` on some done runs; None without a run on a GPU."""
    if not (on_gpu := int(done["gpu"].notna().sum())):
        return None
    if on_gpu == len(done):
        return "Seconds are of runs on a GPU."
    left_out = "1 run on a GPU is" if on_gpu == 1 else f"{on_gpu} runs on a GPU are"
    return f"Seconds are of runs on a processor; {left_out} left out."


def value_of(metric: str, runs: pd.DataFrame) -> pd.Series:
    """Return a metric of each run: a score, the seconds of a step without tracing, or the mean of the last ELBOs."""
    if metric == "seconds_per_step":
        return runs["seconds_training"] / runs["iterations"] if len(runs) else pd.Series(dtype=float)
    if metric != "elbo":
        return runs[metric] if metric in runs else pd.Series(np.nan, runs.index)
    values = []
    for path, compact in zip(runs["path"], runs["compact"], strict=True):
        trace = Path(path, store.TRACE)
        if trace.is_file():
            values.append(compact_records.final_elbo(pd.read_parquet(trace, columns=["elbo"])))
        else:
            values.append(None if compact is None or os.path.isdir(path) else compact.get("elbo"))
    return pd.Series(values, index=runs.index, dtype=float)


def would_be_here(metric: str, runs: pd.DataFrame) -> np.ndarray:
    """Check which runs would have a metric here: the ELBO is in a run's files, all others are in the record itself."""
    if metric != "elbo":
        return np.ones(len(runs), dtype=bool)
    return np.array([os.path.isdir(path) for path in runs["path"]], dtype=bool)


# Direct comparisons ---------------------------------------------------------------------------------------------------

COMPARISONS = {"win_frequency": win_share, "tll_difference": mean_density_difference}


def _pairs_wanted(block: Block, expected: pd.DataFrame) -> pd.DataFrame:
    """List one column for each pair with both sides among the series, at the depths that both have."""
    rows = [
        (row.dataset, pair, row.num_layers, min(row.wanted_a, row.wanted_b))
        for pair, both in pairs_of(block, expected, ["dataset", "num_layers"])
        for row in both.itertuples()
    ]
    return pd.DataFrame(rows, columns=[*KEYS, "wanted"])


def compared(block: Block, done: pd.DataFrame) -> pd.DataFrame:
    """Compare the done runs of each pair, from their rows if both are here, else from the compact records.

    Columns dataset, series, num_layers, split, value.
    """

    def value(row: Any) -> float:
        if os.path.isdir(row.path_a) and os.path.isdir(row.path_b):
            return COMPARISONS[block.metric](points_of(row.path_a), points_of(row.path_b))
        return row.against_a.get(row.key_b, {}).get(block.metric, float("nan"))

    rows = [
        (row.dataset, pair, row.num_layers, row.split, value(row))
        for pair, both in pairs_of(block, done, ["dataset", "num_layers", "split"])
        for row in both.itertuples()
    ]
    return pd.DataFrame(rows, columns=[*KEYS, "split", "value"])


def pairs_of(block: Block, rows: pd.DataFrame, on: list[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name of each pair of a block, and its rows that are equal in some columns; others end in _a and _b."""
    for pair in block.pairs:
        a, b = (rows[rows["series"] == side] for side in pair)
        yield "_vs_".join(pair), a.merge(b, on=on, suffixes=("_a", "_b"))


def points_of(directory: str) -> pd.DataFrame:
    """Read the columns of a run's rows that a direct comparison needs."""
    return pd.read_parquet(Path(directory, store.POINTS), columns=["row", "y", "log_density"])
