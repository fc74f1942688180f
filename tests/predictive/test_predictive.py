"""GaussianMixture: density, distribution function, quantiles, samples and units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr
from scipy.stats import kstest, norm

from dgpbench.data.target_transform import Log, SinhArcsinh
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.scores import per_row
from dgpbench.predictive.warped import WarpedMixture


def mixture_of(S: int, N: int, P: int = 1, seed: int = 0) -> GaussianMixture:
    generator = np.random.default_rng(seed)
    return GaussianMixture(2 * generator.normal(size=(S, N, P)), generator.uniform(0.05, 2, (S, N, P)))


@pytest.mark.parametrize("outputs", [1, 2])
def test_log_density_and_cdf_are_the_means_of_scipys_components(outputs):
    mixture, Y = mixture_of(7, 11, outputs), np.random.default_rng(1).normal(size=(11, outputs))
    components = norm(mixture.means, np.sqrt(mixture.variances))
    np.testing.assert_allclose(mixture.log_density(Y), np.log(components.pdf(Y).mean(axis=0)), atol=1e-12)
    np.testing.assert_allclose(mixture.cdf(Y), components.cdf(Y).mean(axis=0), atol=1e-14)


def test_log_density_is_finite_where_the_density_underflows():
    mixture = GaussianMixture(np.zeros((3, 1, 1)), np.ones((3, 1, 1)))
    np.testing.assert_allclose(mixture.log_density(np.full((1, 1), 100.0)), norm.logpdf(100.0), rtol=1e-14)


def test_the_density_integrates_to_one_with_mean_and_variance():
    mixture = mixture_of(5, 1)
    density = lambda y: np.exp(mixture.log_density(np.full((1, 1), y))).item()
    moment = lambda power, centre: quad(lambda y: (y - centre) ** power * density(y), -25, 25, epsabs=1e-13, limit=500)[
        0
    ]
    mean = mixture.mean.item()
    assert moment(0, 0.0) == pytest.approx(1, abs=1e-10)
    assert moment(1, 0.0) == pytest.approx(mean, abs=1e-10)
    assert moment(2, mean) == pytest.approx(mixture.variance.item(), abs=1e-10)


def test_the_pit_of_its_own_samples_is_uniform():
    mixture = mixture_of(6, 4000)
    samples = mixture.sample(np.random.default_rng(2), 1)[0]
    assert kstest(mixture.cdf(samples).ravel(), "uniform").pvalue > 1e-3


def test_samples_are_fixed_by_the_generator_and_have_the_mixture_moments():
    mixture = mixture_of(3, 2, 2)
    samples = mixture.sample(np.random.default_rng(3), 200_000)
    assert samples.shape == (200_000, 2, 2)
    error = 4 * np.sqrt(mixture.variance / 200_000)
    assert np.all(np.abs(samples.mean(axis=0) - mixture.mean) < error)
    np.testing.assert_allclose(samples.var(axis=0), mixture.variance, rtol=0.03)
    np.testing.assert_array_equal(samples[:5], mixture.sample(np.random.default_rng(3), 200_000)[:5])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(1e-3, 1e3)), min_size=1, max_size=6),
    st.floats(1e-9, 1 - 1e-9),
)
def test_the_cdf_at_a_quantile_is_its_probability(components, p):
    means, variances = (np.array(values)[:, None, None] for values in zip(*components, strict=True))
    mixture = GaussianMixture(means, variances)
    y = mixture.quantile(p)
    # Rounding of y moves the probability by at most the density times the spacing of numbers there.
    spacing = 4 * np.finfo(float).eps * (np.abs(y) + np.sqrt(variances.max()))
    assert abs(mixture.cdf(y) - p).item() <= (np.exp(mixture.log_density(y)) * spacing).item() + 1e-14


def test_the_quantile_of_a_cdf_is_the_point_it_came_from():
    mixture, Y = mixture_of(4, 50), np.random.default_rng(5).normal(size=(50, 1))
    levels = mixture.cdf(Y)
    found = np.array([mixture.quantile(level)[row] for row, level in enumerate(levels[:, 0])])
    np.testing.assert_allclose(found, Y, atol=1e-10)


@pytest.mark.parametrize(("means", "deviations"), [([0, 0], [1, 1000]), ([-5, 5], [1, 1]), ([0, 0, 10], [1, 1, 0.1])])
@pytest.mark.parametrize("p", [0.25, 0.45, 0.6])
def test_a_quantile_between_modes_is_found(means, deviations, p):
    means, variances = np.reshape(means, (-1, 1, 1)), np.reshape(np.square(deviations), (-1, 1, 1))
    mixture = GaussianMixture(means.astype(float), variances.astype(float))
    np.testing.assert_allclose(mixture.cdf(mixture.quantile(p)), p, rtol=1e-10)


@pytest.mark.parametrize("means", [[0.0, 0.0], [-3.0, 3.0], [1e-300, -1e-300]])
def test_a_quantile_at_or_near_zero_is_found(means):
    mixture = GaussianMixture(np.reshape(means, (2, 1, 1)), np.ones((2, 1, 1)))
    assert abs(mixture.quantile(0.5).item()) < 1e-12


def test_quantiles_at_several_probabilities_have_their_shape_and_order():
    mixture = mixture_of(4, 5)
    quantiles = mixture.quantile([[0.05, 0.5, 0.95]])
    assert quantiles.shape == (1, 3, 5, 1)
    assert np.all(np.diff(quantiles, axis=1) > 0)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, np.nan])
def test_a_quantile_outside_the_open_unit_interval_is_refused(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        mixture_of(2, 2).quantile(p)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 9.2])
def test_a_change_of_units_shifts_the_log_density_by_minus_log_scale(scale):
    mixture, Y = mixture_of(5, 20), np.random.default_rng(4).normal(size=(20, 1))
    moved = mixture.shifted_scaled(22.5, scale)
    restored = 22.5 + scale * Y
    # y itself is known to 22.5 eps only, which a small scale magnifies.
    np.testing.assert_allclose(
        moved.log_density(restored), mixture.log_density(Y) - np.log(scale), atol=1e-12 / min(scale, 1)
    )
    np.testing.assert_allclose(moved.cdf(restored), mixture.cdf(Y), atol=1e-12 / min(scale, 1))
    np.testing.assert_allclose(moved.mean, 22.5 + scale * mixture.mean, rtol=1e-13)


def test_a_change_of_units_by_a_negative_scale_is_refused():
    with pytest.raises(ValueError, match="positive scale"):
        mixture_of(2, 2).shifted_scaled(0.0, -1.0)


def test_batches_of_rows_concatenate_to_the_whole():
    mixture = mixture_of(3, 10)
    parts = [
        GaussianMixture(mixture.means[:, rows], mixture.variances[:, rows]) for rows in (slice(0, 4), slice(4, 10))
    ]
    np.testing.assert_array_equal(GaussianMixture.concatenate(parts).means, mixture.means)
    np.testing.assert_array_equal(GaussianMixture.concatenate(parts).variances, mixture.variances)


@pytest.mark.parametrize("shape", [(5,), (4, 1), (5, 2), (1, 1)])
def test_targets_of_another_shape_are_refused_rather_than_broadcast(shape):
    with pytest.raises(ValueError, match="targets must have shape"):
        mixture_of(3, 5).log_density(np.zeros(shape))


@pytest.mark.parametrize(
    ("means", "variances", "message"),
    [
        (np.zeros((2, 3)), np.ones((2, 3)), r"\[S, N, P\]"),
        (np.zeros((2, 3, 1)), np.ones((2, 1, 1)), r"\[S, N, P\]"),
        (np.zeros((0, 3, 1)), np.ones((0, 3, 1)), "S > 0"),
        (np.full((1, 3, 1), np.nan), np.ones((1, 3, 1)), "3 of 3 predictive means are not finite"),
        (np.zeros((1, 3, 1)), np.array([1.0, 0.0, 1.0]).reshape(1, 3, 1), "1 of 3 predictive variances"),
        (np.zeros((1, 3, 1)), np.array([1.0, np.inf, -1.0]).reshape(1, 3, 1), "2 of 3 predictive variances"),
    ],
)
def test_an_invalid_mixture_is_refused(means, variances, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(means, variances)


def test_single_precision_becomes_double():
    mixture = GaussianMixture(np.zeros((1, 2, 1), np.float32), np.ones((1, 2, 1), np.float32))
    assert mixture.means.dtype == mixture.variances.dtype == np.float64


# Weights --------------------------------------------------------------------------------------------------------------

WEIGHTS = np.array([0.5, 0.3, 0.2])
REPEATS = [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]  # of the components, in proportion to WEIGHTS


def weighted_and_repeated(N: int = 9) -> tuple[GaussianMixture, GaussianMixture]:
    """Three weighted components, and ten of equal weight with the same distribution."""
    plain = mixture_of(3, N, seed=6)
    return (
        GaussianMixture(plain.means, plain.variances, WEIGHTS),
        GaussianMixture(plain.means[REPEATS], plain.variances[REPEATS]),
    )


@pytest.mark.parametrize("column", per_row(mixture_of(1, 1), np.zeros((1, 1))))
def test_scores_of_weighted_components_are_those_of_repeated_ones(column):
    Y = np.random.default_rng(7).normal(size=(9, 1))
    weighted, repeated = (per_row(each, Y)[column] for each in weighted_and_repeated())
    np.testing.assert_allclose(weighted, repeated, rtol=1e-10, atol=1e-12)


def test_samples_follow_the_weights():
    apart = GaussianMixture(np.reshape([-50.0, 0.0, 50.0], (3, 1, 1)), np.ones((3, 1, 1)), WEIGHTS)
    samples = apart.sample(np.random.default_rng(8), 40_000).ravel()
    shares = [np.mean(np.abs(samples - centre) < 10) for centre in (-50, 0, 50)]
    np.testing.assert_allclose(shares, WEIGHTS, atol=0.01)  # four standard errors


def test_samples_follow_weights_that_float32_has_rounded():
    weights = np.array([0.1, 0.2, 0.7]) * (1 + 4e-7)
    mixture = GaussianMixture(np.arange(3.0)[:, None, None], np.full((3, 1, 1), 1e-6), weights)
    draws = mixture.sample(np.random.default_rng(0), 2000).round()
    assert (draws == 2).mean() == pytest.approx(0.7, abs=0.05)


def test_a_distribution_function_ends_at_one_with_weights_that_float32_has_rounded():
    """A PIT above 1 would be in no bin of the compact record."""
    weights = np.array([0.1, 0.2, 0.7]) * (1 + 4e-7)
    mixture = GaussianMixture(np.zeros((3, 1, 1)), np.ones((3, 1, 1)), weights)
    assert mixture.cdf(np.array([[100.0]])) == 1.0


def test_weights_stay_with_rows_units_and_batches():
    weighted, repeated = weighted_and_repeated()
    halves = [weighted.of_rows(rows) for rows in (slice(0, 4), slice(4, 9))]
    for change in (lambda mixture: mixture.shifted_scaled(2.0, 3.0), lambda mixture: mixture.of_rows(slice(2, 5))):
        np.testing.assert_allclose(change(weighted).mean, change(repeated).mean, rtol=1e-12)
    np.testing.assert_array_equal(GaussianMixture.concatenate(halves).mean, weighted.mean)


@pytest.mark.parametrize(("S", "N", "P"), [(1, 4, 1), (7, 1, 1), (13, 30, 2), (100, 9, 1)])
def test_equal_weights_give_the_bits_of_plain_means(S, N, P):
    """Records from before there were weights are scored to the last bit as they were."""
    mixture, Y = mixture_of(S, N, P, seed=9), np.random.default_rng(10).normal(size=(N, P))
    log_densities = -0.5 * (
        (Y - mixture.means) ** 2 / mixture.variances + np.log(mixture.variances) + np.log(2 * np.pi)
    )
    pit = ndtr((Y - mixture.means) / np.sqrt(mixture.variances)).mean(axis=0)
    np.testing.assert_array_equal(mixture.mean, mixture.means.mean(axis=0))
    np.testing.assert_array_equal(mixture.variance, mixture.variances.mean(axis=0) + mixture.means.var(axis=0))
    np.testing.assert_array_equal(mixture.log_density(Y), logsumexp(log_densities, axis=0) - np.log(S))
    np.testing.assert_array_equal(mixture.cdf(Y), pit)
    pairs = sum(
        absolute(mixture.means[s] - mixture.means[t], mixture.variances[s] + mixture.variances[t])
        for s in range(S)
        for t in range(S)
    )
    each = absolute(Y - mixture.means, mixture.variances).mean(axis=0)
    np.testing.assert_allclose(mixture.crps(Y), each - pairs / (2 * S**2), rtol=1e-10)  # sums in another order
    generator = np.random.default_rng(11)
    components, normals = generator.integers(S, size=(5, N)), generator.standard_normal((5, N, P))
    means, deviations = (values[components, np.arange(N)] for values in (mixture.means, np.sqrt(mixture.variances)))
    np.testing.assert_array_equal(mixture.sample(np.random.default_rng(11), 5), means + deviations * normals)


def absolute(d, v):
    """E|z| for z ~ N(d, v)."""
    z = d / np.sqrt(v)
    return np.sqrt(2 * v / np.pi) * np.exp(-0.5 * z**2) + d * (2 * ndtr(z) - 1)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.5, 0.6, -0.1], [0.5, 0.3, 0.3], [0.5, 0.5, np.nan]])
def test_invalid_weights_are_refused(weights):
    plain = mixture_of(3, 2)
    with pytest.raises(ValueError, match="3 positive weights with sum 1"):
        GaussianMixture(plain.means, plain.variances, np.array(weights))


@pytest.mark.parametrize("warp", [Log(), SinhArcsinh(0.5, 1.5, 0.2, 0.8)], ids=["log", "sinh_arcsinh"])
def test_a_transformed_target_keeps_the_weights(warp):
    Y = np.random.default_rng(12).uniform(0.5, 2, size=(9, 1))
    weighted, repeated = (WarpedMixture(each, warp) for each in weighted_and_repeated())
    for name, column in per_row(weighted, Y).items():
        np.testing.assert_allclose(column, per_row(repeated, Y)[name], rtol=1e-9, atol=1e-12, err_msg=name)
