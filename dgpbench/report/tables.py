"""A published table from records: data sets by methods, the longer list as rows, mean (standard error) over splits.

A cell that lacks splits says how many it has, as in 7/10, and is neither marked nor ranked; what is under the table
says what the numbers are, which rule marks them and what is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from dgpbench.errors import UserError
from dgpbench.experiments.items import Block, Item, column_name, load
from dgpbench.experiments.plan import CONFLICT
from dgpbench.predictive.scores import METRICS
from dgpbench.report.cells import NONE, done_elsewhere, has_none, incomplete_text, of_runs, select
from dgpbench.report.cells import cells as make_cells
from dgpbench.report.collect import collect
from dgpbench.report.marks import RULES, Marks, key_of, marks
from dgpbench.report.rendering import DECORATIONS, document, grid_text
from dgpbench.runs.summary import decimals

UNITS = {
    "elbo": "nats, higher is better; mean over the last tenth of the trace",
    "win_frequency": "share of the test rows on which the first method has the larger log-density",
    "tll_difference": "nats; mean log-density of the first method less that of the second",
    "seconds_per_step": "seconds of training per iteration on this machine, lower is better",
}


@dataclass(frozen=True)
class Table:
    """A table ready to print: one grid of texts for each block, and the sentences under it.

    :param runs: the runs behind it, as ``select`` gives them
    """

    item: Item
    runs: pd.DataFrame
    cells: pd.DataFrame
    blocks: tuple[tuple[Block, pd.DataFrame, Marks], ...]
    notes: tuple[str, ...]


def table(name: str, given: list[str], frame: pd.DataFrame | None = None, metric: str | None = None) -> Table:
    """The table of an item, narrowed by overrides; ``frame`` saves reading the records again.

    :param metric: in place of those that the item shows
    """
    item = load(name, given)
    if metric is not None:
        if metric not in METRICS:
            raise UserError(f"there is no metric '{metric}'; it is one of {', '.join(METRICS)}")
        item = item.showing(metric)
    if not item.blocks:
        raise UserError(f"{name} is a figure without a table; use dgpbench figure {name}")
    frame = collect(item.results_dir) if frame is None else frame
    runs = select(item, frame)
    found = of_runs(item, runs)
    parts = tuple((block, part, _marks_of(item, block, part, frame)) for block, part in _by_block(item, found))
    return Table(item, runs, found, parts, tuple(_notes(item, found, runs, frame)))


def _by_block(item: Item, found: pd.DataFrame) -> list[tuple[Block, pd.DataFrame]]:
    return [(block, found[found["metric"] == block.metric]) for block in item.blocks]


def _marks_of(item: Item, block: Block, part: pd.DataFrame, frame: pd.DataFrame) -> Marks:
    task = RULES[block.best].other_task if block.best else None
    other = None if task is None else make_cells(item.with_task(task), frame)
    return marks(block.best, part, loss_of(block.metric), other)


def loss_of(metric: str) -> Callable[[float], float]:
    """Turns a mean of a metric so that less is better."""
    if metric in METRICS:
        return METRICS[metric].loss
    return (lambda value: value) if metric == "seconds_per_step" else (lambda value: -value)


def unit_of(metric: str) -> str:
    """A metric's unit and direction in words."""
    if metric in UNITS:
        return UNITS[metric]
    known = METRICS[metric]
    better = f"nearer to {known.target:g} is better" if known.target is not None else f"{known.direction} is better"
    return f"{known.unit}, {better}"


# Words under the table ------------------------------------------------------------------------------------------------


def _notes(item: Item, found: pd.DataFrame, runs: pd.DataFrame, frame: pd.DataFrame) -> list[str]:
    notes = ["Mean (standard error) over splits."]
    notes += [f"{block.metric}: {unit_of(block.metric)}." for block in item.blocks]
    notes += dict.fromkeys(
        f"{RULES[block.best].sentence} This is the paper's rule." for block in item.blocks if block.best
    )
    return notes + about(item, found, runs, frame)


def about(item: Item, found: pd.DataFrame, runs: pd.DataFrame, frame: pd.DataFrame) -> list[str]:
    """Which records the cells are made of, and what is missing; ``frame`` has all records, ``runs`` the item's."""
    notes = [f"Records: protocol {item.protocol}, budget {item.budget}."]
    if item.narrowed:
        notes.append(f"Narrowed by {' '.join(item.narrowed)}.")
    none = sum(has_none(row) for row in found.itertuples(index=False))
    missing = int((found["count"] < found["wanted"]).sum()) - none
    if missing:
        notes.append(f"{missing} of {len(found)} cells are incomplete: they show done/wanted splits, and no mean.")
    if missing and (elsewhere := done_elsewhere(item, runs, frame)):
        notes.append(f"{elsewhere[0].upper()}{elsewhere[1:]}.")
    if missing and (others := int((runs["status"] == CONFLICT).sum())):
        were = "runs were" if others > 1 else "run was"
        notes.append(f"{others} {were} made with other settings, and no mean counts them.")
    if none:
        notes.append(f"'{NONE}': runs are done, and their predictions have no such score, or are older than it.")
    if failed := int(found.drop_duplicates(["dataset", "method", "num_layers"])["failed"].sum()):  # not of each metric
        notes.append(f"{failed} run{'s' * (failed > 1)} failed, diverged or timed out, and no mean counts them.")
    if unknown := int(found["unknown"].sum()):
        notes.append(
            f"{unknown} values need files of runs that are here as compact records only; `dgpbench results export "
            f"{item.name} budget={item.budget}` where the files are writes them into the records."
        )
    return notes + ([item.note] if item.note else [])


# Texts of cells -------------------------------------------------------------------------------------------------------


def cell_text(row, digits: int) -> str:
    """-2.43 (0.05), or 7/10 where splits are missing; a single split has no standard error."""
    if row.count < row.wanted:
        return incomplete_text(row)
    value, spread = numbers_of(row, digits)
    return f"{value} ({spread})" if spread else value


def numbers_of(row, digits: int) -> tuple[str, str]:
    """The mean of a cell and its standard error; no text for the one that a single split has not."""
    if row.metric in METRICS and METRICS[row.metric].unit == "units of y":  # a unit may be of any size
        digits = decimals(row.mean, digits)
    return f"{row.mean:.{digits}f}", "" if pd.isna(row.stderr) else f"{row.stderr:.{digits}f}"


def grid(block: Block, part: pd.DataFrame, marked: Marks, decorate: dict[str, str]) -> pd.DataFrame:
    """The texts of one block; ``decorate`` maps '', bold, ... to patterns with {}."""
    texts = [
        decorate[marked.get(key_of(row), "")].format(cell_text(row, block.digits))
        for row in part.itertuples(index=False)
    ]
    return upright(part, texts, "")


def upright(part: pd.DataFrame, entries: list, nothing: object) -> pd.DataFrame:
    """One entry for each row of ``part``, data sets by methods; the longer of the two lists runs down the page.

    :param nothing: what stands where a method has no cell of a data set
    """
    methods = [column_name(row.method, row.num_layers) for row in part.itertuples(index=False)]
    labels = {"method": methods, "data set": list(part["dataset"])}
    across, down = sorted(labels, key=lambda side: len(set(labels[side])))
    found = dict(zip(zip(labels[down], labels[across], strict=True), entries, strict=True))
    columns = list(dict.fromkeys(labels[across]))
    lines = {label: [found.get((label, column), nothing) for column in columns] for label in labels[down]}
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis(down)


def render(made: Table, form: str) -> str:
    """The table as md, tex, html, or csv: one line for each cell, numbers in full."""
    if form == "csv":
        return _csv(made)
    parts = []
    for block, part, marked in made.blocks:
        texts = grid(block, part, marked, DECORATIONS[form])
        parts.append((block.metric, grid_text(texts, form, str(texts.index.name))))
    return document(made.item.title, parts, list(made.notes), form)


def _csv(made: Table) -> str:
    marked = {(block.metric, *key): mark for block, _, found in made.blocks for key, mark in found.items()}
    keys = [(row.metric, *key_of(row)) for row in made.cells.itertuples(index=False)]
    columns = ["metric", "dataset", "method", "num_layers", "mean", "stderr", "count", "wanted", "failed"]
    frame = made.cells[columns].assign(mark=[marked.get(key, "") for key in keys])
    incomplete = frame["count"] < frame["wanted"]
    frame.loc[incomplete, ["mean", "stderr"]] = float("nan")
    about = {"item": made.item.name, "protocol": made.item.protocol, "budget": made.item.budget}
    return frame.assign(**about).to_csv(index=False, lineterminator="\n")
