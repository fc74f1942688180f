"""Our numbers beside the published ones: a rule and a verdict for each cell, the share that agrees, and texts.

A rule compares our cells with the published ones and returns a word for each; one of its words means agreement. Cells
that cannot be judged (incomplete, or without a standard error on either side) get the reason instead.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.experiments.items import Block, Item, column_name, load
from dgpbench.report import published
from dgpbench.report.cells import incomplete_text, of_runs, select, value_of
from dgpbench.report.collect import collect
from dgpbench.report.tables import about, cell_text, document, grid_text, loss_of, side
from dgpbench.runs.summary import decimals

KEYS = ["metric", "dataset", "method", "num_layers"]
WITHIN, BETTER, WORSE = "within", "better", "worse"
SAME, UNDECIDED, OPPOSITE = "same", "undecided", "opposite"
SIMILAR, SLOWER, FASTER = "similar", "slower", "faster"
MARKS = {  # symbols of the verdicts, in tables without room for words
    **{WITHIN: "≈", BETTER: "▲", WORSE: "▼", SAME: "≈", UNDECIDED: "~", OPPOSITE: "≠"},
    **{SIMILAR: "≈", FASTER: "▲", SLOWER: "▼"},
}
BOUND = 2.0  # combined standard errors
FACTOR = 1.5  # of seconds, after the machine's own factor is divided out
FEWEST = 3  # cells with a meaningful median ratio
PAIRED = (
    "Where the paper's authors gave a number for each split, a cell is judged by the mean difference on equal splits "
    "and its standard error."
)


# Rules ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A rule that judges cells, and how texts describe it.

    :param judge: cells -> verdict of each
    :param agreeing: the verdict of cells that agree
    :param others: the verdicts of judged cells that do not agree
    :param counts: describes the agreeing cells
    """

    judge: Callable[[pd.DataFrame], list[str]]
    agreeing: str
    others: tuple[str, ...]
    counts: str
    sentence: str

    @property
    def words(self) -> tuple[str, ...]:
        """All its verdicts."""
        return (self.agreeing, *self.others)


def _obstacle(row, spread_needed: bool = True) -> str | None:
    """Return the reason that a cell cannot be judged."""
    if row.count < row.wanted:
        return incomplete_text(row)
    if spread_needed and pd.isna(row.published_stderr):
        return "no published spread"
    return "one split" if spread_needed and pd.isna(row.stderr) else None


def by_standard_errors(cells: pd.DataFrame) -> list[str]:
    """Judge by two combined standard errors around the published mean, else by the metric's direction."""

    def verdict(row) -> str:
        if abs(row.in_errors) <= BOUND:
            return WITHIN
        loss = loss_of(row.metric)
        return BETTER if loss(row.published + row.difference) < loss(row.published) else WORSE

    return [_obstacle(row) or verdict(row) for row in cells.itertuples(index=False)]


def by_winner(cells: pd.DataFrame, even: float) -> list[str]:
    """Judge by the winner, here and in the paper: the side beyond ``even`` by more than the standard error."""

    def verdict(row) -> str:
        digits = len(row.published_text.split()[0].partition(".")[2])  # as printed, or rounding would decide ties
        ours = side(round(row.mean, digits), round(row.stderr, digits), even)
        theirs = side(row.published, row.published_stderr, even)
        if ours == theirs:
            return SAME
        return OPPOSITE if ours == -theirs else UNDECIDED

    return [_obstacle(row) or verdict(row) for row in cells.itertuples(index=False)]


def by_ratio(cells: pd.DataFrame) -> list[str]:
    """Judge seconds by their ratio to the published ones, relative to the median ratio: machines differ."""
    complete = cells["count"] == cells["wanted"]
    ratio = np.log(cells["mean"] / cells["published"]).where(complete)
    relative = np.exp(ratio - ratio.median())
    few = "too few cells" if complete.sum() < FEWEST else None

    def verdict(value: float) -> str:
        if 1 / FACTOR <= value <= FACTOR:
            return SIMILAR
        return SLOWER if value > FACTOR else FASTER

    rows = zip(cells.itertuples(index=False), relative, strict=True)
    return [_obstacle(row, spread_needed=False) or few or verdict(value) for row, value in rows]


RULES = {
    "win_frequency": Rule(
        *(partial(by_winner, even=0.5), SAME, (UNDECIDED, OPPOSITE), "with the same winner"),
        "win_frequency: same where both, as printed, name one winner, a share beyond 0.50 by its standard error, "
        "or neither names one; undecided where one side names none; else opposite.",
    ),
    "tll_difference": Rule(
        *(partial(by_winner, even=0.0), SAME, (UNDECIDED, OPPOSITE), "with the same sign"),
        "tll_difference: same where both, as printed, have one sign, beyond zero by the standard error, "
        "or neither has one; undecided where one side has none; else opposite.",
    ),
    "seconds_per_step": Rule(
        *(by_ratio, SIMILAR, (FASTER, SLOWER), "of similar relative cost"),
        "seconds_per_step: the machines differ, so the median ratio ours/published is divided out; "
        f"similar within a factor of {FACTOR:g}, else slower or faster than the others. Of fewer than {FEWEST} cells "
        "none is judged.",
    ),
}
USUAL = Rule(
    *(by_standard_errors, WITHIN, (BETTER, WORSE), "within two combined standard errors"),
    "within: at most two combined standard errors, sqrt(ours^2 + published^2), from the published mean; "
    "else better or worse, by the metric's direction. Where the paper prints no spread, a cell is not judged.",
)


def rule_of(metric: str) -> Rule:
    """Return the rule for a metric."""
    return RULES.get(metric, USUAL)


# Cells ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """Number of judged cells of one metric that agree, and of the others; ``left_out`` could not be judged.

    :param others: verdict -> number of cells, for all verdicts but the agreeing one
    :param what: describes the agreeing cells
    """

    metric: str
    agreeing: int
    others: Mapping[str, int]
    left_out: int
    what: str

    @property
    def judged(self) -> int:
        """Number of cells with a verdict."""
        return self.agreeing + sum(self.others.values())

    @property
    def text(self) -> str:
        """'tll: 60 of 64 judged cells (94 %) within two combined standard errors, 3 better, 1 worse; 0 left out'."""
        share = f" ({100 * self.agreeing / self.judged:.0f} %)" if self.judged else ""
        others = ", ".join(f"{number} {verdict}" for verdict, number in self.others.items())
        judged = f"{self.agreeing} of {self.judged} judged cells{share} {self.what}"
        return f"{self.metric}: {judged}, {others}; {self.left_out} left out"


@dataclass(frozen=True)
class Comparison:
    """Our cells with the published ones.

    :param frame: all records
    :param runs: the item's runs, as ``cells.select`` returns them
    :param cells: one row for each published number of the narrowed item
    :param splits: one row for each redone split with a published number of its own: metric, dataset, method,
        num_layers, split, value, published
    """

    item: Item
    frame: pd.DataFrame
    runs: pd.DataFrame
    cells: pd.DataFrame
    splits: pd.DataFrame | None = None

    def shares(self) -> list[Share]:
        """Return one share for each metric."""
        shares = []
        for metric, part in self.cells.groupby("metric", sort=False):
            rule, counts = rule_of(str(metric)), part["verdict"].value_counts()
            agreeing, *others = (int(counts.get(verdict, 0)) for verdict in rule.words)
            named, left_out = dict(zip(rule.others, others, strict=True)), len(part) - agreeing - sum(others)
            what = "within two standard errors on equal splits" if part["paired"].any() else rule.counts
            shares.append(Share(str(metric), agreeing, named, left_out, what))
        return shares

    def misses(self) -> pd.DataFrame:
        """Return the judged cells that do not agree, the furthest in combined standard errors first."""
        wrong = [row.verdict in rule_of(row.metric).others for row in self.cells.itertuples(index=False)]
        far = self.cells["in_errors"].abs()[wrong].sort_values(ascending=False, kind="stable")
        return self.cells.loc[far.index]

    @property
    def redone(self) -> int:
        """Number of published cells with all their splits."""
        return int((self.cells["count"] == self.cells["wanted"]).sum())

    @property
    def sentence(self) -> str:
        """How many published cells are redone, the share that agrees, and the largest miss."""
        shares, done = self.shares(), self.cells[self.cells["count"] == self.cells["wanted"]]
        judged = sum(share.judged for share in shares)
        unjudged = [row.verdict for row in done.itertuples() if row.verdict not in rule_of(row.metric).words]
        parts = [f"{self.redone} of {len(self.cells)} published cells are redone"]
        parts += [f"{number} not judged ({reason})" for reason, number in Counter(unjudged).items()]
        texts = [f"{share.text}." for share in shares if share.judged]
        return " ".join([f"{', '.join(parts)}.", *texts, *([self.largest_miss] if judged else [])])

    @property
    def largest_miss(self) -> str:
        """A sentence about the judged cell that is furthest from the published one."""
        missed = list(self.misses().itertuples(index=False))
        if not missed:
            return "No cell disagrees."
        row, places = missed[0], [f"{column_name(row.method, row.num_layers)} on {row.dataset}" for row in missed]
        if pd.isna(row.in_errors):  # seconds, which the papers print without a standard error
            named = [f"{place} ({row.verdict})" for place, row in zip(places, missed, strict=True)]
            return f"The misses are {', '.join(named)}."
        digits = {block.metric: block.digits for block in self.item.blocks}[row.metric]
        errors = "standard errors on equal splits" if row.paired else "combined standard errors"
        apart = f"{abs(row.in_errors):.{error_digits(row.in_errors)}f} {errors} apart"
        return (
            f"The largest miss is {places[0]}: {row.metric} {cell_text(row, digits)}, "
            f"published {row.published_text}, {apart} ({row.verdict})."
        )


def comparison(name: str, given: list[str], frame: pd.DataFrame | None = None) -> Comparison:
    """Compare an item, narrowed by overrides; ``frame`` saves reading the records again.

    :raises UserError: if the paper prints no numbers for the item
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
    """Compare an item's cells and runs, also split by split if a paper's authors gave a number for each."""
    splits = None
    if item.name in published.BY_SPLIT:
        done = runs[runs["status"] == "done"].assign(method=runs["series"])
        ours = pd.concat([done.assign(metric=each.metric, value=value_of(each.metric, done)) for each in item.blocks])
        splits = ours[[*KEYS, "split", "value"]].merge(published.by_split(item.name), on=[*KEYS, "split"]).dropna()
    return Comparison(item, frame, runs, judge(with_published(cells, item.name, splits)), splits)


def with_published(cells: pd.DataFrame, item: str, splits: pd.DataFrame | None) -> pd.DataFrame:
    """Select the cells with a published number; add it, its standard error and the difference between the two.

    ``in_errors`` is the difference of the means in combined standard errors. If the paper's numbers of all splits of a
    cell are known (``paired``), difference and ``in_errors`` are those of the mean difference on equal splits.
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
    """Add a verdict for each cell, by its metric's rule."""
    verdicts = pd.Series("", index=cells.index)
    for metric, part in cells.groupby("metric", sort=False):
        verdicts[part.index] = rule_of(str(metric)).judge(part)
    return cells.assign(verdict=verdicts)


# Texts ----------------------------------------------------------------------------------------------------------------


def render(made: Comparison, form: str) -> str:
    """Return the comparison as md, tex, html, or csv: one line for each published number."""
    if form == "csv":
        numbers = ["mean", "stderr", "count", "wanted", "published", "published_stderr", "difference", "in_errors"]
        frame = made.cells[[*KEYS, *numbers, "verdict"]].copy()
        frame.loc[frame["count"] < frame["wanted"], ["mean", "stderr"]] = float("nan")
        return frame.to_csv(index=False, lineterminator="\n")
    grids = {}
    for block in made.item.blocks:
        grids[block.metric] = _grid(block, made.cells[made.cells["metric"] == block.metric])
        if made.splits is not None and block.metric in set(made.splits["metric"]):
            splits = made.splits[made.splits["metric"] == block.metric]
            grids[f"{block.metric}, split by split"] = split_grid(splits)
    parts = [(heading, grid_text(grid, form, "data set")) for heading, grid in grids.items()]
    notes = [f"{share.text}." for share in made.shares()]
    notes += dict.fromkeys(rule_of(metric).sentence for metric in made.cells["metric"])
    notes += [published.spread_sentence(made.item.name), *([PAIRED] if made.cells["paired"].any() else [])]
    if made.item.budget != "paper":
        notes.append(f"Ours is budget={made.item.budget}; the published runs are of budget=paper.")
    notes += about(made.item, made.cells, made.runs, made.frame)
    return document(f"{made.item.title}: ours and published", parts, notes, form)


def _grid(block: Block, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the texts of one line for each cell."""
    lines = []
    for row in cells.itertuples(index=False):
        difference = "" if pd.isna(row.difference) else f"{row.difference:+z.{block.digits}f}"
        in_errors = "" if pd.isna(row.in_errors) else f"{row.in_errors:+z.{error_digits(row.in_errors)}f}"
        ours = cell_text(row, block.digits)
        name = column_name(row.method, row.num_layers)
        lines.append((name, ours, row.published_text, difference, in_errors, row.verdict))
    columns = ["method", "ours", "published", "difference", "in s.e.", "verdict"]
    return pd.DataFrame(lines, index=list(cells["dataset"]), columns=columns)


def error_digits(in_errors: float) -> int:
    """Return the decimals of a difference in standard errors: one, or two if one would round it to the bound."""
    return 2 if abs(in_errors) > BOUND >= round(abs(in_errors), 1) else 1


def split_grid(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean difference on equal splits, and the correlation of scores over splits."""
    lines = []
    for (dataset, method, num_layers), part in rows.groupby(["dataset", "method", "num_layers"], sort=False):
        difference = part["value"] - part["published"]
        digits = decimals(10 * difference.sem() if len(part) > 1 else difference.mean(), 3)  # two of the error's
        error = f" ± {difference.sem():.{digits}f}" if len(part) > 1 else ""
        correlation = f"{part['value'].corr(part['published']):.2f}" if len(part) > 2 else ""
        mean = f"{difference.mean():+.{digits}f}{error}"
        lines.append((dataset, column_name(method, num_layers), len(part), mean, correlation))
    columns = ["data set", "method", "splits", "ours - published", "correlation"]
    grid = pd.DataFrame(lines, columns=columns).set_index("data set").rename_axis(None)
    return grid if grid["method"].nunique() > 1 else grid.drop(columns="method")
