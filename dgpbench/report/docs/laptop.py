"""docs/laptop.md: how much better or worse budget=laptop scores than budget=paper on the same split and seed.

Splits of one data set differ by more than budgets do, so that only paired differences are shown; above zero is better.
"""

from pathlib import PurePosixPath

import pandas as pd

from dgpbench.experiments.items import Item, column_name, load
from dgpbench.report import cells
from dgpbench.report.docs import words
from dgpbench.report.docs.pairs import mean_text, pairs
from dgpbench.report.docs.pictures import Picture
from dgpbench.report.figures.panels import Panel
from dgpbench.report.figures.render import done_runs, num_runs
from dgpbench.report.figures.scores import score_of_two_budgets
from dgpbench.report.rendering import grid_text
from dgpbench.report.tables import unit_of

STUDY, EXTRAPOLATION, OTHERS = "laptop_study", "laptop_study_extrapolation", "laptop_study_others"
PRICED, ALONE = "lindinger2020_table1", "laptop_study_price"
WAYS = {
    "one at a time": "By a run of each cell, made one at a time on a split that no table uses",
    "median": "By the median of the table's own runs of each cell",
}
PICTURE = PurePosixPath("docs/images/laptop.png")
BUDGETS = ("paper", "laptop")
NOTHING = "No run of this study has been made at both budgets yet."
SIZE = (4.2, 3.1)  # of a panel, inches


def paired(name: str, frame: pd.DataFrame) -> tuple[Item, pd.DataFrame]:
    """A study at budget=laptop, and its laptop runs beside those of the paper's budget."""
    paper, laptop = (load(name, [f"budget={budget}"]) for budget in BUDGETS)
    both = pairs(done_runs(laptop, frame), done_runs(paper, frame), laptop.blocks[0].metric)
    return laptop, both


# Differences ----------------------------------------------------------------------------------------------------------


def differences(name: str, frame: pd.DataFrame) -> str:
    """Sentences and the table of paired differences, data sets by methods."""
    item, both = paired(name, frame)
    if both.empty:
        return NOTHING
    block = item.blocks[0]
    wanted = cells.wanted(item)
    found = {key: rows["difference"] for key, rows in both.groupby(cells.KEYS)}
    texts = [_text(row, found, block.digits) for row in wanted.itertuples(index=False)]
    grid = _grid(wanted.assign(text=texts), "dataset", "data set")
    return "\n\n".join(
        [
            _summary(item, both, len(wanted)),
            grid,
            f"A cell is the mean difference ± its standard error (pairs), 0/2 where there is none; {block.metric}: "
            f"{unit_of(block.metric)}, and a difference above zero says that laptop is better.",
            *_costs(name, frame),
        ]
    )


def _text(row, found: dict, digits: int) -> str:
    key = (row.dataset, row.series, row.num_layers)
    return mean_text(found[key], digits) if key in found else f"0/{row.wanted}"


def _grid(rows: pd.DataFrame, index: str, corner: str) -> str:
    """A grid of the column ``text``; its columns are the series at their depths, in their order."""
    columns = [column_name(row.series, row.num_layers) for row in rows.itertuples(index=False)]
    wide = rows.assign(column=columns).pivot(index=index, columns="column", values="text").fillna("")
    return grid_text(wide.loc[list(dict.fromkeys(rows[index])), list(dict.fromkeys(columns))], "md", corner)


def _summary(item: Item, both: pd.DataFrame, number: int) -> str:
    digits = item.blocks[0].digits
    groups = both.groupby(cells.KEYS, sort=False)["difference"]
    means = groups.mean()
    dataset, series, num_layers = means.idxmin()
    lowest = mean_text(groups.get_group((dataset, series, num_layers)), digits)
    hours = [both[f"seconds_training{side}"].sum() / 3600 for side in ("_base", "")]
    ratio = (both["seconds_training_base"] / both["seconds_training"]).median()
    return (
        f"{len(means)} of {number} cells have a pair, {len(both)} of {num_runs(item)} pairs are there "
        f"({words.splits_in_words(both['split'])}). The mean over cells is {means.mean():+.{digits}f}; below zero are "
        f"{int((means < 0).sum())} of {len(means)} cells, and the lowest is {column_name(series, num_layers)} on "
        f"{dataset}, {lowest}. Training took {words.hours_text(hours[0])} hours at paper and "
        f"{words.hours_text(hours[1])} at laptop; the median pair {ratio:.1f} times as long at paper."
    )


def _costs(name: str, frame: pd.DataFrame) -> list[str]:
    runs = {budget: cells.select(load(name, [f"budget={budget}"]), frame) for budget in BUDGETS}
    return [f"`budget={key}`. {words.cost_sentence(each)} {words.failure_text(each)}" for key, each in runs.items()]


# The price ------------------------------------------------------------------------------------------------------------


def price(frame: pd.DataFrame) -> str:
    """What the whole of Table 1 costs at laptop: by a run of each cell, made one at a time on a split of its own, and
    by the median of the table's runs, which may have shared their machines and be of any age.
    """
    table, alone = (load(name, ["budget=laptop"]) for name in (PRICED, ALONE))
    costs = cells.wanted(table)
    made = {"one at a time": done_runs(alone, frame), "median": done_runs(table, frame)}
    hours = pd.DataFrame({name: _hours(costs, runs) for name, runs in made.items() if not runs.empty})
    if hours.empty:
        return "No run of Table 1 has been made at this budget yet, and none on the split that its price is taken from."
    columns = [column_name(row.series, row.num_layers) for row in costs.itertuples(index=False)]
    by_column = hours.groupby(columns, sort=False).sum(min_count=1).dropna(how="all")
    texts = [
        f"{WAYS[name]}: {words.hours_text(found.sum())} core-hours for {int(costs['wanted'][found.notna()].sum())} of "
        f"{num_runs(table)} runs."
        for name, found in hours.items()
    ]
    costs_alone = [] if made["one at a time"].empty else [words.cost_sentence(made["one at a time"])]
    grid = grid_text(by_column.T.map(words.hours_text, na_action="ignore").fillna(""), "md", "core-hours")
    return "\n\n".join([" ".join(texts), grid, *costs_alone])


def _hours(costs: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """Core-hours of all runs that each cell wants, by the median of those that there are; NaN where there is none."""
    found = runs.assign(seconds=words.core_seconds(runs)).groupby(cells.KEYS)["seconds"].median().rename("seconds")
    return costs.merge(found, how="left", on=cells.KEYS)["seconds"] * costs["wanted"] / 3600


# A picture ------------------------------------------------------------------------------------------------------------


def picture_text(frame: pd.DataFrame) -> str:
    """The picture, or a line that says why there is none."""
    if picture(frame) is None:
        return "There is no picture yet: it needs runs at both budgets."
    return (
        f"![Test log-likelihood against seconds of training at both budgets](images/{PICTURE.name})\n\n"
        "Each line leads from the paper's budget (cross) to laptop (dot): means over the splits that both have."
    )


def picture(frame: pd.DataFrame) -> Picture | None:
    """Score against seconds of training at both budgets, a panel for each of the item's ``options.drawn`` data sets."""
    item, both = paired(STUDY, frame)
    metric = item.blocks[0].metric
    drawn = [name for name in item.options["drawn"] if name in set(both["dataset"])]
    panels = [Panel(name, score_of_two_budgets, _means(both[both["dataset"] == name], metric), SIZE) for name in drawn]
    title = f"{item.title}\nmean over the splits that both have; cross: paper, dot: laptop"
    return Picture(title, panels, columns=2) if panels else None


def _means(both: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Seconds and score of each column at both budgets, over the splits that both have."""
    groups = both.groupby(["series", "num_layers"], sort=False)
    sides = [
        groups[[f"seconds_training{side}", f"value{side}"]].mean().set_axis(["seconds", "score"], axis=1)
        for side in ("_base", "")
    ]
    counts = pd.DataFrame({"count": groups.size(), "wanted": groups["wanted"].first()})
    frames = [
        side.join(counts).reset_index().assign(budget=budget) for side, budget in zip(sides, BUDGETS, strict=True)
    ]
    return pd.concat(frames, ignore_index=True).rename(columns={"series": "method"}).assign(metric=metric)
