"""The figure of an item, from its records to a page or a file."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from dgpbench.errors import Refused
from dgpbench.experiments.items import Item, Sweep
from dgpbench.experiments.plan import plan_of
from dgpbench.predictions import metrics
from dgpbench.report import cells, statistics
from dgpbench.report.figures import ranking
from dgpbench.report.figures.layouts import LAYOUTS
from dgpbench.report.figures.panels import Panel, page
from dgpbench.report.figures.sources import NoRuns
from dgpbench.report.figures.style import house_style, label
from dgpbench.system import files

FORMATS = ("png", "pdf", "svg")


def figures(item: Item, frame: pd.DataFrame) -> dict[str, Figure]:
    """Every figure of an item by name: its own, or for a table the scores and, once complete, the ranks; and those of
    ``options.also``.

    :param frame: all records, as ``collect`` gives them
    :raises Refused: where there is nothing to draw
    """
    done = done_runs(item, frame)
    name = item.figure or "score_bars"
    if name not in LAYOUTS:
        raise Refused(f"{item.name} asks for a figure '{name}'; there are {', '.join(LAYOUTS)}")
    if done.empty and name != "seconds_per_step":
        elsewhere = cells.done_elsewhere(item, done, frame)
        raise NoRuns(
            f"no run of {item.name} at budget={item.budget} is done; `dgpbench reproduce {item.name}` makes them"
            + (f"; {elsewhere}" if elsewhere else "")
        )
    panels = LAYOUTS[name](item, done)
    if not panels:
        raise Refused(f"the runs of {item.name} that are done hold nothing that {name} draws")
    made = {name: page(_title(item, done), panels)}
    for more in item.options.get("also", []):
        if found := LAYOUTS[more](item, done):
            made[more] = page(_title(item, done), found)
    if name == "score_bars":
        made |= {key: page(_rank_title(item, key), [panel], 1) for key, panel in rank_panels(item, done).items()}
    return made


def done_runs(item: Item, frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of an item that are done, in the order of its methods."""
    runs = cells.select(item, frame)
    order = {key: place for place, key in enumerate(cells.wanted(item)[cells.KEYS].itertuples(index=False, name=None))}
    places = pd.Series(
        [order[key] for key in runs[cells.KEYS].itertuples(index=False, name=None)], index=runs.index, dtype=int
    )
    return (
        runs[runs["status"] == "done"]
        .assign(place=places)
        .sort_values(["place", "split"], kind="stable")
        .drop(columns="place")
    )


def _title(item: Item, done: pd.DataFrame) -> str:
    total = num_runs(item)
    state = f"{len(done)} of {total} runs" if len(done) < total else f"{total} run{'s' * (total != 1)}"
    if done.empty:
        state = "timings of bench steps"
    return f"{item.title}\n{_whose(item, state)}"


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


def losses(item: Item, done: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The runs' scores as losses, blocks (data set, split), methods labelled.

    Methods are compared on all data sets of the item: one that it does not run on each of them is left out, and so is
    one whose predictions have no such score.

    :raises Refused: where a cell of the others is missing
    """
    values, wanted = cells.value_of(metric)(done), cells.wanted(item)
    compared = _everywhere(wanted) - _scoreless(done, values)
    rows = done.assign(loss=values.map(metrics.METRICS[metric].loss))[_among(done, compared)]
    named = [label(method, num_layers) for method, num_layers in zip(rows["series"], rows["num_layers"], strict=True)]
    paired = statistics.paired_losses(rows[["dataset", "split", "loss"]].assign(method=named))
    missing = int(wanted[_among(wanted, compared)]["wanted"].sum()) - paired.size
    if missing > 0:
        raise Refused(f"{missing} runs of {item.name} are missing; methods are compared on complete blocks only")
    return paired


def _everywhere(wanted: pd.DataFrame) -> set[tuple[str, int]]:
    """The columns (series, depth) that every data set of an item has."""
    datasets = wanted.groupby(["series", "num_layers"])["dataset"].nunique()
    return set(datasets[datasets == wanted["dataset"].nunique()].index)


def _scoreless(done: pd.DataFrame, values: pd.Series) -> set[tuple[str, int]]:
    """The columns with runs, none of which has a value."""
    lacking = values.isna().groupby([done["series"], done["num_layers"]]).all()
    return set(lacking[lacking].index)


def _among(rows: pd.DataFrame, columns: set[tuple[str, int]]) -> list[bool]:
    return [key in columns for key in zip(rows["series"], rows["num_layers"], strict=True)]


def rank_panels(item: Item, done: pd.DataFrame) -> dict[str, Panel]:
    """Critical differences and probabilities of improvement of each score; none where cells are missing."""
    panels: dict[str, Panel] = {}
    for metric in [block.metric for block in item.blocks if block.metric in metrics.METRICS and not block.pairs]:
        try:
            paired = losses(item, done, metric)
            panels |= {f"{key}_{metric}": panel for key, panel in _rank_panels(paired).items()}
        except Refused:
            continue  # the report and `compare` say what is missing; a table's bars are drawn anyway
    return panels


def _rank_panels(paired: pd.DataFrame) -> dict[str, Panel]:
    if paired.shape[1] < 2:
        return {}
    pairs = statistics.best_against_rest(statistics.by_dataset(paired))
    shown, panels = improvement_frame(statistics.improvements(paired, pairs)), {}
    if shown["low"].notna().all():
        panels = {"improvement": Panel("", ranking.improvement, shown, (5.5, 1.2 + 0.2 * len(shown)))}
    across = statistics.by_dataset(paired)
    if across.shape[0] >= 2 and across.shape[1] >= 3:
        test = statistics.friedman(across)
        size = (7.0, 1.8 + 0.17 * across.shape[1])
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
