"""Known answers in extreme cases: few rows, one feature, many features, rows twice, M = N, float32."""

import numpy as np
import pytest
import tensorflow as tf

from dgpbench.cli import main
from dgpbench.config import groups
from dgpbench.gp.layers import GPLayer
from dgpbench.runs import store
from dgpbench.runs.resolve import resolve_overrides

METHODS = groups.names("method")
QUICK = ("mf", "gpr")
EACH = [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in METHODS]
IN_FLOAT32 = [each for each in EACH if "float32" in resolve_overrides([f"method={each.values[0]}"]).card.precisions]
SMOKE = ("budget=smoke", "progress=false", "plot=false")
# In so few iterations these come half of the way: sampled inducing outputs, chains, hidden values that start unordered.
SLOW = ("fc_mc", "sghmc", "sod", "sod_random")


@pytest.fixture
def default_float():
    """A run sets GPflow's default float; the tests after it have theirs back."""
    import gpflow

    kept = gpflow.default_float()
    yield
    gpflow.config.set_default_float(kept)


def fitted(folder, method, X, y, *overrides):
    """The record of a smoke run on a table of one's own."""
    names = [f"x{index}" for index in range(X.shape[1])]
    table = "\n".join([",".join([*names, "y"]), *(",".join(map(repr, map(float, row))) for row in np.c_[X, y])])
    (folder / "table.csv").write_text(table)
    own = ["dataset=csv", f"dataset.path={folder}/table.csv", "dataset.target=y", f"results_dir={folder}/results"]
    kept = [text for text in overrides if method != "gpr" or not text.startswith("method.")]
    assert main(["run", f"method={method}", *own, *SMOKE, *kept]) == 0
    record = store.read_record(next((folder / "results/runs").rglob(store.RECORD)).parent)
    assert record["status"] == "done"
    assert all(np.isfinite(value) for value in record["scores"].values())
    return record["scores"]


def line(num_rows, num_features, seed=0):
    """Rows with their first feature plus a little noise as target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num_rows, num_features))
    return X, X[:, 0] + 0.05 * rng.normal(size=num_rows)


@pytest.mark.full
@pytest.mark.parametrize("method", EACH)
def test_one_feature_is_learnt(method, tmp_path):
    # A subset's sampled values in few dimensions make k(Z_S, Z_S) nearly singular (docs/methods.md, "Subset of data"):
    # eight GPs a layer.
    own = ["method.width=8"] if method.startswith("sod") else []
    iterations = 1000 if method.startswith(("sghmc", "sod")) else 400
    scores = fitted(tmp_path, method, *line(120, 1), f"training.max_iterations={iterations}", *own)
    # Predicting the training mean and deviation has an RMSE of 1.03 and a TLL of -1.45.
    assert scores["rmse"] < (0.5 if method in SLOW else 0.3)
    assert scores["tll"] > (-0.6 if method in SLOW else 0.1)


@pytest.mark.full
@pytest.mark.parametrize("method", EACH)
def test_three_hundred_features_are_taken(method, tmp_path):
    scores = fitted(tmp_path, method, *line(120, 300))
    # One of 300 features cannot be found in 50 iterations; the training mean, which can, has an RMSE of 0.88.
    assert scores["rmse"] < 1.1 * 0.88


@pytest.mark.full
@pytest.mark.parametrize("method", EACH)
def test_two_training_rows_predict_a_value_near_theirs(method, tmp_path):
    scores = fitted(
        tmp_path, method, np.array([[1.0], [2.0], [1.5]]), np.array([0.0, 1.0, 0.5]),
        "task.train_fraction=0.67", "method.num_inducing=2",
    )  # fmt: skip
    # The test row's target is an end of the line, 0.75 from the mean of the two others.
    assert 0.6 < scores["rmse"] < 0.85


@pytest.mark.full
@pytest.mark.parametrize("method", EACH)
def test_every_row_twice_and_all_of_them_as_inducing_points(method, tmp_path):
    X, y = line(30, 2)
    more = ["training.max_iterations=200"] if method == "mf_lv" else []  # a latent input slows it
    scores = fitted(tmp_path, method, np.r_[X, X], np.r_[y, y], "method.num_inducing=54", *more)
    # Most test rows are training rows too. The targets' deviation is 0.71.
    assert scores["rmse"] < (0.65 if method in SLOW else 0.5)


@pytest.mark.full
@pytest.mark.parametrize("method", IN_FLOAT32)
def test_float32_scores_are_near_those_of_float64(method, tmp_path, default_float):
    found = []
    for precision in ("float64", "float32"):
        folder = tmp_path / precision
        folder.mkdir()
        found.append(fitted(folder, method, *line(120, 3), f"precision={precision}", "training.max_iterations=20"))
    # Samplers and nearly singular subsets carry a rounding error far; what they give is finite and no more is known.
    assert method.startswith(("sghmc", "sod")) or abs(found[0]["tll"] - found[1]["tll"]) < 0.05


def test_inducing_inputs_given_twice_explain_what_they_explain_once():
    import gpflow

    rng = np.random.default_rng(0)
    Z, H = rng.normal(size=(5, 2)), tf.constant(rng.normal(size=(1, 9, 2)))
    residuals = []
    for inputs in (Z, np.r_[Z, Z]):
        layer = GPLayer(gpflow.kernels.SquaredExponential(), inputs, gpflow.functions.Zero(1), 1, jitter=1e-8)
        residuals.append(layer.features(H, layer.cholesky()).residual)
    np.testing.assert_allclose(residuals[1], residuals[0], atol=1e-6)


@pytest.mark.parametrize("method", ["mf", "gpr"])
def test_a_constant_target_is_refused(method, tmp_path, capsys):
    X, _ = line(20, 2)
    with pytest.raises(AssertionError):
        fitted(tmp_path, method, X, np.full(20, 3.0))
    message = capsys.readouterr().err.strip()
    assert "in every row" in message
    assert "\n" not in message
