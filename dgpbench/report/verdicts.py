"""Does our number agree with the published one? One rule for means with standard errors, and others for the rest.

Each rule takes our cell and the published one and gives a word; one of its words counts towards the share. Cells that
cannot be judged (incomplete, or without a standard error on either side) get a word that counts for nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dgpbench.report.cells import incomplete_text
from dgpbench.report.marks import side
from dgpbench.report.tables import loss_of

WITHIN, BETTER, WORSE = "within", "better", "worse"
SAME, UNDECIDED, OPPOSITE = "same", "undecided", "opposite"
SIMILAR, SLOWER, FASTER = "similar", "slower", "faster"
# What stands behind a number in a table with no room for the word.
MARKS = {WITHIN: "≈", BETTER: "▲", WORSE: "▼", SAME: "≈", UNDECIDED: "~", OPPOSITE: "≠"}
MARKS |= {SIMILAR: "≈", FASTER: "▲", SLOWER: "▼"}
BOUND = 2.0  # combined standard errors
FACTOR = 1.5  # of seconds, after the machine's own factor is taken out
FEWEST = 3  # cells, below which their median ratio says nothing of each
PAIRED = (
    "Where the paper's authors gave a number for each split, a cell is judged by the mean difference on equal splits "
    "and its standard error."
)


@dataclass(frozen=True)
class Judgement:
    """A rule, what its share counts, and the sentence that states it.

    :param agreeing: the verdict that the share counts
    :param others: the verdicts of the judged cells that do not agree
    """

    function: Callable[[pd.DataFrame], list[str]]
    agreeing: str
    others: tuple[str, ...]
    counts: str
    sentence: str


def by_standard_errors(cells: pd.DataFrame) -> list[str]:
    """Within two combined standard errors of the published mean, or better or worse by the metric's direction."""
    return [_by_standard_errors(row) for row in cells.itertuples(index=False)]


def _by_standard_errors(row) -> str:
    if (obstacle := _obstacle(row)) is not None:
        return obstacle
    if abs(row.in_errors) <= BOUND:
        return WITHIN
    loss = loss_of(row.metric)
    return BETTER if loss(row.published + row.difference) < loss(row.published) else WORSE


def _obstacle(row, spread_needed: bool = True) -> str | None:
    if row.count < row.wanted:
        return incomplete_text(row)
    if spread_needed and pd.isna(row.published_stderr):
        return "no published spread"
    return "one split" if spread_needed and pd.isna(row.stderr) else None


def by_winner(even: float) -> Callable[[pd.DataFrame], list[str]]:
    """Who wins, here and in the paper: beyond ``even`` by more than the standard error."""

    def judge(cells: pd.DataFrame) -> list[str]:
        return [_by_winner(row, even) for row in cells.itertuples(index=False)]

    return judge


def _by_winner(row, even: float) -> str:
    if (obstacle := _obstacle(row)) is not None:
        return obstacle
    digits = len(
        row.published_text.split()[0].partition(".")[2]
    )  # both sides as printed, or a tie is decided by rounding
    ours = side(round(row.mean, digits), round(row.stderr, digits), even)
    theirs = side(row.published, row.published_stderr, even)
    if ours == theirs:
        return SAME
    return OPPOSITE if ours == -theirs else UNDECIDED


def by_ratio(cells: pd.DataFrame) -> list[str]:
    """Seconds relative to the published ones, less the factor between the two machines: the median ratio."""
    complete = cells["count"] == cells["wanted"]
    ratio = np.log(cells["mean"] / cells["published"]).where(complete)
    relative = np.exp(ratio - ratio.median())
    few = "too few cells" if complete.sum() < FEWEST else None
    return [
        _obstacle(row, spread_needed=False) or few or _by_ratio(value)
        for row, value in zip(cells.itertuples(index=False), relative, strict=True)
    ]


def _by_ratio(relative: float) -> str:
    if 1 / FACTOR <= relative <= FACTOR:
        return SIMILAR
    return SLOWER if relative > FACTOR else FASTER


_USUAL = Judgement(
    by_standard_errors,
    WITHIN,
    (BETTER, WORSE),
    "within two combined standard errors",
    "within: at most two combined standard errors, sqrt(ours^2 + published^2), from the published mean; "
    "else better or worse, by the metric's direction. Where the paper prints no spread, a cell is not judged.",
)
_OWN = {
    "win_frequency": Judgement(
        by_winner(0.5),
        SAME,
        (UNDECIDED, OPPOSITE),
        "with the same winner",
        "win_frequency: same where both, as printed, name one winner, a share beyond 0.50 by its standard error, "
        "or neither names one; undecided where one side names none; else opposite.",
    ),
    "tll_difference": Judgement(
        by_winner(0.0),
        SAME,
        (UNDECIDED, OPPOSITE),
        "with the same sign",
        "tll_difference: same where both, as printed, have one sign, beyond zero by the standard error, "
        "or neither has one; undecided where one side has none; else opposite.",
    ),
    "seconds_per_step": Judgement(
        by_ratio,
        SIMILAR,
        (FASTER, SLOWER),
        "of similar relative cost",
        "seconds_per_step: the machines differ, so the median ratio ours/published is divided out; "
        f"similar within a factor of {FACTOR:g}, else slower or faster than the others. Of fewer than {FEWEST} cells "
        "none is judged.",
    ),
}


def judgement(metric: str) -> Judgement:
    """The rule for a metric."""
    return _OWN.get(metric, _USUAL)
