"""The figure of an item, from its records to a page or a file."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, Sweep
from dgpbench.experiments.plan import plan_of
from dgpbench.predictive.scores import METRICS
from dgpbench.report import cells, statistics
from dgpbench.report.complete import Compared, compared
from dgpbench.report.figures import ranking
from dgpbench.report.figures.layouts import LAYOUTS
from dgpbench.report.figures.panels import Panel, page
from dgpbench.report.figures.sources import NoRuns
from dgpbench.report.figures.style import house_style
from dgpbench.system import files

FORMATS = ("png", "pdf", "svg")


def figures(item: Item, frame: pd.DataFrame) -> dict[str, Figure]:
    """Every figure of an item by name: its own, or for a table the scores and, once complete, the ranks; and those of
    ``options.also``.

    :param frame: all records, as ``collect`` gives them
    :raises UserError: where there is nothing to draw
    """
    done = done_runs(item, frame)
    name = item.figure or "score_bars"
    if name not in LAYOUTS:
        raise UserError(f"{item.name} asks for a figure '{name}'; there are {', '.join(LAYOUTS)}")
    if done.empty and name != "seconds_per_step":
        elsewhere = cells.done_elsewhere(item, done, frame)
        raise NoRuns(
            f"no run of {item.name} at budget={item.budget} is done; `dgpbench reproduce {item.name}` makes them"
            + (f"; {elsewhere}" if elsewhere else "")
        )
    panels = LAYOUTS[name](item, done)
    if not panels:
        raise UserError(f"the runs of {item.name} that are done hold nothing that {name} draws")
    made = {name: page(_title(item, done, item.title), panels)}
    whole = item.title if item.kind == "table" else item.title.partition(": ")[0]  # a figure's ends in what it shows
    for more in item.options.get("also", []):
        if found := LAYOUTS[more](item, done):
            made[more] = page(_title(item, done, f"{whole}: {more.replace('_', ' ')}"), found)
    if name == "score_bars":
        for key, (about, panel) in rank_panels(item, done).items():
            made[key] = page(_rank_title(item, key), [panel], 1, about)
    return made


def done_runs(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of an item that are done, in the order of its methods, each with the number of its cell that are done
    (``count``) and ``wanted``."""
    runs = cells.select(item, frame)
    expected = cells.wanted(item).rename_axis("place").reset_index()
    done = runs[runs["status"] == "done"].astype({"num_layers": int}).merge(expected, how="left", on=cells.KEYS)
    done = done.assign(count=done.groupby(cells.KEYS)["split"].transform("size"))
    return done.sort_values(["place", "split"], kind="stable").drop(columns="place")


def _title(item: Item, done: pd.DataFrame, about: str) -> str:
    total = num_runs(item)
    state = f"{len(done)} of {total} runs" if len(done) < total else f"{total} run{'s' * (total != 1)}"
    if done.empty:
        state = "timings of bench steps"
    return f"{about}\n{_whose(item, state)}"


def _whose(item: Item, *state: str) -> str:
    """Which runs are drawn."""
    chosen = [text for text in item.narrowed if not text.startswith(("budget=", "protocol="))]
    return ", ".join([item.protocol, f"budget {item.budget}", *state, *chosen])


def num_runs(item: Item) -> int:
    """How many runs an item is about; a cell of a table has one for each split, a figure along M or tau has more."""
    wanted = [(row, len(sweep.values["split"])) for sweep in item.sweeps for row in _cells_of(sweep)]
    if len(item.sweeps) > 1 and len({row for row, _ in wanted}) < len(wanted):
        return len(plan_of(item))  # sweeps may meet in a run, as Fig. S7's do: only its identity tells
    return sum(splits for _, splits in wanted)


def _cells_of(sweep: Sweep) -> list[tuple[str, ...]]:
    """(series, depth, data set) of each combination of its settings: the same several times where those are swept."""
    keys = ("method", "method.num_layers", "dataset", *sweep.settings())
    found = sweep.combinations(list(dict.fromkeys(keys)))
    return [(sweep.name_of(one["method"]), one["method.num_layers"], one["dataset"]) for one in found]


def _rank_title(item: Item, key: str) -> str:
    what, _, metric = key.partition("_")
    words = {"ranks": "critical differences of mean ranks", "improvement": "best mean rank against the others"}[what]
    return f"{item.title}\n{words}, {metric}, {_whose(item)}"


def rank_panels(item: Item, done: pd.DataFrame) -> dict[str, tuple[str, Panel]]:
    """Critical differences and probabilities of improvement of each score, over the cells that are complete.

    Each with the sentence that names its data sets and what is left out.
    """
    panels: dict[str, tuple[str, Panel]] = {}
    for metric in [block.metric for block in item.blocks if block.metric in METRICS and not block.pairs]:
        try:
            found = compared(item, done, metric)
        except UserError:
            continue  # the report says what is missing; a table's scores are drawn anyway
        panels |= {f"{key}_{metric}": (found.about, panel) for key, panel in _rank_panels(found).items()}
    return panels


def _rank_panels(found: Compared) -> dict[str, Panel]:
    pairs = statistics.best_against_rest(found.across)
    shown, panels = improvement_frame(statistics.improvements(found.losses, pairs)), {}
    if shown["low"].notna().all():
        panels = {"improvement": Panel("", ranking.improvement, shown, (5.5, 1.2 + 0.2 * len(shown)))}
    num_sets, num_methods = found.across.shape
    if num_sets >= 2 and num_methods >= 3:
        test = statistics.friedman(found.across)
        size = (7.0, 1.8 + 0.17 * num_methods)
        panels = {"ranks": Panel("", ranking.critical_difference, rank_frame(test), size)} | panels
    return panels


def rank_frame(test: statistics.Friedman) -> pd.DataFrame:
    """What the critical-difference diagram draws."""
    frame = test.mean_ranks.rename_axis("label").reset_index(name="mean_rank")
    return frame.assign(critical_difference=test.critical_difference, num_blocks=test.num_blocks, alpha=test.alpha)


def improvement_frame(table: pd.DataFrame) -> pd.DataFrame:
    """What the diagram of improvements draws."""
    return table.assign(pair=table["method_a"] + " beats " + table["method_b"])


def save(
    figure: Figure,
    output: Path,
    texts: Mapping[str, str | None] | None = None,
    advice: str = files.ANOTHER_FOLDER,
) -> Path:
    """Write a figure; the suffix names the format, and the same records give the same bytes.

    :param texts: what the file says of itself, by name; None leaves out what matplotlib writes under it
    :param advice: how the user says where else to write
    """
    kind = output.suffix.lstrip(".")
    dated: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with house_style(), files.replacing(output, advice) as partial:
        figure.savefig(partial, format=kind, metadata={**dated.get(kind, {}), **(texts or {})})
    return output
