"""The metrics of docs/methods.md, "Prediction and scores", each against an independent computation."""

import numpy as np
import pandas as pd
import pytest
import scoringrules
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.stats import norm

from dgpbench.errors import Diverged
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.scores import (
    METRICS,
    all_scores,
    mean_density_difference,
    nearest_distances,
    per_row,
    win_share,
)

NAMES = ["tll", "nlpp", "rmse", "crps", "coverage_50", "coverage_80", "coverage_90", "coverage_95", "calibration_error"]


def mixture_of(S: int, N: int, seed: int = 0) -> GaussianMixture:
    generator = np.random.default_rng(seed)
    return GaussianMixture(2 * generator.normal(size=(S, N, 1)), generator.uniform(0.05, 2, (S, N, 1)))


def scored(name: str, mixture: GaussianMixture, Y: np.ndarray) -> float:
    """One score of a mixture at targets [N, 1]."""
    return METRICS[name].of(per_row(mixture, Y))


def targets(N: int) -> np.ndarray:
    return np.random.default_rng(99).normal(size=(N, 1))


def test_the_metrics_are_the_papers_with_units_and_directions():
    assert list(METRICS) == [*NAMES, "sharpness", "interval_score_90", "pinball"]
    assert {each.unit for each in METRICS.values()} == {"nats", "units of y", "share"}
    assert METRICS["tll"].direction == "higher"
    assert METRICS["crps"].direction == "lower"
    assert (METRICS["coverage_95"].direction, METRICS["coverage_95"].target) == ("nearer", 0.95)


def test_less_loss_is_better_for_both_directions():
    assert METRICS["tll"].loss(1.0) < METRICS["tll"].loss(0.5)
    assert METRICS["rmse"].loss(0.5) < METRICS["rmse"].loss(1.0)
    assert METRICS["coverage_95"].loss(0.94) < METRICS["coverage_95"].loss(1.0)


def test_tll_is_the_mean_log_of_the_mixture_density_and_not_of_its_moments():
    mixture = GaussianMixture(np.array([-5.0, 5.0]).reshape(2, 1, 1), np.full((2, 1, 1), 0.1))
    at_a_mode = np.log(0.5 * norm.pdf(5, 5, np.sqrt(0.1)))
    assert scored("tll", mixture, np.full((1, 1), 5.0)) == pytest.approx(at_a_mode, abs=1e-12)
    assert scored("nlpp", mixture, np.full((1, 1), 5.0)) == pytest.approx(-at_a_mode, abs=1e-12)


def test_rmse_is_that_of_the_mixture_mean():
    mixture, Y = mixture_of(4, 9), targets(9)
    assert scored("rmse", mixture, Y) == pytest.approx(np.sqrt(((mixture.means.mean(0) - Y) ** 2).mean()), abs=1e-14)


@pytest.mark.parametrize("components", [1, 2, 5])
def test_crps_is_the_integral_of_the_squared_difference_of_cdfs(components):
    mixture, y = mixture_of(components, 1, seed=components), 0.7
    cdf = lambda z: mixture.cdf(np.full((1, 1), z)).item()
    below = quad(lambda z: cdf(z) ** 2, -25, y, epsabs=1e-13, limit=400)[0]
    above = quad(lambda z: (1 - cdf(z)) ** 2, y, 25, epsabs=1e-13, limit=400)[0]
    assert scored("crps", mixture, np.full((1, 1), y)) == pytest.approx(below + above, abs=1e-10)


@pytest.mark.parametrize("components", [1, 3, 40])
def test_crps_rows_agree_with_scoringrules(components):
    mixture, Y = mixture_of(components, 60), targets(60)
    expected = scoringrules.crps_mixnorm(Y[:, 0], mixture.means[..., 0].T, np.sqrt(mixture.variances[..., 0]).T)
    np.testing.assert_allclose(mixture.crps(Y)[:, 0], expected, atol=1e-12)


def test_crps_in_chunks_is_crps_at_once(monkeypatch):
    mixture, Y = mixture_of(5, 23), targets(23)
    at_once = mixture.crps(Y)
    monkeypatch.setattr("dgpbench.predictive.mixture.PAIRS_AT_ONCE", 5 * 4)
    np.testing.assert_array_equal(mixture.crps(Y), at_once)


def test_coverage_counts_targets_between_the_two_quantiles():
    mixture, Y = mixture_of(3, 400), targets(400)
    for name, p in (("coverage_50", 0.5), ("coverage_80", 0.8), ("coverage_90", 0.9), ("coverage_95", 0.95)):
        low, high = mixture.quantile([0.5 - p / 2, 0.5 + p / 2])
        assert scored(name, mixture, Y) == pytest.approx(np.mean((low <= Y) & (high >= Y)), abs=1e-12)


@pytest.mark.parametrize(
    ("rows", "repetitions", "expected", "tolerance"), [(50, 300, 0.044, 0.004), (20_000, 30, 0.002, 6e-4)]
)
def test_calibration_error_of_a_perfect_predictor_is_as_documented(rows, repetitions, expected, tolerance):
    generator = np.random.default_rng(7)
    mixture = GaussianMixture(np.zeros((1, rows, 1)), np.ones((1, rows, 1)))
    errors = [scored("calibration_error", mixture, generator.normal(size=(rows, 1))) for _ in range(repetitions)]
    assert np.mean(errors) == pytest.approx(expected, abs=tolerance)


def test_calibration_error_sees_variances_that_are_too_small():
    Y = np.random.default_rng(8).normal(size=(2000, 1))
    too_sure = GaussianMixture(np.zeros((1, 2000, 1)), np.full((1, 2000, 1), 0.1))
    assert scored("calibration_error", too_sure, Y) > 0.2


def test_sharpness_is_the_mean_standard_deviation_of_the_mixture():
    mixture = GaussianMixture(np.array([-2.0, 2.0]).reshape(2, 1, 1), np.full((2, 1, 1), 5.0))
    assert scored("sharpness", mixture, np.zeros((1, 1))) == pytest.approx(3.0, abs=1e-14)


def test_units_scale_each_score_as_declared():
    mixture, Y, scale = mixture_of(4, 200), targets(200), 8.0
    before = all_scores(per_row(mixture, Y))
    after = all_scores(per_row(mixture.shifted_scaled(3.0, scale), 3.0 + scale * Y))
    for name, each in METRICS.items():
        sign = -1 if name == "tll" else 1
        expected = {
            "nats": before[name] + sign * np.log(scale),
            "units of y": scale * before[name],
            "share": before[name],
        }
        assert after[name] == pytest.approx(expected[each.unit], abs=1e-12)


def test_scores_are_plain_floats_under_every_registered_name():
    values = all_scores(per_row(mixture_of(2, 10), targets(10)))
    assert list(values) == list(METRICS)
    assert all(type(value) is float for value in values.values())


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_a_score_that_is_not_finite_raises(bad):
    Y = targets(10)
    Y[3] = bad
    with np.errstate(all="ignore"), pytest.raises(Diverged, match="tll ="):
        all_scores(per_row(mixture_of(2, 10), Y))


def test_targets_that_lack_their_last_axis_are_refused():
    with pytest.raises(ValueError, match="targets must have shape"):
        per_row(mixture_of(2, 10), targets(10)[:, 0])


@pytest.mark.parametrize("features", [1, 13, 30])
def test_distance_is_to_the_nearest_training_row(features):
    generator = np.random.default_rng(0)
    X_test, X_train = generator.normal(size=(30, features)), generator.normal(size=(200, features))
    X_test[4] = X_train[17]
    distances = nearest_distances(X_test, X_train)
    np.testing.assert_allclose(distances, cdist(X_test, X_train).min(axis=1), atol=1e-10)
    assert distances[4] == 0


def test_distances_of_large_tables_are_computed_at_evenly_spaced_rows():
    X_test, X_train = np.random.default_rng(0).normal(size=(2, 100, 3))
    distances = nearest_distances(X_test, X_train, max_work=100 * 3 * 25)
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(distances)), np.arange(0, 100, 4))


def frame_of(rows, log_density) -> pd.DataFrame:
    return pd.DataFrame({"row": rows, "y": np.asarray(rows, float), "log_density": log_density})


def test_win_share_and_difference_pair_rows_in_any_order():
    a, b = frame_of([1, 2, 3, 4], [0.0, 1.0, 2.0, 5.0]), frame_of([4, 3, 2, 1], [1.0, 3.0, 1.0, -1.0])
    assert win_share(a, b) == 0.5  # rows 1 and 4; row 2 is a tie
    assert win_share(b, a) == 0.25
    assert mean_density_difference(a, b) == pytest.approx(1.0)
    assert mean_density_difference(b, a) == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("rows", "other"), [([1, 2, 3, 4], [1, 2, 3]), ([1, 2, 3, 4], [1, 2, 3, 5]), ([1, 2, 3, 3], [1, 2, 3, 3])]
)
def test_a_comparison_of_different_or_repeated_test_rows_is_refused(rows, other):
    with pytest.raises(ValueError, match="same test rows"):
        win_share(frame_of(rows, 0.0), frame_of(other, 0.0))
