"""Comparisons of methods across data sets and splits: numbers only, no pictures.

The tests take *losses*: a frame with one row for each block (a data set, or a split of one) and one column for each
method; less is better (``Metric.loss`` converts a score). Blocks must be complete: a rank among three methods is not
comparable with one among four, and a test that drops missing cells tests another hypothesis.
References: Demsar 2006 (ranks, Nemenyi), Nadeau and Bengio 2003 (corrected resampled t), Agarwal et al. 2021
(probability of improvement).
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.predictive.scores import METRICS
from dgpbench.report import cells
from dgpbench.report.figures.style import label
from dgpbench.seeds import seed_for
from dgpbench.system.progress import counted

RESAMPLES = 2000
ENUMERATED = 12  # most differences with an enumeration of all 2^n signs
FEWEST = 3  # data sets of a block, if there are as many: ranks over fewer are too coarse
NAMED = 3  # incomplete cells named for each data set that is left out
LEVEL = 0.05  # of all tests
POWER = 0.8


@dataclass(frozen=True)
class Compared:
    """Scores of one metric on a complete block.

    :param losses: rows (data set, split), a column for each method
    :param test_share: test rows per training row of each data set; NaN if records do not have them
    :param reference: the column that the others are compared with, fixed before any score is seen
    :param about: the data sets, and which data sets and methods are left out and why
    """

    losses: pd.DataFrame
    test_share: pd.Series
    reference: str
    about: str

    @property
    def across(self) -> pd.DataFrame:
        """Mean loss of each data set."""
        return by_dataset(self.losses)


def compared_metrics(item: Item) -> list[str]:
    """Return the scores of an item's blocks; direct comparisons and seconds are not ranked."""
    return [block.metric for block in item.blocks if block.metric in METRICS and not block.pairs]


def compared(item: Item, done: pd.DataFrame, metric: str) -> Compared:
    """Return the complete block of an item's done runs.

    :raises UserError: if no two methods have every split of one data set
    """
    scores = cells.value_of(metric, done).map(METRICS[metric].loss).astype(float)
    rows = done.assign(loss=scores, name=list(map(label, done["series"], done["num_layers"])))[np.isfinite(scores)]
    counts = rows.groupby(cells.KEYS).size().rename("count")
    wanted = cells.wanted(item).join(counts, on=cells.KEYS).fillna({"count": 0}).astype({"count": int})
    names = list(map(label, wanted["series"], wanted["num_layers"]))
    wanted = wanted.assign(name=names, whole=wanted["count"] >= wanted["wanted"])
    grid = wanted.pivot(index="dataset", columns="name", values="whole").eq(True)
    block = largest_block(grid.loc[wanted["dataset"].unique(), wanted["name"].unique()])
    if block.empty or block.shape[1] < 2:
        raise UserError(
            f"no two methods have all splits of a data set in {metric}; methods are compared on complete cells only"
        )
    chosen = rows[rows["dataset"].isin(block.index) & rows["name"].isin(block.columns)]
    paired = paired_losses(chosen[["dataset", "split", "loss"]].assign(method=chosen["name"]))[block.columns]
    share = (chosen["n_test"] / chosen["n_train"]).groupby(chosen["dataset"]).median()
    sgp = label("sgp", 1)
    return Compared(paired, share, sgp if sgp in paired else paired.columns[0], _about(wanted, block))


def _about(wanted: pd.DataFrame, block: pd.DataFrame) -> str:
    """'Over boston and energy. Left out: wine_red (GPR L1 6/10), FITC L1 (3/10 on boston).'"""
    left = []
    for dataset, rows in wanted[~wanted["dataset"].isin(block.index)].groupby("dataset", sort=False):
        lacking = rows[~rows["whole"] & rows["name"].isin(block.columns)]
        named = [f"{row.name} {row.count}/{row.wanted}" for row in lacking[:NAMED].itertuples(index=False)]
        more = [counted(len(lacking) - NAMED, "more method")] if len(lacking) > NAMED else []
        absent = [f"{name} not in this table" for name in block.columns if name not in set(rows["name"])]
        left.append(f"{dataset} ({', '.join([*named, *more, *absent])})")
    for name, rows in wanted[~wanted["name"].isin(block.columns)].groupby("name", sort=False):
        lacking = rows[~rows["whole"] & rows["dataset"].isin(block.index)]
        absent = [dataset for dataset in block.index if dataset not in set(rows["dataset"])]
        where = [f"{row.count}/{row.wanted} on {row.dataset}" for row in lacking.itertuples(index=False)]
        left.append(f"{name} ({[*where, *(f'not in this table on {dataset}' for dataset in absent)][0]})")
    data_sets = f"Data sets: {', '.join(block.index)}."
    return f"{data_sets} Left out, since ranks and tests need complete cells: {'; '.join(left)}." if left else data_sets


def paired_losses(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each (data set, split), one column for each method, in order of first appearance.

    :param frame: columns dataset, split, method and loss, one row for each run
    :raises UserError: if a cell is missing, not a finite number, or duplicated
    """
    twice = frame[frame.duplicated(["dataset", "split", "method"])]
    if len(twice):
        where = "{method} on {dataset} split {split}".format(**twice.iloc[0])
        raise UserError(f"{where} has more than one score; narrow the comparison to one seed")
    wide = frame.pivot(index=["dataset", "split"], columns="method", values="loss")
    return refuse_incomplete(wide[frame["method"].unique()])


def refuse_incomplete(losses: pd.DataFrame) -> pd.DataFrame:
    """Return the losses if every method has a finite one in every block.

    :raises UserError: otherwise, with the number of missing cells and the first of them
    """
    if losses.empty:
        raise UserError("nothing to compare: no run has a score yet")
    missing = ~np.isfinite(losses.to_numpy(dtype=float))
    if not missing.any():
        return losses
    row, column = np.argwhere(missing)[0]
    block = losses.index[row]
    named = " split ".join(map(str, block)) if isinstance(block, tuple) else str(block)
    raise UserError(
        f"{missing.sum()} of {missing.size} scores are missing, the first of them {losses.columns[column]} on {named}; "
        "methods are compared on complete blocks only, so run what is missing or narrow the comparison"
    )


def largest_block(whole: pd.DataFrame) -> pd.DataFrame:
    """Return the largest block of data sets and methods without an incomplete cell; of equals, more data sets.

    :param whole: True for a complete cell, data sets by methods
    """
    present = whole.to_numpy(dtype=bool)
    some = np.flatnonzero(present.any(axis=1))
    sizes = range(len(some), min(FEWEST, len(some)) - 1, -1)
    blocks = [(rows, present[list(rows)].all(axis=0)) for size in sizes for rows in combinations(some, size)]
    rows, methods = max(blocks, key=lambda block: len(block[0]) * block[1].sum())
    return whole.iloc[list(rows), np.flatnonzero(methods)]


def by_dataset(losses: pd.DataFrame) -> pd.DataFrame:
    """Average the splits of each data set: the blocks of the tests across data sets (Demsar 2006, Sec. 3.2).

    Splits of one data set share rows, so they are not independent blocks.
    """
    return refuse_incomplete(losses).groupby(level="dataset", sort=False).mean()


# Ranks and Friedman's test --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Friedman:
    """Friedman's test: chi-squared, corrected for ties, and the p-value that all methods rank alike.

    :param mean_ranks: of each method, 1 is best
    :param critical_difference: of Nemenyi's post-hoc test: mean ranks further apart than this differ at ``LEVEL``
    """

    statistic: float
    p_value: float
    mean_ranks: pd.Series
    critical_difference: float


def mean_ranks(losses: pd.DataFrame) -> pd.Series:
    """Rank the methods in each block, 1 for the least loss, ties alike, and average over blocks."""
    return refuse_incomplete(losses).rank(axis=1).mean()


def friedman(losses: pd.DataFrame) -> Friedman:
    """Apply Friedman's test over blocks, with Nemenyi's critical difference.

    :raises UserError: for fewer than three methods or two blocks
    """
    from scipy.stats import friedmanchisquare

    average, (num_blocks, num_methods) = mean_ranks(losses), losses.shape
    if num_methods < 3 or num_blocks < 2:
        raise UserError(
            f"Friedman's test needs three methods and two data sets, not {num_methods} and {num_blocks}; "
            "two methods are compared by Wilcoxon's test"
        )
    if (average == average.iloc[0]).all():
        statistic, p_value = 0.0, 1.0  # scipy divides zero by zero if all ranks are tied
    else:
        statistic, p_value = map(float, friedmanchisquare(*losses.to_numpy().T))
    return Friedman(statistic, p_value, average, critical_difference(num_methods, num_blocks))


def critical_difference(num_methods: int, num_blocks: int, alpha: float = LEVEL) -> float:
    """Nemenyi's critical difference q_alpha sqrt(k (k + 1) / (6 N)) (Demsar 2006, Eq. 4), q as in his Table 5."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - alpha, num_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(num_methods * (num_methods + 1) / (6 * num_blocks)))


def least_nemenyi_p(num_methods: int, num_blocks: int) -> float:
    """Smallest attainable p of two methods, one first and one last in every block."""
    from scipy.stats import studentized_range

    difference = (num_methods - 1) / np.sqrt(num_methods * (num_methods + 1) / (6 * num_blocks))
    return float(studentized_range.sf(difference * np.sqrt(2), num_methods, np.inf))


# Pairs of methods -----------------------------------------------------------------------------------------------------


def holm(p_values: np.ndarray) -> np.ndarray:
    """Apply Holm's correction: the k-th least of n p-values times n - k + 1, and no less than the one before.

    statsmodels collects garbage at each call, which takes longer than all tests of a report.
    """
    order = np.argsort(p_values)
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def wilcoxon_holm(losses: pd.DataFrame) -> pd.DataFrame:
    """Apply Wilcoxon's signed-rank test to all pairs of methods, with Holm's correction over the pairs.

    Columns: method_a, method_b, median_difference (a less b; below 0: a is better), p_value, p_holm, differs.
    """
    refuse_incomplete(losses)
    pairs = list(combinations(losses.columns, 2))
    differences = [(losses[a] - losses[b]).to_numpy() for a, b in pairs]
    p_values = [_signed_rank(each) for each in differences]
    corrected = holm(np.array(p_values))
    table = pd.DataFrame(pairs, columns=["method_a", "method_b"])
    table["median_difference"] = [float(np.median(each)) for each in differences]
    return table.assign(p_value=p_values, p_holm=corrected, differs=corrected <= LEVEL)


def _signed_rank(differences: np.ndarray) -> float:
    from scipy.stats import PermutationMethod, wilcoxon

    if not differences.any():  # the test is undefined
        return 1.0
    sizes = np.abs(differences[differences != 0])
    if len(set(sizes)) == len(differences):
        return float(wilcoxon(differences, method="exact" if len(sizes) <= 50 else "approx").pvalue)
    few = len(sizes) <= ENUMERATED  # with ties, all signs give the exact distribution
    return float(wilcoxon(differences, method=PermutationMethod(n_resamples=2**ENUMERATED) if few else "approx").pvalue)


def least_signed_rank_p(num_blocks: int) -> float:
    """Smallest attainable two-sided p of the signed-rank test, 2 / 2^n, if all differences have one sign."""
    return min(1.0, 2.0 ** (1 - num_blocks))


# Tests that use every split -------------------------------------------------------------------------------------------


def against_reference(losses: pd.DataFrame, reference: str, test_share: pd.Series) -> pd.DataFrame:
    """Compare each method with one reference method by corrected resampled t-tests, combined over data sets.

    On a data set with J splits, mean difference m and variance s^2 of the differences over splits,
    t = m / sqrt((1/J + n_test/n_train) s^2) with J - 1 degrees of freedom (Nadeau and Bengio 2003, Eq. 9): splits
    share training rows, so the variance of m is more than s^2/J. Each t becomes the normal deviate z of equal p; over n
    data sets without a difference, sum(z) / sqrt(n) is a standard normal (Stouffer's method).

    Columns: method, median_difference (method less reference, of the data sets' means; below 0: the method is better),
    better and worse (data sets with such a difference by their own t, with Holm's correction over all methods and data
    sets), p_value, p_holm (of the combined test, over the methods), verdict (better, worse or empty).

    :param losses: as ``paired_losses`` returns them, blocks (data set, split)
    :param test_share: n_test / n_train of each data set
    :raises UserError: if a data set has a single split, or unknown numbers of rows
    """
    from scipy import stats

    differences = refuse_incomplete(losses).drop(columns=reference).sub(losses[reference], axis=0)
    groups = differences.groupby(level="dataset", sort=False)
    count, mean = groups.size(), groups.mean()
    share = test_share.reindex(count.index)
    if (unusable := (count < 2) | share.isna()).any():
        raise UserError(
            f"{unusable.idxmax()} has a single split or unknown numbers of rows; a test over splits needs two splits "
            "and the numbers of training and test rows"
        )
    error = np.sqrt(groups.var().mul(1 / count + share, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.nan_to_num((mean / error).to_numpy())  # methods that always agree do not differ: 0 / 0
    one_sided = stats.t.sf(np.abs(t), count.to_numpy()[:, None] - 1)
    z = np.sign(t) * stats.norm.isf(np.maximum(one_sided, np.finfo(float).tiny))
    combined = z.sum(axis=0) / np.sqrt(len(z))
    p_values = 2 * stats.norm.sf(np.abs(combined))
    p_holm = holm(p_values)
    alone = holm((2 * one_sided).ravel()).reshape(t.shape) <= LEVEL
    verdicts = np.where(p_holm > LEVEL, "", np.where(combined < 0, "better", "worse"))
    columns = {
        "method": differences.columns,
        "median_difference": mean.median().to_numpy(),
        "better": [list(mean.index[column]) for column in (alone & (t < 0)).T],
        "worse": [list(mean.index[column]) for column in (alone & (t > 0)).T],
    }
    return pd.DataFrame(columns | {"p_value": p_values, "p_holm": p_holm, "verdict": verdicts})


@cache
def detectable_difference(num_sets: int, num_splits: int, test_share: float, comparisons: int) -> float:
    """Return the difference, the same on all data sets, that ``against_reference`` finds with probability ``POWER``.

    In standard deviations of the difference over splits, for the least favourable of Holm's steps, LEVEL / comparisons;
    by simulating the non-central t of each data set.
    """
    from scipy import stats
    from scipy.optimize import bisect

    generator = np.random.default_rng(seed_for("power", sets=num_sets, splits=num_splits))
    normal = generator.standard_normal((4000, num_sets))
    deviation = np.sqrt(generator.chisquare(num_splits - 1, (4000, num_sets)) / (num_splits - 1))
    bound = stats.norm.isf(LEVEL / comparisons / 2)

    def excess(difference: float) -> float:
        t = (normal + difference / np.sqrt(1 / num_splits + test_share)) / deviation
        z = np.sign(t) * stats.norm.isf(stats.t.sf(np.abs(t), num_splits - 1))
        return float(np.mean(np.abs(z.sum(axis=1)) / np.sqrt(num_sets) > bound)) - POWER

    return float(bisect(excess, 0.0, 1e4, xtol=1e-3))


# Probability of improvement -------------------------------------------------------------------------------------------


def probability_of_improvement(losses: pd.DataFrame, method_a: str, method_b: str) -> tuple[float, float, float]:
    """Return the probability that a beats b on a split: (share, lower, upper bound of the 95 % bootstrap interval).

    The share of splits with a smaller loss of a (ties count half), averaged over data sets. The bootstrap resamples
    splits within each data set as if they shared no rows, so intervals are too narrow. Its seed follows from the two
    methods alone: neither the order of a table nor its other methods change an interval. A data set with one split has
    NaN bounds.

    :param losses: as ``paired_losses`` returns them, blocks (data set, split)
    """
    pair = refuse_incomplete(losses[[method_a, method_b]])
    wins = 0.5 * (1 + np.sign(pair[method_b] - pair[method_a]))
    generator = np.random.default_rng(seed_for("bootstrap", a=method_a, b=method_b))
    by_set = [group.to_numpy() for _, group in wins.groupby(level="dataset", sort=True)]
    share = float(np.mean([each.mean() for each in by_set]))
    if min(len(each) for each in by_set) < 2:
        return share, np.nan, np.nan
    means = [each[generator.integers(len(each), size=(RESAMPLES, len(each)))].mean(axis=1) for each in by_set]
    low, high = np.quantile(np.mean(means, axis=0), [0.025, 0.975])
    return share, float(low), float(high)


def improvements(losses: pd.DataFrame) -> pd.DataFrame:
    """Return ``probability_of_improvement`` of the method of best mean rank over data sets beside each other one.

    Columns: method_a (the best), method_b (in the order of their ranks), probability, low, high.

    :param losses: as ``paired_losses`` returns them, blocks (data set, split)
    """
    best, *others = mean_ranks(by_dataset(losses)).sort_values(kind="stable").index
    rows = [(best, other, *probability_of_improvement(losses, best, other)) for other in others]
    return pd.DataFrame(rows, columns=["method_a", "method_b", "probability", "low", "high"])
