"""README's front page: Lindinger et al.'s Table 1 beside the published one, in four sentences and a picture."""

import pandas as pd

from dgpbench.experiments.items import column_name
from dgpbench.report import statistics
from dgpbench.report.cells import done_runs, num_runs
from dgpbench.report.compare import Comparison, Share, rule_of
from dgpbench.report.tables import loss_of
from dgpbench.system.progress import counted
from scripts.docs import results, words

NOTHING = "No run of Lindinger et al.'s Table 1 has been made yet."


def text(frame: pd.DataFrame) -> str:
    """Return four sentences and the picture, at the budget with the most complete cells; else one line."""
    budgets = list(results.budgets_of(results.TABLE_1, frame))
    if not budgets:
        return NOTHING
    made = max(budgets, key=lambda each: (each.redone, len(each.runs)))
    item = made.item
    if not made.redone:
        runs = f"{len(done_runs(item, frame))} of {num_runs(item)} runs are done"
        return f"Lindinger et al.'s Table 1 is not redone yet: {runs}."
    image = f"docs/images/{results.PICTURES[results.TABLE_1]}"
    picture = f"![Table 1: ours and published, each with its standard error]({image})"
    sentences = [_how_much(made), _at_published_settings(frame), made.largest_miss, _ranks(made.cells)]
    return f"{' '.join(filter(None, sentences))}\n\n{picture}"


def _how_much(made: Comparison) -> str:
    (share,) = made.shares()
    return (
        f"{made.redone} of {len(made.cells)} cells of Lindinger et al.'s (2020) Table 1 are redone at "
        f"{results.budget_in_words(made.item)}, {results.splits_of(made.item)}: {share.agreeing} of {share.judged} "
        f"judged cells {rule_of(share.metric).counts} of the published mean, {_others(share)}."
    )


def _others(share: Share) -> str:
    """'11 better, 15 worse'."""
    return ", ".join(f"{number} {verdict}" for verdict, number in share.others.items())


def _at_published_settings(frame: pd.DataFrame) -> str:
    """'At published settings in mixed precision, 6 of 6 (...), ...', of cells with all their splits; else nothing."""
    made = results.as_published(results.MIXED, frame)
    (share,) = made.shares()
    cells = f"{share.agreeing} of {share.judged} (mf and star L3 on boston, energy, concrete)"
    return f"At published settings in mixed precision, {cells}, {_others(share)}." if share.judged else ""


def _ranks(cells: pd.DataFrame) -> str:
    """Name the column of the best rank here and in the paper, over the data sets with every cell."""
    complete = cells.assign(whole=cells["count"] == cells["wanted"]).groupby("dataset")["whole"].transform("all")
    rows = cells[complete]
    if rows.empty:
        return "No data set has all its cells yet, so methods are not ranked."
    number = counted(rows["dataset"].nunique(), "data set")
    return (
        f"Over {number} with every cell redone, the best mean rank is that of {_best(rows, 'mean')}; "
        f"by the published means it is that of {_best(rows, 'published')}."
    )


def _best(rows: pd.DataFrame, column: str) -> str:
    """'star L3 (2.1)'; several names if ranks are tied."""
    loss = loss_of(rows["metric"].iloc[0])
    rows = rows.assign(name=list(map(column_name, rows["method"], rows["num_layers"])), loss=rows[column].map(loss))
    losses = rows.pivot(index="dataset", columns="name", values="loss")
    average = statistics.mean_ranks(losses[rows["name"].unique()])
    best = average[average.sub(average.min()).abs() < 1e-9]
    return f"{words.joined(list(best.index))} ({best.iloc[0]:.2f})"
