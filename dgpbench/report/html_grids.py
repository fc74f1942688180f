"""Grids of the HTML report: scores, comparisons and statistics of an item, and ranks on a user's own tables.

Each cell has the groups of runs behind it. A *group* is all runs that differ in their split alone; its number filters
the list of runs, the target of each number's link. Texts are plain: the template escapes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dgpbench.config import groups
from dgpbench.config.canonical import canonical, digest
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, column_name
from dgpbench.report import cells, published, statistics, tables
from dgpbench.report.compare import Comparison, error_digits
from dgpbench.report.leaderboard import method_and_changes, usual_splits
from dgpbench.report.statistics import LEVEL, Compared
from dgpbench.runs.summary import layers_of
from dgpbench.system.progress import counted

GROUP = ["task", "dataset", "method", "num_layers", "protocol", "budget", "seed"]
INDISTINGUISHABLE = "Whatever their scores, no two of these methods can be distinguished with {} by this test."


@dataclass(frozen=True)
class Cell:
    """One cell: its text, the value it is sorted by, the groups of runs behind it, and its mark (bold, italic)."""

    text: str
    order: float | str = ""
    groups: tuple[str, ...] = ()
    mark: str = ""
    numeric: bool = False


@dataclass(frozen=True)
class Grid:
    """A sortable table with notes under it."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


def number(value: float, digits: int = 3) -> Cell:
    """Return a number without links to runs."""
    return Cell("", numeric=True) if pd.isna(value) else Cell(f"{value:.{digits}f}", float(value), numeric=True)


def name(text: Any) -> Cell:
    """Return a name, sorted as itself."""
    return Cell(str(text), text)


def with_groups(frame: pd.DataFrame) -> pd.DataFrame:
    """Sort the records by identity and add ``group`` (g1, g2, ...), ``settings`` and ``L``.

    Runs of one identity with different values, after a change of a default or of a plug-in's code, are groups of their
    own, with the digest of the values in ``settings``.
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
    depths = zip(frame["num_layers"], (config["method"] for config in frame["config"]), strict=True)
    layers = ["" if (layers := layers_of(*each)) is None else layers for each in depths]
    return frame.assign(L=layers, settings=settings, group=[f"g{code + 1}" for code in groups])


# Tables of an item ----------------------------------------------------------------------------------------------------


def score_grids(made: tables.Table) -> list[Grid]:
    """Return the table of an item, one grid for each metric."""
    behind = _groups_behind(made.runs)
    grids = []
    for block, part, marked in made.blocks:
        lines = part.itertuples(index=False)
        scores = [_score(row, block.digits, marked.get(tables.key_of(row), ""), behind) for row in lines]
        wide = tables.upright(part, scores, Cell(""))
        rows = [(name(label), *line) for label, line in zip(wide.index, wide.to_numpy(), strict=True)]
        grids.append(Grid(block.metric, (str(wide.index.name), *wide.columns), rows))
    return [*grids[:-1], replace(grids[-1], notes=made.notes)]


def _score(row: Any, digits: int, mark: str, behind: dict) -> Cell:
    """Return a cell of a table with its runs, or with those of both sides of a direct comparison."""
    sides = row.method.split("_vs_")
    groups = [group for side in sides for group in behind.get((row.dataset, side, row.num_layers), ())]
    order = float(row.mean) if row.count == row.wanted and pd.notna(row.mean) else ""
    return Cell(tables.cell_text(row, digits), order, tuple(dict.fromkeys(groups)), mark, numeric=True)


def _groups_behind(runs: pd.DataFrame) -> dict[tuple[str, str, int], tuple[str, ...]]:
    """Map (data set, series, layers) to the groups of its runs."""
    groups = runs.groupby(["dataset", "series", "num_layers"], sort=False)["group"]
    return {key: tuple(dict.fromkeys(rows)) for key, rows in groups}


def comparison_grid(made: Comparison) -> Grid:
    """Return ours beside the published values."""
    digits = {block.metric: block.digits for block in made.item.blocks}
    behind = _groups_behind(made.runs)
    begun = made.cells[made.cells["count"] > 0]
    rows = []
    for row in begun.itertuples(index=False):
        shown = digits[row.metric]
        who = (name(row.dataset), name(column_name(row.method, row.num_layers)), name(row.metric))
        theirs = Cell(row.published_text, row.published, numeric=True)
        differences = number(row.difference, shown), number(row.in_errors, error_digits(row.in_errors))
        rows.append((*who, _score(row, shown, "", behind), theirs, *differences, name(row.verdict)))
    columns = ("data set", "method", "metric", "ours", "published", "difference", "in s.e.", "verdict")
    notes = [*(f"{share.text}." for share in made.shares()), published.spread_sentence(made.item.name)]
    if missing := len(made.cells) - len(begun):
        are = "is" if missing == 1 else "are"
        notes.append(f"{counted(missing, 'published number')} without a run {are} not listed.")
    return Grid("Ours and published", columns, rows, notes)


# Statistics of an item ------------------------------------------------------------------------------------------------


def statistics_grids(item: Item, frame: pd.DataFrame, notes: list[str]) -> list[Grid]:
    """Return ranks and tests of each score; ``notes`` gets a sentence if nothing can be compared."""
    done, grids = cells.done_runs(item, frame), []
    for metric in statistics.compared_metrics(item):
        try:
            found = statistics.compared(item, done, metric)
        except UserError as refusal:
            notes.append(f"No statistics of {metric}: {refusal}.")
            continue
        grids += [kind(metric, found) for kind in (rank_grid, reference_grid, wilcoxon_grid, improvement_grid)]
    return grids


def rank_grid(metric: str, found: Compared) -> Grid:
    """Return the mean ranks over data sets, with Friedman's test."""
    across = found.across
    average = statistics.mean_ranks(across).sort_values()
    notes = [found.about]
    try:
        test = statistics.friedman(across)
        least = statistics.least_nemenyi_p(len(average), len(across))
        notes.append(
            f"Friedman over {len(across)} data sets (means over splits): "
            f"chi-squared {test.statistic:.2f}, p = {test.p_value:.2g}. "
            f"Nemenyi: mean ranks further apart than {test.critical_difference:.2f} differ at level {LEVEL:g}; "
            f"the smallest attainable p of a pair is {least:.2g}."
        )
        if least > LEVEL:
            notes.append(INDISTINGUISHABLE.format(counted(len(across), "data set")))
    except UserError as refusal:
        notes.append(f"{refusal}.")
    rows = [(name(method), number(rank, 2)) for method, rank in average.items()]
    return Grid(f"Mean ranks, {metric} (1 is best)", ("method", "mean rank"), rows, notes)


def _p_value(value: float) -> Cell:
    return Cell("< 0.001", value, numeric=True) if value < 0.001 else number(value)


def reference_grid(metric: str, found: Compared) -> Grid:
    """Return the corrected resampled t-tests against the reference method."""
    columns = ("method", f"median loss - {found.reference}", "better on", "worse on", "p", "p, Holm", "verdict")
    caption = f"Against {found.reference}, {metric}"
    try:
        table = statistics.against_reference(found.losses, found.reference, found.test_share)
    except UserError as refusal:
        return Grid(caption, columns, (), (f"{refusal}.",))
    num_sets, num_splits = len(found.across), int(found.losses.groupby(level="dataset").size().min())
    sets = counted(num_sets, "data set")
    unknown = f"cannot be distinguished with {sets} of {num_splits} splits"
    rows = []
    for row in table.itertuples(index=False):
        sets_found = name(", ".join(row.better)), name(", ".join(row.worse))
        tested = _p_value(row.p_value), _p_value(row.p_holm), name(row.verdict or unknown)
        rows.append((name(row.method), number(row.median_difference), *sets_found, *tested))
    share = float(found.test_share.max())
    size = statistics.detectable_difference(num_sets, num_splits, share, len(table))
    note = (
        "Corrected resampled t-test of the paired splits of each data set (Nadeau and Bengio 2003: the variance of a "
        f"mean over J splits is (1/J + n_test/n_train) s^2, since splits share rows), combined over {sets} "
        f"(Stouffer); Holm's correction over {counted(len(table), 'method')}, level {LEVEL:g}. It uses every split, so "
        f"that its p has no floor: a difference of {size:.2g} standard deviations over splits on every data set is "
        f"found with probability {statistics.POWER:g}. 'better on' and 'worse on' name the data sets on which the test "
        "of that data set alone finds it, with Holm's correction over all of them. It applies to these data sets only."
    )
    return Grid(caption, columns, rows, (note,))


def wilcoxon_grid(metric: str, found: Compared) -> Grid:
    """Return Wilcoxon's tests of all pairs over data sets."""
    across = found.across
    table, sets = statistics.wilcoxon_holm(across), counted(len(across), "data set")
    least = statistics.least_signed_rank_p(len(across))
    corrected = min(1.0, least * len(table))
    unknown = "no difference found" if corrected <= LEVEL else f"cannot be distinguished with {sets}"
    rows = []
    for row in table.itertuples(index=False):
        tested = _p_value(row.p_value), _p_value(row.p_holm), name("differ" if row.differs else unknown)
        rows.append((name(row.method_a), name(row.method_b), number(row.median_difference), *tested))
    pairs = f"all {len(table)} pairs" if len(table) > 1 else "1 pair"
    notes = [
        f"Wilcoxon's signed-rank test over {sets} (means over splits); Holm's correction over {pairs}, level "
        f"{LEVEL:g}. The smallest attainable p is {least:.2g}, and {corrected:.2g} after the "
        "correction. A difference below zero favours a."
    ]
    if corrected > LEVEL:
        notes.append(INDISTINGUISHABLE.format(sets))
    columns = ("method a", "method b", "median loss a - b", "p", "p, Holm", "verdict")
    return Grid(f"Pairs, {metric}", columns, rows, notes)


def improvement_grid(metric: str, found: Compared) -> Grid:
    """Return the probabilities that the method of best mean rank beats each other one."""
    table = statistics.improvements(found.losses)
    rows = [(name(a), name(b), *(number(each, 2) for each in numbers)) for a, b, *numbers in table.to_numpy()]
    note = (
        f"Share of splits on which a beats b, averaged over data sets; {statistics.RESAMPLES} bootstrap resamples of "
        "the splits. These share rows, so that the interval is too narrow for a test."
    )
    columns = ("method a", "method b", "probability", "95 % from", "to")
    return Grid(f"Probability of improvement, {metric}", columns, rows, (note,))


def own_table_grids(frame: pd.DataFrame) -> list[Grid]:
    """Rank methods on each table of a user by their mean log-likelihood, and compare them with the first."""
    if "tll" not in frame:
        return []
    ours = frame["dataset"].isin(groups.names("dataset"))
    own = frame[~ours & frame["is_evaluation_split"]]
    columns = ("rank", "method", "tll", "less the first's", "p", "p, Holm")
    grids = []
    for (task, dataset, protocol, budget), runs in own.groupby(["task", "dataset", "protocol", "budget"]):
        rows = runs[(runs["status"] == "done") & runs["split"].isin(usual_splits(runs))]
        called = [" ".join(method_and_changes(row)).strip() for row in rows.itertuples(index=False)]
        losses = rows.assign(called=called, loss=-rows["tll"]).pivot_table("loss", ["dataset", "split"], "called")
        whole = losses.dropna(axis=1)
        if len(whole) < 2 or whole.shape[1] < 2:
            continue
        means = whole.mean().sort_values(kind="stable")
        share = (rows["n_test"] / rows["n_train"]).groupby(rows["dataset"]).mean()
        table = statistics.against_reference(whole, means.index[0], share).set_index("method")
        lines = []
        for rank, row in enumerate(table.reindex(means.index).assign(loss=means).itertuples(), 1):
            tested = number(-row.median_difference), _p_value(row.p_value), _p_value(row.p_holm)  # the first has none
            lines.append((number(rank, 0), name(row.Index), number(-row.loss), *tested))
        note = (
            f"Over {len(whole)} splits that each of these methods has; p by the corrected resampled t-test of paired "
            f"splits (Nadeau and Bengio 2003), with Holm's correction over {counted(len(table), 'method')}. The first "
            "was chosen by these scores, which favours it."
        )
        if lacking := [method for method in dict.fromkeys(called) if method not in whole]:
            note += f" Left out, without a log-likelihood on each of them: {', '.join(lacking)}."
        grids.append(Grid(f"{dataset}, ranked: {task}, {protocol}, {budget}", columns, lines, (note,)))
    return grids
