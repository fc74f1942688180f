"""Targets transformed for training; predictions and scores are of y in its original units."""

import fit_once
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import check_grad
from scipy.stats import norm

from dgpbench import DeepGPRegressor, load
from dgpbench.data.standardise import Standardiser
from dgpbench.data.target_transform import Log, SinhArcsinh
from dgpbench.errors import NonFinitePredictions
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.quantiles import Quantiles, Samples
from dgpbench.predictive.scores import per_row
from dgpbench.predictive.warped import WarpedMixture, warped

SKEWED = SinhArcsinh(location=-10.0, width=9.0, skewness=0.5, tails=0.6)
WARPS = pytest.mark.parametrize("warp", [Log(), SKEWED], ids=["log", "sinh_arcsinh"])


def frame(num: int, seed: int) -> pd.DataFrame:
    """A price with a logarithm that is a function of x plus Gaussian noise."""
    draws = np.random.default_rng(seed)
    x = draws.uniform(-2, 2, num)
    return pd.DataFrame({"x": x, "price": np.exp(np.sin(2 * x) + 5 + 0.8 * draws.standard_normal(num))})


def run_of(directory, train: pd.DataFrame, test: pd.DataFrame, *words: str) -> fit_once.Run:
    directory.mkdir()
    for name, each in (("train", train), ("test", test)):
        each.to_csv(directory / f"{name}.csv", index=False)
    paths = (f"dataset.path={directory / 'train.csv'}", f"dataset.test_path={directory / 'test.csv'}")
    given = ("dataset=csv", *paths, f"dataset.target={train.columns[-1]}", "task=fixed")
    return fit_once.run(directory / "results", *given, "budget=smoke", *words)


@pytest.mark.full
def test_a_log_transform_maps_the_predictions_of_the_logarithms(tmp_path):
    train, test = frame(60, 0), frame(25, 1)
    by_hand = [each.assign(price=np.log(each["price"])) for each in (train, test)]
    found = run_of(tmp_path / "log", train, test, "method=gpr", "dataset.target_transform=log")
    plain = run_of(tmp_path / "plain", *by_hand, "method=gpr")
    there, here = plain.points, found.points
    y = test["price"].to_numpy()[there["row"] - len(train)]
    np.testing.assert_allclose(here["log_density"], there["log_density"] - np.log(y), rtol=1e-6)
    np.testing.assert_allclose(here["pit"], there["pit"], rtol=1e-6)
    np.testing.assert_allclose(here["q95"], np.exp(there["q95"]), rtol=1e-6)
    np.testing.assert_allclose(here["mean"], np.exp(there["mean"] + there["variance"] / 2), rtol=1e-6)
    np.testing.assert_allclose(here["y"], y, rtol=1e-12)
    assert found.record["data"]["target"] == {"column": "price", "name": "log"}


@pytest.mark.full
def test_skewed_noise_is_calibrated_after_the_transform_and_not_before(tmp_path):
    train, test = frame(300, 2), frame(300, 3)
    warped_, plain = (
        run_of(tmp_path / word, train, test, "method=gpr", "budget=laptop", f"dataset.target_transform={word}").scores
        for word in ("sinh_arcsinh", "none")
    )
    assert warped_["calibration_error"] < 0.05 < plain["calibration_error"]
    assert warped_["tll"] > plain["tll"] + 0.3


@WARPS
def test_the_density_is_the_derivative_of_the_cdf_and_has_its_moments(warp):
    draws = np.random.default_rng(0)
    found = WarpedMixture(GaussianMixture(draws.normal(size=(3, 1, 1)), draws.uniform(0.1, 1, size=(3, 1, 1))), warp)

    def density(y: float) -> float:
        return np.exp(found.log_density(np.array([[y]]))).item()

    ends = found.quantile([1e-9, 0.5, 1 - 1e-9]).ravel()

    def integral(of) -> float:
        return sum(quad(of, *part, limit=500)[0] for part in (ends[:2], ends[1:]))

    assert integral(density) == pytest.approx(1.0, abs=1e-7)
    assert integral(lambda y: y * density(y)) == pytest.approx(found.mean.item(), rel=1e-5)
    spread = integral(lambda y: (y - found.mean.item()) ** 2 * density(y))
    assert spread == pytest.approx(found.variance.item(), rel=1e-4)
    y, step = ends[1] + 0.1, 1e-5
    slope = (found.cdf(np.array([[y + step]])) - found.cdf(np.array([[y - step]]))) / (2 * step)
    assert slope.item() == pytest.approx(density(y), rel=1e-6)
    assert found.cdf(found.quantile(0.3)).item() == pytest.approx(0.3, rel=1e-10)


@WARPS
@pytest.mark.parametrize("at", [1e-4, 0.2, 0.97, None], ids=["low", "left", "right", "beyond"])
def test_the_crps_is_that_of_many_draws(warp, at):
    draws = np.random.default_rng(1)
    found = WarpedMixture(GaussianMixture(draws.normal(size=(4, 1, 1)), draws.uniform(0.1, 1, size=(4, 1, 1))), warp)
    y = found.quantile(at) if at else warp.inverse(np.full((1, 1), 20.0))
    expected = Samples(found.sample(draws, 400_000)).crps(y)
    assert found.crps(y).item() == pytest.approx(expected.item(), rel=0.01)


def test_the_identity_leaves_a_mixture_as_it_is():
    draws = np.random.default_rng(2)
    mixture = GaussianMixture(draws.normal(size=(5, 7, 1)), draws.uniform(0.1, 1, size=(5, 7, 1)))
    found, same = WarpedMixture(mixture, SinhArcsinh(3.0, 2.0, 0.0, 1.0)), mixture.shifted_scaled(3.0, 2.0)
    Y = draws.normal(size=(7, 1)) * 4
    for name, column in per_row(same, Y).items():
        np.testing.assert_allclose(per_row(found, Y)[name], column, rtol=1e-9, atol=1e-12, err_msg=name)


STEEP = {
    "a wide component": (np.zeros(100), np.r_[1e6, np.full(99, 1e-2)], 0.1),
    "a far component": (np.r_[10.0, np.zeros(99)], np.full(100, 1e-4), 0.5),
    "narrow components": (np.random.default_rng(5).normal(size=10), np.full(10, 1e-6), 0.3),
}


@pytest.mark.parametrize(("means", "variances", "y"), STEEP.values(), ids=STEEP)
def test_the_crps_of_narrow_components_is_the_closed_form(means, variances, y):
    """Beside a row of one component and a second target, by the identity: y = 3 + 2 z."""
    means, variances = (np.stack([each, np.full(len(each), each[-1])], axis=1) for each in (means, variances))
    mixture = GaussianMixture(means[..., None], variances[..., None])
    found, same = WarpedMixture(mixture, SinhArcsinh(3.0, 2.0, 0.0, 1.0)), mixture.shifted_scaled(3.0, 2.0)
    Y = 3.0 + 2.0 * np.array([[[y], [y]], [[y + 1], [y - 1]]])
    np.testing.assert_allclose(found.crps(Y), same.crps(Y), rtol=1e-5)


def test_quantiles_and_samples_are_carried_over():
    values = np.array([[0.5], [1.0], [2.0]])
    found = warped(Quantiles([0.1, 0.5, 0.9], values, mean=np.array([1.1])), Log())
    np.testing.assert_allclose(found.values[..., 0], np.exp(values))
    assert found.mean is None
    np.testing.assert_allclose(warped(Samples(values), Log()).draws[..., 0], np.exp(values))


def test_sinh_arcsinh_is_fitted_by_maximum_likelihood():
    draws = np.random.default_rng(3)
    y = SKEWED.inverse(draws.standard_normal(40_000))
    found = SinhArcsinh.fit(y)
    for name in ("location", "width", "skewness", "tails"):
        assert getattr(found, name) == pytest.approx(getattr(SKEWED, name), rel=0.1)
    # A Gaussian of the transformed values is as good a density as there is.
    z = found.forward(y)
    assert (norm.logpdf(z) + found.log_slope(y)).mean() >= (norm.logpdf(SKEWED.forward(y)) + SKEWED.log_slope(y)).mean()


def test_the_likelihoods_gradient_is_its_derivative():
    y = np.random.default_rng(4).standard_t(3, size=50)
    at = np.array([0.3, -0.2, 0.4, -0.5])
    loss = SinhArcsinh._loss
    assert check_grad(lambda p: loss(p, y)[0], lambda p: loss(p, y)[1], at) < 1e-6


@pytest.mark.full
def test_the_transform_is_estimated_from_the_training_rows_and_kept(tmp_path):
    train, test = frame(60, 5), frame(20, 6)
    found = run_of(tmp_path / "run", train, test, "method=gpr", "dataset.target_transform=sinh_arcsinh")
    target = found.record["data"]["target"]
    expected = SinhArcsinh.fit(train["price"].to_numpy())
    assert target["tails"] == pytest.approx(expected.tails, rel=1e-12)
    regressor = load(found.directory)
    mean = regressor.predict(test[["x"]])
    rows = found.points.sort_values("row")
    np.testing.assert_allclose(mean, rows["mean"], rtol=1e-6)


@pytest.mark.full
def test_an_estimator_with_a_transform_is_saved_and_loaded(tmp_path):
    train, test = frame(50, 7), frame(10, 8)
    settings = {"dataset.target_transform": "log"}
    model = DeepGPRegressor("sgp", budget="smoke", settings=settings).fit(train[["x"]], train["price"])
    predicted, same = model.predict_dist(test[["x"]]), load(model.save(tmp_path / "model"))
    assert same.get_params()["settings"] == settings
    assert (predicted.cdf(1e-300) == 0).all()
    np.testing.assert_array_equal(same.predict(test[["x"]]), predicted.mean)
    np.testing.assert_array_equal(same.predict_quantiles(test[["x"]], [0.1])[:, 0], predicted.quantile(0.1))


def test_log_refuses_targets_that_have_none(tmp_path, capsys):
    train = frame(30, 9).assign(price=lambda rows: rows["price"] - rows["price"].median())
    train.to_csv(tmp_path / "table.csv", index=False)
    words = ("dataset=csv", f"dataset.path={tmp_path / 'table.csv'}", "dataset.target=price", "method=gpr")
    assert fit_once.command("run", *words, "dataset.target_transform=log", "budget=smoke") == 2
    message = capsys.readouterr().err
    assert "needs a target above 0, and 1" in message
    assert "dataset.target_transform=sinh_arcsinh accepts any" in message


def test_below_zero_a_log_transform_has_no_density():
    found = WarpedMixture(GaussianMixture(np.zeros((1, 2, 1)), np.ones((1, 2, 1))), Log())
    y = np.array([[-1.0], [0.0]])
    assert (found.log_density(y) == -np.inf).all()
    assert (found.cdf(y) == 0).all()


@pytest.mark.parametrize("deviation", [1e-9, 1.0, 6.0, 13.0])
def test_the_moments_of_a_log_transform_are_those_of_log_normals(deviation):
    """In a far row a GP is as uncertain as its prior: a quadrature missed the tail that makes the deviation."""
    variance = deviation**2
    means = np.array([0.3, -0.2])
    found = WarpedMixture(GaussianMixture(means[:, None, None], np.full((2, 1, 1), variance)), Log())
    log_normals = np.exp(means + variance / 2)
    mean = log_normals.mean()
    spread = (log_normals**2).mean() * np.expm1(variance) + log_normals.var()
    assert found.mean.item() == pytest.approx(mean, rel=1e-12)
    assert found.variance.item() == pytest.approx(spread, rel=1e-12)


def test_moments_that_overflow_raise_an_error():
    with pytest.raises(NonFinitePredictions, match="moments"):
        WarpedMixture(GaussianMixture(np.full((1, 1, 1), 900.0), np.ones((1, 1, 1))), Log())


def test_a_scaler_with_a_transform_survives_json():
    X, y = np.arange(8.0)[:, None], SKEWED.inverse(np.linspace(-2, 2, 8))
    scaler = Standardiser.fit(X, y, ("x",), target_transform="sinh_arcsinh")
    again = Standardiser.from_json(scaler.to_json(), ("x",))
    assert again.warp == scaler.warp
    np.testing.assert_array_equal(again.transform(X, y).Y, scaler.transform(X, y).Y)
