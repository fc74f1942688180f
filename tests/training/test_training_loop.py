"""Batches, learning rates, early stopping and starting values as training applies them, seen from outside.

At depth 1 the bound of a batch at the starting values (q is the prior) needs no kernel: its share of row n is
log N(y_n; 0, s2) - k / (2 s2), and k = 1. Under a vanishing learning rate the trace so shows which rows a step saw.
"""

import shutil

import fit_once
import numpy as np
import pytest
from scipy.stats import norm

from dgpbench.training.checkpoints import Checkpoints
from dgpbench.training.monitor import Monitor

FROZEN = "training.learning_rate=1e-30"  # Adam moves each parameter by less than rounding
NOISE = 0.5
SMALL = ("budget=smoke", "method.num_inducing=4", f"method.likelihood_variance={NOISE}", "method.jitter=1e-6")


def fit(X, y, *overrides, method="sgp", **more):
    return fit_once.fit(X, y, f"method={method}", *SMALL, *overrides, **more)


def inputs(num_rows, num_features=2, seed=0):
    return np.random.default_rng(seed).normal(size=(num_rows, num_features))


def row_bounds(y):
    """Share of each row in the ELBO of one layer with q equal to the prior and k(x, x) = 1."""
    return norm.logpdf(y, 0, np.sqrt(NOISE)) - 1 / (2 * NOISE)


# Batches --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_rows", "batch_size"), [(40, 4), (25, 10), (12, 500)])
def test_ten_steps_that_are_whole_epochs_see_each_row_equally_often(num_rows, batch_size):
    """A row of the trace is the mean over ten steps: a whole number of epochs, with batches across their ends."""
    y = 3 * np.random.default_rng(1).normal(size=num_rows)
    fitted = fit(inputs(num_rows), y, FROZEN, f"training.batch_size={batch_size}")
    assert [row.iteration for row in fitted.trace] == [10, 20, 30, 40, 50]
    np.testing.assert_allclose([row.elbo for row in fitted.trace], np.sum(row_bounds(y)), rtol=1e-9)


@pytest.mark.full
def test_rows_are_shuffled_in_each_epoch_by_the_seed_of_the_batches():
    """Twenty steps are an epoch here, so each two rows of the trace are its halves."""
    y = 3 * np.random.default_rng(1).normal(size=40)
    small = (FROZEN, "training.batch_size=2", "training.max_iterations=80")
    halves = np.array([row.elbo for row in fit(inputs(40), y, *small).trace]).reshape(4, 2)
    np.testing.assert_allclose(halves.mean(axis=1), np.sum(row_bounds(y)), rtol=1e-9)
    assert len(np.unique(np.round(halves[:, 0], 6))) == 4
    in_order = 2 * np.array([np.sum(row_bounds(y[:20])), np.sum(row_bounds(y[20:]))])
    assert np.all(np.abs(halves - in_order) > 1e-6)
    seeds = fit_once.Seeds(**{**fit_once.SEEDS.__dict__, "batches": 33})
    assert fit(inputs(40), y, *small, seeds=seeds).trace[0].elbo != halves[0, 0]


def test_epochs_are_counted_in_batches_rounded_up():
    fitted = fit(
        inputs(25), inputs(25)[:, 0], "training.max_iterations=null", "training.epochs=7", "training.batch_size=10"
    )
    assert fitted.trace[-1].iteration == 7 * 3


@pytest.mark.full
def test_each_step_draws_paths_of_its_own():
    """The first row of a longer trace is the mean of ten draws of the bound, and a shorter one's is the first draw."""
    X = inputs(20)
    # Where q is not the prior, so that the bound depends on where a path has gone.
    deep = (FROZEN, "method.num_layers=2", "method.output_scale=0.1", "training.num_samples=1")
    ten, one = (fit(X, X[:, 0], *deep, f"training.max_iterations={n}", method="mf").trace for n in (20, 1))
    assert len({round(row.elbo, 6) for row in [*ten, *one]}) == 3


# Learning rates -------------------------------------------------------------------------------------------------------


def decayed(start, rate, steps, count):
    """lr * rate^floor(i / steps) of the steps i = 0, 1, ... (docs/methods.md, "Training")."""
    return start * rate ** (np.arange(count) // steps)


def adam_moves(gradient, learning_rates, epsilon=1e-8):
    """How far Adam goes under a gradient that does not change (Kingma & Ba 2015, Sec. 2, its second form)."""
    i = np.arange(1, len(learning_rates) + 1)
    m, v = gradient * (1 - 0.9**i), gradient**2 * (1 - 0.999**i)
    return np.sum(learning_rates * np.sqrt(1 - 0.999**i) / (1 - 0.9**i) * m / (np.sqrt(v) + epsilon))


def features(fitted, X):
    """A = Lk^{-1} k(Z, X) of one layer with unit lengthscales and variance, at a fitted method's Z."""
    Z = fitted.parameters[".prior.layers[0].Z"]
    k = lambda a, b: np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, axis=-1))
    return np.linalg.solve(np.linalg.cholesky(k(Z, Z) + 1e-6 * np.eye(len(Z))), k(Z, X))


def test_adams_steps_have_the_learning_rate_and_its_staircase_decay():
    """In steps so short that gradients do not change, each mean moves by the sum of the learning rates."""
    X = inputs(30)
    y = np.sin(X[:, 0])
    decay = ("training.learning_rate=1e-6", "training.decay_rate=0.5", "training.decay_steps=7")
    fitted = fit(X, y, *decay)
    gradient = features(fitted, X) @ y / NOISE
    assert np.all(np.abs(gradient) > 0.1)
    expected = np.sign(gradient) * np.sum(decayed(1e-6, 0.5, 7, 50))
    np.testing.assert_allclose(fitted.parameters[".q.means[0]"][0], expected, rtol=1e-4)


def test_the_learning_rate_ends_with_the_final_decay():
    """Fifty steps, the last ten of them at a tenth, each after the staircase's own decay."""
    X = inputs(30)
    y = np.sin(X[:, 0])
    decay = ("training.learning_rate=1e-6", "training.decay_rate=0.5", "training.decay_steps=30")
    fitted = fit(X, y, *decay, "training.final_decay=0.1", "training.final_decay_start=0.8")
    gradient = features(fitted, X) @ y / NOISE
    rates = decayed(1e-6, 0.5, 30, 50) * np.where(np.arange(50) < 40, 1.0, 0.1)
    np.testing.assert_allclose(fitted.parameters[".q.means[0]"][0], np.sign(gradient) * rates.sum(), rtol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize("method", fit_once.first_of(["star", "aep", "sod", "fully_factorised"]))
def test_the_likelihood_variance_keeps_its_learning_rate_at_the_end(method):
    """Adam's first step, with the final decay in force from the start and without one."""
    X = inputs(30)
    once = ("training.max_iterations=1", "training.final_decay_start=0", "training.early_stopping=false")
    rates = (FROZEN, "training.final_decay=1", "training.final_decay=0.1")
    start, usual, ended = (fit(X, X[:, 0], *once, rate, method=method).parameters for rate in rates)
    (noise,) = (name for name in start if name.endswith("likelihood.variance"))
    assert ended[noise] != start[noise]
    assert ended[noise] == usual[noise]
    inducing = next(name for name in start if ".mean" in name and np.any(usual[name] != start[name]))
    shares = (ended[inducing] - start[inducing]) / (usual[inducing] - start[inducing] + 1e-300)
    np.testing.assert_allclose(shares[usual[inducing] != start[inducing]], 0.1, rtol=1e-3)


def test_adam_averages_squared_gradients_by_beta_2():
    """Two rows, one in each of two steps so short that only the row changes the gradient, in either order."""
    X, y = inputs(2), np.array([0.3, -2.0])
    steps = ("training.batch_size=1", "training.max_iterations=2", "method.num_inducing=2")
    fitted = fit(X, y, *steps, "training.learning_rate=1e-6", "training.beta_2=0.5")
    gradients = 2 * features(fitted, X) * y / NOISE  # [M, N]

    def moves(first, second, beta_2):
        m = 0.9 * 0.1 * first + 0.1 * second
        v = beta_2 * (1 - beta_2) * first**2 + (1 - beta_2) * second**2
        return np.sign(first) + m / (1 - 0.9**2) / np.sqrt(v / (1 - beta_2**2))

    moved = fitted.parameters[".q.means[0]"][0] / 1e-6
    orders = [moves(*order, 0.5) for order in (gradients.T, gradients.T[::-1])]
    assert any(np.allclose(moved, expected, rtol=1e-3) for expected in orders)


@pytest.mark.full
@pytest.mark.parametrize("method", fit_once.first_of(["sgp", "star", "aep", "sod"]))
def test_training_ends_on_the_mean_of_the_last_positions(method):
    """The last 60 % of fifty iterations hold the positions after 30, 40 and 50, on which shorter fits end."""
    X = inputs(30)
    steps = ("training.learning_rate=0.05", "training.early_stopping=false", "training.batch_size=10")
    averaged = fit(X, np.sin(X[:, 0]), *steps, "training.average_last=0.6", method=method)
    there = [fit(X, np.sin(X[:, 0]), *steps, f"training.max_iterations={n}", method=method) for n in (30, 40, 50)]
    positions = [fitted.parameters for fitted in there]
    free = [name for name in positions[0] if ".mean" in name or name.endswith(".Z")]  # not behind a transform
    assert any(np.any(positions[1][name] != positions[2][name]) for name in free)
    for name in free:
        np.testing.assert_allclose(
            averaged.parameters[name], np.mean([each[name] for each in positions], axis=0), rtol=1e-6, atol=1e-9
        )
    (noise,) = (name for name in positions[0] if name.endswith("likelihood.variance"))
    found = [float(each[noise]) for each in positions]
    assert min(found) < float(averaged.parameters[noise]) < max(found)
    assert averaged.trace[-1].elbo == there[-1].trace[-1].elbo


@pytest.mark.full
@pytest.mark.parametrize("method", ["sgp", "star"])
def test_factors_of_covariances_have_a_learning_rate_of_their_own(method):
    """Adam's first step moves each parameter that has a gradient by its learning rate."""
    X = inputs(30)
    once = ("training.max_iterations=1", "method.covariance_rate=0.25", "method.hidden_scale=0.3")
    moved, still = (fit(X, X[:, 0], *once, rate, method=method) for rate in ("training.learning_rate=1e-4", FROZEN))
    steps = {name: np.abs(moved.parameters[name] - start).max() for name, start in still.parameters.items()}
    for kind in (".diagonal", ".couplings") if method == "star" else (".diagonal",):
        taken = [step for name, step in steps.items() if kind in name and step > 0]  # some have no gradient yet
        assert taken
        np.testing.assert_allclose(taken, 0.25e-4, rtol=1e-3)
    assert steps[".q.means[0]" if method == "sgp" else ".q.means[2]"] == pytest.approx(1e-4, rel=1e-3)


@pytest.mark.full
def test_factors_of_a_subset_have_a_learning_rate_of_their_own():
    X = inputs(30)
    once = ("training.max_iterations=1", "method.covariance_rate=0.25", "method.num_inducing=10")
    moved, still = (fit(X, X[:, 0], *once, rate, method="sod") for rate in ("training.learning_rate=1e-4", FROZEN))
    for layer in range(3):
        for kind, expected in (("factors", 0.25e-4), ("means", 1e-4)):
            name = f".{kind}[{layer}]"
            taken = np.abs(moved.parameters[name] - still.parameters[name]).max()
            assert taken == pytest.approx(expected, rel=1e-3), name


@pytest.mark.full
@pytest.mark.parametrize(("rows", "paths"), [(25, 3), (60, 1), (100, 1)])
def test_paths_fill_a_minibatch_that_the_rows_do_not(rows, paths):
    """R = ceil(B / N): the bound of a batch is the mean over that many paths."""
    chosen = ("training.batch_size=60", "training.num_samples=null")
    X = inputs(rows)
    deep = (FROZEN, "method.num_layers=2", "method.output_scale=0.1", "training.max_iterations=1")
    filled, told = (
        fit(X, X[:, 0], *deep, *more, method="mf")
        for more in (chosen, ("training.batch_size=60", f"training.num_samples={paths}"))
    )
    assert filled.trace[-1].elbo == told.trace[-1].elbo


@pytest.mark.full
def test_adam_has_the_epsilon_of_the_published_runs():
    """Under a likelihood so wide that gradients are of epsilon's size."""
    X = inputs(30)
    y = np.sin(X[:, 0])
    fitted = fit(X, y, "training.learning_rate=1e-14", "training.decay_rate=1.0", "method.likelihood_variance=1e9")
    gradient = features(fitted, X) @ y / 1e9
    expected = [adam_moves(each, np.full(50, 1e-14)) for each in gradient]
    assert np.all(np.abs(expected) < 0.9 * 50e-14)
    np.testing.assert_allclose(fitted.parameters[".q.means[0]"][0], expected, rtol=1e-3)


@pytest.mark.full
def test_natural_gradients_have_a_step_length_and_a_decay_of_their_own():
    """On a conjugate model a step of length g takes the natural parameters g of the way to the exact posterior's."""
    X = inputs(30)
    y = np.sin(X[:, 0])
    fitted = fit(
        X, y, "optimiser=natgrad_adam", FROZEN, "training.natgrad_gamma=0.2", "training.decay_rate=0.5",
        "training.decay_steps=3", "training.max_iterations=20",
    )  # fmt: skip
    left = np.prod(1 - decayed(0.2, 0.5, 3, 20))
    A = features(fitted, X)
    precision = left * np.eye(4) + (1 - left) * (np.eye(4) + A @ A.T / NOISE)
    C = fitted.parameters[".q.diagonal[0]"][0]
    np.testing.assert_allclose(np.linalg.inv(C @ C.T), precision, rtol=1e-8, atol=1e-8)
    expected = np.linalg.solve(precision, (1 - left) * A @ y / NOISE)
    np.testing.assert_allclose(fitted.parameters[".q.means[0]"][0], expected, rtol=1e-8, atol=1e-10)


# Early stopping -------------------------------------------------------------------------------------------------------

STOPPING = ("training.early_stopping=true", "training.holdout_fraction=0.2", "training.max_iterations=500")
N = 24


@pytest.fixture(scope="module")
def held_out():
    """Return the numbers of the held-out rows, derived from the trace of a frozen run.

    The squares of y are multiples of 2^n, n = 0 ... 23, so that a sum identifies its terms.
    """
    y = np.sqrt(2.0 ** np.arange(N) * 2.0**-10)
    fitted = fit(inputs(N), y, FROZEN, *STOPPING)
    constant = norm.logpdf(0, 0, np.sqrt(NOISE)) - 1 / (2 * NOISE)
    held = 5  # 0.2 x 24 = 4.8
    total = ((N - held) * constant - fitted.trace[0].elbo) * 2 * NOISE
    bits = round(total * 2.0**10)
    rows = [n for n in range(N) if not bits >> n & 1]
    assert len(rows) == held
    np.testing.assert_allclose(total * 2.0**10, bits, rtol=1e-9)
    # The validation score is the mean log-density of exactly these.
    expected = np.mean(norm.logpdf(y[rows], 0, np.sqrt(1 + NOISE)))
    np.testing.assert_allclose([row.validation_tll for row in fitted.trace], expected, rtol=1e-7)
    return rows


def opposed(held_out, sign):
    """Targets of 1, and 1 or -1 in held-out rows: training improves or worsens the validation score."""
    y = np.ones(N)
    y[held_out] *= sign
    return y


class Remembering(Checkpoints):
    """Checkpoints that are always due, and copied at some iterations."""

    def copy_at(self, copies):
        self.copies, self.saved = copies, []
        return self

    def save(self, iteration, variables, progress):
        super().save(iteration, variables, progress)
        self.saved.append(iteration)
        if iteration in self.copies:
            shutil.copytree(self.directory, self.copies[iteration])


SLOWLY = ("training.learning_rate=0.002", "method.num_layers=1")
OTHERS = ["sod", pytest.param("aep", marks=pytest.mark.full), pytest.param("fully_factorised", marks=pytest.mark.full)]


@pytest.fixture(scope="module")
def worsening(held_out, tmp_path_factory):
    """A run that stops early, and its checkpoints at two of its iterations."""
    folder = tmp_path_factory.mktemp("checkpoints")
    copies = {270: folder / "270", 300: folder / "300"}
    kept = Remembering(folder / "whole", "key", 0.0).copy_at(copies)
    return fit(inputs(N), opposed(held_out, -1), *STOPPING, *SLOWLY, checkpoints=kept), copies


def check_stopped(fitted):
    scores = [row.validation_tll for row in fitted.trace]
    assert scores == sorted(scores, reverse=True)
    assert fitted.trace[-1].iteration == 300


@pytest.mark.full
def test_a_run_with_a_falling_validation_score_stops_after_six_strips(worsening):
    """Scores are compared at the ends of strips of 50 iterations: five falls are known after six strips."""
    check_stopped(worsening[0])


@pytest.mark.full
@pytest.mark.parametrize("method", OTHERS)
def test_other_families_stop_early_too(method, held_out):
    check_stopped(fit(inputs(N), opposed(held_out, -1), *STOPPING, *SLOWLY, method=method))


@pytest.mark.full
@pytest.mark.parametrize("method", ["sgp", *(pytest.param(name, marks=pytest.mark.full) for name in ("sod", "aep"))])
def test_a_run_with_a_rising_validation_score_does_not_stop(method, held_out):
    fitted = fit(inputs(N), opposed(held_out, 1), *STOPPING, *SLOWLY, method=method)
    scores = [row.validation_tll for row in fitted.trace]
    assert scores == sorted(scores)
    assert fitted.trace[-1].iteration == 500


@pytest.mark.full
def test_no_run_stops_in_its_first_part(held_out):
    late = "training.early_stopping_start=0.7"
    fitted = fit(inputs(N), opposed(held_out, -1), *STOPPING, *SLOWLY, late)
    assert fitted.trace[-1].iteration == 400  # the first strip's end after 350


def test_without_early_stopping_nothing_is_held_out_and_nothing_stops(held_out):
    y = opposed(held_out, -1)
    fitted = fit(inputs(N), y, FROZEN, *STOPPING, "training.early_stopping=false")
    assert {row.validation_tll for row in fitted.trace} == {None}
    assert fitted.trace[-1].iteration == 500
    np.testing.assert_allclose(fitted.trace[0].elbo, np.sum(row_bounds(y)), rtol=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("iteration", [270, 300])
def test_a_resumed_run_stops_early_where_the_undisturbed_one_did(iteration, worsening, held_out):
    whole, copies = worsening
    again = Remembering(copies[iteration], "key", 0.0).copy_at({})
    resumed = fit(inputs(N), opposed(held_out, -1), *STOPPING, *SLOWLY, checkpoints=again)
    assert again.saved == list(range(iteration + 10, 310, 10))
    assert [row[2:] for row in resumed.trace] == [row[2:] for row in whole.trace]
    assert resumed.trace[-1].iteration == whole.trace[-1].iteration == 300


# The log ------------------------------------------------------------------------------------------------------------


def test_training_stops_without_failing_once_its_seconds_are_spent():
    fitted = fit(inputs(20), inputs(20)[:, 0], "training.max_seconds=1e-9")
    assert [row.iteration for row in fitted.trace] == [10]


def test_tracing_and_training_are_timed_apart_also_after_a_resume(tmp_path):
    """Times of a log of actions of known length, with a counter as clock."""
    log = Monitor(checkpoints=Checkpoints(tmp_path, "key", 0.0))
    ticks = iter(range(1000))
    from dgpbench.training import monitor as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.time, "perf_counter", lambda: float(next(ticks)))
        log.tracing(lambda: [next(ticks) for _ in range(4)])
        log.training(lambda: [next(ticks) for _ in range(9)])
        log.training(lambda: None)
        log.record(20, -1.5, -2.5, 50)
    assert (log.tracing_seconds, log.training_seconds) == (5.0, 11.0)
    assert [row[:4] for row in log.trace] == [(20, 11.0, -1.5, -2.5)]
    log.keep(20, [])
    later = Monitor(checkpoints=Checkpoints(tmp_path, "key", 0.0))
    assert later.resume([]) == 20
    assert (later.training_seconds, later.earlier_seconds, later.tracing_seconds) == (11.0, 11.0, 0.0)
    assert later.trace == log.trace


# Starting values ------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_first_layers_mean_map_is_the_top_right_singular_vectors():
    rng = np.random.default_rng(4)
    Q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    X = rng.normal(size=(60, 4)) * [3.0, 2.0, 1.0, 0.5] @ Q.T
    values = fit(X, X[:, 0], FROZEN, "method.num_layers=3", "method.width=2", method="mf").parameters
    _, _, Vt = np.linalg.svd(X)
    expected = np.array([v * np.sign(v[np.argmax(np.abs(v))]) for v in Vt[:2]]).T
    np.testing.assert_allclose(values[".prior.layers[0].mean_function.A"], expected, atol=1e-9)
    np.testing.assert_allclose(values[".prior.layers[1].mean_function.A"], np.eye(2), atol=0)
    # Later layers' inducing inputs are the first one's, through the maps.
    Z = values[".prior.layers[0].Z"]
    np.testing.assert_allclose(values[".prior.layers[1].Z"], Z @ expected, atol=1e-9)
    np.testing.assert_allclose(values[".prior.layers[2].Z"], Z @ expected, atol=1e-9)


@pytest.mark.full
def test_a_layer_wider_than_its_inputs_pads_the_mean_map_with_zeros():
    X = inputs(20)
    values = fit(X, X[:, 0], FROZEN, "method.num_layers=2", "method.width=3", method="mf").parameters
    np.testing.assert_allclose(values[".prior.layers[0].mean_function.A"], np.eye(2, 3), atol=0)
    Z = values[".prior.layers[0].Z"]
    np.testing.assert_allclose(values[".prior.layers[1].Z"], np.c_[Z, np.zeros(4)], atol=1e-12)


@pytest.mark.full
def test_inducing_inputs_start_at_the_centres_of_clusters():
    rng = np.random.default_rng(2)
    centres = np.array([[0, 0], [20, 0], [0, 20], [20, 20]])
    X = np.repeat(centres, [3, 5, 7, 9], axis=0) + rng.normal(size=(24, 2))
    Z = fit(X, X[:, 0], FROZEN).parameters[".prior.layers[0].Z"]
    means = [X[start:stop].mean(axis=0) for start, stop in [(0, 3), (3, 8), (8, 15), (15, 24)]]
    np.testing.assert_allclose(np.sort(Z, axis=0), np.sort(means, axis=0), atol=1e-9)
    nearest = np.argmin(np.sum((np.array(means)[:, None] - Z) ** 2, axis=-1), axis=1)
    np.testing.assert_allclose(Z[nearest], means, atol=1e-9)
