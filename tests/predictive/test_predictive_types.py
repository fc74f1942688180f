"""Scores of quantiles and samples, compared with those of a Gaussian."""

import numpy as np
import pytest
from scipy.stats import norm

from dgpbench.errors import NonFinitePredictions
from dgpbench.predictive.quantiles import Gaussian, Quantiles, Samples
from dgpbench.predictive.scores import METRICS, all_scores, per_row

LEVELS = np.arange(1, 400) / 400
MEAN, DEVIATION = np.array([[-1.0], [2.0], [0.5]]), np.array([[0.5], [1.0], [3.0]])
Y = np.array([[-0.3], [1.5], [-4.0]])
NORMAL = Gaussian(MEAN, DEVIATION**2)


def quantiles(levels=LEVELS, **more) -> Quantiles:
    return Quantiles(levels, MEAN + DEVIATION * norm.ppf(levels)[:, None, None], **more)


def test_quantiles_of_a_gaussian_have_its_scores():
    exact, found = per_row(NORMAL, Y), per_row(quantiles(), Y)
    assert set(found) == {"y", "crps", "pit", "q05", "q25", "q50", "q75", "q95"}
    np.testing.assert_allclose(found["crps"], exact["crps"], rtol=2e-3)
    np.testing.assert_allclose(found["pit"], exact["pit"], atol=2e-3)
    np.testing.assert_allclose(found["q95"], exact["q95"], rtol=1e-12)
    scores = all_scores(found)
    assert set(METRICS) - set(scores) == {"tll", "nlpp", "rmse", "sharpness"}
    assert scores["pinball"] == pytest.approx(all_scores(exact)["pinball"], rel=1e-10)


def test_a_rounded_level_has_its_score():
    for levels in (
        np.array([0.025, 0.05, 0.5, 0.95, 0.975], np.float32),
        np.array([1 - 0.975, 0.05, 0.5, 0.95, 0.975]),
    ):
        assert "pit" in per_row(quantiles(levels), Y)
    ends = np.array([0.05 + 1e-8, 0.5, 0.95 - 1e-8])
    assert {"q05", "q95"} <= set(per_row(quantiles(ends), Y))


def test_the_crps_of_quantiles_is_the_integral_of_their_cdf():
    levels, values = np.array([0.1, 0.5, 0.6, 0.8]), np.array([0.0, 1.0, 1.0, 3.0])
    x = np.linspace(-3, 6, 900_001)
    F = np.where(x < 0, 0.0, np.where(x < 1, 0.1 + 0.4 * x, np.where(x < 3, 0.6 + 0.1 * (x - 1), 1.0)))
    y = np.array([[-2.0], [0.3], [1.0], [2.0], [3.0], [5.0]])
    expected = [((F - (x >= each)) ** 2).sum() * (x[1] - x[0]) for each in y[:, 0]]
    found = Quantiles(levels, np.repeat(values[:, None], len(y), axis=1))
    np.testing.assert_allclose(found.crps(y)[:, 0], expected, rtol=1e-4)


@pytest.mark.parametrize("levels", [[0.05, 0.95], [0.05, 0.5, 0.95], [0.025, 0.5, 0.975], np.arange(1, 10) / 10])
def test_few_quantiles_of_the_true_distribution_score_no_better_than_it(levels):
    y = norm.ppf(np.arange(0.5, 2000) / 2000)[:, None]
    few = Quantiles(levels, np.repeat(norm.ppf(levels)[:, None], len(y), axis=1)).crps(y).mean()
    true = Gaussian(np.zeros(len(y)), np.ones(len(y)))
    assert few > per_row(true, y)["crps"].mean()


def test_the_pit_at_tied_quantiles_is_the_middle_of_their_levels():
    tied = Quantiles([0.02, 0.25, 0.5, 0.98], np.array([[0.0, 2.0], [1.0, 2.0], [1.0, 2.0], [3.0, 2.0]]))
    np.testing.assert_allclose(tied.cdf(np.array([[1.0], [2.0]]))[:, 0], [0.375, 0.5])


def test_the_pit_lies_between_the_levels_and_half_way_out_beyond_them():
    found = Quantiles([0.02, 0.5, 0.98], np.array([[0.0, 0, 0, 0], [1.0, 1, 1, 1], [3.0, 3, 3, 3]]))
    pit = found.cdf(np.array([[-5.0], [0.5], [2.0], [9.0]]))
    np.testing.assert_allclose(pit[:, 0], [0.01, 0.26, 0.74, 0.99])


def test_quantiles_that_cross_are_put_in_order():
    crossed = Quantiles([0.25, 0.5, 0.75], np.array([[2.0], [1.0], [3.0]]))
    np.testing.assert_array_equal(crossed.values[:, 0, 0], [1.0, 2.0, 3.0])


def test_few_levels_give_few_scores():
    found = per_row(quantiles(np.array([0.1, 0.5, 0.9])), Y)
    assert set(found) == {"y", "crps", "q25", "q50", "q75"}
    assert set(all_scores(found)) == {"crps"}


def test_a_mean_that_is_given_has_an_rmse():
    scores = all_scores(per_row(quantiles(mean=MEAN), Y))
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((MEAN - Y) ** 2)))


@pytest.mark.parametrize("found", [quantiles(), quantiles(mean=MEAN), Samples(np.stack([MEAN, MEAN + 1, MEAN - 3]))])
def test_other_units_shift_and_scale_every_column(found):
    before, after = per_row(found, Y), per_row(found.shifted_scaled(10.0, 3.0), 10.0 + 3.0 * Y)
    for name, column in before.items():
        factor = {"pit": 1.0, "crps": 3.0, "variance": 9.0}.get(name)
        expected = 10.0 + 3.0 * column if factor is None else factor * column
        np.testing.assert_allclose(after[name], expected, rtol=1e-10, err_msg=name)


def test_samples_have_the_scores_of_their_empirical_distribution():
    draws = np.random.default_rng(0).normal(MEAN, DEVIATION, size=(60, 3, 1))
    found = per_row(Samples(draws), Y)
    pairs = np.abs(draws[:, None] - draws[None]).mean(axis=(0, 1))
    np.testing.assert_allclose(found["crps"], np.abs(draws - Y).mean(axis=0) - pairs / 2, rtol=1e-10)
    np.testing.assert_allclose(found["pit"], (draws < Y).mean(axis=0))
    np.testing.assert_allclose(found["mean"], draws.mean(axis=0))
    np.testing.assert_allclose(found["q75"], np.quantile(draws, 0.75, axis=0))
    assert set(METRICS) - set(all_scores(found)) == {"tll", "nlpp"}


@pytest.mark.parametrize(
    ("levels", "values"),
    [([0.5], [[1.0]]), ([0.5, 0.2], [[1.0], [2.0]]), ([0.0, 0.5], [[1.0], [2.0]]), ([0.1, 0.9], [1, 2])],
)
def test_invalid_quantiles_are_refused(levels, values):
    with pytest.raises(ValueError, match="quantiles need"):
        Quantiles(levels, np.array(values))


def test_what_is_not_finite_is_refused():
    with pytest.raises(NonFinitePredictions, match="1 of 2 predicted quantiles are not finite"):
        Quantiles([0.1, 0.9], np.array([[1.0], [np.nan]]))
    with pytest.raises(NonFinitePredictions, match="draws"):
        Samples(np.array([[1.0], [np.inf]]))
