"""docs/laptop.md: what a run with other settings scores beside the study's own run of that cell, at the same budget."""

from dataclasses import replace
from typing import Any

import pandas as pd

from dgpbench.config.canonical import canonical
from dgpbench.experiments.items import column_name, load
from dgpbench.report import cells
from dgpbench.report.docs import words
from dgpbench.report.docs.pairs import mean_text, pairs
from dgpbench.report.figures.render import done_runs
from dgpbench.report.rendering import grid_text

NOTHING = "No run of this study with other settings has been made yet."
SPLITS = tuple(map(str, range(10, 20)))  # that choices are made on; a study's own table has two of them


def ablation(names: tuple[str, ...], budget: str, frame: pd.DataFrame) -> str:
    """A table for each study: a row for each set of settings, a column for each method."""
    return "\n\n".join(filter(None, (_ablation(name, budget, frame) for name in names))) or NOTHING


def _ablation(name: str, budget: str, frame: pd.DataFrame) -> str:
    item = load(name, [f"budget={budget}"])
    item = replace(item, sweeps=tuple(replace(one, values={**one.values, "split": SPLITS}) for one in item.sweeps))
    own, digits = done_runs(item, frame), item.blocks[0].digits
    others = frame[(frame["budget"] == item.budget) & ~frame["key"].isin(own["key"])]
    both = pairs(others.assign(series=others["method"]), own, item.blocks[0].metric)
    both = both.assign(
        setting=[_changed(row) for row in both.itertuples(index=False)],
        column=[column_name(row.series, row.num_layers) for row in both.itertuples(index=False)],
    )
    both = both[both["setting"] != ""]
    if both.empty:
        return ""
    wanted = cells.wanted(item)
    named = dict.fromkeys(column_name(row.series, row.num_layers) for row in wanted.itertuples(index=False))
    columns = [column for column in named if column in set(both["column"])]
    rows = {setting: _row(part, columns, digits) for setting, part in both.groupby("setting")}
    grid = grid_text(pd.DataFrame.from_dict(rows, orient="index"), "md", "setting")
    about = (
        "Mean difference to the study's own run ± standard error (pairs); above zero is better than the study's own."
    )
    title = f"**`{item.name}`, `budget={budget}`, {words.splits_in_words(both['split'])}**"
    return "\n\n".join([title, grid, about, words.failure_text(both)])


def _row(part: pd.DataFrame, columns: list[str], digits: int) -> dict[str, str]:
    done = part.dropna(subset="difference")
    means = {name: mean_text(done.loc[done["column"] == name, "difference"], digits) for name in columns}
    return {**means, "all": mean_text(done["difference"], digits), "lowest": _lowest(done, digits)}


def _lowest(done: pd.DataFrame, digits: int) -> str:
    if done.empty:
        return ""
    row = done.loc[done["difference"].idxmin()]
    return f"{row['difference']:+.{digits}f}, {row['column']} on {row['dataset']}, split {row['split']}"


def _changed(row: Any) -> str:
    """'`training.learning_rate=0.04`': the settings in which a run differs from the study's own."""
    named = sorted({*row.overrides, *row.overrides_base})
    values = {
        key: (_value(row.overrides, row.config, key), _value(row.overrides_base, row.config_base, key)) for key in named
    }
    changed = [f"{key}={canonical(here)}" for key, (here, there) in values.items() if here != there]
    return f"`{' '.join(changed)}`" if changed else ""


def _value(overrides: dict[str, Any], config: dict[str, Any], key: str) -> Any:
    """What a run has set a key to, or has by its named choices."""
    return overrides.get(key, cells.setting_in(config, key))
