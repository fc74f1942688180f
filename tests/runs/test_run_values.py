"""Numbers in a run's files, compared with NumPy from the table and the stored parameters alone."""

import hashlib
import json
import shutil
from pathlib import Path

import fit_once
import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, norm

N, JITTER = 50, 1e-4
SETTINGS = (f"method.jitter={JITTER}", "method.num_inducing=5", "budget=smoke", "split=2")


def table():
    """Two features in units of their own, one that never varies, and a target far from standard units."""
    rng = np.random.default_rng(7)
    X = np.c_[300 + 40 * rng.normal(size=N), np.full(N, 2.5), -3 + 0.02 * rng.normal(size=N)]
    return X, 1000 + 250 * np.sin((X[:, 0] - 300) / 40) + 20 * rng.normal(size=N)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    return fit_once.write_table(folder / "mine.csv", *table())


@pytest.fixture(scope="module")
def sparse(data, tmp_path_factory):
    """A run of one layer, with one Gaussian per row as prediction."""
    return fit_once.run(tmp_path_factory.mktemp("sgp"), *data, "method=sgp", *SETTINGS)


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """A run of GP regression on a table of one feature, which has a predictive grid."""
    return fit_once.run(tmp_path_factory.mktemp("gpr"), "dataset=step", "method=gpr", "budget=smoke")


def split_of(run, num_rows):
    """(training rows, test rows) as the table of points has the second."""
    test = run.points["row"].to_numpy()
    return np.setdiff1d(np.arange(num_rows), test), test


def standardised(X, y, train):
    """X and y in the units of their training rows, without the features that do not vary there."""
    X = X[:, X[train].std(axis=0) > 1e-9]
    return (X - X[train].mean(axis=0)) / X[train].std(axis=0), (y - y[train].mean()) / y[train].std()


def k(a, b, variance, lengthscales):
    return variance * np.exp(-0.5 * np.sum(((a[:, None] - b) / lengthscales) ** 2, axis=-1))


def predictions(run):
    """Mean and variance of each test row in original units, from the posterior and the parameters in its files."""
    X, y = table()
    train, test = split_of(run, N)
    inputs, _ = standardised(X, y, train)
    parameters = dict(np.load(run.directory / "parameters.npz"))
    layer = {name: parameters[f".prior.layers[0]{name}"] for name in (".Z", ".kernel.variance", ".kernel.lengthscales")}
    Z, hyper = layer[".Z"], (layer[".kernel.variance"], layer[".kernel.lengthscales"])
    A = np.linalg.solve(np.linalg.cholesky(k(Z, Z, *hyper) + JITTER * np.eye(len(Z))), k(Z, inputs[test], *hyper))
    m, C = run.posterior["mean_1"][0], run.posterior["diagonal_1"][0]
    explained = np.sum(A**2, axis=0)
    variance = hyper[0] - explained + np.sum((C.T @ A) ** 2, axis=0) + parameters[".prior.likelihood.variance"]
    return y[train].mean() + y[train].std() * (m @ A), y[train].std() ** 2 * variance


@pytest.mark.full
def test_row_numbers_and_targets_of_the_points_are_the_tables(sparse):
    _, y = table()
    points = sparse.points
    assert len(points) == 5
    assert points["row"].is_unique
    np.testing.assert_array_equal(points["y"], y[points["row"]])


def test_points_hold_the_predictions_in_original_units(sparse):
    mean, variance = predictions(sparse)
    np.testing.assert_allclose(sparse.points["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(sparse.points["variance"], variance, rtol=1e-7)
    y = sparse.points["y"]
    np.testing.assert_allclose(sparse.points["log_density"], norm.logpdf(y, mean, np.sqrt(variance)), rtol=1e-7)
    np.testing.assert_allclose(sparse.points["pit"], norm.cdf(y, mean, np.sqrt(variance)), rtol=1e-6)


def test_distances_are_to_the_nearest_training_row_in_standard_units(sparse):
    X, y = table()
    train, test = split_of(sparse, N)
    inputs, _ = standardised(X, y, train)
    between = np.sqrt(np.sum((inputs[test][:, None] - inputs[train]) ** 2, axis=-1))
    np.testing.assert_allclose(sparse.points["distance"], between.min(axis=1), rtol=1e-9)


def test_scores_are_of_the_predictions_in_original_units(sparse):
    mean, variance = predictions(sparse)
    _, y = table()
    targets = y[sparse.points["row"]]
    deviation = np.sqrt(variance)
    density = norm.logpdf(targets, mean, deviation)
    z = (targets - mean) / deviation
    crps = deviation * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    expected = {
        "tll": density.mean(),
        "nlpp": -density.mean(),
        "rmse": np.sqrt(np.mean((targets - mean) ** 2)),
        "crps": crps.mean(),
        "sharpness": deviation.mean(),
        **{f"coverage_{p}": np.mean(np.abs(z) <= norm.ppf(0.5 + p / 200)) for p in (50, 80, 90, 95)},
    }
    assert {name: sparse.scores[name] for name in expected} == pytest.approx(expected, rel=1e-7)
    assert expected["rmse"] > 10  # standard units would give at most a few


def test_the_record_describes_the_data(sparse):
    X, y = table()
    train, test = split_of(sparse, N)
    described = sparse.record["data"]
    sizes = {"n": N, "d": 3, "n_train": 45, "n_test": 5, "dropped": ["x1"], "verified": "own"}
    assert {key: described[key] for key in sizes} == sizes
    assert (len(train), len(test)) == (45, 5)
    assert described["scale_y"] == pytest.approx(y[train].std(), rel=1e-12)
    A = np.c_[X, y]
    assert described["digest_xy_ordered"] == hashlib.sha256(A.tobytes()).hexdigest()
    rows = np.array(sorted(A.tolist()))
    assert described["digest_xy"] == hashlib.sha256(rows.tobytes()).hexdigest()
    assert described["name"] == f"mine-{described['digest_xy'][:8]}"


def test_the_record_names_the_run(sparse):
    record = sparse.record
    assert record["identity"] == {
        "task": "interpolation",
        "dataset": record["data"]["name"],
        "method": "sgp",
        "num_layers": 1,
        "protocol": "lindinger2020",
        "budget": "smoke",
        "split": 2,
        "seed": 0,
        "overrides": {"method.jitter": JITTER, "method.num_inducing": 5},
    }
    expected = ("interpolation", record["data"]["name"], "sgp-L1", "lindinger2020-smoke")
    assert sparse.directory.parts[-5:-1] == expected
    assert sparse.directory.name == "split2-seed0+method.jitter=0.0001,method.num_inducing=5"
    assert record["objective"] == "ELBO"
    text = json.dumps(record["config"], sort_keys=True, separators=(",", ":"))
    assert record["config_hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert record["config"]["method"]["jitter"] == JITTER
    assert (record["config"]["split"], record["config"]["seed"]) == (2, 0)


def test_iterations_and_seconds_are_those_of_the_trace(sparse):
    trace, record = sparse.trace, sparse.record
    assert list(trace["iteration"]) == [10, 20, 30, 40, 50]
    assert record["iterations"] == 50
    assert trace["seconds"].is_monotonic_increasing
    seconds = record["seconds"]
    assert seconds["training"] == pytest.approx(trace["seconds"].iloc[-1], rel=1e-9)
    assert seconds["total"] > seconds["tracing"] + seconds["training"] + seconds["prediction"]
    between = pd.Timestamp(record["finished"]) - pd.Timestamp(record["started"])
    assert abs(between.total_seconds() - seconds["total"]) <= 1.0  # both ends are cut to seconds
    assert min(seconds.values()) > 0


def test_the_record_has_the_digests_of_the_files_beside_it(sparse):
    found = {path.name: path.read_bytes() for path in sparse.directory.iterdir() if path.name != "record.json"}
    assert set(found) == {"points.parquet", "trace.parquet", "posterior.npz", "parameters.npz"}
    assert sparse.record["files"] == {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in found.items()
    }


@pytest.mark.full
def test_a_run_that_starts_from_another_has_its_parameters(sparse, data, tmp_path):
    """Under a vanishing learning rate it makes the predictions of its start."""
    start = f'init_from="{sparse.directory}"'
    again = fit_once.run(tmp_path, *data, "method=sgp", *SETTINGS, start, "training.learning_rate=1e-30")
    np.testing.assert_allclose(again.points["mean"], sparse.points["mean"], rtol=1e-9)
    np.testing.assert_allclose(again.points["variance"], sparse.points["variance"], rtol=1e-9)
    assert again.scores == pytest.approx(sparse.scores, rel=1e-7)
    assert again.directory.name != sparse.directory.name


def test_a_run_that_starts_from_another_has_its_coordinates(sparse, data, tmp_path, capsys):
    given = (*data, "method=sgp", *SETTINGS, f'init_from="{sparse.directory}"', "method.whiten=false")
    assert fit_once.command("run", *given, f"results_dir={tmp_path}") == 2
    assert "has method.whiten=true; with the other value" in capsys.readouterr().err


@pytest.mark.full
def test_a_rerun_starts_from_the_run_that_its_record_names(sparse, data, tmp_path, capsys):
    shutil.copytree(sparse.directory.parents[5], tmp_path, dirs_exist_ok=True)
    start = Path(*sparse.directory.parts[-6:])
    given = (*data, "method=sgp", *SETTINGS, f'init_from="{start}"', f"results_dir={tmp_path}", *fit_once.QUIET)
    assert fit_once.command("run", *given) == 0
    (directory,) = {path.parent for path in tmp_path.rglob("record.json")} - {tmp_path / start}
    capsys.readouterr()
    assert fit_once.command("results", "redo", str(directory), *data) == 0
    assert "the scores agree bit for bit" in capsys.readouterr().out
    shutil.rmtree(tmp_path / start)
    assert fit_once.command("results", "redo", str(directory), *data) == 2
    assert f"starts from the parameters of {tmp_path / start}, which is missing" in capsys.readouterr().err


@pytest.mark.full
def test_another_seed_is_another_run_on_the_same_split(sparse, data, tmp_path):
    other = fit_once.run(tmp_path, *data, "method=sgp", *SETTINGS, "seed=1")
    assert list(other.points["row"]) == list(sparse.points["row"])
    assert list(other.points["distance"]) == list(sparse.points["distance"])
    assert other.scores["tll"] != sparse.scores["tll"]
    assert not np.array_equal(other.posterior["mean_1"], sparse.posterior["mean_1"])
    assert other.directory.name.startswith("split2-seed1")
    assert other.record["config_hash"] != sparse.record["config_hash"]


@pytest.mark.full
def test_the_same_run_in_another_folder_has_the_same_bits(sparse, data, tmp_path):
    again = fit_once.run(tmp_path, *data, "method=sgp", *SETTINGS, "timeout_minutes=30")
    pd.testing.assert_frame_equal(again.points, sparse.points, check_exact=True)
    assert again.scores == sparse.scores
    assert again.record["config_hash"] == sparse.record["config_hash"]
    assert again.directory.parts[-5:] == sparse.directory.parts[-5:]


@pytest.mark.full
def test_the_grid_of_one_feature_is_the_density_in_original_units(exact):
    """y = -1 left of 0 and 1 right of it; GP regression's posterior by hand."""
    rng = np.random.Generator(np.random.PCG64(0))
    x = rng.uniform(0.2, 2, 100) * rng.choice([-1, 1], 100)
    y = np.sign(x)
    train, _ = split_of(exact, 100)
    grid = exact.posterior
    np.testing.assert_allclose(grid["grid_x"], np.linspace(x[train].min(), x[train].max(), 121), rtol=1e-12)
    parameters = dict(np.load(exact.directory / "parameters.npz"))
    hyper = (parameters[".kernel.variance"], parameters[".kernel.lengthscales"])
    s2 = parameters[".likelihood.variance"]
    H, Y = standardised(x[:, None], y, train)
    at = ((grid["grid_x"] - x[train].mean()) / x[train].std())[:, None]
    K, k_at = k(H[train], H[train], *hyper) + s2 * np.eye(len(train)), k(H[train], at, *hyper)
    mean = y[train].mean() + y[train].std() * (k_at.T @ np.linalg.solve(K, Y[train]))
    variance = hyper[0] + s2 - np.sum(k_at * np.linalg.solve(K, k_at), axis=0)
    deviation = y[train].std() * np.sqrt(variance)
    expected = norm.pdf(grid["grid_y"], mean[:, None], deviation[:, None])
    np.testing.assert_allclose(grid["grid_density"], expected, rtol=1e-5, atol=1e-8)
    # 50 draws at each of 121 places: their mean square, in standard units, within four standard errors of 1.
    squares = ((grid["grid_samples"] - mean) / deviation) ** 2
    assert abs(squares.mean() - 1) < 4 * np.sqrt(2 / squares.size)
    # The same at the quarters of the range.
    quarters = [30, 60, 90]
    np.testing.assert_allclose(grid["draws_x"], grid["grid_x"][quarters], rtol=1e-12)
    normals = (grid["draws_y"] - mean[quarters]) / deviation[quarters]
    assert all(kstest(normals[:, place], "norm").pvalue > 1e-3 for place in range(3))
    assert "draws_of_layer_1" not in grid


@pytest.mark.full
def test_draws_of_a_hidden_layer_follow_its_posterior(tmp_path):
    """f = x + a^T v for v ~ N(m, S) has variance k + w - a^T a + a^T S a, a = Lk^{-1} k(Z, x), with white noise w."""
    settings = ["dataset=step", "method=mf", "method.num_layers=2", "method.width=1", "budget=smoke"]
    run = fit_once.run(tmp_path, *settings, "prediction.num_samples=2000")
    parameters, kept = dict(np.load(run.directory / "parameters.npz")), run.posterior
    x_train = kept["rows_train"][:, 0]
    at = ((kept["draws_x"] - x_train.mean()) / x_train.std())[:, None]
    layer = ".prior.layers[0]"
    Z, hyper = parameters[f"{layer}.Z"], [parameters[f"{layer}.kernel.{name}"] for name in ("variance", "lengthscales")]
    w = parameters[f"{layer}.noise"]
    a = np.linalg.solve(np.linalg.cholesky(k(Z, Z, *hyper) + (w + JITTER) * np.eye(len(Z))), k(Z, at, *hyper))
    mean = at[:, 0] + a.T @ kept["mean_1"][0]
    variance = hyper[0] + w - np.sum(a**2, axis=0) + np.sum((kept["diagonal_1"][0].T @ a) ** 2, axis=0)
    normals = (kept["draws_of_layer_1"][:, :, 0] - mean) / np.sqrt(variance + JITTER)
    assert normals.shape == (2000, 3)
    assert all(kstest(normals[:, place], "norm").pvalue > 1e-3 for place in range(3))


def test_the_iterations_of_l_bfgs_are_counted(exact):
    record = exact.record
    (notes,) = record["notes"]
    assert record["iterations"] == len(exact.trace)
    assert abs(notes["iterations"] - record["iterations"]) <= 1  # the trace has the starting point too
    assert record["objective"] == "log marginal likelihood"
