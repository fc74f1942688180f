"""The cells of a table: for each data set and column the mean over splits, its standard error, and what is missing.

A mean is over the done runs of one budget, one protocol and one seed; a failed split is counted, never averaged over.
Columns of a cell frame: metric, dataset, method (the series' name), num_layers, mean, stderr, count, failed, wanted,
done (runs, with such a score or without), unknown (done runs, or pairs of them, whose files are elsewhere and whose
compact records lack the value).
"""

from collections.abc import Callable, Iterator, Mapping
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
from dgpbench.experiments.wanted import wanted as wanted_runs
from dgpbench.methods.plugins import is_of_this_code
from dgpbench.predictive.scores import METRICS, mean_density_difference, win_share
from dgpbench.runs import compact_records, store
from dgpbench.runs.identity import Identity
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.runs.store import CONFLICT
from dgpbench.training.settings import OPTIMISERS

KEYS = ["dataset", "series", "num_layers"]
NONE = "none"  # what a cell says whose runs are done and have no such score: quantiles give no density


def select(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of an item, done or not, each with the name of its ``series``.

    Where runs of a cell were made with other settings than the rest, those that are not of the item's settings now have
    the status ``conflict``: a mean over two settings would be of neither.
    """
    parts = [_in_agreement(item, sweep, _matching(item, sweep, frame)) for sweep in item.sweeps]
    named = [
        part.assign(series=[sweep.name_of(method) for method in part["method"]])
        for sweep, part in zip(item.sweeps, parts, strict=True)
    ]
    chosen = pd.concat(named) if named else frame.assign(series=[])
    return chosen.drop_duplicates([*KEYS, "split", "path"]).sort_values(
        [*KEYS, "split"], kind="stable", ignore_index=True
    )


def within_reach(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """The records that anything about an item is made of: those of its methods and data sets, of any task and budget.

    To select from these takes less time than from all records.
    """
    offered = {key: {value for sweep in item.sweeps for value in sweep.values[key]} for key in ("method", "dataset")}
    return frame[frame["method"].isin(offered["method"]) & frame["dataset"].isin(offered["dataset"])]


def _matching(item: Item, sweep: Sweep, frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of a sweep, done or not."""
    rows = np.arange(len(frame))
    for key in ("budget", "protocol", "task", "dataset", "method", "method.num_layers", "split", "seed"):
        numbers = key in ("method.num_layers", "split", "seed")
        offered = {int(value) for value in sweep.values[key]} if numbers else set(sweep.values[key])
        found = frame[key.rpartition(".")[2]].to_numpy()
        rows = rows[np.fromiter((found[row] in offered for row in rows), bool, len(rows))]
    settings, changed, config = sweep.settings(), frame["overrides"].to_numpy(), frame["config"].to_numpy()
    if sweep.start is not None or "init_from" in settings:  # which run each starts from is part of its identity
        started = frame.iloc[[row for row in rows if "init_from" in changed[row]]]
        if started.empty:
            return started
        directories = {each.run.identity.directory("") for each in wanted_runs(item, sweep)}
        return started[[_directory(row) in directories for _, row in started.iterrows()]]
    return frame.iloc[
        [row for row in rows if _set_so(settings, changed[row], config[row]) and is_of_this_code(config[row]["method"])]
    ]


def _in_agreement(item: Item, sweep: Sweep, runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of a sweep, those in conflict marked; settings are looked up only where runs differ in theirs."""
    swept = [key for key in sweep.settings() if key != "init_from"]
    first: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    differ = False
    for *cell, config in zip(*(runs[key] for key in ("dataset", "method", "num_layers", "config")), strict=True):
        axes = (*cell, *(canonical(setting_in(config, key)) for key in swept))
        shared = common(config)
        differ |= first.setdefault(axes, shared) != shared
    if not differ or not all(groups.exists("method", name) for name in sweep.values["method"]):
        return runs
    hashes = {each.run.config_hash for each in wanted_runs(item, sweep)}
    return runs.assign(status=runs["status"].where(runs["config_hash"].isin(hashes), CONFLICT))


def common(config: Mapping[str, Any]) -> dict[str, Any]:
    """What runs of a cell share of their configurations: all but split, seed and the run that they start from."""
    return {key: value for key, value in config.items() if key not in ("split", "seed", "init_from")}


def _directory(row: pd.Series) -> Path:
    """The run's directory below any results."""
    return Identity(**{each.name: row[each.name] for each in fields(Identity)}).directory("")


def _set_so(settings: dict[str, tuple[str, ...]], changed: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether a run has these settings, and no other change: one with another learning rate is another column."""
    if not set(changed) <= set(settings):
        return False
    return all(canonical(changed.get(key, setting_in(config, key))) in values for key, values in settings.items())


def setting_in(config: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key in a resolved configuration; None where neither it nor the key's section has one."""
    value: Any = config
    for part in ("training.optimiser" if key == "optimiser" else key).split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _default(config, key)
        value = value[part]
    return value


def _default(config: Mapping[str, Any], key: str) -> Any:
    """The default of a setting that came later, which a configuration leaves out (``config.settings.recorded``)."""
    section, _, name = key.partition(".")
    settings = None
    if section == "training" and section in config:
        settings = OPTIMISERS.get(config["training"]["optimiser"])
    elif section == "method" and groups.exists("method", config["method"]["name"]):
        settings = _method_settings(config["method"]["name"])
    known = {each.name: each.default for each in fields(settings)} if settings else {}
    return None if known.get(name) is MISSING else known.get(name)


@cache
def _method_settings(name: str) -> type[Any]:
    """The class of a method's settings."""
    return type(resolve_overrides([f"method={name}"]).method)


def wanted(item: Item) -> pd.DataFrame:
    """Every column and data set of an item, in its order, with the number of splits that make a cell complete."""
    rows = [
        (one["dataset"], sweep.name_of(one["method"]), int(one["method.num_layers"]), len(sweep.values["split"]))
        for sweep in item.sweeps
        for one in sweep.combinations(("method", "method.num_layers", "dataset"))
    ]
    return pd.DataFrame(rows, columns=[*KEYS, "wanted"]).drop_duplicates(KEYS, ignore_index=True)


def cells(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """All cells of all blocks of an item, missing ones included."""
    return of_runs(item, select(item, frame))


def of_runs(item: Item, runs: pd.DataFrame) -> pd.DataFrame:
    """The same from the item's runs, as ``select`` gives them."""
    expected = wanted(item)
    parts = [_cells_of(block, expected, runs) for block in item.blocks]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _cells_of(block: Block, expected: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    if block.pairs:
        expected = _pairs_wanted(block, expected)
        values = compared(block, chosen)
        broken = chosen[:0]
    else:
        done = chosen[chosen["status"] == "done"]
        values = done[[*KEYS, "split"]].assign(
            value=value_of(block.metric)(done), here=would_be_here(block.metric, done)
        )
        broken = chosen[chosen["status"].isin(store.FAILED)]
    elsewhere = values["value"].isna() & ~values["here"]
    groups = values.assign(unknown=elsewhere).groupby(KEYS)
    found = groups["value"]
    summary = pd.DataFrame({
        "mean": found.mean(), "deviation": found.std(), "count": found.count(), "unknown": groups["unknown"].sum(),
        "done": groups.size(), "failed": broken.groupby(KEYS).size(),
    })  # fmt: skip
    merged = expected.join(summary, on=KEYS)
    counts = ["count", "failed", "unknown", "done"]
    merged[counts] = merged[counts].astype(float).fillna(0).astype(int)
    merged["stderr"] = merged.pop("deviation") / np.sqrt(merged["count"].where(merged["count"] > 1))
    return merged.assign(metric=block.metric).rename(columns={"series": "method"})


def done_elsewhere(item: Item, runs: pd.DataFrame, frame: pd.DataFrame) -> str | None:
    """The other budgets at which more of an item's runs are done than at its own, in words; None without one.

    :param runs: those at its own budget
    :param frame: all records
    """
    narrowed = [text for text in item.narrowed if not text.startswith("budget=")]
    done = {item.budget: _num_done(runs)}
    recorded = set(frame["budget"])
    for budget in (name for name in groups.names("budget") if name in recorded):
        try:
            if budget not in done:
                done[budget] = _num_done(select(load(item.name, [*narrowed, f"budget={budget}"]), frame))
        except UserError:  # a budget of fewer splits may have none of those that are asked for
            continue
    more = [f"{count} at budget={budget}" for budget, count in done.items() if count > done[item.budget]]
    return f"more of its runs are done at other budgets: {', '.join(more)}" if more else None


def _num_done(runs: pd.DataFrame) -> int:
    return int((runs["status"] == "done").sum())


def incomplete_text(row) -> str:
    """What a cell says that lacks splits: 7/10, or none where its runs are done and have no such score."""
    return NONE if has_none(row) else f"{int(row.count)}/{int(row.wanted)}"


def has_none(row) -> bool:
    """Whether all runs of a cell are done and none of them has such a score."""
    return bool(row.done >= row.wanted and not row.count and not row.unknown)


# Values of single runs ------------------------------------------------------------------------------------------------


def value_of(metric: str) -> Callable[[pd.DataFrame], pd.Series]:
    """How a metric is read off a frame of runs: a score, or what follows from seconds or the trace."""
    special = {"elbo": _elbo, "seconds_per_step": _seconds_per_step}
    return special.get(metric, lambda runs: runs[metric] if metric in runs else pd.Series(np.nan, runs.index))


def is_here(paths: pd.Series) -> np.ndarray:
    """Which runs have their own files here."""
    return np.array([Path(path).is_dir() for path in paths], dtype=bool)


def would_be_here(metric: str, runs: pd.DataFrame) -> np.ndarray:
    """Which runs would show a metric here if they had it: scores are in the record itself, others in a run's files."""
    return np.ones(len(runs), dtype=bool) if metric in METRICS else is_here(runs["path"])


def _seconds_per_step(runs: pd.DataFrame) -> pd.Series:
    """Seconds of training, tracing excluded, for each iteration."""
    return runs["seconds_training"] / runs["iterations"] if len(runs) else pd.Series(dtype=float)


def _elbo(runs: pd.DataFrame) -> pd.Series:
    """The mean ELBO of the last tenth of the trace, from the trace or from the compact record."""
    values = [_elbo_of(Path(run.path), run.compact) for run in runs.itertuples(index=False)]
    return pd.Series(values, index=runs.index, dtype=float)


def _elbo_of(directory: Path, compact: Mapping[str, Any] | None) -> float | None:
    return final_elbo(directory) if compact is None or directory.is_dir() else compact.get("elbo")


def final_elbo(directory: Path) -> float:
    """The ELBO at the end of one run's training, NaN without a trace."""
    path = directory / store.TRACE
    if not path.is_file():
        return float("nan")
    found = compact_records.final_elbo(pd.read_parquet(path, columns=["elbo"]))
    return float("nan") if found is None else found


# Direct comparisons ---------------------------------------------------------------------------------------------------


def _pairs_wanted(block: Block, expected: pd.DataFrame) -> pd.DataFrame:
    """One column for each pair whose both sides are among the series, at the depths that both have."""
    rows = []
    for first, second in block.pairs:
        a, b = (expected[expected["series"] == side] for side in (first, second))
        both = a.merge(b, on=["dataset", "num_layers"], suffixes=("_a", "_b"))
        for row in both.itertuples():
            rows.append((row.dataset, f"{first}_vs_{second}", row.num_layers, min(row.wanted_a, row.wanted_b)))
    return pd.DataFrame(rows, columns=[*KEYS, "wanted"])


COMPARISONS = {"win_frequency": win_share, "tll_difference": mean_density_difference}


def compared(block: Block, chosen: pd.DataFrame) -> pd.DataFrame:
    """Direct comparisons of the done runs: columns dataset, series, num_layers, split, value, here."""
    rows = [
        (row.dataset, f"{first}_vs_{second}", row.num_layers, row.split, _value(block.metric, row), False)
        for first, second, both in pairs_of(block, chosen)
        for row in both.itertuples()
    ]
    return pd.DataFrame(rows, columns=[*KEYS, "split", "value", "here"]).astype({"here": bool})


def pairs_of(block: Block, chosen: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Both sides of each pair of a block: a row for each split that is done on both, their columns ending in _a, _b."""
    done = chosen[chosen["status"] == "done"]
    for first, second in block.pairs:
        a, b = (done[done["series"] == side] for side in (first, second))
        yield first, second, a.merge(b, on=["dataset", "num_layers", "split"], suffixes=("_a", "_b"))


def _value(metric: str, row: Any) -> float:
    """From the rows of both runs where they are here, else as the compact records have it; NaN where they do not."""
    if Path(row.path_a).is_dir() and Path(row.path_b).is_dir():
        return COMPARISONS[metric](points_of(row.path_a), points_of(row.path_b))
    return row.against_a.get(row.key_b, {}).get(metric, float("nan"))


def points_of(directory: str) -> pd.DataFrame:
    """What a direct comparison needs of a run's rows."""
    return pd.read_parquet(Path(directory, store.POINTS), columns=["row", "y", "log_density"])
