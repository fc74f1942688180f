"""SGHMC against closed forms, and its schedule and diagnostics (docs/methods.md, "SGHMC")."""

import fit_once
import numpy as np
import pandas as pd
import pytest
import small
import tensorflow as tf

from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.gp.objectives import log_joint
from dgpbench.gp.propagation import split_layers
from dgpbench.methods import sampling
from dgpbench.methods.interface import Seeds
from dgpbench.report.figures.posterior import normality_tests
from dgpbench.training.checkpoints import Checkpoints
from dgpbench.training.monitor import Monitor
from dgpbench.training.sghmc import MovingWindow, Sampler, SamplerConstants, Schedule

KERNEL = ".prior.layers[0].kernel.lengthscales"
SEEDS = Seeds(initial=1, holdout=2, batches=3, samples=4, prediction=5)


def conjugate(num_rows=50, seed=0):
    """A depth-1 prior with few inducing points, and its exact posterior: FITC's, not Titsias' optimal q(u)."""
    arch = small.architecture(1, 1)
    prior = small.prior(arch)
    prior.likelihood.variance.assign(0.1)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num_rows, small.D))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=num_rows)
    features = prior.layers[0].features(tf.constant(X)[None], prior.choleskys()[0])
    A, residual = features.A.numpy()[:, 0], features.residual.numpy()[0]
    precision = 1.0 / (0.1 + residual)
    covariance = np.linalg.inv(np.eye(len(A)) + (A * precision) @ A.T)
    return prior, X, y, covariance @ (A * precision) @ y, covariance


def run_chains(prior, X, y, settings, burn_in, num_steps, chains=64, thin=10):
    """Draws [num_steps / thin, chains, P] of parallel chains under a preconditioner frozen after the burn-in."""
    N = len(X)
    sampler = Sampler(np.zeros([chains, prior.layers[0].Z.shape[0]]), N, settings)
    X, y = tf.constant(X), tf.constant(y)

    def step(index, adapt, weight):
        v = tf.identity(sampler.position)
        with tf.GradientTape() as tape:
            tape.watch(v)
            potential = -log_joint(prior, v, X, y, N, []) / N
        gradient = tape.gradient(potential, v)
        normals = tf.random.stateless_normal(tf.shape(v), tf.stack([7, index]), dtype=tf.float64)
        sampler.accumulate(gradient, tf.zeros_like(gradient), weight)
        sampler.step(gradient, normals, adapt=adapt)

    @tf.function
    def burn():
        for index in tf.range(burn_in):
            step(index, True, tf.cast(index >= burn_in // 2, tf.float64))

    @tf.function
    def draw():
        draws = tf.TensorArray(tf.float64, num_steps // thin)
        for index in tf.range(num_steps):
            step(burn_in + index, False, tf.zeros([], tf.float64))
            if index % thin == thin - 1:
                draws = draws.write(index // thin, sampler.position)
        return draws.stack()

    burn()
    sampler.freeze()
    return draw().numpy()


@pytest.mark.full
def test_many_long_chains_at_depth_one_sample_the_posterior_of_fitc():
    prior, X, y, mean, covariance = conjugate()
    settings = SamplerConstants(step_size=0.02, friction=0.05, freeze="mean")
    draws = run_chains(prior, X, y, settings, 10_000, 40_000).reshape(-1, len(mean))
    deviation = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(axis=0) - mean) / deviation).max() < 0.03
    assert np.abs((np.cov(draws.T) - covariance) / np.outer(deviation, deviation)).max() < 0.04


def test_log_joint_at_depth_one_is_the_density_of_the_data_given_v():
    prior, X, y, _, _ = conjugate()
    v = np.random.default_rng(1).normal(size=(2, small.M))
    features = prior.layers[0].features(tf.constant(X)[None], prior.choleskys()[0])
    variance = features.residual.numpy()[0] + 0.1
    expected = [
        -0.5 * np.sum(np.log(2 * np.pi * variance) + (y - w @ features.A.numpy()[:, 0]) ** 2 / variance) - 0.5 * w @ w
        for w in v
    ]
    ours = log_joint(prior, tf.constant(v), tf.constant(X), tf.constant(y), len(X), [])
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_one_step_uses_old_values_on_every_right_hand_side():
    rng = np.random.default_rng(0)
    v, settings, N = rng.normal(size=(1, 3)), SamplerConstants(), 20
    sampler = Sampler(v, N, settings)
    xi, g, g2, p = 1.4, *(rng.uniform(0.5, 2.0, size=(1, 3)) for _ in range(3))
    for variable, value in zip((sampler.average, sampler.square, sampler.momentum), (g, g2, p), strict=True):
        variable.assign(value)
    sampler.memory.assign(np.full((1, 3), xi))
    gradient, normals = rng.normal(size=(2, 1, 3))
    sampler.step(tf.constant(gradient), tf.constant(normals), adapt=True)
    Minv, r = 1 / np.sqrt(g2 + 1e-16), 1 / (xi + 1)
    p = p - 1e-4 * Minv * gradient - 0.05 * p + np.sqrt(2 * 1e-4 / N * 0.05 * Minv) * normals
    for ours, expected in zip(
        (sampler.memory, sampler.average, sampler.square, sampler.momentum, sampler.position),
        (1 + xi * (1 - g**2 / g2), g + r * (gradient - g), g2 + r * (gradient**2 - g2), p, v + p),
        strict=True,
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-14)


def test_freezing_averages_the_accumulated_or_keeps_the_last():
    for freeze, expected in {"mean": 6.5, "last": 1.0}.items():
        sampler = Sampler(np.zeros((1, 1)), 5, SamplerConstants(freeze=freeze))
        for gradient, weight in ((9.0, 0.0), (2.0, 1.0), (3.0, 1.0)):
            sampler.accumulate(
                tf.constant([[gradient]], tf.float64), tf.constant([[0.5]], tf.float64), tf.constant(weight, tf.float64)
            )
        sampler.freeze()
        assert sampler.square.numpy()[0, 0] == expected
        assert sampler.gradient_noise.numpy()[0, 0] == 0.5


def test_corrected_noise_subtracts_the_gradient_variance_down_to_zero():
    for noise, expected in ((0.0, 2 * 1e-4 * 0.05 / 5), (1.0, 2 * 1e-4 * 0.05 / 5 - 1e-8), (1e6, 0.0)):
        sampler = Sampler(np.zeros((1, 1)), 5, SamplerConstants(noise="corrected"))
        sampler.gradient_noise.assign([[noise]])
        sampler.step(tf.zeros((1, 1), tf.float64), tf.ones((1, 1), tf.float64), adapt=False)
        assert sampler.momentum.numpy()[0, 0] == pytest.approx(np.sqrt(expected), rel=1e-9)


@pytest.mark.full
def test_the_gradient_variance_is_of_minibatches_without_replacement():
    chain, rows = toy_chain(1, "method.noise=corrected", "training.batch_size=10")
    v, seed = tf.constant(np.random.default_rng(0).normal(size=(1, small.M))), tf.constant([1, 2])
    compiled = tf.function(
        lambda batch: chain._gradient(v, batch, seed, tf.constant(0, tf.int64), False), autograph=False
    )
    gradients, estimates = [], []
    for draw in range(2000):
        batch = np.random.default_rng(draw).permutation(len(rows.X))[:10]
        _, gradient, estimate, _ = compiled(tf.constant(batch))
        gradients.append(gradient.numpy()[0])
        estimates.append(estimate.numpy()[0])
    np.testing.assert_allclose(np.mean(estimates, axis=0), np.var(gradients, axis=0), rtol=0.15)


def test_the_window_holds_the_last_positions():
    window = MovingWindow(3, np.array([-1.0]))
    for step in range(5):
        window.push(tf.constant(step, tf.int64), tf.constant([float(step)], tf.float64))
    drawn = {float(window.draw(tf.constant(4, tf.int64), tf.constant([0, k]))[0]) for k in range(50)}
    assert drawn == {2.0, 3.0, 4.0}


def test_segments_cover_training_and_are_cut_where_the_burn_in_ends():
    segments = list(Schedule(max_iterations=50, burn_in=33, thinning=1, num_samples=2).segments())
    assert [start for start, _ in segments] == [0, 10, 16, 20, 30, 33, 40]
    assert sum(count for _, count in segments) == 50


def choices(num_layers=1, *more):
    schedule = ["max_iterations=20", "batch_size=30", "decay_steps=20", "burn_in=0.8", "window=0.2", "thinning=0.1"]
    sizes = [f"method.num_layers={num_layers}", "method.width=2", f"method.num_inducing={small.M}"]
    given = ["method=sghmc", *sizes, *(f"training.{text}" for text in schedule), "prediction.num_samples=6"]
    return fit_once.settings(toy_rows(), *given, *more)


def toy_rows():
    _, X, y, _, _ = conjugate()
    return Regression(X, y[:, None])


def toy_chain(num_layers=1, *more):
    chosen, rows = choices(num_layers, *more), toy_rows()
    prior = small.prior(small.architecture(num_layers, 2))
    return sampling.build_chain(prior, rows, chosen.method, chosen.training, SEEDS), rows


@pytest.mark.full
@pytest.mark.parametrize(
    ("num_layers", "noise", "window"), [(2, "corrected", 0.2), (2, "corrected", 0.0), (4, "plain", 0.2)]
)
def test_fit_gives_one_component_a_sample_and_stores_the_samples(num_layers, noise, window):
    log = Monitor()
    settings = choices(num_layers, f"method.noise={noise}", f"training.window={window}")
    predictor = sampling.fit(toy_rows(), settings, SEEDS, log)
    mixture = predictor.predict(np.zeros((7, small.D)), 3)
    assert mixture.means.shape == (6, 7, 1)
    assert log.trace[-1].iteration == 20 + 6 * 2
    stored = predictor.posterior()
    assert stored["samples_1"].shape == (6, 2, small.M)
    assert len(np.unique(stored["samples_1"][:, 0, 0])) == 6
    assert 1.0 <= predictor.diagnostics["effective_samples_min"] <= 6.0


@pytest.mark.full
def test_the_same_seeds_give_the_same_numbers():
    means = [
        sampling.fit(toy_rows(), choices(1), SEEDS, Monitor()).predict(np.ones((3, small.D)), 3).means for _ in range(2)
    ]
    assert np.array_equal(*means)


def after_two_steps(*settings: str) -> dict[str, np.ndarray]:
    """The parameters after two steps of Adam, each so short that the gradients are those at the start."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    few = ("training.max_iterations=2", "training.learning_rate=1e-7", "method.num_layers=1", "method.num_inducing=5")
    return fit_once.fit(X, np.sin(X[:, 0]), "method=sghmc", *few, "prediction.num_samples=2", *settings).parameters


@pytest.mark.full
def test_the_final_decay_shortens_all_steps_but_the_likelihood_variances():
    usual = after_two_steps()
    ended = after_two_steps("training.final_decay=0.1", "training.final_decay_start=0.5")
    start = after_two_steps("training.final_decay=1e-9", "training.final_decay_start=0")
    moved = {name: (ended[name] - start[name]) / (usual[name] - start[name]) for name in (KERNEL, ".prior.layers[0].Z")}
    for shares in moved.values():  # a whole step and a tenth of one, of two
        np.testing.assert_allclose(shares, 0.55, rtol=0.03)
    (noise,) = (name for name in usual if name.endswith("likelihood.variance"))
    assert ended[noise] == usual[noise]


@pytest.mark.full
def test_the_samplers_adam_uses_beta_2():
    """The first step does not depend on beta_2; the second does."""
    usual, forgetful = after_two_steps(), after_two_steps("training.beta_2=0.5")
    assert np.any(usual[KERNEL] != forgetful[KERNEL])
    np.testing.assert_allclose(usual[KERNEL], forgetful[KERNEL], rtol=1e-5)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_every_trainable_variable_and_every_coordinate_receives_a_gradient(num_layers):
    chain, rows = toy_chain(num_layers)
    v = tf.constant(np.random.default_rng(0).normal(size=chain.sampler.position.shape))
    with tf.GradientTape() as tape:
        tape.watch(v)
        value = chain.log_joint(
            v, tf.constant(rows.X), tf.constant(rows.Y[:, 0]), tf.constant([1, 2]), tf.constant(0, tf.int64)
        )
    for gradient in tape.gradient(value, [*chain.variables, v]):
        assert gradient is not None
        assert np.all(np.isfinite(gradient))
        assert np.any(gradient != 0)


def test_split_layers_keeps_the_order_of_layers_gps_and_inducing_points():
    flat = tf.reshape(tf.range(2 * 12), [2, 12])
    first, second = split_layers(flat, (3, 1))
    assert first.shape == (2, 3, 3)
    assert first.numpy()[1, 2, 0] == 18
    assert second.numpy()[0, 0].tolist() == [9, 10, 11]


def test_the_autocorrelation_time_of_an_autoregression_is_exact():
    rng, rho = np.random.default_rng(0), 0.8
    trace = np.zeros((20_000, 4))
    for step in range(1, len(trace)):
        trace[step] = rho * trace[step - 1] + rng.normal(size=4)
    np.testing.assert_allclose(sampling.autocorrelation_time(trace), (1 + rho) / (1 - rho), rtol=0.15)
    assert np.all(sampling.autocorrelation_time(np.ones((10, 2))) == 1.0)
    assert sampling.chain_summary(trace, 50)["autocorrelation_steps_median"] == pytest.approx(450, rel=0.15)


def test_normality_pvalues_are_uniform_for_normals_and_small_for_uniforms():
    rng = np.random.default_rng(0)
    p_values = [normality_tests(pd.DataFrame(draws(size=(500, 400))))["p_value"] for draws in (rng.normal, rng.uniform)]
    assert 0.02 < np.mean(p_values[0] < 0.05) < 0.09
    assert p_values[1].max() < 1e-5
    with pytest.raises(UserError, match="needs 20 samples"):
        normality_tests(pd.DataFrame(np.zeros((10, 2))))


@pytest.mark.full
def test_a_run_that_resumes_from_any_checkpoint_ends_in_the_same_bits(tmp_path):
    whole = sampling.fit(toy_rows(), choices(1), SEEDS, Monitor()).posterior()["samples_1"]
    for stop_after in (8, 18, 25):  # within the burn-in, after it, and while collecting

        class Stop(Exception):
            pass

        def interrupt(row, _total, stop_after=stop_after):
            if row.iteration > stop_after:
                raise Stop

        checkpoints = Checkpoints(tmp_path / str(stop_after), every_seconds=0.0)
        with pytest.raises(Stop):
            sampling.fit(toy_rows(), choices(1), SEEDS, Monitor(report=interrupt, checkpoints=checkpoints))
        assert list((tmp_path / str(stop_after)).glob("step-*.npz"))
        resumed = sampling.fit(
            toy_rows(), choices(1), SEEDS, Monitor(checkpoints=Checkpoints(tmp_path / str(stop_after)))
        )
        assert np.array_equal(resumed.posterior()["samples_1"], whole)
