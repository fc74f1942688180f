"""``precision=mixed``: float64 except for products of the columns, which are float32."""

import fit_once
import numpy as np
import pytest
import tensorflow as tf

from dgpbench.cli import main
from dgpbench.config import groups
from dgpbench.gp.block_gaussian import BlockGaussian
from dgpbench.gp.prior import Architecture, build_prior
from dgpbench.gp.propagation import given, marginalise
from dgpbench.methods.structured import DeepModel
from dgpbench.runs import store
from tests.gp import small

TAKE_IT = ["sgp", "ppgpr", "mf", "dspp", "stripes", "arrow", "star", "chain", "fc", "fc_mc", "sghmc", "aepmcm"]


def elbo_and_gradients(precision, structure):
    from dgpbench.gp.structures import STRUCTURES

    arch = small.architecture(precision=precision)
    model = DeepModel(small.prior(arch), small.posterior(STRUCTURES[structure](arch.widths)))
    X, y = map(tf.constant, small.rows())
    with tf.GradientTape() as tape:
        normals = model.normals(small.R, len(X), tf.constant([1, 2]), tf.constant(0, tf.int64), X.dtype)
        value = model.objective(X, y, small.N, normals)
    features = model.prior.layers[0].features(X[None], model.prior.layers[0].cholesky())
    return features.A.dtype, [value, *tape.gradient(value, model.trainable_variables)]


@pytest.mark.parametrize("structure", ["mean_field", "star", "fully_coupled"])
def test_the_bound_and_its_gradients_are_those_of_float64_up_to_rounding(structure):
    kind, double = elbo_and_gradients("float64", structure)
    assert kind == tf.float64
    kind, mixed = elbo_and_gradients("mixed", structure)
    assert kind == tf.float32, "columns are not float32: nothing would be faster"
    for low, full in zip(mixed, double, strict=True):
        assert low.dtype == tf.float64
        error = np.max(np.abs(low - full)) / max(1.0, np.max(np.abs(full)))
        assert error < 1e-3
    assert any(np.any(low.numpy() != full.numpy()) for low, full in zip(mixed, double, strict=True))


@pytest.mark.parametrize("structure", [None, "mean_field", "star", "fully_coupled"])
def test_the_variance_that_is_left_is_that_of_float64_where_hardly_any_is(structure):
    """Inducing points lie so near that a layer leaves 1e-5 of the variance; float32 columns made errors of as much."""
    from dgpbench.gp.structures import STRUCTURES

    rng, found = np.random.default_rng(0), {}
    Z, X = (rng.uniform(-1.5, 1.5, size=(num, 2)) for num in (40, 200))
    normals = rng.normal(size=(2, 2, 3, 200))
    for precision in ("float64", "mixed"):
        arch = Architecture(3 if structure else 1, 2, 40, white_noise=1e-6, precision=precision)
        prior, shape = build_prior(arch, X, Z), STRUCTURES[structure or "mean_field"](arch.widths)
        q = BlockGaussian(shape, 40, [1e-4] * len(arch.widths))
        choleskys, hidden = prior.choleskys(), [tf.constant(each) for each in normals[: len(arch.widths) - 1]]
        paths = marginalise(prior, q.blocks(choleskys), choleskys, tf.constant(X), hidden)
        v = [tf.zeros([3, T, 40], tf.float64) for T in arch.widths]
        particles = given(prior, v, choleskys, tf.constant(X), hidden)
        found[precision] = [paths.variance.numpy(), particles.variance.numpy(), *paths.hidden, *particles.hidden]
    assert np.median(found["float64"][0]) < 1e-4
    for low, full in zip(found["mixed"], found["float64"], strict=True):
        np.testing.assert_allclose(low, full, rtol=0, atol=3e-7)


@pytest.mark.full
def test_training_does_not_find_the_rounding_errors_of_the_bound():
    """Without noise, variances that are 1e-5 too small would make the ELBO as large as training likes."""
    X = np.random.default_rng(0).uniform(-2, 2, size=(150, 2))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2
    few = ("budget=laptop", "training.max_iterations=400", "training.learning_rate=0.002")
    fits = [
        fit_once.fit(X, y - y.mean(), "method=sgp", "method.num_layers=1", *few, f"precision={precision}")
        for precision in ("float64", "mixed")
    ]
    # The best that each reaches: with the noise at its floor training jumps, on each processor at other iterations.
    double, mixed = (max(row.elbo for row in fit.trace) for fit in fits)
    assert abs(mixed - double) < 0.005 * double
    np.testing.assert_allclose(*(fit.parameters[".prior.likelihood.variance"] for fit in fits), rtol=0.1)


@pytest.mark.full
@pytest.mark.parametrize("method", fit_once.first_of(TAKE_IT))
def test_methods_with_mixed_precision_run_to_a_whole_record(method, tmp_path):
    settings = [f"method={method}", "dataset=diabetes", "budget=smoke", "precision=mixed", f"results_dir={tmp_path}"]
    assert main(["run", *settings, "progress=false", "plot=false"]) == 0
    directory = next((tmp_path / "runs").rglob(store.RECORD)).parent
    assert directory.name == "split0-seed0+precision=mixed"
    assert np.isfinite(store.read_record(directory)["scores"]["tll"])


def test_methods_without_mixed_precision_refuse_it(capsys):
    refused = [
        name
        for name in groups.names("method")
        if name not in (*TAKE_IT, "custom", "mf_fixed_z", *groups.added("method"))
    ]
    assert {"gpr", "sod", "aep", "fully_factorised"} <= set(refused)
    for name in refused:
        assert main(["validate", f"method={name}", "precision=mixed"]) == 2
        assert "precision=float64" in capsys.readouterr().err


def test_other_kernels_are_refused_with_mixed_precision(capsys):
    assert main(["validate", "method=mf", "precision=mixed", "method.kernel=matern52"]) == 2
    assert "squared_exponential" in capsys.readouterr().err
