"""``DeepGPRegressor`` as users of scikit-learn meet it."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_regressors_train, parametrize_with_checks

from dgpbench import DeepGPRegressor, log_score, neg_crps
from dgpbench.predictive.quantiles import Quantiles, Samples

QUICK = {"training.max_iterations": 4}
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.uniform(-2, 2, size=(30, 2)), columns=["a", "b"], index=range(100, 130))
Y = pd.Series(50 + 10 * np.sin(2 * X["a"]) + 5 * X["b"] + RNG.normal(size=30), name="price")


@pytest.fixture(scope="module")
def fitted():
    return DeepGPRegressor("gpr", budget="smoke", settings=QUICK).fit(X, Y)


@pytest.mark.full
def test_quantiles_of_a_gaussian_are_its_mean_and_so_many_deviations(fitted):
    mean, deviation = fitted.predict(X, return_std=True)
    quantiles = fitted.predict_quantiles(X, [0.05, 0.5, 0.9])
    np.testing.assert_allclose(quantiles, mean[:, None] + deviation[:, None] * norm.ppf([0.05, 0.5, 0.9]), rtol=1e-10)


def test_the_predictive_distribution_is_in_the_units_of_y(fitted):
    found, (mean, deviation) = fitted.predict_dist(X), fitted.predict(X, return_std=True)
    y = Y.to_numpy() + 1.0
    np.testing.assert_allclose(found.log_prob(y), norm.logpdf(y, mean, deviation), rtol=1e-10)
    np.testing.assert_allclose(found.cdf(y), norm.cdf(y, mean, deviation), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.cdf(found.quantile(0.3)), 0.3, rtol=1e-10)
    np.testing.assert_array_equal(found.cdf(50.0), found.cdf(np.full(30, 50.0)))
    draws = found.sample(4000, random_state=1)
    assert draws.shape == (4000, 30)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * deviation.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.1)


def test_the_scorers_are_the_mean_log_density_and_the_mean_crps(fitted):
    y, (mean, deviation) = Y + 1.0, fitted.predict(X, return_std=True)
    z = (y - mean) / deviation
    crps = deviation * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert log_score(fitted, X, y) == pytest.approx(norm.logpdf(y, mean, deviation).mean(), rel=1e-10)
    assert neg_crps(fitted, X, y.to_frame()) == pytest.approx(-crps.mean(), rel=1e-6)


@pytest.mark.full
def test_cross_validation_and_searches_take_the_scorers():
    found = cross_val_score(DeepGPRegressor("gpr", budget="smoke", settings=QUICK), X, Y, cv=3, scoring=log_score)
    assert np.isfinite(found).all()
    pipeline = make_pipeline(StandardScaler(), DeepGPRegressor("gpr", budget="smoke"))
    starts = [{"training.max_iterations": 1, "method.likelihood_variance": noise} for noise in (50.0, 0.01)]
    search = GridSearchCV(pipeline, {"deepgpregressor__settings": starts}, cv=3, scoring=neg_crps)
    assert search.fit(X, Y).best_params_["deepgpregressor__settings"] == starts[1]


def test_a_scorer_names_an_estimator_that_it_cannot_score():
    with pytest.raises(TypeError, match=r"LinearRegression has no predict_dist\(X\)"):
        log_score(LinearRegression().fit(X, Y), X, Y)


@pytest.mark.full
@pytest.mark.parametrize("transform", ["none", "sinh_arcsinh"])
def test_the_representation_of_predictions_is_short(transform):
    settings = {**QUICK, "dataset.target_transform": transform}
    fitted = DeepGPRegressor("gpr", budget="smoke", settings=settings).fit(X, Y)
    found = fitted.predict_dist(X)
    assert repr(found).startswith("PredictiveDistribution(mixture=")
    assert "array(1, 30, 1)" in repr(found)
    others = [Quantiles([0.1, 0.9], np.ones((2, 900))), Samples(np.ones((40, 900)))]
    assert all(len(repr(each)) < 300 for each in (found, found.mixture, fitted.model_, *others))


def test_targets_of_another_shape_are_refused_in_the_users_terms(fitted):
    with pytest.raises(ValueError, match=r"one of each row, \[30\] or \[..., 30\], not shape \(30, 1\)"):
        fitted.predict_dist(X).log_prob(Y.to_numpy()[:, None])


def test_the_crps_of_several_targets_of_each_row_is_that_of_each(fitted):
    found, targets = fitted.predict_dist(X), np.stack([Y, Y + 1.0, Y - 2.0])
    np.testing.assert_array_equal(found.crps(targets), [found.crps(each) for each in targets])


def test_arrays_of_dates_are_refused(fitted):
    dates = pd.date_range("2020", periods=30).to_numpy()
    with pytest.raises(ValueError, match="y contains dates or times"):
        DeepGPRegressor("gpr", budget="smoke").fit(X, dates)
    with pytest.raises(ValueError, match="X contains dates or times"):
        DeepGPRegressor("gpr", budget="smoke").fit(dates[:, None], Y)
    with pytest.raises(ValueError, match="X contains dates or times"):
        fitted.predict(np.column_stack([dates, dates]))


def test_texts_of_arrays_and_targets_are_read_like_the_cells_of_a_frame(fitted):
    """As a European spreadsheet writes them: 1.050,5; Python alone reads 1.050 as 1.05."""
    settings = {**QUICK, "dataset.decimal": "comma", "dataset.thousands": "point"}
    rows, y = X.to_numpy() + 1000, Y.round(1) + 1000
    marks = str.maketrans(",.", ".,")
    texts, targets = (np.vectorize(lambda value: f"{value:,}".translate(marks))(each) for each in (rows, y))
    targets[0], y.iloc[0] = "1.050", 1050.0
    expected = DeepGPRegressor("gpr", budget="smoke", settings=settings).fit(rows, y)
    regressor = DeepGPRegressor("gpr", budget="smoke", settings=settings).fit(texts, targets)
    np.testing.assert_array_equal(regressor.predict(texts), expected.predict(rows))
    with pytest.raises(ValueError, match=r"y contains '1,5', which is not a number by dataset.decimal=point"):
        DeepGPRegressor("gpr", budget="smoke").fit(X, np.where(Y.index == 104, "1,5", Y.astype(str)))
    with pytest.raises(ValueError, match=r"y contains Timestamp.*, which is not a number"):
        DeepGPRegressor("gpr", budget="smoke").fit(X, pd.date_range("2020", periods=30).astype(object))


def test_masked_values_are_missing_values(fitted):
    hidden, rows = np.ma.masked_greater(Y.to_numpy(), 60), np.ma.masked_greater(X.to_numpy(), 1.5)
    with pytest.raises(ValueError, match="y contains NaN"):
        DeepGPRegressor("gpr", budget="smoke").fit(X, hidden)
    with pytest.raises(ValueError, match="X contains NaN"):
        DeepGPRegressor("gpr", budget="smoke").fit(rows, Y)
    with pytest.raises(ValueError, match="X contains NaN"), pytest.warns(UserWarning, match="feature names"):
        fitted.predict(rows)
    imputed = DeepGPRegressor("gpr", budget="smoke", settings={**QUICK, "dataset.missing": "impute"})
    expected = clone(imputed).fit(rows.filled(np.nan), Y).predict(X.to_numpy())
    np.testing.assert_array_equal(imputed.fit(rows, Y).predict(X.to_numpy()), expected)


@pytest.mark.parametrize("key", ["drop", "categorical", "dates"])
def test_settings_that_name_columns_which_x_lacks_are_refused(key):
    regressor = DeepGPRegressor("gpr", budget="smoke", settings={f"dataset.{key}": ["aa"]})
    with pytest.raises(ValueError, match=rf"dataset.{key}=aa is not a column; available: a, b; did you mean a"):
        regressor.fit(X, Y)
    with pytest.raises(ValueError, match=rf"dataset.{key} names columns, and X has no names: pass a DataFrame"):
        regressor.fit(X.to_numpy(), Y)


def test_a_target_that_marks_a_missing_value_is_refused():
    regressor = DeepGPRegressor("gpr", budget="smoke", settings={"dataset.na_values": [-999]})
    with pytest.raises(ValueError, match=r"y has 1 value that dataset.na_values=\[-999\] marks as missing"):
        regressor.fit(X, Y.where(Y.index != 104, -999.0))


def test_settings_that_are_nested_are_refused_with_the_whole_key():
    nested = DeepGPRegressor("sgp", settings={"training": {"max_iterations": 5}})
    with pytest.raises(ValueError, match=r"such as 'training.max_iterations', not 'training'"):
        nested.fit(X, Y)


def test_a_model_is_saved_below_the_home_folder(fitted, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fitted.save("~/kept") == tmp_path / "kept"
    assert (tmp_path / "kept").is_dir()


def test_parts_give_what_the_whole_gives(fitted):
    rows = X.to_numpy()
    whole = fitted.model_.predict(rows)
    parts = list(fitted.model_.in_chunks(rows, rows_at_once=7))
    assert [part.means.shape[1] for part in parts] == [7, 7, 7, 7, 2]
    np.testing.assert_allclose(np.concatenate([part.means for part in parts], axis=1), whole.means, rtol=1e-12)


def test_frames_are_matched_by_column_name_and_returned_on_request(fitted):
    as_frames = clone(fitted).set_output(transform="pandas")
    as_frames.model_, as_frames.feature_names_in_ = fitted.model_, fitted.feature_names_in_
    found = as_frames.predict_quantiles(X)
    assert found.columns.tolist() == ["q0.05", "q0.5", "q0.95"]
    assert found.index.equals(X.index)
    assert as_frames.predict(X).name == "price"
    np.testing.assert_array_equal(as_frames.predict(X).to_numpy(), fitted.predict(X))
    with pytest.warns(UserWarning, match="valid feature names"):  # a list has no index, but a method of that name
        assert as_frames.predict(X.to_numpy().tolist()).index.equals(pd.RangeIndex(len(X)))
    with pytest.raises(ValueError, match="set_output requires transform='default' or 'pandas'"):
        as_frames.set_output(transform="polars")


def test_a_frame_that_lacks_a_column_or_holds_a_text_is_refused(fitted):
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
        fitted.predict(X[["a"]])
    with pytest.raises(ValueError, match=r"holds text in 1 cell \(row 1 of 'b': 'red'\)"):
        fitted.predict(X.astype(object).reset_index(drop=True).assign(b=["red", 1.0, np.nan, *range(27)]))


@pytest.mark.parametrize("given", [0.5, "0.5", ["a"], [2], [[0.1, 0.5]], None])
def test_quantiles_are_a_list_of_probabilities(given, fitted):
    with pytest.raises(ValueError, match=r"q must be a list of probabilities between 0 and 1, such as .*, not"):
        fitted.predict_quantiles(X, given)


def test_complex_features_are_refused(fitted):
    rows = X.assign(b=X["b"] + 1j)
    with pytest.raises(
        ValueError, match=r"complex numbers in 30 cells \(row 101 of 'b': .*: put the real and imaginary"
    ):
        DeepGPRegressor("gpr", budget="smoke", settings=QUICK).fit(rows, Y)
    with pytest.raises(ValueError, match=r"complex numbers in 30 cells \(row 101 of 'b'"):
        fitted.predict(rows)


def test_saving_to_an_impossible_place_is_refused_in_pythons_terms(fitted, tmp_path):
    (tmp_path / "afile").write_text("")
    for place in (tmp_path / "afile", tmp_path / "afile" / "m"):
        with pytest.raises(ValueError, match="choose another directory") as refusal:
            fitted.save(place)
        assert "--output" not in str(refusal.value)


@pytest.mark.full
def test_searches_and_pipelines_take_it():
    small = make_pipeline(StandardScaler(), DeepGPRegressor("gpr", budget="smoke", settings=QUICK))
    kernels = [{"method.kernel": kernel} | QUICK for kernel in ("squared_exponential", "matern12")]
    search = GridSearchCV(small, {"deepgpregressor__settings": kernels}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.3
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0.001


@pytest.mark.full
def test_cross_validation_clones_it():
    small = DeepGPRegressor("gpr", budget="smoke", settings=QUICK)
    by_hand = clone(small).fit(X[15:], Y[15:]).score(X[:15], Y[:15])
    np.testing.assert_allclose(cross_val_score(small, X, Y, cv=2)[0], by_hand, rtol=1e-10)


@pytest.mark.full
def test_equal_seeds_give_equal_models_and_others_do_not():
    def means(seed):
        few = {"training.max_iterations": 2, "method.num_inducing": 4}
        return DeepGPRegressor("sgpr", budget="smoke", settings=few, random_state=seed).fit(X, Y).predict(X)

    first = means(0)
    assert np.array_equal(first, means(0))
    assert not np.array_equal(first, means(1))


@pytest.mark.full
def test_a_small_table_gets_fewer_inducing_points_unless_set():
    few = DeepGPRegressor("sgpr", budget="smoke", settings={"training.max_iterations": 1}).fit(X[:9], Y[:9])
    assert few.model_.description.settings.method.num_inducing == 9
    with pytest.raises(ValueError, match=r"method.num_inducing=10 is more than the 9 training rows"):
        DeepGPRegressor("sgpr", budget="smoke", settings={"method.num_inducing": 10}).fit(X[:9], Y[:9])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"method": "starr"}, "unknown method 'starr'.*did you mean star"),
        ({"budget": "tiny"}, "unknown budget 'tiny'"),
        ({"method": "gpr,sgp"}, "unknown method 'gpr,sgp'"),
        ({"settings": {"training.learning_rat": 0.1}}, "has no setting 'training.learning_rat'.*learning_rate"),
        ({"settings": {"training.learning_rate": -1}}, "training.learning_rate takes a number above 0"),
        ({"settings": {"dataset.path": "x.csv"}}, "settings has 'dataset.path', which .* does not apply here"),
        ({"settings": {"init_from": "runs/a"}}, "settings has 'init_from', which .* does not apply here"),
        ({"settings": {"seed": 3}}, "settings has 'seed', which is a parameter of the estimator"),
        ({"settings": ["a=b"]}, r"settings must be values by key, such as .*, not \['a=b'\]"),
        ({"settings": "a=b"}, "settings must be values by key"),
        ({"settings": {1: 2}}, "settings must be values by key"),
        ({"method": "gpr", "num_layers": 3}, "gpr has one layer"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_before_anything_starts(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        DeepGPRegressor(**{"budget": "smoke", **given}).fit(X, Y)


def test_importing_the_package_imports_neither_tensorflow_nor_scikit_learn():
    code = (
        "import sys, dgpbench; assert 'DeepGPRegressor' in dir(dgpbench); "
        "assert not {'tensorflow', 'sklearn', 'pandas', 'numpy'} & set(sys.modules); "
        "dgpbench.DeepGPRegressor; assert not {'tensorflow', 'gpflow'} & set(sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-500:]


def test_results_are_read_as_one_frame(tmp_path):
    from one_record import directory_of, record_of

    from dgpbench import load_results
    from dgpbench.runs import store

    store.write_run(directory_of(tmp_path), record_of())
    frame = load_results(tmp_path)
    assert frame.loc[0, "tll"] == -2.4
    assert frame.loc[0, "status"] == "done"


# What makes a fit of 200 rows explain half of their variance; 50 iterations, which budget=smoke has, do not.
LONGER = {"training.max_iterations": 300, "training.learning_rate": 0.05}
LONG_ENOUGH = {
    "sgp": {"settings": LONGER},
    "mf": {"settings": LONGER},
    "star": {"settings": LONGER},
    "aepmcm": {"settings": LONGER},
    "sghmc": {"settings": LONGER | {"training.max_iterations": 1000}, "num_layers": 1},
}
# The checks that a method cannot meet, each with its reason.
UNMET = {
    "gpr": {
        "check_estimators_dtypes": "y is one of 20 rows' integer features, without noise: the likelihood has no "
        "maximum, k(X, X) + s2 I becomes singular, and the fit diverges",
    },
} | {
    method: {"check_regressors_train": "requires a score that takes longer training, as in the test below"}
    for method in LONG_ENOUGH
}


@pytest.mark.full
@parametrize_with_checks(
    [DeepGPRegressor(method, budget="smoke") for method in ("gpr", *LONG_ENOUGH)],
    expected_failed_checks=lambda estimator: UNMET.get(estimator.method, {}),
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.full
@pytest.mark.parametrize("method", LONG_ENOUGH)
def test_scikit_learns_check_of_the_score_after_longer_training(method):
    check_regressors_train(method, DeepGPRegressor(method, budget="smoke", **LONG_ENOUGH[method]))


def test_skpros_interface_refuses_a_target_transform_before_it_trains():
    pytest.importorskip("skpro", reason="skpro is not installed: pip install 'dgpbench[skpro]'")
    from dgpbench.skpro_estimator import DeepGPProbaRegressor

    table = pd.DataFrame({"x": np.linspace(0.0, 1.0, 30)})
    regressor = DeepGPProbaRegressor("gpr", budget="smoke", settings={"dataset.target_transform": "log"})
    with pytest.raises(ValueError, match=r"no dataset\.target_transform: leave it out"):
        regressor.fit(table, np.exp(table["x"]))
    assert not hasattr(regressor, "regressor_")


@pytest.mark.full
def test_skpros_distribution_has_the_weights_of_the_components():
    pytest.importorskip("skpro", reason="skpro is not installed: pip install 'dgpbench[skpro]'")
    from dgpbench.skpro_estimator import DeepGPProbaRegressor

    table, quick = pd.DataFrame({"x": np.linspace(0.0, 1.0, 30)}), {"training.max_iterations": 30}
    regressor = DeepGPProbaRegressor("dspp", num_layers=2, budget="smoke", settings=quick)
    regressor.fit(table, pd.DataFrame({"y": np.sin(6 * table["x"])}))
    mean = regressor.predict_proba(table).mean()
    np.testing.assert_allclose(mean.to_numpy(), regressor.predict(table).to_numpy(), rtol=1e-9)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_skpros_own_checks():
    pytest.importorskip("skpro", reason="skpro is not installed: pip install 'dgpbench[skpro]'")
    from skpro.utils import check_estimator

    from dgpbench.skpro_estimator import DeepGPProbaRegressor

    outcomes = check_estimator(DeepGPProbaRegressor, raise_exceptions=False, verbose=False)
    assert len(outcomes) > 20
    assert {name: message for name, message in outcomes.items() if message != "PASSED"} == {}
