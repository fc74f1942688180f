"""Comparisons of methods across data sets and splits: numbers only, no pictures.

Everything here takes *losses*: a frame with one row for each block (a data set, or a split of one), one column for each
method, and less is better (``Metric.loss`` turns a score that way). Blocks are complete or refused: a rank among three
methods is no rank among four, and tests that drop or skip a missing cell answer another question than was asked.
References: Demsar 2006 (ranks, Nemenyi), Agarwal et al. 2021 (probability of improvement).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from dgpbench.errors import Refused
from dgpbench.seeds import seed_for

RESAMPLES = 2000
ENUMERATED = 12  # differences of which all 2^n signs are tried
BLOCK = ("dataset", "split")


def paired_losses(frame: pd.DataFrame, value: str = "loss", method: str = "method") -> pd.DataFrame:
    """One row for each (data set, split), one column for each method, in the order in which methods first appear.

    :param frame: columns dataset, split, ``method`` and ``value``, one row for each run
    :raises Refused: where a cell is missing, not a finite number, or there twice
    """
    twice = frame.duplicated([*BLOCK, method])
    if twice.any():
        raise Refused(
            f"{_where(frame[twice].iloc[0], method)} has more than one score; narrow the comparison to one seed"
        )
    wide = frame.pivot(index=list(BLOCK), columns=method, values=value)
    wide = wide[list(dict.fromkeys(frame[method]))]
    return refuse_incomplete(wide)


def _where(row: pd.Series, method: str) -> str:
    return f"{row[method]} on {row['dataset']} split {row['split']}"


def refuse_incomplete(losses: pd.DataFrame) -> pd.DataFrame:
    """The losses, when every method has a finite one in every block.

    :raises Refused: otherwise, with the number of missing cells and the first of them
    """
    if losses.empty:
        raise Refused("there is nothing to compare: no run has a score yet")
    missing = ~np.isfinite(losses.to_numpy(dtype=float))
    if not missing.any():
        return losses
    row, column = np.argwhere(missing)[0]
    block = losses.index[row]
    named = " split ".join(str(part) for part in block) if isinstance(block, tuple) else str(block)
    raise Refused(
        f"{missing.sum()} of {missing.size} scores are missing, the first of them {losses.columns[column]} on {named}; "
        "methods are compared on complete blocks only, so run what is missing or narrow the comparison"
    )


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

    :raises Refused: for fewer than three methods or two blocks, where the test does not exist
    """
    from scipy.stats import friedmanchisquare

    average = mean_ranks(losses)
    num_blocks, num_methods = losses.shape
    if num_methods < 3 or num_blocks < 2:
        raise Refused(
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


def nemenyi(losses: pd.DataFrame) -> pd.DataFrame:
    """p-values of Nemenyi's test between all pairs of methods, [k, k]."""
    from scikit_posthocs import posthoc_nemenyi_friedman

    table = posthoc_nemenyi_friedman(refuse_incomplete(losses).to_numpy())
    return pd.DataFrame(table.to_numpy(), index=losses.columns, columns=losses.columns)


def cliques(average: pd.Series, difference: float) -> list[list[str]]:
    """The largest groups of methods whose mean ranks lie within the critical difference; groups may overlap."""
    ordered = average.sort_values()
    found: list[list[str]] = []
    for start in range(len(ordered)):
        group = ordered.index[start:][(ordered.iloc[start:] - ordered.iloc[start] <= difference).to_numpy()].tolist()
        if len(group) > 1 and not any(set(group) <= set(other) for other in found):
            found.append(group)
    return found


# Pairs of methods -----------------------------------------------------------------------------------------------------


def wilcoxon_holm(losses: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Wilcoxon's signed-rank test between all pairs of methods, with Holm's correction over the pairs.

    Columns: method_a, method_b, median_difference (a less b; below 0: a is better), p_value, p_holm, differs.
    """
    from statsmodels.stats.multitest import multipletests

    refuse_incomplete(losses)
    pairs = list(combinations(losses.columns, 2))
    if not pairs:
        raise Refused(f"a comparison needs two methods, and there is only {', '.join(map(str, losses.columns))}")
    differences = [(losses[a] - losses[b]).to_numpy() for a, b in pairs]
    p_values = [_signed_rank(each) for each in differences]
    differs, corrected, *_ = multipletests(p_values, alpha=alpha, method="holm")
    table = pd.DataFrame(pairs, columns=["method_a", "method_b"])
    table["median_difference"] = [float(np.median(each)) for each in differences]
    return table.assign(p_value=p_values, p_holm=corrected, differs=differs)


def _signed_rank(differences: np.ndarray) -> float:
    from scipy.stats import PermutationMethod, wilcoxon

    if not differences.any():  # the test is undefined where nothing differs, and then nothing differs
        return 1.0
    sizes = np.abs(differences[differences != 0])
    if len(set(sizes)) == len(differences):
        return float(wilcoxon(differences, method="exact" if len(sizes) <= 50 else "approx").pvalue)
    few = len(sizes) <= ENUMERATED  # with ties, the exact distribution is that of all signs
    return float(wilcoxon(differences, method=PermutationMethod(n_resamples=2**ENUMERATED) if few else "approx").pvalue)


def probability_of_improvement(
    losses: pd.DataFrame, method_a: str, method_b: str, num_resamples: int = RESAMPLES, level: float = 0.95
) -> tuple[float, float, float]:
    """How probably a beats b on a split: (share, lower, upper bound of the bootstrap interval).

    The share of splits on which a's loss is less (ties count half), averaged over data sets; the bootstrap draws splits
    anew within each data set. Its seed follows from the two methods alone, so that neither the order of a table nor
    the other methods in it change an interval. A data set with one split has nothing to draw from: the bounds are NaN.

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
