"""How far our cells agree with the published ones: a share for each metric, the misses, and a sentence with both."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from dgpbench.experiments.items import Item, column_name
from dgpbench.report.tables import cell_text
from dgpbench.report.verdicts import judgement


@dataclass(frozen=True)
class Comparison:
    """Our cells with the published ones.

    :param runs: the item's runs, as ``cells.select`` gives them
    :param cells: one row for each published number of the narrowed item
    :param splits: one row for each split whose number is published by itself and that we have redone: metric, dataset,
        method, num_layers, split, value, published
    :param frame: all records, in which a text looks for what is missing
    """

    item: Item
    frame: pd.DataFrame
    runs: pd.DataFrame
    cells: pd.DataFrame
    splits: pd.DataFrame | None = None

    def shares(self) -> list["Share"]:
        """One share for each metric."""
        return [_share(str(metric), part) for metric, part in self.cells.groupby("metric", sort=False)]

    def misses(self) -> pd.DataFrame:
        """The judged cells that do not agree, the furthest in combined standard errors first."""
        wrong = [row.verdict in judgement(row.metric).others for row in self.cells.itertuples(index=False)]
        far = self.cells["in_errors"].abs()[wrong].sort_values(ascending=False, kind="stable")
        return self.cells.loc[far.index]

    @property
    def redone(self) -> int:
        """How many published cells have all their splits."""
        return int((self.cells["count"] == self.cells["wanted"]).sum())

    @property
    def sentence(self) -> str:
        """How many published cells are redone, the share that agrees, and the largest miss."""
        redone = self.redone
        begin = f"{redone} of {len(self.cells)} published cells are redone"
        judged = sum(share.judged for share in self.shares())
        if redone > judged:
            begin += f", {redone - judged} of which cannot be judged for want of a standard error"
        shares = [f"{share.text}." for share in self.shares() if share.judged]
        return " ".join([f"{begin}.", *shares, *([self.largest_miss] if judged else [])])

    @property
    def largest_miss(self) -> str:
        """A sentence about the judged cell that is furthest from the published one."""
        missed = self.misses()
        if missed.empty:
            return "There is no miss."
        row = next(missed.itertuples(index=False))
        if pd.isna(row.in_errors):  # seconds, which the papers print without a standard error
            names = [f"{_place(each)} ({each.verdict})" for each in missed.itertuples(index=False)]
            return f"The misses are {', '.join(names)}."
        digits = {block.metric: block.digits for block in self.item.blocks}[row.metric]
        errors = "standard errors on equal splits" if row.paired else "combined standard errors"
        return (
            f"The largest miss is {_place(row)}: {row.metric} {cell_text(row, digits)}, "
            f"published {row.published_text}, {abs(row.in_errors):.1f} {errors} apart ({row.verdict})."
        )


def _place(row) -> str:
    return f"{column_name(row.method, row.num_layers)} on {row.dataset}"


@dataclass(frozen=True)
class Share:
    """How many of the judged cells of one metric agree, and what the others are; ``left_out`` could not be judged.

    :param others: verdict -> number of cells, of every verdict of its rule that is no agreement
    :param paired: whether cells are judged by differences on equal splits
    """

    metric: str
    agreeing: int
    others: Mapping[str, int]
    left_out: int
    paired: bool = False

    @property
    def what(self) -> str:
        """What the agreeing cells are."""
        return "within two standard errors on equal splits" if self.paired else judgement(self.metric).counts

    @property
    def judged(self) -> int:
        """Cells with a verdict."""
        return self.agreeing + sum(self.others.values())

    @property
    def text(self) -> str:
        """'tll: 60 of 64 judged cells (94 %) within two combined standard errors, 3 better, 1 worse; 0 left out'."""
        share = f" ({100 * self.agreeing / self.judged:.0f} %)" if self.judged else ""
        others = ", ".join(f"{number} {verdict}" for verdict, number in self.others.items())
        return (
            f"{self.metric}: {self.agreeing} of {self.judged} judged cells{share} {self.what}, {others}; "
            f"{self.left_out} left out"
        )


def _share(metric: str, part: pd.DataFrame) -> Share:
    rule, counts = judgement(metric), part["verdict"].value_counts()
    others = {verdict: int(counts.get(verdict, 0)) for verdict in rule.others}
    agreeing = int(counts.get(rule.agreeing, 0))
    left_out = len(part) - agreeing - sum(others.values())
    return Share(metric, agreeing, others, left_out, paired=bool(part["paired"].any()))
