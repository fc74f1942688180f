"""Standard units: from the training rows alone, and back again."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgpbench.data.standardise import Standardiser
from dgpbench.errors import UserError
from dgpbench.predictive.mixture import GaussianMixture

NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
TABLES = arrays(np.float64, st.tuples(st.integers(2, 12), st.just(4)), elements=NUMBERS)
NAMES = ("a", "b", "c")


def fit(A: np.ndarray, **options: float) -> Standardiser:
    return Standardiser.fit(A[:, :3], A[:, 3], NAMES, **options)


def varying(A: np.ndarray) -> np.ndarray:
    assume((A.max(axis=0) > A.min(axis=0)).all())
    return A


@given(TABLES)
def test_training_rows_have_mean_zero_and_deviation_one(A: np.ndarray) -> None:
    train = fit(varying(A)).transform(A[:, :3], A[:, 3])
    assert train.X.shape == (len(A), 3)
    assert train.Y.shape == (len(A), 1)
    for column in (*train.X.T, train.Y[:, 0]):
        # A mean of 1e6 with differences of 1e-3 leaves seven digits.
        np.testing.assert_allclose((column.mean(), column.std()), (0, 1), atol=1e-5)


@given(TABLES)
def test_restoring_a_prediction_undoes_the_scaling_of_the_target(A: np.ndarray) -> None:
    standardiser = fit(varying(A))
    Y = standardiser.transform(A[:, :3], A[:, 3]).Y
    restored = standardiser.restore(GaussianMixture(Y[None], np.full((1, len(A), 1), 0.25)))
    np.testing.assert_allclose(restored.means[0, :, 0], A[:, 3], rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(restored.variances, 0.25 * A[:, 3].var(), rtol=1e-9)


def test_restoring_moves_the_log_density_by_the_log_of_the_scale() -> None:
    A = np.random.Generator(np.random.PCG64(0)).standard_normal((20, 4)) * 7 + 3
    standardiser = fit(A)
    Y = standardiser.transform(A[:, :3], A[:, 3]).Y
    mixture = GaussianMixture(Y[None] + np.array([0.1, -0.4])[:, None, None], np.ones((2, 20, 1)))
    shift = standardiser.restore(mixture).log_density(A[:, 3:]) - mixture.log_density(Y)
    np.testing.assert_allclose(shift, -np.log(A[:, 3].std()), rtol=1e-12)


@given(TABLES, TABLES)
def test_test_rows_change_nothing(A: np.ndarray, B: np.ndarray) -> None:
    standardiser = fit(varying(A))
    before = standardiser.transform(A[:, :3], A[:, 3])
    standardiser.transform(B[:, :3], B[:, 3])
    after = standardiser.transform(A[:, :3], A[:, 3])
    np.testing.assert_array_equal(before.X, after.X)
    np.testing.assert_allclose(standardiser.mean_X, A[:, :3].mean(axis=0), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("value", [0.998, -0.3, 0.0])  # the first is naval's P1
def test_a_constant_feature_is_dropped_despite_rounding(value: float) -> None:
    A = np.random.Generator(np.random.PCG64(0)).standard_normal((10741, 4))
    A[:, 1] = value
    assert A[:, 1].std() > 0 or value != 0.998
    A[::2, 1] = 3 * (value / 3) * (1 + 2**-52)
    standardiser = fit(A)
    assert standardiser.dropped == ("b",)
    assert standardiser.kept.tolist() == [0, 2]
    assert standardiser.transform(A[:5, :3], A[:5, 3]).X.shape == (5, 2)


def test_a_feature_that_varies_in_the_test_rows_alone_is_dropped() -> None:
    A = np.arange(16.0).reshape(4, 4)
    A[:, 0] = 1
    standardiser = fit(A)
    assert standardiser.transform(np.array([[5.0, 1, 2]]), np.array([3.0])).X.shape == (1, 2)


def test_a_near_constant_feature_is_dropped_if_a_threshold_is_set() -> None:
    A = np.arange(16.0).reshape(4, 4)
    A[:, 2] *= 1e-5
    assert fit(A).dropped == ()
    assert fit(A, min_deviation=1e-3).dropped == ("c",)


def test_duplicated_columns_are_kept() -> None:
    A = np.repeat(np.arange(4.0)[:, None], 4, axis=1)
    assert fit(A).dropped == ()


@pytest.mark.parametrize(("column", "name"), [(1, "b"), (3, "the target")])
@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_numbers_out_of_range_are_refused_by_name(column: int, name: str, unit: float) -> None:
    A = np.arange(16.0).reshape(4, 4)
    A[:, column] *= unit
    with pytest.raises(UserError, match=f"the numbers of {name} are too large or too close together"):
        fit(A)


def test_a_constant_training_target_is_refused() -> None:
    A = np.arange(16.0).reshape(4, 4)
    A[:, 3] = [0.3, 0.1 + 0.2, 0.3, 0.3]
    with pytest.raises(UserError, match=r"the target is 0.3 in all 4 training rows"):
        fit(A)


def test_a_feature_that_varies_in_its_last_digits_alone_is_kept() -> None:
    A = np.arange(16.0).reshape(4, 4)
    A[:, 1] = 1e9 + np.arange(4) * 1e-5
    assert fit(A).dropped == ()


def test_features_that_are_all_constant_are_refused() -> None:
    A = np.ones((4, 4))
    A[:, 3] = np.arange(4)
    with pytest.raises(UserError, match="no feature varies on the 4 training rows"):
        fit(A)
