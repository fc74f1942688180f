"""A published table from records: data sets by methods, the longer list as rows, mean (standard error) over splits.

A cell with missing splits shows their number, as in 7/10, and is neither highlighted nor ranked. The notes under the
table state what the numbers are, which rule highlights them and what is missing. ``trace`` lists the runs behind them.
"""

import html
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd
from tabulate import tabulate

from dgpbench.errors import UserError
from dgpbench.experiments.items import Block, Item, column_name, load
from dgpbench.experiments.plan import CONFLICT
from dgpbench.methods.plugins import FLAG, is_loaded, location_of
from dgpbench.predictive.scores import METRICS
from dgpbench.report import cells as of_cells
from dgpbench.report.cells import KEYS, NONE, done_elsewhere, has_none, incomplete_text, of_runs, select
from dgpbench.report.collect import collect
from dgpbench.runs import store
from dgpbench.runs.identity import Identity
from dgpbench.runs.record import commit_of
from dgpbench.runs.summary import decimals
from dgpbench.system.progress import counted

UNITS = {
    "elbo": "nats, higher is better; mean over the last tenth of the trace",
    "win_frequency": "share of the test rows on which the first method has the larger log-density",
    "tll_difference": "nats; mean log-density of the first method less that of the second",
    "seconds_per_step": "seconds of training per iteration, tracing excluded, lower is better",
    "seconds_training": "seconds of training, tracing excluded, lower is better",
    "num_parameters": "trainable numbers, of triangular factors the whole square; lower is better",
}
LESS_IS_BETTER = ("seconds_per_step", "seconds_training", "num_parameters")
Key = tuple[str, str, int]  # data set, method, layers
Marks = dict[Key, str]  # bold, italic, ...
_ROUNDING = 1e-9  # 0.50 - 0.44 is a little more than 0.06 in floating point
ELSEWHERE = "results_dir=again"  # in the folder of its record a run would be skipped
DECORATIONS = {
    "md": {"bold": "**{}**", "italic": "*{}*", "underlined": "<u>{}</u>"},
    "tex": {"bold": r"\textbf{{{}}}", "italic": r"\textit{{{}}}", "underlined": r"\underline{{{}}}"},
    "html": {"bold": "<b>{}</b>", "italic": "<i>{}</i>", "underlined": "<u>{}</u>"},
}
LAYOUTS = {  # of title, (heading, grid) and note, joined by line breaks
    "md": ("## {}\n", "### {}\n\n{}\n", "- {}"),
    "tex": ("% {}", "% {}\n{}", "% {}"),
    "html": ("<h2>{}</h2>", "<h3>{}</h3>\n{}", "<p>{}</p>"),
}


@dataclass(frozen=True)
class Table:
    """A table ready to print: one grid of texts for each block, and the sentences under it.

    :param runs: the runs behind it, as ``select`` returns them
    """

    item: Item
    runs: pd.DataFrame
    cells: pd.DataFrame
    blocks: tuple[tuple[Block, pd.DataFrame, Marks], ...]
    notes: tuple[str, ...]


def table(name: str, given: list[str], frame: pd.DataFrame | None = None, metric: str | None = None) -> Table:
    """Return the table of an item, narrowed by overrides; ``frame`` saves reading the records again.

    :param metric: in place of those that the item shows
    """
    item = load(name, given)
    if metric is not None:
        if metric not in (known := (*METRICS, *LESS_IS_BETTER)):
            raise UserError(f"unknown metric '{metric}'; available: {', '.join(known)}")
        item = item.showing(metric)
    if not item.blocks:
        raise UserError(f"{name} is a figure without a table; use dgpbench figure {name}")
    return of_item(item, collect(item.results_dir) if frame is None else frame)


def of_item(item: Item, frame: pd.DataFrame) -> Table:
    """Return the table of an item with blocks, from all records."""
    runs = select(item, frame)
    cells = of_runs(item, runs)
    blocks = []
    for block in item.blocks:
        part = cells[cells["metric"] == block.metric]
        blocks.append((block, part, marks(item, block, part, frame)))
    notes = ["Mean (standard error) over splits."]
    notes += [f"{block.metric}: {unit_of(block.metric)}." for block in item.blocks]
    rules = [RULES[block.best].sentence for block in item.blocks if block.best]
    notes += dict.fromkeys(f"{sentence} This is the paper's rule." for sentence in rules)
    return Table(item, runs, cells, tuple(blocks), tuple(notes + about(item, cells, runs, frame)))


def loss_of(metric: str) -> Callable[[float], float]:
    """Return the function that turns a mean of a metric so that less is better."""
    if metric in METRICS:
        return METRICS[metric].loss
    return (lambda value: value) if metric in LESS_IS_BETTER else (lambda value: -value)


def unit_of(metric: str) -> str:
    """Return a metric's unit and direction in words."""
    if metric in UNITS:
        return UNITS[metric]
    known = METRICS[metric]
    better = f"nearer to {known.target:g} is better" if known.target is not None else f"{known.direction} is better"
    return f"{known.unit}, {better}"


def about(item: Item, cells: pd.DataFrame, runs: pd.DataFrame, frame: pd.DataFrame) -> list[str]:
    """Describe the records behind the cells, and what is missing; ``frame`` has all records, ``runs`` the item's."""
    notes = [f"Records: protocol {item.protocol}, budget {item.budget}."]
    notes += [f"Narrowed by {' '.join(item.narrowed)}."] if item.narrowed else []
    none = sum(has_none(row) for row in cells.itertuples(index=False))
    missing = int((cells["count"] < cells["wanted"]).sum()) - none
    if missing:
        notes.append(f"{missing} of {len(cells)} cells are incomplete: they show done/wanted splits, and no mean.")
    if missing and (elsewhere := done_elsewhere(item, runs, frame)):
        notes.append(f"{elsewhere[0].upper()}{elsewhere[1:]}.")
    if missing and (others := int((runs["status"] == CONFLICT).sum())):
        were = "runs were" if others > 1 else "run was"
        notes.append(f"{others} {were} made with other settings, and no mean counts them.")
    if none:
        notes.append(f"'{NONE}': runs are done, and their predictions have no such score, or are older than it.")
    if failed := runs.loc[runs["status"].isin(store.FAILED), "key"].nunique():  # two series may share a run
        notes.append(f"{counted(failed, 'run')} failed, diverged or timed out, and no mean counts them.")
    timed = cells["metric"].str.startswith("seconds_").any()
    if timed and (sentence := of_cells.timed_sentence(runs[runs["status"] == "done"])):
        notes.append(sentence)
    if unknown := int(cells["unknown"].sum()):
        values, them = ("1 value needs", "it") if unknown == 1 else (f"{unknown} values need", "them")
        notes.append(
            f"{values} files of runs that are here as compact records only; `dgpbench results export {item.name} "
            f"budget={item.budget}` where the files are writes {them} into the records."
        )
    return notes + ([item.note] if item.note else [])


# Highlighted cells ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HighlightRule:
    """A paper's rule for bold and italic cells, and its sentence for the table's notes.

    :param function: cells, and those of the other task -> the mark of each cell that is highlighted
    :param other_task: a second task that the rule uses
    """

    function: Callable[..., Marks]
    sentence: str
    other_task: str | None = None


def marks(item: Item, block: Block, cells: pd.DataFrame, frame: pd.DataFrame) -> Marks:
    """Apply the rule of a block to its cells; ``frame`` has all records.

    An incomplete cell has no mark. A single split has no standard error, and comparisons with NaN are false.
    """
    if not block.best:
        return {}
    rule, loss = RULES[block.best], loss_of(block.metric)
    compared = [cells]
    if rule.other_task is not None:
        compared.append(of_cells.cells(replace(item.with_task(rule.other_task), blocks=(block,)), frame))
    return rule.function(*(each.assign(loss=each["mean"].map(loss)) for each in compared))


def key_of(row) -> Key:
    """Return the place of a cell in its block."""
    return (row.dataset, row.method, int(row.num_layers))


def complete(cells: pd.DataFrame) -> pd.DataFrame:
    """Select the cells with all their splits."""
    return cells[cells["count"] == cells["wanted"]]


def as_good_as_sgp(cells: pd.DataFrame) -> Marks:
    """Lindinger et al. (2020), Table 1."""
    done = complete(cells)
    sgp = done[done["method"] == "sgp"].set_index("dataset")
    bound = done["dataset"].map(sgp["loss"] + sgp["stderr"]).astype(float)  # without rows it would have texts
    good = done[(done["method"] != "sgp") & (done["loss"] - done["stderr"] <= bound)]
    return {key_of(cell): "bold" for cell in good.itertuples()}


def as_good_as_sgp_in_both(cells: pd.DataFrame, other: pd.DataFrame) -> Marks:
    """Lindinger et al. (2020), Table S3."""
    clearly: set[Key] = set()  # cells with their whole standard error on the better side of sgp's
    for done in (complete(cells), complete(other)):
        sgp = done[done["method"] == "sgp"].set_index("dataset")
        bound = done["dataset"].map(sgp["loss"] - sgp["stderr"]).astype(float)
        clearly |= {key_of(cell) for cell in done[done["loss"] + done["stderr"] < bound].itertuples()}
    in_both = set(as_good_as_sgp(cells)) & set(as_good_as_sgp(other))
    return {key: "bold underlined" if key in clearly else "bold" for key in in_both}


def best_mean(cells: pd.DataFrame) -> Marks:
    """Jain et al. (2021), Table 1."""
    bold: Marks = {}
    for _, row in cells.groupby("dataset", sort=False):
        if len(complete(row)) == len(row) > 1:
            best = row[row["loss"] == row["loss"].min()]
            bold |= {key_of(cell): "bold" for cell in best.itertuples()}
    return bold


def clearly_best(cells: pd.DataFrame) -> Marks:
    """Lindinger et al. (2020), Table S5."""
    bold: Marks = {}
    for _, row in cells.groupby("dataset", sort=False):
        ordered = row.sort_values("loss")
        first, rest = ordered.iloc[0], ordered.iloc[1:]
        clear = first["loss"] + first["stderr"] < (rest["loss"] - rest["stderr"]).min()
        if len(complete(row)) == len(row) > 1 and clear:
            bold[key_of(first)] = "bold"
    return bold


def beyond(cells: pd.DataFrame, even: float) -> Marks:
    """Lindinger et al. (2020), Table 2 and the columns marked (dif) of Table S4."""
    sides = {key_of(cell): side(cell.mean, cell.stderr, even) for cell in complete(cells).itertuples(index=False)}
    return {key: {1: "bold", -1: "italic"}[who] for key, who in sides.items() if who}


def side(mean: float, stderr: float, even: float) -> int:
    """Return 1 if a mean is above ``even`` by more than its standard error, -1 if it is below, else 0."""
    return int(mean - even > stderr + _ROUNDING) - int(even - mean > stderr + _ROUNDING)


RULES = {  # by the name that ``best`` of a block in an item takes
    "as_good_as_sgp": HighlightRule(
        as_good_as_sgp,
        "Bold: better than or as good as sgp, that is, a mean at least as good or standard errors that overlap.",
    ),
    "as_good_as_sgp_in_both": HighlightRule(
        as_good_as_sgp_in_both,
        "Bold: better than or as good as sgp in interpolation and in extrapolation, that is, a mean at least as good "
        "or standard errors that overlap, in both; underlined too: significantly better, without overlap, in at least "
        "one.",
        other_task="interpolation",
    ),
    "best_mean": HighlightRule(best_mean, "Bold: the best mean on each data set, where every method has one."),
    "clearly_best": HighlightRule(
        clearly_best,
        "Bold: significantly better, that is, a standard error that overlaps with no other, where every method has a "
        "mean.",
    ),
    "beyond_even": HighlightRule(
        partial(beyond, even=0.5),
        "Bold: the first method outperforms the second, a share above 0.50 + standard error; italics: the other way "
        "around.",
    ),
    "beyond_zero": HighlightRule(
        partial(beyond, even=0.0),
        "Bold: the first method outperforms the second, a difference above zero by its standard error; italics: the "
        "other way around.",
    ),
}


# Texts ----------------------------------------------------------------------------------------------------------------


def cell_text(row, digits: int) -> str:
    """Format a cell: -2.43 (0.05), or 7/10 if splits are missing; a single split has no standard error."""
    if row.count < row.wanted:
        return incomplete_text(row)
    value, spread = numbers_of(row, digits)
    return f"{value} ({spread})" if spread else value


def numbers_of(row, digits: int) -> tuple[str, str]:
    """Format the mean of a cell and its standard error, an empty text for a single split."""
    unit = METRICS[row.metric].unit if row.metric in METRICS else ""
    if unit == "units of y" or row.metric == "seconds_per_step":  # of any size
        digits = decimals(row.mean, digits)
    elif row.metric == "num_parameters":
        digits = 0
    return f"{row.mean:.{digits}f}", "" if pd.isna(row.stderr) else f"{row.stderr:.{digits}f}"


def upright(part: pd.DataFrame, entries: list, nothing: object) -> pd.DataFrame:
    """Arrange one entry for each row of ``part``, data sets by methods; the longer of the two lists runs down the page.

    :param nothing: the entry of a method without a cell on a data set
    """
    methods = list(map(column_name, part["method"], part["num_layers"]))
    labels = {"method": methods, "data set": list(part["dataset"])}
    across, down = sorted(labels, key=lambda side: len(set(labels[side])))
    placed = dict(zip(zip(labels[down], labels[across], strict=True), entries, strict=True))
    columns = list(dict.fromkeys(labels[across]))
    lines = {label: [placed.get((label, column), nothing) for column in columns] for label in labels[down]}
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis(down)


def render(made: Table, form: str) -> str:
    """Return the table as md, tex, html, or csv: one line for each cell, numbers in full."""
    if form == "csv":
        highlights = {block.metric: marked for block, _, marked in made.blocks}
        columns = ["metric", "dataset", "method", "num_layers", "mean", "stderr", "count", "wanted", "failed"]
        lines = made.cells.itertuples(index=False)
        frame = made.cells[columns].assign(mark=[highlights[row.metric].get(key_of(row), "") for row in lines])
        frame.loc[frame["count"] < frame["wanted"], ["mean", "stderr"]] = float("nan")
        frame = frame.assign(item=made.item.name, protocol=made.item.protocol, budget=made.item.budget)
        return frame.to_csv(index=False, lineterminator="\n")
    parts = []
    for block, part, marked in made.blocks:
        texts = []
        for row in part.itertuples(index=False):
            text = cell_text(row, block.digits)
            for mark in marked.get(key_of(row), "").split():
                text = DECORATIONS[form][mark].format(text)
            texts.append(text)
        grid = upright(part, texts, "")
        parts.append((block.metric, grid_text(grid, form, str(grid.index.name))))
    return document(made.item.title, parts, list(made.notes), form)


def escape(text: str, form: str) -> str:
    """Escape a plain text for a format."""
    if form == "tex":
        special = {"\\": r"\textbackslash{}"} | {character: f"\\{character}" for character in "_%&#${}"}
        return "".join(special.get(character, character) for character in text)
    return html.escape(text, quote=False) if form == "html" else text


def grid_text(grid: pd.DataFrame, form: str, corner: str) -> str:
    """Format a grid of decorated cells, with ``corner`` as the title of its row labels; labels are escaped here."""
    style = {"md": "pipe", "tex": "latex_raw", "html": "unsafehtml"}[form]
    headers = [escape(str(name), form) for name in (corner, *grid.columns)]
    rows = [[escape(str(label), form), *cells] for label, cells in zip(grid.index, grid.to_numpy(), strict=True)]
    align = ("left", *["right"] * grid.shape[1])
    return tabulate(rows, headers=headers, tablefmt=style, disable_numparse=True, colalign=align if rows else None)


def document(title: str, parts: list[tuple[str, str]], notes: list[str], form: str) -> str:
    """Join title, (heading, grid) parts and notes into one text."""
    top, part, line = LAYOUTS[form]
    safe = (lambda text: text) if form == "tex" else partial(escape, form=form)  # comments of LaTeX may have any text
    grids = [part.format(safe(heading), grid) for heading, grid in parts]
    return "\n".join([top.format(safe(title)), *grids, *(line.format(safe(note)) for note in notes)]) + "\n"


# Runs behind a number -------------------------------------------------------------------------------------------------


def trace(name: str, overrides: list[str]) -> Iterator[str]:
    """Yield lines of text: each cell of a table, or each column of a figure, followed by its runs.

    :raises UserError: if none of its runs has a record
    """
    item = load(name, overrides)
    frame = collect(item.results_dir, required=True)
    runs = select(item, frame)
    if runs.empty:
        elsewhere = done_elsewhere(item, runs, frame)
        narrowed = " ".join(["", *item.narrowed])
        raise UserError(
            f"no run of {name}{narrowed} at budget={item.budget} has a record in {item.results_dir}"
            + (f"; {elsewhere}" if elsewhere else "")
        )
    if item.blocks:
        for block, part, _ in of_item(item, frame).blocks:
            for cell in part.itertuples(index=False):
                yield from _runs_of_cell(block, cell, runs)
    else:
        for (dataset, series, num_layers), rows in runs.groupby(KEYS, sort=False):
            yield f"{dataset}, {column_name(series, num_layers)}: {counted(len(rows), 'run')}"
            for row in rows.itertuples():
                yield from _run(row, f"split {row.split}, {row.status}")
    yield "`dgpbench results redo RECORD` reruns a run and checks that its scores match."


def _runs_of_cell(block: Block, cell: Any, runs: pd.DataFrame) -> Iterator[str]:
    """Yield a number and its runs; of a direct comparison both runs of each split."""
    count, text = f"{int(cell.count)} of {int(cell.wanted)} splits", cell_text(cell, block.digits)
    yield f"{block.metric} of {cell.dataset}, {column_name(cell.method, cell.num_layers)}: {text}, {count}"
    own = runs[(runs["dataset"] == cell.dataset) & (runs["num_layers"] == cell.num_layers)]
    if block.pairs:
        done = own[own["status"] == "done"]
        values = of_cells.compared(block, done).set_index(["series", "split"])["value"]
        for split in sorted(set(done["split"])):
            if (cell.method, split) in values.index:
                yield f"  split {split}: {values[cell.method, split]:.6g}"
                for side in cell.method.split("_vs_"):
                    for row in done[(done["series"] == side) & (done["split"] == split)].itertuples():
                        yield from _run(row, side)
        return
    rows = own[own["series"] == cell.method]
    values, here = of_cells.value_of(block.metric, rows), of_cells.would_be_here(block.metric, rows)
    for row, value, is_here in zip(rows.itertuples(), values, here, strict=True):
        missing = NONE if is_here else f"{block.metric} needs the run's own files"
        score = missing if pd.isna(value) else f"{value:.6g}"
        yield from _run(row, f"split {row.split}: {score if row.status == 'done' else f'{row.status}: {row.reason}'}")


def _run(row: Any, title: str) -> Iterator[str]:
    """Yield a run's title, the place of its record, its origin, and the command that reruns it."""
    record = store.read_record(row.path) if os.path.isdir(row.path) else row.compact
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if version)
    host = record["host"]
    limits = [f"num_threads={host['threads']}"] if host.get("threads") else []
    limits += ["device=gpu"] if host.get("gpu") else []
    file = location_of(row.method) if is_loaded(row.method) else ""
    plugin = [FLAG, file] if os.path.isfile(file) else []
    yield f"  {title}"
    yield f"    record: {row.path}"
    processor = host.get("gpu") or host.get("cpu")
    yield f"    hash {record['config_hash']}, code {commit_of(record)}, {processor}, {versions}"
    command = ["dgpbench", "run", *Identity(**record["identity"]).arguments(), *limits, ELSEWHERE, *plugin]
    yield f"    again: {shlex.join(command)}"
