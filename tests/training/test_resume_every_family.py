"""A fit that goes on from a checkpoint ends in the same bits, in every family, wherever it had stopped.

The undisturbed fit keeps a checkpoint after each row of its trace; copies of some of them are what a killed run leaves.
"""

import shutil

import fit_once
import numpy as np
import pytest

from dgpbench.training.checkpoints import Checkpoints

SMALL = (
    "budget=smoke",
    "method.num_layers=2",
    "method.num_inducing=3",
    "training.max_iterations=60",
    "training.batch_size=8",
)
# The decay must have begun before the fit stops, and must go on afterwards: its counter is part of the state.
BY_ADAM = ("training.learning_rate=0.05", "training.decay_rate=0.5", "training.decay_steps=12")
# Burn-in, its second half, learning with a frozen preconditioner, collecting.
BY_SAMPLER = (
    "training.learning_rate=0.05",
    "training.burn_in=0.5",
    "training.window=0.2",
    "training.thinning=0.1",
    "prediction.num_samples=4",
)


NATURAL = ("optimiser=natgrad_adam", "training.natgrad_gamma=0.1", *BY_ADAM)
STOPPING = ("training.early_stopping=true", "training.max_iterations=300", *BY_ADAM)
# One that uses each kind of state; then every other family.
FAMILIES = [
    pytest.param("mf", NATURAL, (30,), id="mf-natural"),
    pytest.param("aep", BY_ADAM, (30,), id="aep"),
    pytest.param("sgp", ("method.num_layers=1", "training.average_last=0.6", *BY_ADAM), (40,), id="sgp-averaged"),
    pytest.param("sghmc", ("method.num_layers=1", *BY_SAMPLER), (40, 72), id="sghmc"),
    pytest.param("sghmc", (*BY_SAMPLER, "training.window=0"), (40, 72), id="sghmc-present"),
    *(
        pytest.param(*each, id=name, marks=pytest.mark.full)
        for name, each in {
            "mf": ("mf", BY_ADAM, (10, 50)),
            "mf-two-rates": ("mf", (*BY_ADAM, "method.covariance_rate=0.25"), (30,)),
            "fc-natural": ("fc", NATURAL, (30,)),
            "fc_mc": ("fc_mc", BY_ADAM, (30,)),
            "star-stopping": ("star", STOPPING, (30, 280)),
            "sod": ("sod", BY_ADAM, (30,)),
            "aepmcm": ("aepmcm", BY_ADAM, (30,)),
            "fully_factorised": ("fully_factorised", BY_ADAM, (30,)),
            "sghmc-corrected": ("sghmc", ("method.noise=corrected", *BY_SAMPLER), (10, 20, 50, 60, 66, 84)),
        }.items()
    ),
]


class Copied(Checkpoints):
    """Checkpoints that are always due; ``copies`` maps steps to copy to their targets."""

    def __init__(self, directory, key, copies=None):
        super().__init__(directory, key, every_seconds=0.0)
        self.copies, self.saved = copies or {}, []

    def save(self, iteration, variables, progress):
        super().save(iteration, variables, progress)
        self.saved.append(iteration)
        if iteration in self.copies:
            shutil.copytree(self.directory, self.copies[iteration])


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=20)


@pytest.mark.full
@pytest.mark.parametrize(("method", "settings", "stops"), FAMILIES)
def test_a_resumed_fit_ends_in_the_same_bits(method, settings, stops, tmp_path):
    X, y = rows()
    kept = Copied(tmp_path / "whole", "key", {stop: tmp_path / f"copy-{stop}" for stop in stops})
    whole = fit_once.fit(X, y, f"method={method}", *SMALL, *settings, checkpoints=kept)
    expected = whole.predict(X)
    for stop, folder in kept.copies.items():
        again = Copied(folder, "key")
        resumed = fit_once.fit(X, y, f"method={method}", *SMALL, *settings, checkpoints=again)
        assert again.saved == [iteration for iteration in kept.saved if iteration > stop]
        assert [row.iteration for row in resumed.trace] == kept.saved
        assert [row[2:] for row in resumed.trace] == [row[2:] for row in whole.trace]
        seconds = [row.seconds for row in resumed.trace]
        assert seconds == sorted(seconds)
        for name, value in whole.parameters.items():
            np.testing.assert_array_equal(resumed.parameters[name], value, err_msg=name)
        found = resumed.predict(X)
        np.testing.assert_array_equal(found.means, expected.means)
        np.testing.assert_array_equal(found.variances, expected.variances)


@pytest.mark.full
def test_a_checkpoint_of_other_settings_or_shapes_is_not_used(tmp_path):
    X, y = rows()
    small = ("method=sgp", "budget=smoke", "training.max_iterations=20")
    kept = Copied(tmp_path / "whole", "key", {10: tmp_path / "other-key", 20: tmp_path / "other-shape"})
    fit_once.fit(X, y, *small, "method.num_inducing=3", checkpoints=kept)
    other_key = Copied(tmp_path / "other-key", "another key")
    fit_once.fit(X, y, *small, "method.num_inducing=3", checkpoints=other_key)
    assert other_key.saved == [10, 20]
    other_shape = Copied(tmp_path / "other-shape", "key")
    fit_once.fit(X, y, *small, "method.num_inducing=4", checkpoints=other_shape)
    assert other_shape.saved == [10, 20]
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == ["step-000000010.npz", "step-000000020.npz"]
