"""Comparisons of methods across data sets and splits: numbers only, no pictures.

Everything here takes *losses*: a frame with one row for each block (a data set, or a split of one), one column for each
method, and less is better (``Metric.loss`` turns a score that way). Blocks are complete or refused: a rank among three
methods is no rank among four, and tests that drop or skip a missing cell answer another question than was asked.
References: Demsar 2006 (ranks, Nemenyi), Nadeau and Bengio 2003 (corrected resampled t), Agarwal et al. 2021
(probability of improvement).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd

from dgpbench.errors import UserError
from dgpbench.seeds import seed_for

RESAMPLES = 2000
ENUMERATED = 12  # differences of which all 2^n signs are tried
BLOCK = ("dataset", "split")
FEWEST = 3  # data sets of a block, where there are so many: ranks over fewer say too little
POWER = 0.8


def paired_losses(frame: pd.DataFrame, value: str = "loss", method: str = "method") -> pd.DataFrame:
    """One row for each (data set, split), one column for each method, in the order in which methods first appear.

    :param frame: columns dataset, split, ``method`` and ``value``, one row for each run
    :raises UserError: where a cell is missing, not a finite number, or there twice
    """
    twice = frame.duplicated([*BLOCK, method])
    if twice.any():
        raise UserError(
            f"{_where(frame[twice].iloc[0], method)} has more than one score; narrow the comparison to one seed"
        )
    wide = frame.pivot(index=list(BLOCK), columns=method, values=value)
    wide = wide[list(dict.fromkeys(frame[method]))]
    return refuse_incomplete(wide)


def _where(row: pd.Series, method: str) -> str:
    return f"{row[method]} on {row['dataset']} split {row['split']}"


def refuse_incomplete(losses: pd.DataFrame) -> pd.DataFrame:
    """The losses, when every method has a finite one in every block.

    :raises UserError: otherwise, with the number of missing cells and the first of them
    """
    if losses.empty:
        raise UserError("there is nothing to compare: no run has a score yet")
    missing = ~np.isfinite(losses.to_numpy(dtype=float))
    if not missing.any():
        return losses
    row, column = np.argwhere(missing)[0]
    block = losses.index[row]
    named = " split ".join(str(part) for part in block) if isinstance(block, tuple) else str(block)
    raise UserError(
        f"{missing.sum()} of {missing.size} scores are missing, the first of them {losses.columns[column]} on {named}; "
        "methods are compared on complete blocks only, so run what is missing or narrow the comparison"
    )


def largest_block(whole: pd.DataFrame) -> pd.DataFrame:
    """The data sets and methods with the most cells among which every one is complete; of equals, more data sets.

    :param whole: whether a cell is complete, data sets by methods
    """
    present = whole.to_numpy(dtype=bool)
    some = np.flatnonzero(present.any(axis=1))
    sizes = range(len(some), min(FEWEST, len(some)) - 1, -1)
    blocks = [(rows, present[list(rows)].all(axis=0)) for size in sizes for rows in combinations(some, size)]
    rows, methods = max(blocks, key=lambda block: len(block[0]) * block[1].sum())
    return whole.iloc[list(rows), np.flatnonzero(methods)]


def by_dataset(losses: pd.DataFrame) -> pd.DataFrame:
    """Mean loss over the splits of each data set: the blocks of the tests across data sets (Demsar 2006, Sec. 3.2).

    Splits of one data set share rows, so they are not independent blocks.
    """
    return refuse_incomplete(losses).groupby(level="dataset", sort=False).mean()


# Ranks and Friedman's test --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Friedman:
    """Friedman's test and what Nemenyi's post-hoc test needs after it.

    :param statistic: Friedman's chi-squared, corrected for ties
    :param p_value: that all methods rank alike
    :param mean_ranks: of each method, 1 is best
    :param critical_difference: mean ranks further apart than this differ at ``alpha``
    """

    statistic: float
    p_value: float
    num_blocks: int
    mean_ranks: pd.Series
    critical_difference: float
    alpha: float


def ranks(losses: pd.DataFrame) -> pd.DataFrame:
    """Rank of each method in each block, 1 for the least loss, ties shared."""
    return refuse_incomplete(losses).rank(axis=1)


def mean_ranks(losses: pd.DataFrame) -> pd.Series:
    """Mean over blocks of each method's rank."""
    return ranks(losses).mean()


def friedman(losses: pd.DataFrame, alpha: float = 0.05) -> Friedman:
    """Friedman's test over blocks, with Nemenyi's critical difference.

    :raises UserError: for fewer than three methods or two blocks, where the test does not exist
    """
    from scipy.stats import friedmanchisquare

    average = mean_ranks(losses)
    num_blocks, num_methods = losses.shape
    if num_methods < 3 or num_blocks < 2:
        raise UserError(
            f"Friedman's test needs three methods and two data sets, not {num_methods} and {num_blocks}; "
            "two methods are compared by Wilcoxon's test"
        )
    statistic, p_value = _all_alike() if (average == average.iloc[0]).all() else friedmanchisquare(*losses.to_numpy().T)
    difference = critical_difference(num_methods, num_blocks, alpha)
    return Friedman(float(statistic), float(p_value), num_blocks, average, difference, alpha)


def _all_alike() -> tuple[float, float]:
    return 0.0, 1.0  # scipy divides zero by zero where all ranks are tied


def critical_difference(num_methods: int, num_blocks: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference q_alpha sqrt(k (k + 1) / (6 N)) (Demsar 2006, Eq. 4), q as in his Table 5."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - alpha, num_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(num_methods * (num_methods + 1) / (6 * num_blocks)))


def least_nemenyi_p(num_methods: int, num_blocks: int) -> float:
    """Smallest attainable p of two methods: that of the first and the last in every block."""
    from scipy.stats import studentized_range

    difference = (num_methods - 1) / np.sqrt(num_methods * (num_methods + 1) / (6 * num_blocks))
    return float(studentized_range.sf(difference * np.sqrt(2), num_methods, np.inf))


# Pairs of methods -----------------------------------------------------------------------------------------------------


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's correction: the k-th least of n p-values times n - k + 1, and no less than the one before.

    statsmodels has it too, with a garbage collection at each call that takes longer than the report's tests together.
    """
    order = np.argsort(p_values)
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def wilcoxon_holm(losses: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Wilcoxon's signed-rank test between all pairs of methods, with Holm's correction over the pairs.

    Columns: method_a, method_b, median_difference (a less b; below 0: a is better), p_value, p_holm, differs.
    """
    refuse_incomplete(losses)
    pairs = list(combinations(losses.columns, 2))
    if not pairs:
        raise UserError(f"a comparison needs two methods, and there is only {', '.join(map(str, losses.columns))}")
    differences = [(losses[a] - losses[b]).to_numpy() for a, b in pairs]
    p_values = [_signed_rank(each) for each in differences]
    corrected = holm(np.array(p_values))
    table = pd.DataFrame(pairs, columns=["method_a", "method_b"])
    table["median_difference"] = [float(np.median(each)) for each in differences]
    return table.assign(p_value=p_values, p_holm=corrected, differs=corrected <= alpha)


def _signed_rank(differences: np.ndarray) -> float:
    from scipy.stats import PermutationMethod, wilcoxon

    if not differences.any():  # the test is undefined where nothing differs, and then nothing differs
        return 1.0
    sizes = np.abs(differences[differences != 0])
    if len(set(sizes)) == len(differences):
        return float(wilcoxon(differences, method="exact" if len(sizes) <= 50 else "approx").pvalue)
    few = len(sizes) <= ENUMERATED  # with ties, the exact distribution is that of all signs
    return float(wilcoxon(differences, method=PermutationMethod(n_resamples=2**ENUMERATED) if few else "approx").pvalue)


def least_signed_rank_p(num_blocks: int) -> float:
    """Smallest attainable two-sided p of the signed-rank test, 2 / 2^n: all differences have one sign."""
    return min(1.0, 2.0 ** (1 - num_blocks))


# Tests that use every split -------------------------------------------------------------------------------------------


def against_reference(losses: pd.DataFrame, reference: str, test_share: pd.Series, alpha: float = 0.05) -> pd.DataFrame:
    """Compare each method with one reference method by corrected resampled t-tests, combined over data sets.

    On a data set with J splits, mean difference m and variance s^2 of the differences over splits,
    t = m / sqrt((1/J + n_test/n_train) s^2) with J - 1 degrees of freedom (Nadeau and Bengio 2003, Eq. 9): splits
    share training rows, so that the variance of m is more than s^2/J. Each t becomes the normal deviate z of equal p;
    over n data sets sum(z) / sqrt(n) is a standard normal where no data set has a difference (Stouffer's method).

    Columns: method, median_difference (method less reference, of the data sets' means; below 0: the method is better),
    better and worse (data sets on which the method is so by its own t, with Holm's correction over all methods and data
    sets), p_value, p_holm (of the combined test, over the methods), verdict (better, worse or empty).

    :param losses: as ``paired_losses`` gives them, blocks (data set, split)
    :param test_share: n_test / n_train of each data set
    :raises UserError: where a data set has a single split, or the numbers of its rows are unknown
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
    alone = holm((2 * one_sided).ravel()).reshape(t.shape) <= alpha
    verdicts = np.where(p_holm > alpha, "", np.where(combined < 0, "better", "worse"))
    found = {"method": differences.columns, "median_difference": mean.median().to_numpy()}
    for word, side in (("better", -1), ("worse", 1)):
        found[word] = [list(mean.index[column]) for column in (alone & (np.sign(t) == side)).T]
    return pd.DataFrame(found | {"p_value": p_values, "p_holm": p_holm, "verdict": verdicts})


@cache
def detectable_difference(
    num_sets: int, num_splits: int, test_share: float, comparisons: int, alpha: float = 0.05
) -> float:
    """The difference that ``against_reference`` finds with probability ``POWER`` where every data set has it.

    In standard deviations of the difference over splits, for the least favourable of Holm's steps, alpha / comparisons;
    by simulating the non-central t of each data set.
    """
    from scipy import stats
    from scipy.optimize import bisect

    generator = np.random.default_rng(seed_for("power", sets=num_sets, splits=num_splits))
    normal = generator.standard_normal((4000, num_sets))
    deviation = np.sqrt(generator.chisquare(num_splits - 1, (4000, num_sets)) / (num_splits - 1))
    bound = stats.norm.isf(alpha / comparisons / 2)

    def excess(difference: float) -> float:
        t = (normal + difference / np.sqrt(1 / num_splits + test_share)) / deviation
        z = np.sign(t) * stats.norm.isf(stats.t.sf(np.abs(t), num_splits - 1))
        return float(np.mean(np.abs(z.sum(axis=1)) / np.sqrt(num_sets) > bound)) - POWER

    return float(bisect(excess, 0.0, 1e4, xtol=1e-3))


# Probability of improvement -------------------------------------------------------------------------------------------


def probability_of_improvement(
    losses: pd.DataFrame, method_a: str, method_b: str, num_resamples: int = RESAMPLES, level: float = 0.95
) -> tuple[float, float, float]:
    """How probably a beats b on a split: (share, lower, upper bound of the bootstrap interval).

    The share of splits on which a's loss is less (ties count half), averaged over data sets. The bootstrap resamples
    splits within each data set as if they shared no rows, so that intervals are too narrow. Its seed follows from the
    two methods alone: neither the order of a table nor its other methods change an interval. A data set with one
    split has NaN bounds.

    :param losses: as ``paired_losses`` gives them, blocks (data set, split)
    """
    pair = refuse_incomplete(losses[[method_a, method_b]])
    wins = 0.5 * (1 + np.sign(pair[method_b] - pair[method_a]))
    generator = np.random.default_rng(seed_for("bootstrap", a=method_a, b=method_b))
    by_set = [group.to_numpy() for _, group in wins.groupby(level="dataset", sort=True)]
    share = float(np.mean([each.mean() for each in by_set]))
    if min(len(each) for each in by_set) < 2:
        return share, np.nan, np.nan
    means = [each[generator.integers(len(each), size=(num_resamples, len(each)))].mean(axis=1) for each in by_set]
    low, high = np.quantile(np.mean(means, axis=0), [(1 - level) / 2, (1 + level) / 2])
    return share, float(low), float(high)


def best_against_rest(losses: pd.DataFrame) -> list[tuple[str, str]]:
    """The method of best mean rank with each of the others, in the order of their ranks.

    :param losses: as ``by_dataset`` gives them, for the ranks that tables and diagrams show
    """
    first, *others = mean_ranks(losses).sort_values(kind="stable").index
    return [(first, other) for other in others]


def improvements(losses: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """``probability_of_improvement`` of some pairs: columns method_a, method_b, probability, low, high."""
    rows = [(a, b, *probability_of_improvement(losses, a, b)) for a, b in pairs]
    return pd.DataFrame(rows, columns=["method_a", "method_b", "probability", "low", "high"])
