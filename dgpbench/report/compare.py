"""Ours beside the published value: the difference in combined standard errors and a verdict for each cell, in words."""

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.experiments.items import Block, Item, column_name, load
from dgpbench.report import published
from dgpbench.report.agreement import Comparison
from dgpbench.report.cells import of_runs, select, value_of
from dgpbench.report.collect import collect
from dgpbench.report.rendering import document, grid_text
from dgpbench.report.tables import about, cell_text
from dgpbench.report.verdicts import BOUND, PAIRED, judgement
from dgpbench.runs.summary import decimals

KEYS = ["metric", "dataset", "method", "num_layers"]


def comparison(name: str, given: list[str], frame: pd.DataFrame | None = None) -> Comparison:
    """The comparison of an item, narrowed by overrides; ``frame`` saves reading the records again.

    :raises UserError: where the paper prints no numbers for the item
    """
    item = load(name, given)
    if not published.of_item(name):
        raise UserError(
            f"{name} has no published numbers to compare with; tables have them, such as lindinger2020_table1"
        )
    frame = collect(item.results_dir) if frame is None else frame
    runs = select(item, frame)
    return of_cells(item, of_runs(item, runs), runs, frame)


def of_cells(item: Item, cells: pd.DataFrame, runs: pd.DataFrame, frame: pd.DataFrame) -> Comparison:
    """The same from an item's cells and runs."""
    splits = _each_split(item, runs)
    return Comparison(item, frame, runs, judge(with_published(cells, item.name, splits)), splits)


def _each_split(item: Item, runs: pd.DataFrame) -> pd.DataFrame | None:
    """Ours beside the published number of the same split, where a paper's authors gave those."""
    theirs = published.by_split(item.name)
    if theirs is None:
        return None
    done = runs[runs["status"] == "done"]
    keys = [*KEYS[1:], "split"]
    ours = [
        done.assign(method=done["series"], metric=block.metric, value=value_of(block.metric)(done))
        for block in item.blocks
    ]
    return pd.concat(ours)[["metric", *keys, "value"]].merge(theirs, on=["metric", *keys]).dropna()


def with_published(cells: pd.DataFrame, item: str, splits: pd.DataFrame | None) -> pd.DataFrame:
    """The cells that the paper has, with its number, its standard error and the difference between the two.

    ``in_errors`` is the difference of the means in combined standard errors. Where the paper's numbers of all splits of
    a cell are known (``paired``), difference and ``in_errors`` are those of the mean difference on equal splits.
    """
    both = published.beside(cells, item).dropna(subset="published").reset_index(drop=True)
    complete = both["count"] == both["wanted"]
    both["difference"] = (both["mean"] - both["published"]).where(complete)
    both["in_errors"] = both["difference"] / np.hypot(both["stderr"], both["published_stderr"])
    if splits is None:
        return both.assign(paired=False)
    pairs = splits.assign(difference=splits["value"] - splits["published"]).groupby(KEYS)["difference"]
    found = both[KEYS].join(pairs.agg(["mean", "sem", "count"]), on=KEYS)
    whole = found["count"] == both["wanted"]
    in_errors = (found["mean"] / found["sem"]).mask((found["mean"] == 0) & (found["sem"] == 0), 0.0)
    return both.assign(
        paired=whole,
        difference=both["difference"].mask(whole, found["mean"]),
        in_errors=both["in_errors"].mask(whole, in_errors),
    )


def judge(cells: pd.DataFrame) -> pd.DataFrame:
    """A verdict for each cell, by its metric's rule."""
    verdicts = pd.Series("", index=cells.index)
    for metric, part in cells.groupby("metric", sort=False):
        verdicts[part.index] = judgement(str(metric)).function(part)
    return cells.assign(verdict=verdicts)


# Words ----------------------------------------------------------------------------------------------------------------


def render(made: Comparison, form: str) -> str:
    """The comparison as md, tex, html, or csv: one line for each published number."""
    if form == "csv":
        return _csv(made)
    parts = []
    for block in made.item.blocks:
        lines = made.cells[made.cells["metric"] == block.metric]
        parts.append((block.metric, grid_text(_grid(block, lines), form, "data set")))
        if made.splits is not None and block.metric in set(made.splits["metric"]):
            own = made.splits[made.splits["metric"] == block.metric]
            parts.append((f"{block.metric}, split by split", grid_text(split_grid(own), form, "data set")))
    return document(f"{made.item.title}: ours and published", parts, _notes(made), form)


def _grid(block: Block, lines: pd.DataFrame) -> pd.DataFrame:
    digits = block.digits
    rows = list(lines.itertuples(index=False))
    columns = {
        "method": [column_name(row.method, row.num_layers) for row in rows],
        "ours": [cell_text(row, digits) for row in rows],
        "published": [row.published_text for row in rows],
        "difference": ["" if pd.isna(row.difference) else f"{row.difference:+z.{digits}f}" for row in rows],
        "in s.e.": [
            ""
            if pd.isna(row.in_errors)
            else f"{row.in_errors:+z.{2 if abs(row.in_errors) > BOUND >= round(abs(row.in_errors), 1) else 1}f}"
            for row in rows
        ],
        "verdict": [row.verdict for row in rows],
    }
    return pd.DataFrame(columns, index=[row.dataset for row in rows])


def split_grid(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean difference on equal splits, and how far scores go up and down together."""
    lines = {}
    for dataset, part in rows.groupby("dataset", sort=False):
        difference = part["value"] - part["published"]
        digits = decimals(10 * difference.sem() if len(part) > 1 else difference.mean(), 3)  # two of the error's
        error = f" ± {difference.sem():.{digits}f}" if len(part) > 1 else ""
        together = f"{part['value'].corr(part['published']):.2f}" if len(part) > 2 else ""
        lines[dataset] = {
            "splits": len(part),
            "ours - published": f"{difference.mean():+.{digits}f}{error}",
            "correlation": together,
        }
    return pd.DataFrame.from_dict(lines, orient="index")


def _notes(made: Comparison) -> list[str]:
    metrics = dict.fromkeys(made.cells["metric"])
    notes = [f"{share.text}." for share in made.shares()]
    notes += dict.fromkeys(judgement(metric).sentence for metric in metrics)
    notes.append(published.spread_sentence(made.item.name))
    if made.cells["paired"].any():
        notes.append(PAIRED)
    if made.item.budget != "paper":
        notes.append(f"Ours is budget={made.item.budget}; the published runs are of budget=paper.")
    return [*notes, *about(made.item, made.cells, made.runs, made.frame)]


def _csv(made: Comparison) -> str:
    columns = [
        *KEYS,
        "mean",
        "stderr",
        "count",
        "wanted",
        "published",
        "published_stderr",
        "difference",
        "in_errors",
        "verdict",
    ]
    frame = made.cells[columns].copy()
    frame.loc[frame["count"] < frame["wanted"], ["mean", "stderr"]] = float("nan")
    return frame.to_csv(index=False, lineterminator="\n")
