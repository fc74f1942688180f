"""Scores of small mixtures worked out in the test: every metric from its formula, and each column of points."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import kstest, norm

from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.scores import (
    METRICS,
    all_scores,
    interval_score_90,
    mean_density_difference,
    per_row,
    points_table,
    win_share,
)

# Two components for each of four rows; the targets are what each row was drawn to show.
MEANS = np.array([[0.0, 1.0, -2.0, 10.0], [4.0, 1.0, 2.0, 10.0]])
VARIANCES = np.array([[1.0, 4.0, 0.25, 9.0], [1.0, 1.0, 0.25, 1.0]])
Y = np.array([2.0, 3.0, -2.5, 4.0])
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def mixture() -> GaussianMixture:
    return GaussianMixture(MEANS[..., None], VARIANCES[..., None])


def gaussian(N: int, mean: float = 0.0, variance: float = 1.0) -> GaussianMixture:
    return GaussianMixture(np.full((1, N, 1), mean), np.full((1, N, 1), variance))


def scored(name: str, mixture: GaussianMixture, Y: np.ndarray) -> float:
    """One score of a mixture at targets [N, 1]."""
    return METRICS[name].of(per_row(mixture, Y))


@cache
def expected_scores() -> dict[str, float]:
    """Each score from its definition; SciPy's normal distribution is all that is taken from elsewhere."""
    density = 0.5 * sum(norm.pdf(Y, m, np.sqrt(v)) for m, v in zip(MEANS, VARIANCES, strict=True))
    pit = 0.5 * sum(norm.cdf(Y, m, np.sqrt(v)) for m, v in zip(MEANS, VARIANCES, strict=True))
    mean = (MEANS[0] + MEANS[1]) / 2
    variance = (VARIANCES[0] + VARIANCES[1]) / 2 + ((MEANS[0] - MEANS[1]) / 2) ** 2
    inside = lambda p: sum(0.5 - p / 2 <= u <= 0.5 + p / 2 for u in pit) / 4
    levels = [step / 20 for step in range(1, 20)]
    quantiles = [[quantile(n, p) for p in LEVELS] for n in range(4)]
    return {
        "tll": sum(math.log(each) for each in density) / 4,
        "nlpp": -sum(math.log(each) for each in density) / 4,
        "rmse": math.sqrt(sum((Y - mean) ** 2) / 4),
        "crps": _crps(),
        **{f"coverage_{round(100 * p)}": inside(p) for p in (0.5, 0.8, 0.9, 0.95)},
        "calibration_error": sum(abs(inside(p) - p) for p in levels) / 19,
        "sharpness": sum(math.sqrt(each) for each in variance) / 4,
        "interval_score_90": sum(_interval_score(y, *quantiles[n][::4]) for n, y in enumerate(Y)) / 4,
        "pinball": sum(_pinball(y, quantiles[n]) for n, y in enumerate(Y)) / 4,
    }


def quantile(n: int, p: float) -> float:
    """The root of F(y) - p between bounds far outside row n's components."""
    F = lambda y: 0.5 * sum(norm.cdf(y, MEANS[s, n], math.sqrt(VARIANCES[s, n])) for s in (0, 1))
    return brentq(lambda y: F(y) - p, -50, 50, xtol=1e-13)


def _interval_score(y: float, low: float, high: float) -> float:
    """Its width, and beyond either end 2 / alpha = 20 times the distance to it."""
    return high - low + (20 * (low - y) if y < low else 0) + (20 * (y - high) if y > high else 0)


def _pinball(y: float, quantiles: list[float]) -> float:
    """Of the five levels' losses: p for each unit that y lies above a quantile, 1 - p for each unit below."""
    losses = [p * (y - q) if y >= q else (1 - p) * (q - y) for p, q in zip(LEVELS, quantiles, strict=True)]
    return sum(losses) / 5


def _crps() -> float:
    return sum(_crps_of_row(n) for n in range(4)) / 4


def _crps_of_row(n: int) -> float:
    """The integral of (F(z) - 1[z >= y])^2 over a fine grid that breaks at y, by the trapezium rule."""
    y = Y[n]
    F = lambda z: 0.5 * sum(norm.cdf(z, MEANS[s, n], math.sqrt(VARIANCES[s, n])) for s in (0, 1))
    below, above = np.linspace(y - 40, y, 200_001), np.linspace(y, y + 40, 200_001)
    return float(trapezoid(F(below) ** 2, below) + trapezoid((1 - F(above)) ** 2, above))


@pytest.mark.parametrize("name", METRICS)
def test_each_score_of_a_small_mixture_is_the_one_from_its_definition(name):
    assert all_scores(per_row(mixture(), Y[:, None]))[name] == pytest.approx(expected_scores()[name], rel=1e-7)


def test_the_calibration_error_of_targets_at_the_median_is_one_half():
    # Every central interval holds them all: the mean over 0.05, ..., 0.95 of |1 - p| is exactly a half.
    assert scored("calibration_error", gaussian(7), np.zeros((7, 1))) == pytest.approx(0.5, abs=1e-14)


def test_the_calibration_error_beyond_every_interval_is_one_half():
    assert scored("calibration_error", gaussian(7), np.full((7, 1), 5.0)) == pytest.approx(0.5, abs=1e-14)


@pytest.mark.parametrize(("percent", "reach"), [(50, 0.6744898), (80, 1.2815516), (90, 1.6448536), (95, 1.9599640)])
def test_targets_just_inside_are_covered_and_just_outside_are_not(percent, reach):
    Y = 3 + 2 * np.array([reach - 1e-6, reach + 1e-6, 1e-6 - reach, -1e-6 - reach, 0.0])[:, None]
    covered = scored(f"coverage_{percent}", gaussian(5, 3.0, 4.0), Y)
    assert covered == pytest.approx(3 / 5)


@pytest.mark.parametrize(
    ("name", "score", "loss"),
    [("tll", -2.5, 2.5), ("nlpp", 2.5, 2.5), ("rmse", 3.0, 3.0), ("crps", 3.0, 3.0), ("sharpness", 0.2, 0.2),
     ("interval_score_90", 4.0, 4.0), ("pinball", 0.3, 0.3),
     ("coverage_50", 0.45, 0.05), ("coverage_80", 0.9, 0.1), ("coverage_90", 0.8, 0.1), ("coverage_95", 1.0, 0.05),
     ("calibration_error", 0.1, 0.1)],
)  # fmt: skip
def test_the_loss_of_a_score_is_its_distance_from_the_best(name, score, loss):
    assert METRICS[name].loss(score) == pytest.approx(loss)


def test_the_log_density_in_the_tails_is_the_one_of_logsumexp():
    Y = np.array([-60.0, 0.3, 45.0])
    means, variances = np.array([-1.0, 2.0, 3.0]), np.array([0.5, 1.0, 2.0])
    mixed = GaussianMixture(
        np.tile(means[:, None, None], (1, 3, 1)), np.tile(variances[:, None, None], (1, 3, 1))
    ).log_density(Y[:, None])
    expected = logsumexp(norm.logpdf(Y, means[:, None], np.sqrt(variances)[:, None]), axis=0, b=1 / 3)
    np.testing.assert_allclose(mixed[:, 0], expected, rtol=1e-13)


def test_quantiles_of_a_gaussian_are_scipys():
    p = np.array([0.001, 0.025, 0.5, 0.9])
    np.testing.assert_allclose(gaussian(1, 3.0, 4.0).quantile(p).ravel(), norm.ppf(p, 3, 2), rtol=1e-12)


def test_the_variance_of_a_mixture_divides_by_the_number_of_means():
    # 1/S sum (m_s - mean)^2 over -3, 0, 3 is 6, not the unbiased 9.
    mixed = GaussianMixture(np.array([-3.0, 0.0, 3.0]).reshape(3, 1, 1), np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1))
    assert mixed.variance.item() == pytest.approx(2 + 6)


def test_samples_follow_the_mixture_and_not_the_normal_of_its_moments():
    mixed = GaussianMixture(np.array([-4.0, 4.0]).reshape(2, 1, 1), np.array([0.25, 1.0]).reshape(2, 1, 1))
    drawn = mixed.sample(np.random.default_rng(0), 4000).ravel()
    cdf = lambda y: 0.5 * norm.cdf(y, -4, 0.5) + 0.5 * norm.cdf(y, 4, 1)
    assert kstest(drawn, cdf).pvalue > 1e-3
    assert kstest(drawn, norm(0, math.sqrt(0.625 + 16)).cdf).pvalue < 1e-12


def test_both_outputs_of_a_sampled_row_come_from_one_component():
    means = np.array([[[-50.0, -50.0]], [[50.0, 50.0]]])
    drawn = GaussianMixture(means, np.ones_like(means)).sample(np.random.default_rng(0), 200)[:, 0]
    assert set(np.sign(drawn[:, 0])) == {-1, 1}
    np.testing.assert_array_equal(np.sign(drawn[:, 0]), np.sign(drawn[:, 1]))


def test_a_change_of_units_multiplies_variances_by_the_square():
    moved = mixture().shifted_scaled(22.5, 3.0)
    np.testing.assert_allclose(moved.means[..., 0], 22.5 + 3 * MEANS)
    np.testing.assert_allclose(moved.variances[..., 0], 9 * VARIANCES)


def test_a_line_of_points_has_the_mixtures_values_of_that_row():
    X_test = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0], [-2.0, 0.0]])
    X_train = np.array([[0.0, 0.0], [1.0, 2.0], [-2.0, 3.0]])
    frame = points_table(per_row(mixture(), Y[:, None]), X_test, X_train, np.array([40, 7, 19, 3]))
    components = norm(MEANS, np.sqrt(VARIANCES))
    expected = {
        "row": [40, 7, 19, 3],
        "y": Y,
        "mean": [2.0, 1.0, 0.0, 10.0],
        "variance": [1 + 4, 2.5, 0.25 + 4, 5.0],
        "log_density": np.log(components.pdf(Y).mean(axis=0)),
        "pit": components.cdf(Y).mean(axis=0),
        "crps": [_crps_of_row(n) for n in range(4)],
        **{f"q{round(100 * p):02d}": [quantile(n, p) for n in range(4)] for p in LEVELS},
        "distance": [0.0, math.sqrt(8), 1.0, 2.0],
    }
    assert list(frame) == list(expected)
    for name, column in expected.items():
        rtol = 1e-8 if name == "crps" else 1e-12
        np.testing.assert_allclose(frame[name], column, rtol=rtol, atol=1e-13, err_msg=name)


def test_direct_comparisons_pair_rows_and_a_tie_is_not_a_win():
    a = pd.DataFrame({"row": [5, 6, 7, 8], "y": [1.0, 2, 3, 4], "log_density": [-1.0, -2.0, -3.0, -4.0]})
    b = pd.DataFrame({"row": [8, 7, 6, 5], "y": [4.0, 3, 2, 1], "log_density": [-4.5, -1.0, -2.0, -1.25]})
    assert win_share(a, b) == 2 / 4  # rows 5 and 8; row 6 is a tie, row 7 is lost
    assert mean_density_difference(a, b) == pytest.approx((0.25 + 0.0 - 2.0 + 0.5) / 4)
    with pytest.raises(ValueError, match="same test rows"):
        win_share(a, b.assign(y=[4.0, 3, 2, 9]))


def test_the_interval_score_charges_targets_below_and_above_alike():
    """Widths of 2; targets 1 below, inside and 3 above cost 20 times their distance."""
    y, low, high = np.array([[-1.0], [0.5], [5.0]]), np.zeros([3, 1]), np.full([3, 1], 2.0)
    assert interval_score_90(y, low, high) == pytest.approx(2 + 20 * (1 + 0 + 3) / 3)
