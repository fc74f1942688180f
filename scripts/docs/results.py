"""docs/results.md: each item with published numbers, redone beside them at every budget with records."""

from collections.abc import Iterator

import pandas as pd

from dgpbench.config import groups
from dgpbench.experiments.items import Block, Item, column_name, load
from dgpbench.report import cells, published
from dgpbench.report.cells import incomplete_text
from dgpbench.report.compare import MARKS, PAIRED, Comparison, comparison, rule_of, split_grid
from dgpbench.report.published import Published
from dgpbench.report.tables import grid_text, numbers_of, unit_of
from dgpbench.runs import store
from dgpbench.system.progress import counted
from scripts.docs import words

NOTHING = "No run of this item has been made yet."
NOTHING_AT_ALL = "No run of a published item has been made yet."


def item_names() -> list[str]:
    """Return the items with published numbers."""
    named = {published.item_name(entry) for entry in published.read_published()}
    return [name for name in groups.names("experiment") if name in named]


def budgets_of(name: str, frame: pd.DataFrame) -> Iterator[tuple[Comparison, pd.DataFrame]]:
    """Yield the comparison of an item and its runs, for each budget with runs."""
    for budget in groups.names("budget"):
        given = [f"budget={budget}"]
        runs = cells.select(load(name, given), frame)
        if len(runs):
            yield comparison(name, given, frame), runs


def budget_in_words(item: Item) -> str:
    """'`budget=laptop` (a tenth of the published iterations, larger steps)'."""
    return f"`budget={item.budget}` ({groups.describe('budget', item.budget)['title']})"


def splits_of(item: Item) -> str:
    """Return the splits of an item in words."""
    return words.splits_in_words(int(split) for sweep in item.sweeps for split in sweep.values["split"])


# All items ------------------------------------------------------------------------------------------------------------


def overview(frame: pd.DataFrame) -> str:
    """Return a line for each item and budget: cells redone, cells that agree, and the cost."""
    lines = {name: [_line(*found) for found in budgets_of(name, frame)] for name in item_names()}
    if not any(lines.values()):
        return NOTHING_AT_ALL
    rows = [(name, *line) for name, found in lines.items() for line in found or [("not run", *[""] * 5)]]
    columns = ["item", "budget", "cells redone", "agreeing, of those judged", "others", "runs", "core-hours"]
    grid = pd.DataFrame(rows, columns=columns).set_index("item")
    return f"{grid_text(grid, 'md', 'item')}\n\nItems share runs, so that their costs do not add up."


def _line(made: Comparison, runs: pd.DataFrame) -> tuple[str, ...]:
    shares = [share for share in made.shares() if share.judged]
    agreeing = "; ".join(f"{share.agreeing} of {share.judged} {share.what}" for share in shares)
    others = "; ".join(", ".join(f"{number} {verdict}" for verdict, number in share.others.items()) for share in shares)
    failed = int(runs["status"].isin(store.FAILED).sum())
    number = f"{len(runs):,}" + (f" ({failed} failed)" if failed else "")
    redone = f"{made.redone} of {len(made.cells)}"
    return made.item.budget, redone, agreeing, others, number, words.hours_text(words.core_hours(runs))


# One item -------------------------------------------------------------------------------------------------------------


def section(name: str, frame: pd.DataFrame) -> str:
    """Return an item at each budget: sentence, table beside the published one, missing cells, cost and failures."""
    return "\n\n".join(_section(made, runs) for made, runs in budgets_of(name, frame)) or NOTHING


def _section(made: Comparison, runs: pd.DataFrame) -> str:
    item = made.item
    tables = [_table(block, made.cells[made.cells["metric"] == block.metric], item.name) for block in item.blocks]
    return "\n\n".join(
        [
            f"**{item.title}**, {budget_in_words(item)}, protocol {item.protocol}, {splits_of(item)}.",
            made.sentence,
            *filter(None, tables),
            *_split_by_split(made),
            "\n".join(f"- {note}" for note in _notes(made)),
            words.cost_sentence(runs),
            words.failure_text(runs),
        ]
    )


def _split_by_split(made: Comparison) -> list[str]:
    """Return differences on equal splits, if the paper's numbers are known for each."""
    if made.splits is None or made.splits.empty:
        return []
    found = [(metric, split_grid(rows)) for metric, rows in made.splits.groupby("metric", sort=False)]
    what = "split by split: ours less the published number, mean ± standard error, and the correlation over splits"
    return [f"{metric}, {what}:\n\n{grid_text(grid, 'md', 'data set')}" for metric, grid in found]


def _table(block: Block, part: pd.DataFrame, name: str) -> str:
    """Return one block, data sets by columns; those without any run are named under it."""
    tried = part[part["count"] + part["failed"] + part["unknown"] > 0]
    if part.empty:
        return ""
    columns = [column_name(row.method, row.num_layers) for row in part.itertuples(index=False)]
    shown = part.assign(column=columns, text=[cell(row, block.digits, name) for row in part.itertuples(index=False)])
    wide = shown.pivot(index="dataset", columns="column", values="text").fillna("")
    used = shown.loc[tried.index]
    kept = [[one for one in dict.fromkeys(shown[key]) if one in set(used[key])] for key in ("dataset", "column")]
    left = [[one for one in dict.fromkeys(shown[key]) if one not in set(used[key])] for key in ("dataset", "column")]
    parts = [f"{block.metric} ({unit_of(block.metric)}):"]
    parts += [grid_text(wide.loc[kept[0], kept[1]], "md", "data set")] if len(used) else []
    parts += [f"Not run: {', '.join([*left[0], *left[1]])}."] if any(left) else []
    return "\n\n".join(parts)


def cell(row, digits: int, item: str) -> str:
    """'-2.43 ± 0.05 (-2.40 ± 0.04) ≈': ours, the published one and the verdict's mark; or 7/10 splits."""
    theirs = printed(published.of_item(item)[row.metric, row.dataset, row.method, row.num_layers])
    if row.count < row.wanted:
        return f"{incomplete_text(row)} ({theirs})"
    ours = " ± ".join(filter(None, numbers_of(row, digits)))
    return f"{ours} ({theirs}) {MARKS.get(row.verdict, '')}".rstrip()


def printed(entry: Published) -> str:
    """Format a published mean with its standard error, as printed or computed from a variance."""
    if entry.stderr is None:
        return entry.value_text
    if entry.spread_kind == "stderr":
        return f"{entry.value_text} ± {entry.spread_text}"
    return f"{entry.value_text} ± {entry.stderr:.2g}"


def _notes(made: Comparison) -> list[str]:
    """Explain the cells and marks, and what the records lack."""
    rules = list(dict.fromkeys(rule_of(metric) for metric in made.cells["metric"]))
    verdicts = dict.fromkeys(word for rule in rules for word in (rule.agreeing, *rule.others))
    notes = [
        "A cell is ours ± standard error over splits (published ± standard error), or done/wanted splits.",
        *([sentence] if "as printed" not in (sentence := published.spread_sentence(made.item.name)) else []),
        f"Verdicts: {', '.join(f'{MARKS[word]} {word}' for word in verdicts)}; without a mark a cell is not judged.",
        *(rule.sentence for rule in rules),
    ]
    notes += [PAIRED] if made.cells["paired"].any() else []
    if unknown := int(made.cells["unknown"].sum()):
        notes.append(f"{counted(unknown, 'value')} could not be had from the compact records.")
    return notes + ([made.item.note] if made.item.note else [])
