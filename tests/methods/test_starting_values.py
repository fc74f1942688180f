"""A mean-field run's parameters in a fully coupled model: the same posterior, bound and predictions to rounding."""

import fit_once
import numpy as np
import pytest

SMALL = ("budget=smoke", "method.num_layers=3", "method.num_inducing=5")
STILL = ("training.max_iterations=1", "training.learning_rate=1e-30")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)


@pytest.fixture(scope="module")
def mean_field(rows):
    """Trained far enough that its posterior is far from the one that a fully coupled run starts with by itself."""
    moved = (
        "optimiser=natgrad_adam",
        "training.max_iterations=40",
        "training.learning_rate=0.05",
        "training.natgrad_gamma=0.1",
    )
    return fit_once.fit(*rows, "method=mf", *SMALL, *moved)


@pytest.mark.full
@pytest.mark.parametrize("method", fit_once.first_of(["fc", "mf"]))
def test_a_warm_start_equals_the_end_of_the_mean_field_run(method, rows, mean_field):
    begun = fit_once.fit(*rows, f"method={method}", *SMALL, *STILL, initial=mean_field.parameters)
    expected, found = mean_field.predict(rows[0]), begun.predict(rows[0])
    np.testing.assert_allclose(found.means, expected.means, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.variances, expected.variances, rtol=1e-9)
    alone = fit_once.fit(*rows, f"method={method}", *SMALL, *STILL)
    assert np.abs(alone.predict(rows[0]).means - expected.means).max() > 0.01


@pytest.mark.full
def test_the_fully_coupled_bound_starts_at_the_mean_field_bound(rows, mean_field):
    first = {
        method: fit_once.fit(*rows, f"method={method}", *SMALL, *STILL, initial=mean_field.parameters).trace[0].elbo
        for method in ("mf", "fc")
    }
    assert first["fc"] == pytest.approx(first["mf"], rel=1e-9)


@pytest.mark.full
def test_mean_field_blocks_are_copied_and_all_others_are_zero(rows, mean_field):
    begun = fit_once.fit(*rows, "method=fc", *SMALL, *STILL, initial=mean_field.parameters)
    mf, fc = (fitted.predictor.posterior() for fitted in (mean_field, begun))
    dense = [begun.predictor.model.q.blocks([]).dense()[1].numpy()]
    dense.append(mean_field.predictor.model.q.blocks([]).dense()[1].numpy())
    np.testing.assert_allclose(*dense, rtol=1e-9, atol=1e-15)
    for name in mf:
        np.testing.assert_allclose(fc[name], mf[name], rtol=1e-9, atol=1e-15)
