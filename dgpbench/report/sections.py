"""What the HTML report says, as plain data: grids of cells, each cell with the groups of runs that it was made from.

A *group* is all runs that differ in their split alone; its number stands in the list of runs, where every number's link
leads. Texts here are plain: the template escapes them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.config.canonical import canonical, digest
from dgpbench.experiments.items import Item, column_name
from dgpbench.predictive.scores import METRICS
from dgpbench.report import cells, comparisons, published, tables
from dgpbench.report.agreement import Comparison
from dgpbench.report.compare import of_cells
from dgpbench.report.html_grid import Cell, Grid, name, number, order
from dgpbench.report.marks import key_of
from dgpbench.runs.summary import decimals, layers_of

GROUP = ["task", "dataset", "method", "num_layers", "protocol", "budget", "seed"]


@dataclass
class Section:
    """An item at one budget: its grids, its figures as (title, SVG), and what could not be shown.

    :param finding: how far its published cells are redone and agree; empty where the paper prints no numbers
    """

    anchor: str
    title: str
    subtitle: str
    finding: str = ""
    grids: list[Grid] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def with_groups(frame: pd.DataFrame) -> pd.DataFrame:
    """The records, in the order of their identities, each with its ``group``: g1, g2, ...

    Runs of one identity whose values differ, since a default or a plug-in's code has changed between them, are groups
    of their own, and their ``settings`` say so.
    """
    frame = frame.sort_values([*GROUP, "split"], kind="stable", ignore_index=True)
    settings = frame["overrides"].map(lambda changed: canonical(changed) if changed else "")
    axes = [*GROUP, "is_evaluation_split"]
    names = pd.Series(list(zip(*(frame[key] for key in axes), settings, strict=True)), index=frame.index, dtype=object)
    shared = [cells.common(config) for config in frame["config"]]
    digests = {text: digest(canonical(each))[:8] for text, each in {repr(each): each for each in shared}.items()}
    values = pd.Series([digests[repr(each)] for each in shared], index=frame.index, dtype=object)
    differ = values.groupby(names).transform("nunique") > 1
    settings = settings.where(~differ, settings + " values " + values).str.strip()
    groups = pd.factorize(pd.Series(list(zip(names, values, strict=True)), dtype=object))[0]
    layers = [
        layers_of(*each) for each in zip(frame["num_layers"], (each["method"] for each in frame["config"]), strict=True)
    ]
    frame["L"] = ["" if each is None else each for each in layers]
    return frame.assign(settings=settings, group=[f"g{code + 1}" for code in groups])


# Tables of an item ----------------------------------------------------------------------------------------------------


def item_section(item: Item, given: list[str], frame: pd.DataFrame) -> Section:
    """Everything about one item at one budget."""
    anchor = f"{item.name}-{item.budget}"
    section = Section(anchor, item.title, f"{item.name}, protocol {item.protocol}, budget {item.budget}")
    if not item.blocks:
        return section
    made = tables.table(item.name, given, frame)
    section.grids += score_grids(made)
    section.grids += comparisons.statistics_grids(item, made.runs, section.notes)
    if published.of_item(item.name):
        compared = of_cells(made.item, made.cells, made.runs, frame)
        section.finding = compared.sentence
        section.grids.append(comparison_grid(compared))
    return section


def score_grids(made: tables.Table) -> list[Grid]:
    """The table of an item, one grid for each metric."""
    behind = groups_behind(made.runs)
    grids = []
    for block, part, marked in made.blocks:
        scores = [
            _score(row, block.digits, marked.get(key_of(row), ""), behind) for row in part.itertuples(index=False)
        ]
        wide = tables.upright(part, scores, Cell(""))
        rows = tuple((name(label), *line) for label, line in zip(wide.index, wide.to_numpy(), strict=True))
        notes = made.notes if block is made.blocks[-1][0] else ()
        grids.append(Grid(block.metric, (str(wide.index.name), *wide.columns), rows, notes))
    return grids


def _score(row: Any, digits: int, mark: str, behind: dict) -> Cell:
    """A cell of a table, linked to its runs, or to the runs of both sides of a direct comparison."""
    complete = row.count == row.wanted
    sides = row.method.split("_vs_")
    groups = [group for side in sides for group in behind.get((row.dataset, side, row.num_layers), ())]
    sorting = order(row.mean) if complete else ""
    return Cell(tables.cell_text(row, digits), sorting, tuple(dict.fromkeys(groups)), mark, numeric=True)


def groups_behind(runs: pd.DataFrame) -> dict[tuple[str, str, int], tuple[str, ...]]:
    """(data set, series, layers) -> the groups of its runs."""
    found: dict[tuple[str, str, int], tuple[str, ...]] = {}
    for key, rows in runs.groupby(["dataset", "series", "num_layers"], sort=False):
        found[key] = tuple(dict.fromkeys(rows["group"]))
    return found


def comparison_grid(made: Comparison) -> Grid:
    """Ours beside the published value."""
    digits = {block.metric: block.digits for block in made.item.blocks}
    behind = groups_behind(made.runs)
    rows = []
    begun = made.cells[made.cells["count"] > 0]
    for row in begun.itertuples(index=False):
        shown = digits[row.metric]
        rows.append((
            name(row.dataset), name(column_name(row.method, row.num_layers)), name(row.metric),
            _score(row, shown, "", behind), Cell(row.published_text, row.published, numeric=True),
            number(row.difference, shown), number(row.in_errors, 1), name(row.verdict),
        ))  # fmt: skip
    columns = ("data set", "method", "metric", "ours", "published", "difference", "in s.e.", "verdict")
    notes = [*(f"{share.text}." for share in made.shares()), published.spread_sentence(made.item.name)]
    if len(begun) < len(made.cells):
        notes.append(
            f"{len(made.cells) - len(begun):,} published numbers, of which we have no run yet, are not listed."
        )
    return Grid("Ours and published", columns, tuple(rows), tuple(notes))


# All runs -------------------------------------------------------------------------------------------------------------


def dataset_grids(frame: pd.DataFrame) -> list[Grid]:
    """For each task, protocol and budget one grid: every group of runs with its scores, whatever item it belongs to.

    Runs on splits that chose settings are in no mean.
    """
    grids, frame = [], frame[frame["is_evaluation_split"]]
    for (task, protocol, budget), rows in frame.groupby(["task", "protocol", "budget"], sort=True):
        scored = [name for name, each in METRICS.items() if each.summary and name in rows and rows[name].notna().any()]
        lines = _group_rows(rows, scored)
        columns = ("data set", "method", "L", "changed", "done", *scored, "training s")
        caption = f"{task}, protocol {protocol}, budget {budget}"
        grids.append(Grid(caption, columns, tuple(lines), (_units(scored),)))
    return grids


def _group_rows(rows: pd.DataFrame, scored: Sequence[str]) -> list[tuple[Cell, ...]]:
    """A row of cells for each group, in the order of their runs."""
    places: dict[str, list[int]] = {}
    for place, group in enumerate(rows["group"]):
        places.setdefault(group, []).append(place)
    identity = rows[["dataset", "method", "L", "settings"]].to_numpy()
    done = (rows["status"] == "done").to_numpy()
    numbers = rows.reindex(columns=[*scored, "seconds_training"]).to_numpy(float)  # each a few runs: faster than pandas
    lines = []
    for group, own in places.items():
        ended = numbers[own][done[own]]
        *scores, seconds = (column[~np.isnan(column)] for column in ended.T)  # an older run may lack a score
        count = Cell(f"{len(ended)}/{len(own)}", len(ended), (group,), numeric=True)
        means = (_mean(score, len(own), group, done=len(ended) == len(own)) for score in scores)
        usual = number(seconds.mean() if len(seconds) else np.nan, 1)
        lines.append((*map(name, identity[own[0]]), count, *means, usual))
    return lines


def _mean(values: np.ndarray, wanted: int, group: str, *, done: bool) -> Cell:
    if len(values) < wanted or not len(values):
        return Cell(f"{len(values)}/{wanted}" if len(values) or not done else cells.NONE, "", (group,), numeric=True)
    mean = float(values.mean())
    digits = decimals(mean, 3)
    spread = f" ({values.std(ddof=1) / np.sqrt(len(values)):.{digits}f})" if len(values) > 1 else ""
    return Cell(f"{mean:.{digits}f}{spread}", mean, (group,), numeric=True)


def _units(scored: Iterable[str]) -> str:
    words = "; ".join(f"{name}: {tables.unit_of(name)}" for name in scored)
    return (
        "Mean (standard error) over the splits that were begun; a paper may ask for more of them. Splits 10 and up of "
        f"protocol lindinger2020 are in no mean, since settings were chosen on them. {words}."
    )


def run_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The list of runs: identity, how each ended and why."""
    keep = [
        "group",
        "task",
        "dataset",
        "method",
        "L",
        "protocol",
        "budget",
        "split",
        "seed",
        "settings",
        "status",
    ]
    rows = frame[keep].to_dict("records")
    for row, reason, path, seconds in zip(rows, frame["reason"], frame["path"], frame["seconds_total"], strict=True):
        row |= {"reason": reason if isinstance(reason, str) else "", "path": path, "seconds": seconds}
    return rows
