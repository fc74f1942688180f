"""Our own tables (docs/dgpbench_uci.md, docs/results): methods by data sets, mean ranks, and what a score costs."""

from pathlib import PurePosixPath

import pandas as pd

from dgpbench.experiments.items import column_name, load
from dgpbench.report import cells, statistics
from dgpbench.report.cells import done_runs
from dgpbench.report.figures.item_figures import panels_of
from dgpbench.report.tables import grid_text, loss_of, numbers_of, unit_of
from scripts.docs import words
from scripts.docs.pictures import Picture
from scripts.docs.results import budget_in_words, splits_of

FRONTIER = ("dgpbench_frontier", "dgpbench_frontier_extrapolation")
TABLES = ("dgpbench_uci", "dgpbench_uci_extrapolation", "dgpbench_structures", "dgpbench_subsets", *FRONTIER)
PICTURES = {
    PurePosixPath("docs/images/dgpbench_uci_cost.png"): ("dgpbench_uci", "score_beside_seconds"),
    PurePosixPath("docs/images/dgpbench_uci_calibration.png"): ("dgpbench_uci", "reliability_curves"),
    PurePosixPath("docs/images/dgpbench_frontier_calibration.png"): ("dgpbench_frontier", "reliability_curves"),
}
NEWER = ("mf_tight", "mf_lv", "dspp", "star", "sghmc", "aepmcm")
PAIRS = {  # of methods, by the table that shows their differences on equal splits
    **dict.fromkeys(FRONTIER, {"ppgpr": "sgp"} | dict.fromkeys(NEWER, "mf")),
    "dgpbench_subsets": dict.fromkeys(("sod_random", "sod_leverage", "sod_dpp"), "sod"),
}
NOTHING = "No run of this table has been made yet."
SUMMARISED = ("tll", "crps")
SECONDS = "median seconds of a run"
LEFT_OUT = "rmse"  # for short pages; `dgpbench table ITEM --metric rmse` prints it
OUTSIDE = "-"  # a data set that the item does not have for a method


def text(name: str, frame: pd.DataFrame) -> str:
    """Return one item: a grid for each metric, what is missing, and the cost."""
    item = load(name, guests=False)  # pages must not depend on the loaded plug-ins
    runs = cells.select(item, frame)
    if runs.empty:
        return NOTHING
    found = cells.of_runs(item, runs)
    shown = [block for block in item.blocks if block.metric != LEFT_OUT and _has_values(block.metric, found)]
    blocks = [_block(block.metric, block.digits, found[found["metric"] == block.metric], runs) for block in shown]
    return "\n\n".join(
        [
            f"**{item.title}**, {budget_in_words(item)}, protocol {item.protocol}, {splits_of(item)}.",
            *blocks,
            f"Each cell is the mean over splits ± its standard error; with missing splits, it is the number of "
            f"finished splits out of those required. '{cells.NONE}': the method does not provide this score. "
            f"'{OUTSIDE}': not part of this table.",
            words.cost_sentence(runs),
            words.failure_text(runs),
        ]
    )


def _has_values(metric: str, found: pd.DataFrame) -> bool:
    """Return whether a metric needs a grid: a done run has it, or none is done yet."""
    part = found[found["metric"] == metric]
    return bool(part["count"].sum() or not part["done"].sum())


def summary(frame: pd.DataFrame) -> str:
    """Return each method's mean ranks and the median seconds of its runs, the best rank first."""
    item = load(TABLES[0], guests=False)
    runs = done_runs(item, frame)
    if runs.empty:
        return NOTHING
    found = cells.of_runs(item, cells.select(item, frame))
    found["name"] = list(map(column_name, found["method"], found["num_layers"]))
    ranks, over = zip(*(_ranks(metric, found[found["metric"] == metric]) for metric in SUMMARISED), strict=True)
    runs = runs[runs["dataset"].isin(over[0])]
    timed, runs = cells.timed_sentence(runs), cells.timed_alike(runs)
    names = list(map(column_name, runs["series"], runs["num_layers"]))
    seconds = runs["seconds_total"].groupby(names).median()
    columns = {f"mean rank, {metric}": each for metric, each in zip(SUMMARISED, ranks, strict=True)}
    table = pd.DataFrame(columns | {SECONDS: seconds}).sort_values(list(columns))
    shown = table.map("{:.1f}".format, na_action="ignore")
    shown[SECONDS] = table[SECONDS].map("{:.0f}".format, na_action="ignore")
    sets = [words.joined(each) for each in over]
    if len(set(sets)) > 1:
        sets = [f"{each} ({metric})" for metric, each in zip(SUMMARISED, sets, strict=True)]
    notes = filter(None, [f"Interpolation on {'; '.join(dict.fromkeys(sets))}; one thread.", timed])
    return "\n\n".join([grid_text(shown.fillna(""), "md", "method"), " ".join(notes)])


def _block(metric: str, digits: int, part: pd.DataFrame, runs: pd.DataFrame) -> str:
    ended = set(runs[cells.KEYS].itertuples(index=False, name=None))
    part = part.assign(
        name=list(map(column_name, part["method"], part["num_layers"])),
        tried=[key in ended for key in part[["dataset", "method", "num_layers"]].itertuples(index=False, name=None)],
    )
    part["text"] = [_cell(row, digits) if row.tried else "" for row in part.itertuples(index=False)]
    seen = part[part["tried"]]
    wide = part.pivot(index="name", columns="dataset", values="text").fillna(OUTSIDE)
    wide = wide.loc[seen["name"].unique(), seen["dataset"].unique()]
    left = [each for key in ("name", "dataset") for each in part[key].unique() if each not in set(seen[key])]
    ranks, over = _ranks(metric, seen)
    wide["mean rank"] = [f"{ranks[name]:.1f}" if name in ranks else "" for name in wide.index]
    ranked = f"Mean ranks are over {words.joined(over)}; methods with an incomplete cell have no rank."
    notes = [ranked] if len(ranks) else []
    notes += [f"Not run: {', '.join(left)}."] if left else []
    parts = [f"{metric} ({unit_of(metric)}):", grid_text(wide, "md", "method"), " ".join(notes)]
    return "\n\n".join(filter(None, parts))


def _cell(row, digits: int) -> str:
    if row.count < row.wanted:
        return cells.incomplete_text(row)
    return " ± ".join(filter(None, numbers_of(row, digits)))


def _ranks(metric: str, part: pd.DataFrame) -> tuple[pd.Series, list[str]]:
    """Return mean ranks and their data sets; empty for fewer than two methods or data sets.

    They are of the largest block of methods and data sets in which every cell is complete.
    """
    losses = part.assign(loss=part["mean"].map(loss_of(metric)).where(part["count"] == part["wanted"]))
    losses = losses.pivot(index="dataset", columns="name", values="loss")
    losses = losses.loc[part["dataset"].unique(), part["name"].unique()]
    largest = losses.loc[*statistics.largest_block(losses.notna()).axes]
    ranked = largest.shape[0] > 1 and largest.shape[1] > 1
    return (statistics.mean_ranks(largest), list(largest.index)) if ranked else (pd.Series(dtype=float), [])


def pictures_text(frame: pd.DataFrame) -> str:
    """Return the pictures, or a line that explains their absence."""
    titles = {
        "score_beside_seconds": "Mean score against median seconds; the line joins methods that no other beats in both",
        "reliability_curves": "Observed against nominal coverage of central intervals, over all splits",
    }
    texts = [
        f"![{titles[kind]}](images/{path.name})"
        for path, (name, kind) in PICTURES.items()
        if name == TABLES[0] and _picture(name, kind, frame) is not None
    ]
    return "\n\n".join(texts) or NOTHING


def paired_text(name: str, frame: pd.DataFrame) -> str:
    """Return each method's test log-likelihood less that of the method that it builds on, split by split."""
    item = load(name, guests=False)
    runs = done_runs(item, frame)
    if runs.empty:
        return NOTHING
    scores = runs.pivot_table(index=["dataset", "split"], columns="series", values="tll")
    grid = {}
    for method, older in PAIRS[name].items():
        if {method, older} <= set(scores):
            pairs = (scores[method] - scores[older]).dropna().groupby("dataset", sort=False)
            texts = {dataset: f"{d.mean():+.2f} ± {d.sem():.2f} [{len(d)}]" for dataset, d in pairs if len(d) > 1}
            grid[f"{method} - {older}"] = texts
    table = pd.DataFrame(grid).T.reindex(columns=runs["dataset"].unique()).fillna("")
    return grid_text(table, "md", "methods") if grid else NOTHING


def pictures(frame: pd.DataFrame) -> dict[str, Picture | None]:
    """Return the pictures by their path."""
    return {str(path): _picture(name, kind, frame) for path, (name, kind) in PICTURES.items()}


def _picture(name: str, kind: str, frame: pd.DataFrame) -> Picture | None:
    item = load(name, guests=False)
    done = done_runs(item, frame)
    panels = panels_of(kind, item, done) if len(done) else []
    title = f"{item.title}: {kind.replace('_', ' ')}\nprotocol {item.protocol}, budget {item.budget}, {len(done)} runs"
    return Picture(title, panels, columns=3) if panels else None
