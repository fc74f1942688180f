"""README's front page: Lindinger et al.'s Table 1 redone beside the published one, three sentences and a picture."""

import pandas as pd

from dgpbench.experiments.items import column_name
from dgpbench.report import statistics
from dgpbench.report.cells import done_runs, incomplete_text, num_runs
from dgpbench.report.compare import MARKS, Comparison, rule_of
from dgpbench.report.tables import grid_text, loss_of, numbers_of
from dgpbench.system.progress import counted
from scripts.docs import results, words

ITEM = "lindinger2020_table1"
NOTHING = "No run of Lindinger et al.'s Table 1 has been made yet."


def text(frame: pd.DataFrame) -> str:
    """Return three sentences, the table and the picture; one line if no cell has all its splits."""
    made = _most_redone(frame)
    if made is None:
        return NOTHING
    item, cells = made.item, made.cells
    if not made.redone:
        runs = f"{len(done_runs(item, frame))} of {num_runs(item)} runs are done"
        return f"Lindinger et al.'s Table 1 is not redone yet: {runs}."
    return "\n\n".join(
        [
            f"{_how_much(made)} {made.largest_miss} {_ranks(cells)}",
            _table(cells, item.blocks[0].digits),
            f"Ours (published): {_unit_and_marks(made)}. Standard errors, costs and failures: "
            f"[docs/results](docs/results/{ITEM}.md).",
            f"![Table 1: ours and published, each with its standard error](docs/images/{results.PICTURES[ITEM]})",
        ]
    )


def _most_redone(frame: pd.DataFrame) -> Comparison | None:
    """Return the table at the budget with the most complete cells, then the most runs."""
    found = list(results.budgets_of(ITEM, frame))
    return max(found, key=lambda made: (made.redone, len(made.runs))) if found else None


def _how_much(made: Comparison) -> str:
    (share,) = made.shares()
    others = ", ".join(f"{number} {verdict}" for verdict, number in share.others.items())
    return (
        f"{made.redone} of {len(made.cells)} cells of Lindinger et al.'s (2020) Table 1 are redone at "
        f"{results.budget_in_words(made.item)}, {results.splits_of(made.item)}: {share.agreeing} of {share.judged} "
        f"judged cells {rule_of(share.metric).counts} of the published mean, {others}."
    )


def _unit_and_marks(made: Comparison) -> str:
    """'test log-likelihood in nats, mean over splits; ≈ within ..., ▲ better, ▼ worse'."""
    rule = rule_of(made.item.blocks[0].metric)
    others = ", ".join(f"{MARKS[word]} {word}" for word in rule.others)
    return f"test log-likelihood in nats, mean over splits; {MARKS[rule.agreeing]} {rule.counts}, {others}"


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
    names = [column_name(row.method, row.num_layers) for row in rows.itertuples(index=False)]
    losses = rows.assign(name=names, loss=rows[column].map(loss)).pivot(index="dataset", columns="name", values="loss")
    average = statistics.mean_ranks(losses[list(dict.fromkeys(names))])
    best = average[average.sub(average.min()).abs() < 1e-9]
    return f"{words.joined(list(best.index))} ({best.iloc[0]:.2f})"


def _table(cells: pd.DataFrame, digits: int) -> str:
    """Return every method on the data sets with a finished run; the others are named under it."""
    columns = [column_name(row.method, row.num_layers) for row in cells.itertuples(index=False)]
    texts = [_cell(row, digits) for row in cells.itertuples(index=False)]
    wide = cells.assign(column=columns, text=texts).pivot(index="dataset", columns="column", values="text")
    tried = cells.groupby("dataset", sort=False)[["count", "failed"]].sum().sum(axis=1) > 0
    grid = grid_text(wide.loc[tried[tried].index, list(dict.fromkeys(columns))], "md", "data set")
    return grid if tried.all() else f"{grid}\n\nNot run: {', '.join(tried[~tried].index)}."


def _cell(row, digits: int) -> str:
    """'-2.43 (-2.40) ≈', or 7/10 if splits are missing."""
    theirs = row.published_text.split()[0]
    if row.count < row.wanted:
        return f"{incomplete_text(row)} ({theirs})"
    return f"{numbers_of(row, digits)[0]} ({theirs}) {MARKS.get(row.verdict, '')}".rstrip()
