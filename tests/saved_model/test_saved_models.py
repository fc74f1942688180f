"""Saved models: another process predicts the same bits, and invalid models are refused with the reason."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import fit_once
import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from dgpbench import DeepGPRegressor, load
from dgpbench.data.standardise import Regression
from dgpbench.methods.interface import restore_function
from dgpbench.methods.predictor import arrays_of, assign
from dgpbench.runs.resolve import resolve_overrides

SMALL = {"training.max_iterations": 3, "prediction.num_samples": 3}
DEEP = SMALL | {"method.num_inducing": 5, "method.width": 2}
COUPLED = {"method.blocks": [{"layers": [2, 1], "gps": "all"}]}
# One method, at least, of every family, and each way in which a family's predictors differ.
CASES = {
    "gpr": ("gpr", SMALL),
    "sgpr": ("sgpr", SMALL | {"method.num_inducing": 5}),
    "fitc": ("fitc", SMALL | {"method.num_inducing": 5}),
    "sgp": ("sgp", SMALL | {"method.num_inducing": 5}),
    "mf": ("mf", DEEP),
    "star": ("star", DEEP),
    "fc_mc": ("fc_mc", DEEP),
    "custom": ("custom", DEEP | COUPLED),
    "dspp": ("dspp", DEEP),
    "mf_lv": ("mf_lv", DEEP),
    "mf in float32": ("mf", DEEP | {"precision": "float32"}),
    "mf stopped early": ("mf", DEEP | {"training.early_stopping": True, "training.max_iterations": 300}),
    "sghmc": ("sghmc", DEEP),
    "sod": ("sod", DEEP),
    "aep": ("aep", DEEP),
    "aepmcm": ("aepmcm", DEEP),
    "fully_factorised": ("fully_factorised", DEEP),
}
QUICK = ("gpr", "sgp")
LOADING = """
import sys
import numpy as np
import pandas as pd
from dgpbench import load
folder, names = sys.argv[1], sys.argv[2:]
new = pd.read_csv(f"{folder}/new.csv")
for name in names:
    mixture = load(f"{folder}/{name}").predict_dist(new).mixture
    arrays = {"means": mixture.means, "variances": mixture.variances, "weights": mixture.relative_weights}
    np.savez(f"{folder}/{name}.npz", **arrays)
"""


def rows(number: int, seed: int) -> pd.DataFrame:
    """Rows with y in units far from standard ones; one column is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 20.0, size=(number, 2))
    y = 1000 + 50 * np.sin(X[:, 0] / 20) + X[:, 1] + rng.normal(size=number)
    return pd.DataFrame({"width": X[:, 0], "always": 7.0, "height": X[:, 1], "price": y})


def predicted_here_and_elsewhere(folder: Path, names) -> dict[str, tuple]:
    """By name, the mixtures of new rows of this process and of another, which has read the saved model."""
    table, new = rows(40, 0), rows(11, 1).drop(columns="price")
    new.to_csv(folder / "new.csv", index=False)
    here = {}
    for name in names:
        method, settings = CASES[name]
        layers = 2 if "method.width" in settings else None
        estimator = DeepGPRegressor(method, num_layers=layers, budget="smoke", settings=settings)
        estimator.fit(table.drop(columns="price"), table["price"]).save(folder / name)
        here[name] = estimator.predict_dist(pd.read_csv(folder / "new.csv")).mixture
    command = [sys.executable, "-c", LOADING, str(folder), *names]
    subprocess.run(command, check=True, timeout=500)
    return {name: (here[name], np.load(folder / f"{name}.npz")) for name in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def quick(folder):
    return predicted_here_and_elsewhere(folder, QUICK)


@pytest.fixture(scope="module")
def slow(folder):
    return predicted_here_and_elsewhere(folder, [name for name in CASES if name not in QUICK])


def same_bits(here, elsewhere) -> bool:
    arrays = {"means": here.means, "variances": here.variances, "weights": here.relative_weights}
    return all(np.array_equal(array, elsewhere[name]) for name, array in arrays.items())


@pytest.mark.full
@pytest.mark.parametrize("name", QUICK)
def test_another_process_predicts_the_same_bits(name, quick):
    assert same_bits(*quick[name])


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in CASES if name not in QUICK])
def test_another_process_predicts_the_same_bits_for_every_family(name, slow):
    assert same_bits(*slow[name])


def restored_has_the_bits_of_the_fitted(*overrides: str) -> bool:
    """Return whether a predictor and the one restored from its arrays predict equally."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y, new = np.sin(X[:, 0]), rng.normal(size=(9, 2))
    few = ("budget=smoke", "training.max_iterations=3", "prediction.num_samples=3", *overrides)
    fitted = fit_once.fit(X, y, *few)
    told = fit_once.settings(Regression(X, y[:, None]), *few)
    restored = restore_function(resolve_overrides(few).card.family)(told, fitted.predictor.parameters())
    again = restored.predict(new, fit_once.SEEDS.prediction)
    arrays = {"means": again.means, "variances": again.variances, "weights": again.relative_weights}
    return same_bits(fitted.predict(new), arrays)


def test_a_restored_predictor_has_the_fitted_bits():
    assert restored_has_the_bits_of_the_fitted("method=sgp", "method.num_inducing=5")


@pytest.mark.full
@pytest.mark.parametrize(
    "method", ["gpr", "sgpr", "star", "dspp", "mf_lv", "sghmc", "sod", "aep", "aepmcm", "fully_factorised"]
)
def test_a_restored_predictor_has_the_fitted_bits_for_every_family(method):
    sizes = {"gpr": (), "sgpr": ("method.num_inducing=5",)}
    deep = ("method.num_layers=2", "method.num_inducing=5", "method.width=2")
    assert restored_has_the_bits_of_the_fitted(f"method={method}", *sizes.get(method, deep))


def test_positive_parameters_come_back_to_the_last_bit():
    """Of a thousand, softplus and its inverse change the last bit of many."""

    class Positive(tf.Module):
        def __init__(self, raw):
            self.values = gpflow.Parameter(np.ones(1000), transform=gpflow.utilities.positive())
            self.values.unconstrained_variable.assign(raw)

    saved, other = (Positive(np.random.default_rng(seed).normal(size=1000)) for seed in (0, 1))
    assign(arrays_of(saved), other)
    raw, back = (model.values.unconstrained_variable.numpy() for model in (saved, other))
    np.testing.assert_array_equal(back, raw)


def test_every_family_is_among_the_cases():
    from dgpbench.methods.interface import families

    known = {
        resolve_overrides([f"method={method}"], COUPLED if method == "custom" else {}).card.family
        for method, _ in CASES.values()
    }
    assert known == {family for family in families() if not family.startswith("plug-in")}


def test_a_saved_model_is_arrays_and_json_with_provenance(quick, folder):
    assert sorted(path.name for path in (folder / "gpr").iterdir()) == ["model.json", "parameters.npz"]
    facts = json.loads((folder / "gpr" / "model.json").read_text())
    assert facts["model"]["format"] == 1
    assert facts["model"]["target"] == "price"
    assert facts["about"]["data"]["dropped"] == ["always"]
    assert facts["about"]["choices"]["overrides"]["training.max_iterations"] == 3
    assert facts["about"]["versions"]["tensorflow"]
    with np.load(folder / "gpr" / "parameters.npz", allow_pickle=False) as arrays:
        assert arrays["training_rows"].shape == (40, 2)


def test_exact_regression_predicts_the_posterior_of_its_parameters(quick, folder):
    table, new = rows(40, 0), rows(11, 1)
    arrays = np.load(folder / "gpr" / "parameters.npz")
    names = ["width", "height"]
    X, y = table[names].to_numpy(), table["price"].to_numpy()
    mean, scale = X.mean(axis=0), X.std(axis=0)
    A, B = (X - mean) / scale, (new[names].to_numpy() - mean) / scale

    def k(left, right):
        squares = ((left[:, None] - right[None]) / arrays[".kernel.lengthscales"]) ** 2
        return arrays[".kernel.variance"] * np.exp(-0.5 * squares.sum(axis=-1))

    noise = arrays[".likelihood.variance"]
    solved = np.linalg.solve(k(A, A) + noise * np.eye(len(A)), k(A, B)).T
    expected = solved @ ((y - y.mean()) / y.std())
    variance = arrays[".kernel.variance"] + noise - (solved * k(B, A)).sum(axis=1)
    found, deviation = load(folder / "gpr").predict(new.drop(columns="price"), return_std=True)
    np.testing.assert_allclose(found, y.mean() + y.std() * expected, rtol=1e-9)
    np.testing.assert_allclose(deviation, y.std() * np.sqrt(variance), rtol=1e-7)


def test_a_loaded_model_is_an_estimator_with_the_saved_parameters(quick, folder):
    loaded = load(folder / "gpr")
    given = {"method": "gpr", "budget": "smoke", "settings": SMALL, "random_state": 0, "num_layers": 1}
    assert loaded.get_params().items() >= given.items()
    assert loaded.feature_names_in_.tolist() == ["width", "always", "height"]


def test_a_pickled_estimator_predicts_the_same_bits(quick, folder):
    loaded, new = load(folder / "sgp"), rows(5, 2).drop(columns="price")
    before = loaded.predict(new)
    assert np.array_equal(pickle.loads(pickle.dumps(loaded)).predict(new), before)


def test_a_rows_prediction_does_not_depend_on_the_other_rows(quick, folder):
    loaded, new = load(folder / "sgp"), rows(9, 3).drop(columns="price")
    np.testing.assert_allclose(loaded.predict(new.iloc[[4]])[0], loaded.predict(new)[4], rtol=1e-12)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["star", "fc_mc", "sghmc", "sod", "aepmcm"])
def test_a_rows_drawn_paths_do_not_depend_on_the_other_rows(name, slow, folder):
    loaded, new = load(folder / name), rows(9, 3).drop(columns="price")
    whole, alone = loaded.predict_dist(new).mixture, loaded.predict_dist(new.iloc[[4]]).mixture
    assert len(np.unique(whole.means[:, 4])) == SMALL["prediction.num_samples"]  # the paths do differ
    np.testing.assert_allclose(alone.means[:, 0], whole.means[:, 4], rtol=1e-9)
    np.testing.assert_allclose(alone.variances[:, 0], whole.variances[:, 4], rtol=1e-7)


def damaged(folder: Path, name: str, change) -> Path:
    """Copy a saved model and change its file of this name."""
    target = folder / f"damaged-{len(list(folder.glob('damaged-*')))}"
    target.mkdir()
    for path in (folder / "gpr").iterdir():
        data = path.read_bytes()
        (target / path.name).write_bytes(change(data) if path.name == name else data)
    return target


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("parameters.npz", lambda data: data[:-1], "parameters.npz is .* bytes long instead of"),
        ("parameters.npz", lambda data: data[:-1] + b"x", "does not match the digest in its record"),
        ("model.json", lambda data: data[:100], "cannot be loaded"),
        ("model.json", lambda data: data.replace(b'"format": 1', b'"format": 99'), "format 99, of a later dgpbench"),
        ("model.json", lambda data: b"[]", "model.json was not written by dgpbench"),
    ],
)
def test_a_damaged_model_is_refused(name, change, sentence, quick, folder):
    with pytest.raises(ValueError, match=sentence) as refusal:
        load(damaged(folder, name, change))
    assert "\n" not in str(refusal.value)


def test_a_folder_without_a_model_is_refused_with_what_makes_one(tmp_path):
    with pytest.raises(
        ValueError, match=r"does not contain a model; `dgpbench fit .* --output DIRECTORY` or, in Python, `save`"
    ):
        load(tmp_path)


def test_a_model_is_never_written_over_another(quick, folder):
    before = (folder / "gpr" / "model.json").read_bytes()
    with pytest.raises(ValueError, match="holds a model already"):
        load(folder / "sgp").save(folder / "gpr")
    assert (folder / "gpr" / "model.json").read_bytes() == before
