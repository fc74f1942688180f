"""The statistics of an item as grids: mean ranks, pairs of methods, probabilities of improvement."""

import pandas as pd

from dgpbench.errors import Refused
from dgpbench.experiments.items import Item
from dgpbench.predictions import metrics
from dgpbench.report import statistics
from dgpbench.report.figures import render
from dgpbench.report.html_grid import Grid, name, number


def statistics_grids(item: Item, frame: pd.DataFrame, notes: list[str]) -> list[Grid]:
    """Ranks and pairwise tests of each score; what cannot be compared is said in ``notes``."""
    done, grids = render.done_runs(item, frame), []
    for metric in [block.metric for block in item.blocks if block.metric in metrics.METRICS and not block.pairs]:
        try:
            paired = render.losses(item, done, metric)
            if paired.shape[1] > 1:
                grids += [_rank_grid(metric, paired), _wilcoxon_grid(metric, paired), _improvement_grid(metric, paired)]
        except Refused as refusal:
            notes.append(f"No statistics of {metric}: {refusal}.")
    return grids


def _rank_grid(metric: str, paired: pd.DataFrame) -> Grid:
    across = statistics.by_dataset(paired)
    average = statistics.mean_ranks(across).sort_values()
    rows = tuple((name(method), number(rank, 2)) for method, rank in average.items())
    try:
        test = statistics.friedman(across)
        note = (
            f"Friedman over {test.num_blocks} data sets (means over splits): "
            f"chi-squared {test.statistic:.2f}, p = {test.p_value:.2g}. "
            f"Nemenyi: mean ranks further apart than {test.critical_difference:.2f} differ at level {test.alpha:g}."
        )
    except Refused as refusal:
        note = f"{refusal}."
    return Grid(f"Mean ranks, {metric} (1 is best)", ("method", "mean rank"), rows, (note,))


def _wilcoxon_grid(metric: str, paired: pd.DataFrame) -> Grid:
    across = statistics.by_dataset(paired)
    several = len(across) >= 6  # below six blocks the exact test cannot reach p = 0.05
    tested = across if several else paired
    rows = []
    for row in statistics.wilcoxon_holm(tested).itertuples(index=False):
        verdict = name("differ" if row.differs else "do not differ")
        numbers = (number(row.median_difference), number(row.p_value), number(row.p_holm))
        rows.append((name(row.method_a), name(row.method_b), *numbers, verdict))
    blocks = "data sets (means over splits)" if several else "splits, which share rows, so that p is too small"
    note = f"Wilcoxon's signed-rank test over {len(tested)} {blocks}; Holm's correction over all pairs, level 0.05. "
    columns = ("method a", "method b", "median loss a - b", "p", "p, Holm", "verdict")
    return Grid(f"Pairs, {metric}", columns, tuple(rows), (note + "A difference below zero favours a.",))


def _improvement_grid(metric: str, paired: pd.DataFrame) -> Grid:
    table = statistics.improvements(paired, statistics.best_against_rest(statistics.by_dataset(paired)))
    rows = [
        (name(row.method_a), name(row.method_b), *(number(value, 2) for value in (row.probability, row.low, row.high)))
        for row in table.itertuples(index=False)
    ]
    note = f"Share of splits on which a beats b, averaged over data sets; {statistics.RESAMPLES} bootstrap resamples."
    columns = ("method a", "method b", "probability", "95 % from", "to")
    return Grid(f"Probability of improvement, {metric}", columns, tuple(rows), (note,))
