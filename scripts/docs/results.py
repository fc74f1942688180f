"""docs/results: a page for each item with published numbers, ours beside them, and an overview of the papers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.benchmarks.cost import Records
from dgpbench.commands.validate import declared_sizes
from dgpbench.config import groups
from dgpbench.experiments.items import Block, Item, column_name
from dgpbench.experiments.plan import wanted
from dgpbench.report import cells, compare, published
from dgpbench.report.cells import incomplete_text
from dgpbench.report.compare import KEYS, MARKS, PAIRED, Comparison, comparison, judge, of_cells, rule_of, split_grid
from dgpbench.report.figures.item_figures import KINDS
from dgpbench.report.published import Published
from dgpbench.report.tables import grid_text, numbers_of, unit_of
from dgpbench.runs.resolve import Run
from dgpbench.system.progress import counted
from scripts.docs import words
from scripts.docs.laptop import mean_text, pairs
from scripts.docs.pictures import Picture

NOTHING = "No run of this item has been made yet."
NOTHING_AT_ALL = "No run of a published item has been made yet."
FEWEST = 3  # splits of a value that counts as redone, where the paper has more
LARGE = ("year", "airline")  # data sets that need a large download
PICTURES = {
    "lindinger2020_table1": "table1.png",
    "lindinger2020_tables3": "lindinger2020_tables3.png",
    "jain2021_table1": "jain2021_table1.png",
    "hernandez2018_table511": "hernandez2018_table511.png",
    "hernandez2018_table512": "hernandez2018_table512.png",
    "ortega2023_dsvi": "ortega2023_dsvi.png",
}
VERDICTS = {
    "agree": (compare.WITHIN, compare.SAME, compare.SIMILAR),
    "better": (compare.BETTER, compare.FASTER),
    "worse": (compare.WORSE, compare.SLOWER),
    "open": (compare.UNDECIDED,),
    "opposite": (compare.OPPOSITE,),
}
Found = Callable[[str], list[Comparison]]  # ``redone`` of a frame
TABLE_1 = "lindinger2020_table1"
MIXED = ["budget=paper", "precision=mixed"]
AS_PUBLISHED = ["dataset=boston,energy,concrete", "method=mf,star", "method.num_layers=3"]  # cells of Table 1


def item_names() -> list[str]:
    """Return the items with published numbers, in the papers' order."""
    return list(dict.fromkeys(map(published.item_name, published.read_published())))


def budgets_of(name: str, frame: pd.DataFrame) -> Iterator[Comparison]:
    """Yield the comparison of an item, for each budget with runs."""
    for budget in groups.names("budget"):
        made = comparison(name, [f"budget={budget}"], frame)
        if len(made.runs):
            yield made


def redone(name: str, frame: pd.DataFrame) -> list[Comparison]:
    """Return the comparisons of an item with redone values, the most first; if there are none, a single one.

    A value is redone with three splits or with all that the paper has; ``splits`` of the cells has the paper's number.
    """
    found = [_of_some_splits(made) for made in budgets_of(name, frame)]
    found.sort(key=lambda made: (made.redone, len(made.runs)), reverse=True)
    found = found or [_of_some_splits(comparison(name, ["budget=laptop"], frame))]
    return [made for made in found if made.redone] or found[:1]


def _of_some_splits(made: Comparison) -> Comparison:
    """Judge cells by the splits that are done, if there are enough and none has failed."""
    enough = (made.cells["count"] >= FEWEST) & (made.cells["failed"] == 0)
    wanted = made.cells["wanted"].mask(enough, made.cells["count"])
    return of_cells(made.item, made.cells.assign(splits=made.cells["wanted"], wanted=wanted), made.runs, made.frame)


def budget_in_words(item: Item) -> str:
    """'`budget=laptop` (a tenth of the published iterations, larger steps)'."""
    return f"`budget={item.budget}` ({groups.describe('budget', item.budget)['title']})"


def splits_of(item: Item) -> str:
    """Return the splits of an item in words."""
    return words.splits_in_words(int(split) for sweep in item.sweeps for split in sweep.values["split"])


# All items ------------------------------------------------------------------------------------------------------------


def overview(found: Found) -> str:
    """Return a line for each paper, each of its items and each budget: values published, redone and agreeing."""
    items = {name: found(name) for name in item_names()}
    if not any(len(made.runs) for made, *_ in items.values()):
        return NOTHING_AT_ALL
    lines = []
    for paper, names in groupby(items, key=lambda name: items[name][0].item.title.partition(")")[0] + ")"):
        own = list(names)
        total = pd.DataFrame([_counts(items[name][0]) for name in own]).sum()
        lines.append({"item": f"**{paper}**", **total})
        for name in own:
            first, *others = items[name]
            title = first.item.title.removeprefix(paper).lstrip(",: ")
            budget = f", {first.item.budget}" if len(first.runs) else ""
            lines.append({"item": f"[{title}]({name}.md){budget}", **_counts(first)})
            lines += [{"item": f"the same, {made.item.budget}", **_counts(made)} for made in others]
    return grid_text(pd.DataFrame(lines).set_index("item"), "md", "item")


def _counts(made: Comparison) -> dict[str, int]:
    verdicts = made.cells["verdict"]
    judged = {name: int(verdicts.isin(own).sum()) for name, own in VERDICTS.items()}
    obtainable = int((~made.cells["dataset"].isin(LARGE)).sum())
    return {"published": len(made.cells), "obtainable": obtainable, "redone": made.redone, **judged}


def rest(found: Found) -> str:
    """Return a line for each item with values that are not redone: the reasons, and the price of the missing runs."""
    lines: list[dict[str, Any]] = []
    prices, every = Prices(), dict[str, float]()
    for name in item_names():
        made = found(name)[0]
        left = made.cells[made.cells["count"] < made.cells["wanted"]]
        large = int(left["dataset"].isin(LARGE).sum())
        illegible = len(cells.of_runs(made.item, made.runs)) - len(made.cells)
        if len(left) or illegible:
            runs = [run for run in _missing(made, left) if run.identity.dataset not in LARGE]
            price = {run.identity.key: prices.of(run, made) for run in runs}
            every |= price
            reasons = {"not yet run": len(left) - large, "large download": large, "illegible": illegible}
            title = f"[{name}]({name}.md)"
            lines.append({"item": title, **reasons, "budget": made.item.budget, **_price(price)})
    if not lines:
        return "Every published value is redone."
    sums = pd.DataFrame(lines)[["not yet run", "large download", "illegible"]].sum()
    lines.append({"item": "**all**, each run once", **sums, "budget": "", **_price(every)})
    return grid_text(pd.DataFrame(lines, dtype=object).set_index("item").replace(0, ""), "md", "item")


def _missing(made: Comparison, left: pd.DataFrame) -> Iterator[Run]:
    """Yield the runs that the values left need and that no record has; of plug-ins none, which may not be installed."""
    places = {
        (row.dataset, side, row.num_layers) for row in left.itertuples() for side in str(row.method).split("_vs_")
    }
    recorded = set(made.frame["key"])
    for sweep in made.item.sweeps:
        for each in wanted(made.item, sweep) if groups.files("method") >= set(sweep.values["method"]) else ():
            own = each.run.identity
            if (own.dataset, each.series, own.num_layers) in places and own.key not in recorded:
                yield each.run


def _price(seconds: Mapping[str, float]) -> dict[str, str]:
    """Format the price of runs by their expected seconds: '12.3', or '12.3 + 40 runs' without an estimate of some."""
    known = [value for value in seconds.values() if not isnan(value)]
    unknown = len(seconds) - len(known)
    texts = [words.hours_text(sum(known) / 3600)] if known else []
    texts += [counted(unknown, "run")] if unknown else []
    return {"runs": f"{len(seconds):,}" if seconds else "", "core-hours": " + ".join(texts)}


class Prices:
    """Expected seconds of runs, as ``dgpbench plan`` estimates them from finished ones."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Records] = {}
        self.seconds: dict[tuple[Path, str], float] = {}  # splits and seeds share an estimate

    def of(self, run: Run, made: Comparison) -> float:
        """Return the seconds of a run, NaN without similar finished ones."""
        key = (run.directory.parent, str(run.changed))
        if key not in self.seconds:
            group = (made.item.budget, made.item.protocol)
            if group not in self.records:
                self.records[group] = Records(made.frame, *group)
            estimate = self.records[group].like(run)
            if estimate is None and "n" in run.dataset:
                rows, features, _ = declared_sizes(run)
                estimate = self.records[group].scaled(run, rows, features)
            self.seconds[key] = float("nan") if estimate is None else estimate.seconds
        return self.seconds[key]


# One item -------------------------------------------------------------------------------------------------------------


def section(name: str, found: Found) -> str:
    """Return an item at each budget: sentence, table beside the published one, picture, cost, failures and commands."""
    made = [each for each in found(name) if len(each.runs)]
    return "\n\n".join(_section(each, picture=not place) for place, each in enumerate(made)) or NOTHING


def _section(made: Comparison, picture: bool) -> str:
    item = made.item
    drawn = picture and item.name in PICTURES and made.redone > 0
    parts = [
        f"{budget_in_words(item)}, protocol {item.protocol}, {splits_of(item)}. {made.sentence}",
        *(_table(block, made.cells[made.cells["metric"] == block.metric], item.name) for block in item.blocks),
        _split_by_split(made),
        " ".join(_notes(made)),
        f"![Ours and published, each with its standard error](../images/{PICTURES[item.name]})" if drawn else "",
        f"{words.cost_sentence(made.runs)} {words.failure_text(made.runs)}",
        _commands(item, drawn),
    ]
    return "\n\n".join(filter(None, parts))


def _commands(item: Item, drawn: bool) -> str:
    given = f"{item.name} budget={item.budget}"
    lines = [f"$ dgpbench reproduce {given}  # run what is missing", f"$ dgpbench compare {given}"]
    lines += [f"$ dgpbench figure {given}"] if drawn else []
    return "\n".join(["```console", *lines, "```"])


def picture(name: str, found: Found) -> Picture | None:
    """Return the scores of each data set with the published ones as crosses, if a value is redone."""
    made = found(name)[0]
    if not made.redone:
        return None
    item = made.item
    title = f"{item.title}\nprotocol {item.protocol}, budget {item.budget}"
    return Picture(title, KINDS["score_bars"](item, cells.done_runs(item, made.frame)), columns=4)


def _split_by_split(made: Comparison) -> str:
    """Return the differences of the first metric on equal splits, if the paper's numbers are known for each."""
    if made.splits is None or made.splits.empty:
        return ""
    metric = made.item.blocks[0].metric
    what = "split by split: ours less the published number, mean ± standard error, and the correlation over splits"
    grid = split_grid(made.splits[made.splits["metric"] == metric])
    return f"{metric}, {what}:\n\n{grid_text(grid, 'md', 'data set')}"


def _table(block: Block, part: pd.DataFrame, name: str) -> str:
    """Return one block, data sets by columns; those without any run are named under it."""
    if part.empty:
        return ""
    part = part.assign(
        column=list(map(column_name, part["method"], part["num_layers"])),
        text=[cell(row, block.digits, name) for row in part.itertuples(index=False)],
    )
    wide = part.pivot(index="dataset", columns="column", values="text").fillna("")
    wide = wide.loc[part["dataset"].unique(), part["column"].unique()]
    tried = part[part["count"] + part["failed"] + part["unknown"] > 0]
    rows, columns = wide.index.isin(tried["dataset"]), wide.columns.isin(tried["column"])
    left = [*wide.index[~rows], *wide.columns[~columns]]
    parts = [f"{block.metric} ({unit_of(block.metric)}):"]
    parts += [grid_text(wide.loc[rows, columns], "md", "data set")] if len(tried) else []
    parts += [f"Not run: {', '.join(left)}."] if left else []
    return "\n\n".join(parts)


def cell(row, digits: int, item: str) -> str:
    """'-2.43 ± 0.05 (-2.40 ± 0.04) ≈': ours, the published one and the verdict's mark; or 7/10 splits."""
    theirs = printed(published.of_item(item)[row.metric, row.dataset, row.method, row.num_layers])
    if row.count < row.wanted:
        return f"{incomplete_text(row)} ({theirs})"
    ours = " ± ".join(filter(None, numbers_of(row, digits)))
    some = f" [{row.count}]" if row.count < row.splits else ""
    return f"{ours}{some} ({theirs}) {MARKS.get(row.verdict, '')}".rstrip()


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
    verdicts = dict.fromkeys(word for rule in rules for word in rule.words)
    some = " [n]: only n splits are done." if (made.cells["wanted"] < made.cells["splits"]).any() else ""
    some += " 1/10: splits done of those required." if (made.cells["count"] < made.cells["wanted"]).any() else ""
    notes = [
        f"Each cell: our mean ± standard error (published mean ± standard error).{some}",
        f"{', '.join(f'{MARKS[word]} {word}' for word in verdicts)}: [rules](index.md#how-to-read-the-tables).",
        *([sentence] if "as printed" not in (sentence := published.spread_sentence(made.item.name)) else []),
        *_read_as_deviations(made),
    ]
    notes += [PAIRED] if made.cells["paired"].any() else []
    if unknown := int(made.cells["unknown"].sum()):
        notes.append(f"Not in the compact records: {counted(unknown, 'value')}.")
    return notes + ([made.item.note] if made.item.note else [])


def _read_as_deviations(made: Comparison) -> list[str]:
    """Count the verdicts under the other reading of printed variances, if a paper prints them."""
    entries = published.of_item(made.item.name)
    if "variance" not in {entry.spread_kind for entry in entries.values()}:
        return []
    numbers = [entries[key] for key in made.cells[KEYS].itertuples(index=False, name=None)]
    errors = [replace(each, spread_kind=each.spread_kind.replace("variance", "deviation")).stderr for each in numbers]
    in_errors = made.cells["difference"] / np.hypot(made.cells["stderr"], np.array(errors, dtype=float))
    counts = _counts(replace(made, cells=judge(made.cells.assign(in_errors=in_errors))))
    named = ", ".join(f"{counts[verdict]} {verdict}" for verdict in list(VERDICTS)[:3])
    return [f"If the printed spreads are standard deviations: {named}."]


# Published settings ---------------------------------------------------------------------------------------------------


def as_published(given: list[str], frame: pd.DataFrame) -> Comparison:
    """Compare the cells of Table 1 that have been run at published settings."""
    return comparison(TABLE_1, [*given, *AS_PUBLISHED], frame)


def published_settings(frame: pd.DataFrame) -> str:
    """Return cells of Table 1 at published settings, beside the published numbers and budget=laptop.

    They are in mixed precision, and its difference from float64 is shown where both have been run.
    """
    budgets = {"float64": ["budget=paper"], "mixed": MIXED, "laptop": ["budget=laptop"]}
    made = {name: _of_some_splits(as_published(given, frame)) for name, given in budgets.items()}
    mixed = made["mixed"]
    if mixed.runs.empty:
        return NOTHING
    block = mixed.item.blocks[0]
    done = {name: cells.done_runs(each.item, frame) for name, each in made.items()}
    differences = {
        title: pairs(done[run], done[base], block.metric).groupby(cells.KEYS)["difference"]
        for title, run, base in (("laptop less paper", "laptop", "mixed"), ("mixed less float64", "mixed", "float64"))
    }
    lines = {}
    for ours, fast in zip(*(made[name].cells.itertuples(index=False) for name in ("mixed", "laptop")), strict=True):
        place = (ours.dataset, ours.method, ours.num_layers)
        texts = {
            f"budget={name} (published)": cell(row, block.digits, TABLE_1)
            for name, row in (("paper", ours), ("laptop", fast))
        }
        texts |= {
            title: mean_text(each.get_group(place), block.digits + 1)
            for title, each in differences.items()
            if place in each.groups
        }
        lines[f"{ours.dataset}, {column_name(ours.method, ours.num_layers)}"] = texts
    given = f"{TABLE_1} {' '.join([*MIXED, *AS_PUBLISHED])}"
    return "\n\n".join(
        [
            f"{budget_in_words(mixed.item)} with `precision=mixed`, {words.splits_in_words(done['mixed']['split'])}. "
            f"{mixed.sentence}",
            grid_text(pd.DataFrame.from_dict(lines, orient="index").fillna(""), "md", "cell"),
            f"Differences are in {block.metric} on equal splits: mean ± standard error (number of pairs).",
            " ".join(_notes(mixed)),
            f"{words.cost_sentence(mixed.runs)} {words.failure_text(mixed.runs)}",
            f"```console\n$ dgpbench reproduce {given}\n$ dgpbench compare {given}\n```",
        ]
    )
