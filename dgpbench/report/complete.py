"""Scores that methods are compared by: the largest block of methods and data sets without a missing cell."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.predictive.scores import METRICS
from dgpbench.report import cells, statistics
from dgpbench.report.figures.style import label

NAMED = 3  # incomplete cells named for each data set that is left out


@dataclass(frozen=True)
class Compared:
    """Scores of one metric on a complete block.

    :param losses: rows (data set, split), a column for each method
    :param test_share: test rows per training row of each data set; NaN where records do not have them
    :param reference: the column that the others are compared with, fixed before any score is seen
    :param about: the data sets, and which data sets and methods are left out and why
    """

    losses: pd.DataFrame
    test_share: pd.Series
    reference: str
    about: str

    @property
    def across(self) -> pd.DataFrame:
        """Mean loss of each data set."""
        return statistics.by_dataset(self.losses)


def compared(item: Item, done: pd.DataFrame, metric: str) -> Compared:
    """The complete block of an item's done runs.

    :raises UserError: where no two methods have every split of one data set
    """
    scores = cells.value_of(metric)(done).map(METRICS[metric].loss).astype(float)
    rows = done.assign(loss=scores, name=_names(done))[np.isfinite(scores)]
    counts = rows.groupby(cells.KEYS).size().rename("count")
    wanted = cells.wanted(item).join(counts, on=cells.KEYS).fillna({"count": 0}).astype({"count": int})
    wanted = wanted.assign(name=_names(wanted), whole=wanted["count"] >= wanted["wanted"])
    grid = wanted.pivot(index="dataset", columns="name", values="whole").eq(True)
    whole = grid.loc[list(dict.fromkeys(wanted["dataset"])), list(dict.fromkeys(wanted["name"]))]
    block = statistics.largest_block(whole)
    if block.empty or block.shape[1] < 2:
        raise UserError(
            f"no two methods have all splits of a data set in {metric}; methods are compared on complete cells only"
        )
    chosen = rows[rows["dataset"].isin(block.index) & rows["name"].isin(block.columns)]
    paired = statistics.paired_losses(chosen[["dataset", "split", "loss"]].assign(method=chosen["name"]))
    paired = paired[list(block.columns)]
    share = (chosen["n_test"] / chosen["n_train"]).groupby(chosen["dataset"]).median()
    sgp = label("sgp", 1)
    return Compared(paired, share, sgp if sgp in paired else paired.columns[0], _about(wanted, block))


def _names(rows: pd.DataFrame) -> list[str]:
    return [label(method, num_layers) for method, num_layers in zip(rows["series"], rows["num_layers"], strict=True)]


def _about(wanted: pd.DataFrame, block: pd.DataFrame) -> str:
    """'Over boston and energy. Left out: wine_red (GPR L1 6/10), FITC L1 (3/10 on boston).'"""
    left = []
    for dataset, rows in wanted[~wanted["dataset"].isin(block.index)].groupby("dataset", sort=False):
        lacking = rows[~rows["whole"] & rows["name"].isin(block.columns)]
        named = [f"{row.name} {row.count}/{row.wanted}" for row in lacking[:NAMED].itertuples(index=False)]
        more = [f"{len(lacking) - NAMED} more methods"] if len(lacking) > NAMED else []
        absent = [f"{name} not in this table" for name in block.columns if name not in set(rows["name"])]
        left.append(f"{dataset} ({', '.join([*named, *more, *absent])})")
    for name, rows in wanted[~wanted["name"].isin(block.columns)].groupby("name", sort=False):
        lacking = rows[~rows["whole"] & rows["dataset"].isin(block.index)]
        absent = [dataset for dataset in block.index if dataset not in set(rows["dataset"])]
        where = [f"{row.count}/{row.wanted} on {row.dataset}" for row in lacking.itertuples(index=False)]
        left.append(f"{name} ({[*where, *(f'not in this table on {dataset}' for dataset in absent)][0]})")
    sentences = [f"Data sets: {', '.join(block.index)}."]
    if left:
        sentences.append(f"Left out, since ranks and tests need complete cells: {'; '.join(left)}.")
    return " ".join(sentences)
