"""The statistics of an item as grids: mean ranks, pairs of methods, tests against a reference, improvements."""

import pandas as pd

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.predictive.scores import METRICS
from dgpbench.report import statistics
from dgpbench.report.complete import Compared, compared
from dgpbench.report.figures import render
from dgpbench.report.html_grid import Cell, Grid, name, number

LEVEL = 0.05


def statistics_grids(item: Item, frame: pd.DataFrame, notes: list[str]) -> list[Grid]:
    """Ranks and tests of each score; ``notes`` gets a sentence where nothing can be compared."""
    done, grids = render.done_runs(item, frame), []
    for metric in [block.metric for block in item.blocks if block.metric in METRICS and not block.pairs]:
        try:
            found = compared(item, done, metric)
        except UserError as refusal:
            notes.append(f"No statistics of {metric}: {refusal}.")
            continue
        makers = (_rank_grid, _reference_grid, _wilcoxon_grid, _improvement_grid)
        grids += [make(metric, found) for make in makers]
    return grids


def _rank_grid(metric: str, found: Compared) -> Grid:
    across = found.across
    average = statistics.mean_ranks(across).sort_values()
    rows = tuple((name(method), number(rank, 2)) for method, rank in average.items())
    notes = [found.about]
    try:
        test, num_methods = statistics.friedman(across), len(average)
        least = statistics.least_nemenyi_p(num_methods, test.num_blocks)
        notes.append(
            f"Friedman over {test.num_blocks} data sets (means over splits): "
            f"chi-squared {test.statistic:.2f}, p = {test.p_value:.2g}. "
            f"Nemenyi: mean ranks further apart than {test.critical_difference:.2f} differ at level {test.alpha:g}; "
            f"the smallest attainable p of a pair is {least:.2g}."
        )
        notes += [] if least <= LEVEL else [_indistinguishable(test.num_blocks)]
    except UserError as refusal:
        notes.append(f"{refusal}.")
    return Grid(f"Mean ranks, {metric} (1 is best)", ("method", "mean rank"), rows, tuple(notes))


def _indistinguishable(num_sets: int) -> str:
    return f"Whatever their scores, no two of these methods can be distinguished with {_sets(num_sets)} by this test."


def _sets(num_sets: int) -> str:
    return f"{num_sets} data set{'s' * (num_sets != 1)}"


def _p_value(value: float) -> Cell:
    return number(value) if value >= 0.001 else Cell("< 0.001", value, numeric=True)


def _reference_grid(metric: str, found: Compared) -> Grid:
    columns = ("method", f"median loss - {found.reference}", "better on", "worse on", "p", "p, Holm", "verdict")
    caption = f"Against {found.reference}, {metric}"
    try:
        table = statistics.against_reference(found.losses, found.reference, found.test_share, LEVEL)
    except UserError as refusal:
        return Grid(caption, columns, (), (f"{refusal}.",))
    num_sets, num_splits = len(found.across), int(found.losses.groupby(level="dataset").size().min())
    share = float(found.test_share.max())
    unknown = f"cannot be distinguished with {_sets(num_sets)} of {num_splits} splits"
    rows = []
    for row in table.itertuples(index=False):
        sides = (name(", ".join(row.better)), name(", ".join(row.worse)))
        numbers = (_p_value(row.p_value), _p_value(row.p_holm))
        rows.append((name(row.method), number(row.median_difference), *sides, *numbers, name(row.verdict or unknown)))
    size = statistics.detectable_difference(num_sets, num_splits, share, len(table), LEVEL)
    note = (
        "Corrected resampled t-test of the paired splits of each data set (Nadeau and Bengio 2003: the variance of a "
        f"mean over J splits is (1/J + n_test/n_train) s^2, since splits share rows), combined over {_sets(num_sets)} "
        f"(Stouffer); Holm's correction over {len(table)} methods, level {LEVEL:g}. It uses every split, so that its p "
        f"has no floor: a difference of {size:.2g} standard deviations over splits on every data set is found with "
        f"probability {statistics.POWER:g}. 'better on' and 'worse on' name the data sets on which the test of that "
        "data set alone finds it, with Holm's correction over all of them. It speaks of these data sets, not of others."
    )
    return Grid(caption, columns, tuple(rows), (note,))


def _wilcoxon_grid(metric: str, found: Compared) -> Grid:
    across = found.across
    num_sets, table = len(across), statistics.wilcoxon_holm(across, LEVEL)
    least = statistics.least_signed_rank_p(num_sets)
    corrected = min(1.0, least * len(table))
    unknown = "no difference found" if corrected <= LEVEL else f"cannot be distinguished with {_sets(num_sets)}"
    rows = []
    for row in table.itertuples(index=False):
        verdict = name("differ" if row.differs else unknown)
        numbers = (number(row.median_difference), _p_value(row.p_value), _p_value(row.p_holm))
        rows.append((name(row.method_a), name(row.method_b), *numbers, verdict))
    notes = [
        f"Wilcoxon's signed-rank test over {_sets(num_sets)} (means over splits); Holm's correction over all "
        f"{len(table)} pairs, level {LEVEL:g}. The smallest attainable p is {least:.2g}, and {corrected:.2g} after the "
        "correction. A difference below zero favours a."
    ]
    notes += [] if corrected <= LEVEL else [_indistinguishable(num_sets)]
    columns = ("method a", "method b", "median loss a - b", "p", "p, Holm", "verdict")
    return Grid(f"Pairs, {metric}", columns, tuple(rows), tuple(notes))


def _improvement_grid(metric: str, found: Compared) -> Grid:
    table = statistics.improvements(found.losses, statistics.best_against_rest(found.across))
    rows = [
        (name(row.method_a), name(row.method_b), *(number(value, 2) for value in (row.probability, row.low, row.high)))
        for row in table.itertuples(index=False)
    ]
    note = (
        f"Share of splits on which a beats b, averaged over data sets; {statistics.RESAMPLES} bootstrap resamples of "
        "the splits. These share rows, so that the interval is too narrow for a test."
    )
    columns = ("method a", "method b", "probability", "95 % from", "to")
    return Grid(f"Probability of improvement, {metric}", columns, tuple(rows), (note,))


def own_table_grids(frame: pd.DataFrame) -> list[Grid]:
    """Methods on each table of a user's own, ranked by their mean log-likelihood, and compared with the first."""
    if "tll" not in frame:
        return []
    ours = frame["dataset"].isin(groups.names("dataset"))
    own = frame[~ours & (frame["status"] == "done") & frame["is_evaluation_split"]]
    columns = ("rank", "method", "tll", "less the first's", "p", "p, Holm")
    grids = []
    for (task, dataset, protocol, budget), rows in own.groupby(["task", "dataset", "protocol", "budget"]):
        called = [f"{method} {f'L{L}' if L != '' else ''} {changed}".strip() for method, L, changed in
                  zip(rows["method"], rows["L"], rows["settings"], strict=True)]  # fmt: skip
        losses = rows.assign(called=called, loss=-rows["tll"]).pivot_table("loss", ["dataset", "split"], "called")
        whole = losses.dropna(axis=1)
        if len(whole) < 2 or whole.shape[1] < 2:
            continue
        means = whole.mean().sort_values(kind="stable")
        share = (rows["n_test"] / rows["n_train"]).groupby(rows["dataset"]).mean()
        table = statistics.against_reference(whole, means.index[0], share, LEVEL).set_index("method")
        lines: list[tuple[Cell, ...]] = []
        for rank, (method, loss) in enumerate(means.items(), 1):
            tested: tuple[Cell, ...] = (name(""),) * 3
            if rank > 1:
                row = table.loc[method]
                tested = (number(-row.median_difference), _p_value(row.p_value), _p_value(row.p_holm))
            lines.append((number(rank, 0), name(method), number(-loss), *tested))
        note = (
            f"Over {len(whole)} splits that each of these methods has; p by the corrected resampled t-test of paired "
            f"splits (Nadeau and Bengio 2003), with Holm's correction over {len(table)} methods. The first was chosen "
            "by these scores, which favours it."
        )
        if lacking := [method for method in dict.fromkeys(called) if method not in whole]:
            note += f" Left out, without a log-likelihood on each split: {', '.join(lacking)}."
        grids.append(Grid(f"{dataset}, ranked: {task}, {protocol}, {budget}", columns, tuple(lines), (note,)))
    return grids
