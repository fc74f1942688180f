"""ppgpr and dspp: the predictive log-likelihood at learned quadrature sites (docs/methods.md, "Sigma points")."""

from dataclasses import replace
from itertools import combinations

import by_hand
import fit_once
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

N, B, M, D, Q, BETA = 5, 2, 3, 2, 4, 0.3
WIDTH = 2
rng = np.random.default_rng(0)
X, Y = rng.uniform(-2, 2, size=(N, D)), rng.normal(size=N)
X_TEST = rng.uniform(-2, 2, size=(7, D))
# The last of the steps has a rate of nothing: the trace ends with the objective of one batch at the fitted parameters.
STEPS = 11
SETTINGS = (
    f"method.num_inducing={M}",
    "method.hidden_scale=0.3",
    "method.likelihood_variance=0.3",
    f"method.beta={BETA}",
    f"training.max_iterations={STEPS}",
    f"training.batch_size={B}",
    "training.learning_rate=0.05",
    f"training.decay_steps={STEPS - 1}",
    "training.decay_rate=1e-30",
    "training.early_stopping=false",
)
DEEP = ("method=dspp", "method.num_layers=3", f"method.width={WIDTH}", f"method.num_sites={Q}")


@pytest.fixture(scope="module")
def dspp():
    return fit_once.fit(X, Y, *SETTINGS, *DEEP)


def paths_of(fit, rows):
    """Mean and variance [Q, n] of y, and log w [Q], by Theorem 1 at the sites."""
    layers, s2 = by_hand.layers_of(fit.parameters)
    m, C, widths, _ = by_hand.posterior_of(fit.predictor.posterior())
    sites = [fit.parameters[f".points.sites[{layer}]"] for layer in range(len(widths) - 1)]
    normals = [np.repeat(site[..., None], len(rows), axis=2) for site in sites]
    mean, variance = by_hand.theorem_one(layers, widths, m, C, rows, normals)
    return mean, variance + s2, log_softmax(fit.parameters[".points.logits"]), by_hand.kl_from_standard_normal(m, C)


def objectives_of_batches(fit):
    mean, variance, log_weights, kl = paths_of(fit, X)
    terms = logsumexp(by_hand.log_normal(Y, mean, variance) + log_weights[:, None], axis=0)
    return np.array([N / B * terms[list(rows)].sum() - BETA * kl for rows in combinations(range(N), B)])


def test_a_deep_objective_is_the_log_density_of_the_weighted_mixture_minus_beta_kl(dspp):
    assert np.ptp(dspp.parameters[".points.logits"]) > 0.05  # ten steps moved the weights
    assert np.abs(objectives_of_batches(dspp) - dspp.trace[-1].elbo).min() < 1e-8


def test_predictions_are_the_weighted_paths_of_the_sites(dspp):
    mixture = dspp.predict(X_TEST)
    mean, variance, log_weights, _ = paths_of(dspp, X_TEST)
    np.testing.assert_allclose(mixture.means[..., 0], mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(mixture.variances[..., 0], variance, rtol=0, atol=1e-8)
    np.testing.assert_allclose(mixture.weights, np.exp(log_weights), rtol=1e-12)


def test_predictions_of_many_rows_use_the_same_sites(dspp):
    many = np.tile(X_TEST[:1], (9000, 1))  # more than are predicted at a time
    means = dspp.predict(many, seed=3).means
    np.testing.assert_allclose(means, np.broadcast_to(means[:, :1], means.shape), rtol=1e-10)


def test_at_depth_one_the_objective_is_the_log_density_of_the_sparse_gp_minus_beta_kl():
    fit = fit_once.fit(X, Y, *SETTINGS, "method=ppgpr")
    assert np.abs(objectives_of_batches(fit) - fit.trace[-1].elbo).min() < 1e-8
    assert fit.predict(X_TEST).means.shape == (1, len(X_TEST), 1)


def test_sites_start_at_normals_of_the_seed_and_weights_are_equal():
    still = (*SETTINGS, *DEEP, "training.max_iterations=1", "training.learning_rate=1e-30")
    fits = [fit_once.fit(X, Y, *still, seeds=replace(fit_once.SEEDS, initial=seed)) for seed in (1, 2)]
    first, second = (fit.parameters[".points.sites[0]"] for fit in fits)
    assert first.shape == (WIDTH, Q)
    assert np.abs(first - second).min() > 1e-3
    assert np.ptp(fits[0].parameters[".points.logits"]) < 1e-20


# GPyTorch -----------------------------------------------------------------------------------------------------------

S2, JITTER = 0.3, 1e-6
SMALL = ("method=dspp", "method.num_layers=2", f"method.width={WIDTH}", f"method.num_sites={Q}",
         f"method.num_inducing={M}", f"method.beta={BETA}", f"method.likelihood_variance={S2}",
         "method.white_noise=null", f"method.jitter={JITTER}", f"training.batch_size={N}",
         "training.early_stopping=false", "training.max_iterations=1", "training.learning_rate=1e-30")  # fmt: skip
# Of GPyTorch 1.15.2 at the parameters below: N times its objective, and the mixture of the first row.
OBJECTIVE = -12.642889973694931
MEANS = [-0.009531171433974561, -0.0021686760276328726, -0.0159532152499369, 0.22576166281609708]
VARIANCES = [0.8918361437642659, 0.8890833864103969, 0.8869981685786654, 0.49540173082718125]


def parameters() -> dict[str, np.ndarray]:
    """Every parameter of a small model away from its starting value."""
    draws = np.random.default_rng(7)
    values = {
        ".points.sites[0]": draws.normal(size=(WIDTH, Q)),
        ".points.logits": draws.normal(size=Q),
        ".prior.likelihood.variance": np.array(S2),
    }
    for layer, width in enumerate((WIDTH, 1)):
        values |= {
            f".prior.layers[{layer}].Z": draws.uniform(-2, 2, size=(M, D)),
            f".prior.layers[{layer}].kernel.variance": np.array(draws.uniform(0.5, 2)),
            f".prior.layers[{layer}].kernel.lengthscales": draws.uniform(0.5, 2, size=D),
            f".q.means[{layer}]": draws.normal(size=(width, M)),
            f".q.diagonal[{layer}]": np.tril(draws.normal(size=(width, M, M))) + np.eye(M),
        }
    return values


def test_gpytorchs_dspp_has_the_same_objective_and_mixture():
    start = fit_once.fit(X, Y, *SMALL).parameters
    fit = fit_once.fit(X, Y, *SMALL, initial=start | parameters())
    assert fit.trace[0].elbo == pytest.approx(OBJECTIVE, abs=1e-9)
    mixture = fit.predict(X)
    np.testing.assert_allclose(mixture.means[:, 0, 0], MEANS, rtol=0, atol=1e-9)
    np.testing.assert_allclose(mixture.variances[:, 0, 0], VARIANCES, rtol=0, atol=1e-9)


def test_the_committed_values_are_gpytorchs():
    pytest.importorskip("gpytorch")
    objective, means, variances = by_gpytorch(parameters())
    assert objective == pytest.approx(OBJECTIVE, abs=1e-9)
    np.testing.assert_allclose(means, MEANS, rtol=0, atol=1e-9)
    np.testing.assert_allclose(variances, VARIANCES, rtol=0, atol=1e-9)


def by_gpytorch(values):
    """N times the objective, and means and variances [Q] of the first row, by GPyTorch's ``DSPP``."""
    import torch
    from gpytorch import distributions, kernels, likelihoods, means, mlls
    from gpytorch.models.deep_gps.dspp import DSPP, DSPPLayer
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    torch.set_default_dtype(torch.float64)

    class OwnCoordinate(means.Mean):
        """GP t of the hidden layer has mean x_t."""

        def forward(self, x):
            return torch.diagonal(x, dim1=-3, dim2=-1).transpose(-1, -2)

    class Layer(DSPPLayer):
        def __init__(self, number, width, mean):
            of = lambda name: torch.as_tensor(values[f".prior.layers[{number}].{name}"])
            q = CholeskyVariationalDistribution(M, torch.Size([] if width is None else [width]))
            super().__init__(VariationalStrategy(self, of("Z"), q, jitter_val=JITTER), D, width, Q)
            self.mean_module, self.covar_module = mean, kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=D))
            self.covar_module.outputscale = of("kernel.variance")
            self.covar_module.base_kernel.lengthscale = of("kernel.lengthscales")
            self.number, self.q = number, q

        def forward(self, x):
            return distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        def set_q(self):
            m, C = (torch.as_tensor(values[f".q.{name}[{self.number}]"]) for name in ("means", "diagonal"))
            last = self.output_dims is None
            self.q.variational_mean.data = m[0] if last else m
            self.q.chol_variational_covar.data = C[0] if last else C

    class Deep(DSPP):
        def __init__(self):
            super().__init__(Q)
            self.hidden, self.output = Layer(0, WIDTH, OwnCoordinate()), Layer(1, None, means.ZeroMean())

        def forward(self, x):
            return self.output(self.hidden(x))

    model, likelihood = Deep(), likelihoods.GaussianLikelihood()
    likelihood.noise = S2 - JITTER  # GPyTorch adds its jitter to the variance of the output layer too
    rows = torch.as_tensor(X)
    model(rows)  # its first call sets q
    for layer in (model.hidden, model.output):
        layer.set_q()
    model.output.quad_sites.data = torch.as_tensor(values[".points.sites[0]"].T)
    model.raw_quad_weights.data = torch.as_tensor(values[".points.logits"])
    bound = mlls.DeepPredictiveLogLikelihood(likelihood, model, N, beta=BETA)
    output = model(rows)
    objective = N * bound(output, torch.as_tensor(Y)).item()
    noisy = likelihood(output)
    return objective, noisy.mean[:, 0].detach().numpy(), noisy.variance[:, 0].detach().numpy()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (("method=mf", "method.beta=0.5"), "method.beta and method.num_sites belong to method.bound=predictive"),
        (("method=star", "method.num_sites=4"), "method.beta and method.num_sites belong to method.bound=predictive"),
        (("method=fc_mc", "method.bound=predictive"), "it takes method.marginalise=true"),
        (("method=mf", "method.bound=loose"), "method.bound takes standard, tight, predictive"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings, sentence, tmp_path, capsys):
    assert fit_once.command("run", "dataset=boston", "budget=smoke", *settings, f"results_dir={tmp_path}") == 2
    assert sentence in capsys.readouterr().err
