"""docs/laptop.md: budget=laptop beside budget=paper on the same split and seed, and what other settings change.

Data sets differ more between splits than between budgets, so only paired differences are shown; above zero is better.
"""

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from dgpbench.config.canonical import canonical
from dgpbench.experiments.items import Item, column_name, load
from dgpbench.report import cells
from dgpbench.report.cells import done_runs, num_runs
from dgpbench.report.figures.page import Panel
from dgpbench.report.figures.style import axis_label, entries, log_scale
from dgpbench.report.tables import grid_text, loss_of, unit_of
from scripts.docs import words
from scripts.docs.pictures import Picture

STUDY, EXTRAPOLATION, OTHERS = "laptop_study", "laptop_study_extrapolation", "laptop_study_others"
PRICED, ALONE = "lindinger2020_table1", "laptop_study_price"
WAYS = {
    "executed alone": "From one run of each cell, executed alone",
    "median run": "From the median run of each cell of the table",
}
PICTURE = PurePosixPath("docs/images/laptop.png")
BUDGETS = ("paper", "laptop")
NOTHING = "No run of this study has been made at both budgets yet."
NOTHING_ELSE = "No run of this study with other settings has been made yet."
SIZE = (4.2, 3.1)  # of a panel, inches
SPLITS = tuple(map(str, range(10, 20)))  # for choosing settings; a study's own table has two of them
MOST = 2  # changed settings of a row of the ablation
SHARED = [*cells.KEYS, "task", "protocol", "split", "seed"]


def paired(name: str, frame: pd.DataFrame) -> tuple[Item, pd.DataFrame]:
    """Return a study at budget=laptop, and its laptop runs beside those of the paper's budget."""
    paper, laptop = (load(name, [f"budget={budget}"]) for budget in BUDGETS)
    both = pairs(done_runs(laptop, frame), done_runs(paper, frame), laptop.blocks[0].metric)
    return laptop, both


# Differences ----------------------------------------------------------------------------------------------------------


def differences(name: str, frame: pd.DataFrame) -> str:
    """Return sentences and the table of paired differences, data sets by methods."""
    item, both = paired(name, frame)
    if both.empty:
        return NOTHING
    block = item.blocks[0]
    wanted = cells.wanted(item)
    found = dict(list(both.groupby(cells.KEYS)["difference"]))
    lines: dict[str, dict[str, str]] = {}
    for dataset, series, num_layers, number in wanted.itertuples(index=False):
        values = found.get((dataset, series, num_layers))
        text = f"0/{number}" if values is None else mean_text(values, block.digits)
        lines.setdefault(dataset, {})[column_name(series, num_layers)] = text
    grid = pd.DataFrame.from_dict(lines, orient="index").fillna("")
    costs = {budget: cells.select(load(name, [f"budget={budget}"]), frame) for budget in BUDGETS}
    return "\n\n".join(
        [
            _summary(item, both, len(wanted)),
            grid_text(grid, "md", "data set"),
            f"Each cell is the mean difference, laptop less paper, ± its standard error (number of pairs). "
            f"{block.metric}: {unit_of(block.metric)}; above zero, laptop is better.",
            *(
                f"`budget={budget}`. {words.cost_sentence(runs)} {words.failure_text(runs)}"
                for budget, runs in costs.items()
            ),
        ]
    )


def _summary(item: Item, both: pd.DataFrame, number: int) -> str:
    digits = item.blocks[0].digits
    groups = both.groupby(cells.KEYS, sort=False)["difference"]
    means = groups.mean()
    dataset, series, num_layers = means.idxmin()
    lowest = mean_text(groups.get_group((dataset, series, num_layers)), digits)
    hours = [both[f"seconds_training{side}"].sum() / 3600 for side in ("_base", "")]
    ratio = (both["seconds_training_base"] / both["seconds_training"]).median()
    return (
        f"{len(both)} of {num_runs(item)} pairs are available, in {len(means)} of {number} cells "
        f"({words.splits_in_words(both['split'])}). The mean over cells is {means.mean():+.{digits}f}. It is below "
        f"zero in {int((means < 0).sum())} of {len(means)} cells, lowest for {column_name(series, num_layers)} on "
        f"{dataset}, {lowest}. Training took {words.hours_text(hours[0])} hours at paper and "
        f"{words.hours_text(hours[1])} hours at laptop; the median ratio of a pair is {ratio:.1f}."
    )


# The price ------------------------------------------------------------------------------------------------------------


def price(frame: pd.DataFrame) -> str:
    """Estimate the core-hours of Table 1 at laptop in two ways.

    From one run of each cell, executed alone on a split of its own; and from the median of the table's runs, which may
    have shared their machines.
    """
    table, alone = (load(name, ["budget=laptop"]) for name in (PRICED, ALONE))
    costs = cells.wanted(table)
    made = {"executed alone": done_runs(alone, frame), "median run": done_runs(table, frame)}
    hours = pd.DataFrame({name: _hours(costs, runs) for name, runs in made.items() if not runs.empty})
    if hours.empty:
        return "No run of Table 1 has been made at this budget yet, and none on the split that its price is taken from."
    columns = list(map(column_name, costs["series"], costs["num_layers"]))
    by_column = hours.groupby(columns, sort=False).sum(min_count=1).dropna(how="all")
    texts = [
        f"{WAYS[name]}: {words.hours_text(found.sum())} core-hours for {int(costs['wanted'][found.notna()].sum())} of "
        f"{num_runs(table)} runs."
        for name, found in hours.items()
    ]
    costs_alone = [] if made["executed alone"].empty else [words.cost_sentence(made["executed alone"])]
    grid = grid_text(by_column.T.map(words.hours_text, na_action="ignore").fillna(""), "md", "core-hours")
    return "\n\n".join([" ".join(texts), grid, *costs_alone])


def _hours(costs: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """Estimate the core-hours of each cell's runs by the median of the available ones; NaN without any."""
    found = runs.assign(seconds=words.core_seconds(runs)).groupby(cells.KEYS)["seconds"].median().rename("seconds")
    return costs.merge(found, how="left", on=cells.KEYS)["seconds"] * costs["wanted"] / 3600


# A picture ------------------------------------------------------------------------------------------------------------


def picture_text(frame: pd.DataFrame) -> str:
    """Return the picture, or a line that explains its absence."""
    if picture(frame) is None:
        return "The picture needs runs at both budgets."
    return (
        f"![Test log-likelihood against seconds of training at both budgets](images/{PICTURE.name})\n\n"
        "Each line leads from the paper's budget (cross) to laptop (dot): means over the splits that both have."
    )


def picture(frame: pd.DataFrame) -> Picture | None:
    """Return score against training seconds at both budgets, a panel for each data set of ``options.drawn``."""
    item, both = paired(STUDY, frame)
    metric = item.blocks[0].metric
    drawn = [name for name in item.options["drawn"] if name in set(both["dataset"])]
    panels = [Panel(name, score_of_two_budgets, _means(both[both["dataset"] == name], metric), SIZE) for name in drawn]
    title = f"{item.title}\nmean over the splits that both have; cross: paper, dot: laptop"
    return Picture(title, panels, columns=2) if panels else None


def _means(both: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Average seconds and score of each column at both budgets, over their common splits."""
    groups = both.groupby(["series", "num_layers"], sort=False)
    counts = pd.DataFrame({"count": groups.size(), "wanted": groups["wanted"].first()})
    frames = []
    for budget, side in zip(BUDGETS, ("_base", ""), strict=True):
        means = groups[[f"seconds_training{side}", f"value{side}"]].mean().set_axis(["seconds", "score"], axis=1)
        frames.append(means.join(counts).reset_index().assign(budget=budget))
    return pd.concat(frames, ignore_index=True).rename(columns={"series": "method"}).assign(metric=metric)


def score_of_two_budgets(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw a score against training seconds at two budgets, joined by a line for each method.

    :param frame: columns method, num_layers, budget (``paper``, drawn as a cross, and another), metric, seconds, score
    """
    for name, look, rows in entries(frame):
        ax.plot(rows["seconds"], rows["score"], color=look.colour, linewidth=0.8)
        for row in rows.itertuples(index=False):
            style = {"marker": "x"} if row.budget == "paper" else {"label": name}
            ax.plot(row.seconds, row.score, markersize=5, **look.of_points() | style)
    log_scale(ax, "x")
    ax.margins(0.08)
    ax.set_xlabel("training time (s)")
    ax.set_ylabel(axis_label(frame["metric"].iloc[0]))


# Other settings -------------------------------------------------------------------------------------------------------


def ablation(names: tuple[str, ...], budget: str, frame: pd.DataFrame) -> str:
    """Return a table for each study: a row for each set of settings, a column for each method."""
    return "\n\n".join(filter(None, (_ablation(name, budget, frame) for name in names))) or NOTHING_ELSE


def _ablation(name: str, budget: str, frame: pd.DataFrame) -> str:
    item = load(name, [f"budget={budget}"])
    item = replace(item, sweeps=tuple(replace(one, values={**one.values, "split": SPLITS}) for one in item.sweeps))
    own, digits = done_runs(item, frame), item.blocks[0].digits
    others = frame[(frame["budget"] == item.budget) & ~frame["key"].isin(own["key"])]
    both = pairs(others.assign(series=others["method"]), own, item.blocks[0].metric)
    both = both.assign(
        setting=[_changed(row) for row in both.itertuples(index=False)],
        column=list(map(column_name, both["series"], both["num_layers"])),
    )
    both = both[both["setting"] != ""]
    if both.empty:
        return ""
    wanted = cells.wanted(item)
    named = dict.fromkeys(map(column_name, wanted["series"], wanted["num_layers"]))
    columns = [column for column in named if column in set(both["column"])]
    rows = {setting: _row(part, columns, digits) for setting, part in both.groupby("setting")}
    grid = grid_text(pd.DataFrame.from_dict(rows, orient="index"), "md", "setting")
    about = (
        "Each cell is the mean difference, changed setting less the study's own, ± its standard error (number of "
        "pairs); above zero, the change is better."
    )
    title = f"**`{item.name}`, `budget={budget}`, {words.splits_in_words(both['split'])}**"
    return "\n\n".join([title, grid, about, words.failure_text(both)])


def _row(part: pd.DataFrame, columns: list[str], digits: int) -> dict[str, str]:
    done = part.dropna(subset="difference")
    means = {name: mean_text(done.loc[done["column"] == name, "difference"], digits) for name in columns}
    lowest = ""
    if len(done):
        row = done.loc[done["difference"].idxmin()]
        lowest = f"{row['difference']:+.{digits}f}, {row['column']} on {row['dataset']}, split {row['split']}"
    return {**means, "all": mean_text(done["difference"], digits), "lowest": lowest}


def _changed(row: Any) -> str:
    """'`training.learning_rate=0.04`': the settings that differ from the study's own, or nothing if they are many."""
    changed = []
    for key in sorted({*row.overrides, *row.overrides_base}):
        here = row.overrides.get(key, cells.setting_in(row.config, key))
        if here != row.overrides_base.get(key, cells.setting_in(row.config_base, key)):
            changed.append(f"{key}={canonical(here)}")
    return f"`{' '.join(changed)}`" if 0 < len(changed) <= MOST else ""


# Pairs ----------------------------------------------------------------------------------------------------------------


def pairs(runs: pd.DataFrame, base: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Join each run with the one of ``base`` that shares all axes but the budget.

    :return: the columns of both, those of ``base`` ending in _base, with ``value`` and ``difference``: what the run's
        score is better by, in the metric's unit
    """
    sides = (each.assign(value=cells.value_of(metric, each)) for each in (runs, base))
    a, b = (each.astype(dict.fromkeys(SHARED, object)) for each in sides)  # an empty side has other types
    both = a.merge(b, on=SHARED, suffixes=("", "_base"))
    loss = loss_of(metric)
    return both.assign(difference=[loss(y) - loss(x) for x, y in zip(both["value"], both["value_base"], strict=True)])


def mean_text(values: pd.Series, digits: int) -> str:
    """'+0.012 ± 0.004 (2)': mean, standard error and number of pairs."""
    values = values.dropna()  # of runs without the score
    if values.empty:
        return ""
    spread = f" ± {values.sem():.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():+.{digits}f}{spread} ({len(values)})"
