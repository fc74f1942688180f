"""Statistics against values computed by hand or printed in the papers."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from dgpbench.errors import UserError
from dgpbench.report import html_grids, statistics
from dgpbench.report.statistics import Compared


def losses(values, methods="abc") -> pd.DataFrame:
    """Blocks (data set k, split 0) from rows of losses."""
    index = pd.MultiIndex.from_tuples([(f"d{k}", 0) for k in range(len(values))], names=["dataset", "split"])
    return pd.DataFrame(values, index=index, columns=list(methods))


def by_split(a, b, dataset="d") -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples([(dataset, k) for k in range(len(a))], names=["dataset", "split"])
    return pd.DataFrame({"a": a, "b": b}, index=index)


def test_critical_difference_is_the_one_in_demsars_example():
    assert statistics.critical_difference(4, 14) == pytest.approx(1.2536, abs=5e-5)


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_values_are_those_of_demsars_table_5(k, q):
    assert statistics.critical_difference(k, 6) / np.sqrt(k * (k + 1) / 36) == pytest.approx(q, abs=1e-3)


def test_ranks_share_ties():
    table = losses([[1.0, 2.0, 2.0], [3.0, 1.0, 2.0]])
    assert statistics.mean_ranks(table).tolist() == [2.0, 1.75, 2.25]


def test_friedman_by_hand():
    # 12 / (N k (k + 1)) sum R_j^2 - 3 N (k + 1) with rank sums 4, 8, 12 over N = 4 blocks: 12/48 * 224 - 48 = 8.
    test = statistics.friedman(losses([[1.0, 2.0, 3.0]] * 4))
    assert test.statistic == pytest.approx(8.0)
    assert test.p_value == pytest.approx(np.exp(-4.0))  # chi-squared with 2 degrees of freedom
    assert test.mean_ranks.tolist() == [1.0, 2.0, 3.0]


def test_friedman_of_methods_that_are_all_alike_finds_nothing():
    assert statistics.friedman(losses([[1.0, 1.0, 1.0]] * 3)).p_value == 1.0


def test_nemenyis_least_p_is_of_the_first_and_last_of_every_block():
    level = statistics.least_nemenyi_p(4, 6)
    assert statistics.critical_difference(4, 6, level) == pytest.approx(3.0)


@pytest.mark.parametrize("num_blocks", [3, 5, 8])
def test_the_least_p_of_wilcoxon_is_that_of_differences_of_one_sign(num_blocks):
    steps = np.arange(1.0, num_blocks + 1)
    found = statistics.wilcoxon_holm(losses(np.stack([0 * steps, steps], axis=1), "ab"))
    assert found["p_value"].item() == statistics.least_signed_rank_p(num_blocks) == 2 / 2**num_blocks


def test_wilcoxon_by_hand_and_holm_over_the_pairs():
    # Eight differences of one sign: the exact two-sided p is 2 / 2^8. Holm multiplies the least of three by three.
    steps = np.arange(1.0, 9.0)
    table = losses(np.stack([0 * steps, steps, 0.3 + steps * np.where(steps % 2, 1, 1.01)], axis=1))
    found = statistics.wilcoxon_holm(table)
    assert found["p_value"].tolist() == pytest.approx([2 / 2**8] * 3)
    assert found["p_holm"].tolist() == pytest.approx([3 * 2 / 2**8] * 3)
    assert found["differs"].all()
    assert (found["median_difference"] < 0).all()


def test_holm_multiplies_the_second_least_p_value_by_one_less():
    # Over six blocks: a - b is always negative (2 / 64); a - c and b - c each lose some.
    table = losses([[0, 1, 0.5], [0, 2, 1.5], [0, 3, 3.2], [0, 4, 4.4], [0, 5, -1.1], [0, 6, -2.7]])
    found = statistics.wilcoxon_holm(table)
    p = np.sort(found["p_value"])
    assert p[0] < p[1] < p[2]
    assert np.sort(found["p_holm"]).tolist() == pytest.approx(np.maximum.accumulate([3 * p[0], min(1, 2 * p[1]), p[2]]))


def test_holms_correction_is_that_of_statsmodels():
    values = np.random.default_rng(0).uniform(size=30) ** 4
    assert statistics.holm(values) == pytest.approx(multipletests(values, method="holm")[1])


def test_wilcoxon_of_equal_losses_is_one():
    assert statistics.wilcoxon_holm(losses([[1.0, 1.0]] * 5, "ab"))["p_value"].tolist() == [1.0]


def test_probability_of_improvement_counts_splits_and_halves_ties():
    share, low, high = statistics.probability_of_improvement(
        by_split([1.0, 1.0, 3.0, 2.0], [2.0, 2.0, 1.0, 2.0]), "a", "b"
    )
    assert share == pytest.approx(2.5 / 4)
    assert low <= share <= high


def test_probability_of_improvement_weighs_data_sets_alike():
    many, few = by_split([1.0] * 8, [2.0] * 8, "many"), by_split([2.0] * 2, [1.0] * 2, "few")
    assert statistics.probability_of_improvement(pd.concat([many, few]), "a", "b") == (0.5, 0.5, 0.5)


def test_the_bootstrap_interval_is_binomial_and_depends_on_the_pair_only():
    rng = np.random.default_rng(1)
    table = by_split(rng.normal(size=100), rng.normal(size=100) + 0.5)
    share, low, high = statistics.probability_of_improvement(table, "a", "b")
    width = 2 * 1.96 * np.sqrt(share * (1 - share) / 100)
    assert high - low == pytest.approx(width, rel=0.15)
    again = table.assign(c=0.0)[["c", "b", "a"]].sample(frac=1, random_state=0).sort_index()
    assert statistics.probability_of_improvement(again, "a", "b") == (share, low, high)


def test_one_split_gives_no_interval_of_a_probability():
    one = pd.concat([by_split([1.0, 1.0], [2.0, 2.0], "several"), by_split([1.0], [2.0], "one")])
    share, low, high = statistics.probability_of_improvement(one, "a", "b")
    assert share == 1.0
    assert np.isnan([low, high]).all()


def test_means_over_splits_are_the_blocks_of_tests_across_data_sets():
    table = pd.concat([by_split([1.0, 3.0], [5.0, 5.0], "x"), by_split([2.0, 2.0], [1.0, 1.0], "y")])
    assert statistics.by_dataset(table).to_dict("list") == {"a": [2.0, 2.0], "b": [5.0, 1.0]}


def test_the_best_method_is_that_of_the_tables_ranks():
    """a has the better mean on both data sets, and loses five of six splits."""
    table = pd.concat([by_split([1.0, 2.1, 2.1], [9.0, 2.0, 2.0], name) for name in "xy"])
    assert statistics.improvements(table)[["method_a", "method_b"]].to_numpy().tolist() == [["a", "b"]]
    found = Compared(table, pd.Series({"x": 1 / 9, "y": 1 / 9}), "a", "")
    grids = html_grids.rank_grid("tll", found), html_grids.improvement_grid("tll", found)
    assert [grid.rows[0][0].text for grid in grids] == ["a", "a"]


@pytest.mark.parametrize(
    "differences", [[0, -1, -2, -3, -4, -5], [1, -1, -2, -2, -3, -4, -5], [-1, 2, -1, 2, -1, -2, 2], [0, 0, 2, -2, 3]]
)
def test_p_values_with_ties_are_those_of_all_signs(differences):
    """Exact p-value of signed ranks: zeros are dropped, ties share their mean rank, all signs are equally likely."""
    found = statistics.wilcoxon_holm(by_split(differences, [0.0] * len(differences)))["p_value"].item()
    given = np.array([value for value in differences if value])
    ranks = pd.Series(np.abs(given)).rank().to_numpy()
    sums = np.array([ranks @ np.array(signs) for signs in product((-1, 1), repeat=len(given))])
    assert found == pytest.approx(np.mean(np.abs(sums) >= abs(ranks @ np.sign(given)) - 1e-9))


def runs() -> pd.DataFrame:
    rows = [(d, s, m, 1.0) for d in ("x", "y") for s in range(2) for m in ("b", "a")]
    return pd.DataFrame(rows, columns=["dataset", "split", "method", "loss"])


def test_pairing_keeps_the_order_of_the_methods():
    assert statistics.paired_losses(runs()).columns.tolist() == ["b", "a"]


COMPARISONS = {
    "ranks": statistics.mean_ranks,
    "friedman": statistics.friedman,
    "reference": lambda losses: statistics.against_reference(losses, "a", pd.Series(dtype=float)),
    "wilcoxon": statistics.wilcoxon_holm,
    "means": statistics.by_dataset,
    "improvement": lambda losses: statistics.probability_of_improvement(losses, "a", "b"),
}


@pytest.mark.parametrize("function", COMPARISONS.values(), ids=COMPARISONS)
@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_an_incomplete_block_is_refused_by_name(function, hole):
    table = losses([[1.0, 2.0, 3.0], [1.0, hole, 2.0], [3.0, 2.0, 1.0]])
    with pytest.raises(UserError, match="b on d1 split 0"):
        function(table)


def test_a_missing_run_is_refused_when_pairing():
    with pytest.raises(UserError, match=r"1 of 8 scores are missing, the first of them a on y split 1"):
        statistics.paired_losses(runs().iloc[:-1])


def test_two_scores_in_one_cell_are_refused():
    with pytest.raises(UserError, match="more than one score"):
        statistics.paired_losses(pd.concat([runs(), runs().iloc[:1]]))


def test_friedman_of_two_methods_is_refused():
    with pytest.raises(UserError, match="three methods"):
        statistics.friedman(losses([[1.0, 2.0]] * 3, "ab"))


def test_nothing_is_refused():
    with pytest.raises(UserError, match="nothing to compare"):
        statistics.paired_losses(runs().iloc[:0])


# Tests that use every split, by simulation ----------------------------------------------------------------------------

SPLITS, SETS, SHARE = 10, 8, 1 / 9  # Table 1: eight data sets, ten splits, nine rows train for each that tests


def simulated(shift: float, generator: np.random.Generator, methods: int = 7) -> pd.DataFrame:
    """Draw losses with differences to ``ref`` that correlate over splits by n_test / n; ``shift`` in deviations."""
    correlation = SHARE / (1 + SHARE)
    shared = generator.standard_normal((SETS, 1, methods)) * np.sqrt(correlation / (1 - correlation))
    values = shared + generator.standard_normal((SETS, SPLITS, methods)) + shift
    index = pd.MultiIndex.from_product([[f"d{k}" for k in range(SETS)], range(SPLITS)], names=["dataset", "split"])
    table = pd.DataFrame(values.reshape(-1, methods), index=index, columns=[f"m{k}" for k in range(methods)])
    return table.assign(ref=0.0)


def reference_tests(shift: float, repetitions: int, methods: int = 7) -> pd.DataFrame:
    share, generator = pd.Series({f"d{k}": SHARE for k in range(SETS)}), np.random.default_rng(0)
    tables = [simulated(shift, generator, methods) for _ in range(repetitions)]
    return pd.concat(
        [statistics.against_reference(each, "ref", share).assign(table=k) for k, each in enumerate(tables)]
    )


@pytest.mark.full
def test_false_findings_against_a_reference_are_at_most_the_level():
    found = reference_tests(0.0, 200)
    assert (found["p_value"] <= 0.05).mean() == pytest.approx(0.05, abs=0.015)  # 1,400 tests: two errors are 0.012
    families = found.groupby("table")["verdict"].apply(lambda words: (words != "").any())
    assert families.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    wrong = found.groupby("table")["better"].apply(lambda sets: any(map(len, sets)))
    assert wrong.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_the_stated_difference_is_found_with_the_stated_power():
    shift = statistics.detectable_difference(SETS, SPLITS, SHARE, 7)
    found = reference_tests(-shift, 100)  # a smaller loss is better
    assert 0.5 < shift < 0.7
    assert (found["p_value"] <= 0.05 / 7).mean() == pytest.approx(statistics.POWER, abs=0.04)  # 700 tests
    assert set(found["verdict"]) <= {"better", ""}


def test_wilcoxon_over_eight_data_sets_cannot_reject_any_of_28_pairs():
    generator = np.random.default_rng(0)
    table = statistics.by_dataset(simulated(0.0, generator) + 100 * np.arange(8))
    found = statistics.wilcoxon_holm(table)
    assert not found["differs"].any()
    assert found["p_holm"].min() == pytest.approx(28 * statistics.least_signed_rank_p(8))


@pytest.mark.full
@pytest.mark.parametrize("trained", [90, 50])
def test_equal_learners_on_random_splits_rarely_differ_significantly(trained):
    """Least squares on one of two inputs that matter alike: the naive t-test finds 16 % of such pairs different."""
    generator, rows, sets = np.random.default_rng(1), 100, 1600
    X = generator.standard_normal((sets, rows, 2))
    y = X.sum(axis=-1) + 0.5 * generator.standard_normal((sets, rows))
    columns = {}
    for split in range(SPLITS):
        order = generator.permuted(np.tile(np.arange(rows), (sets, 1)), axis=1)
        inputs, targets = np.take_along_axis(X, order[..., None], 1), np.take_along_axis(y, order, 1)
        slope = np.einsum("snk,sn->sk", inputs[:, :trained], targets[:, :trained]) / (inputs[:, :trained] ** 2).sum(
            axis=1
        )
        columns[split] = ((targets[:, trained:, None] - slope[:, None] * inputs[:, trained:]) ** 2).mean(axis=1)
    table = pd.concat({split: pd.DataFrame(loss, columns=["a", "b"]) for split, loss in columns.items()})
    table = table.swaplevel().rename_axis(["dataset", "split"]).sort_index()
    groups = [table.loc[first : first + 7] for first in range(0, sets, 8)]
    shares = pd.Series((rows - trained) / trained, index=range(sets))
    p = [statistics.against_reference(group, "b", shares)["p_value"].item() for group in groups]
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / len(p))


def test_a_method_that_always_equals_the_reference_does_not_differ_from_it():
    table = pd.concat([by_split([1.0, 2.0], [1.0, 2.0], name) for name in "xy"])
    found = statistics.against_reference(table, "b", pd.Series({"x": 0.1, "y": 0.1}))
    assert found[["p_value", "verdict"]].values.tolist() == [[1.0, ""]]


def test_texts_on_two_methods_count_one_comparison():
    table = pd.concat([by_split([1.0, 2.0, 2.5], [2.0, 1.0, 4.0], name) for name in "xyz"])
    found = Compared(table, pd.Series({"x": 0.1, "y": 0.1, "z": 0.1}), "b", "Data sets: x, y, z.")
    assert "Holm's correction over 1 method, level" in html_grids.reference_grid("tll", found).notes[0]
    assert "Holm's correction over 1 pair, level" in html_grids.wilcoxon_grid("tll", found).notes[0]


def test_a_single_split_is_refused_where_splits_are_tested():
    with pytest.raises(UserError, match="d has a single split"):
        statistics.against_reference(by_split([1.0], [2.0]), "b", pd.Series({"d": 0.1}))


def test_the_largest_complete_block_has_the_most_cells():
    whole = pd.DataFrame([[1, 1, 1, 0]] * 4 + [[0, 1, 1, 1]], index=list("vwxyz"), columns=list("abcd")).astype(bool)
    block = statistics.largest_block(whole)
    assert (list(block.index), list(block.columns)) == (["v", "w", "x", "y"], ["a", "b", "c"])
