"""A toy frame for every figure function: the columns that its docstring names, and nothing else."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dgpbench.report.figures import calibration, posterior, predictions, scores, timing, training
from dgpbench.runs.compact_records import coverage_counts
from scripts.docs import laptop

METHODS = [("sgp", 1), ("mf", 2), ("mf", 3), ("star", 2), ("star", 3), ("sghmc", 2)]


def toy_posterior(structure: str = "star", num_layers: int = 3, width: int = 3, M: int = 6) -> dict[str, np.ndarray]:
    """Arrays as ``posterior.npz`` holds them, of a mean-field, STAR or fully coupled posterior."""
    rng = np.random.default_rng(1)
    widths = [width] * (num_layers - 1) + [1]
    block = lambda count: rng.normal(scale=0.05, size=(count, M, M))
    arrays = {}
    for layer, T in enumerate(widths, 1):
        arrays[f"mean_{layer}"] = rng.normal(size=(T, M))
        arrays[f"diagonal_{layer}"] = np.tril(block(T), -1) + (0.2 if layer < num_layers else 0.8) * np.eye(M)
        for earlier, pairs in _couplings(structure, layer, widths):
            arrays[f"coupling_{layer}_{earlier}"] = block(len(pairs))
            arrays[f"pairs_{layer}_{earlier}"] = np.array(pairs)
    return arrays


def _couplings(structure: str, layer: int, widths: list[int]):
    T = widths[layer - 1]
    if structure == "mf":
        return
    for earlier in range(1, layer):
        every = [(t, s) for t in range(T) for s in range(widths[earlier - 1])]
        keep = structure == "fc" or layer == len(widths)
        yield earlier, every if keep else [(t, t) for t in range(T)]
    if structure == "fc" and T > 1:
        yield layer, [(t, s) for t in range(T) for s in range(t)]


def points(methods=(("sgp", 1), ("mf", 3), ("star", 3)), num_rows: int = 400) -> pd.DataFrame:
    """Per-row tables of several runs, one below the other: the first methods are surer than they should be."""
    rng = np.random.default_rng(0)
    parts = []
    for number, (method, num_layers) in enumerate(methods):
        distance = rng.gamma(2.0, 0.5, num_rows)
        variance = (0.2 + distance) ** 2 * rng.uniform(0.8, 1.2, num_rows)
        z = rng.normal(size=num_rows) * (1.5 - 0.25 * number)
        mean = rng.normal(size=num_rows) * 5
        from scipy.stats import norm

        frame = {
            "y": mean + z * np.sqrt(variance),
            "mean": mean,
            "variance": variance,
            "distance": distance,
            "pit": norm.cdf(z),
        }
        parts.append(pd.DataFrame(frame).assign(method=method, num_layers=num_layers, log_density=norm.logpdf(z)))
    return pd.concat(parts, ignore_index=True)


def compact_runs() -> pd.DataFrame:
    """The runs of ``points`` as compact records have them."""
    rows = []
    for (method, num_layers), part in points().groupby(["method", "num_layers"], sort=False):
        counts = {"coverage_counts": coverage_counts(part["pit"].to_numpy()), "pit_counts": [len(part)]}
        rows.append((method, num_layers, "nowhere", counts))
    return pd.DataFrame(rows, columns=["method", "num_layers", "path", "compact"])


def traces() -> pd.DataFrame:
    """Recorded iterations of two splits of each of two methods."""
    iteration = np.arange(10, 1001, 10)
    parts = []
    for method, rate in (("fc", 150.0), ("fc_mc", 300.0)):
        for split in range(2):
            elbo = (
                -500
                - 4e4 * np.exp(-iteration / 20)
                - 400 * np.exp(-iteration / rate)
                + 5 * np.sin(iteration / 9 + split)
            )
            frame = pd.DataFrame(
                {"iteration": iteration, "seconds": iteration * 0.02, "elbo": elbo, "test_tll": -3 + iteration / 1e3}
            )
            parts.append(frame.assign(method=method, num_layers=3, split=split, run=f"{method}{split}"))
    return pd.concat(parts, ignore_index=True)


def score_cells(metric: str = "tll") -> pd.DataFrame:
    """One data set's cells; one is incomplete, one is missing."""
    rng = np.random.default_rng(2)
    rows = [(m, n, metric, -2.5 + rng.normal() * 0.1, 0.05, 10, 10) for m, n in METHODS]
    frame = pd.DataFrame(rows, columns=["method", "num_layers", "metric", "mean", "stderr", "count", "wanted"])
    frame.loc[4, "count"] = 7
    frame.loc[5, ["mean", "stderr"]] = np.nan
    frame.loc[5, "count"] = 0
    return frame.assign(published=[-2.5, -2.4, np.nan, -2.6, -2.3, -2.55], published_stderr=[0.05] * 5 + [np.nan])


def runs_in_time() -> pd.DataFrame:
    """A curve for one method, a final score for another."""
    seconds = np.geomspace(1, 100, 20)
    curve = pd.DataFrame({"method": "mf_r10", "run": "a", "seconds": seconds, "score": 10 - np.log(seconds)})
    last = pd.DataFrame({"method": ["aepmcm_r10"], "run": ["b"], "seconds": [50.0], "score": [6.5]})
    return pd.concat([curve, last], ignore_index=True).assign(num_layers=3, metric="rmse")


def two_budgets() -> pd.DataFrame:
    """Two methods, each at two budgets."""
    rows = [("mf", 3, "paper", 800.0, -2.8), ("mf", 3, "laptop", 70.0, -2.9), ("star", 3, "paper", 1500.0, -2.7)]
    rows.append(("star", 3, "laptop", 130.0, -2.6))
    return pd.DataFrame(rows, columns=["method", "num_layers", "budget", "seconds", "score"]).assign(metric="tll")


def bench() -> pd.DataFrame:
    """Timings as a benchmark's CSV has them."""
    rows = []
    for method, power in (("mf", 1), ("star", 1.2), ("fc", 2)):
        for M, L, tau in (
            [(m, 3, 5) for m in (32, 64, 128, 256)]
            + [(128, n, 5) for n in (2, 4, 5)]
            + [(128, 3, t) for t in (2, 8, 16)]
        ):
            rows.append((method, M, L, tau, 2 + 1e-4 * M**2 * tau**power * L**power))
    return pd.DataFrame(rows, columns=list(timing.COLUMNS))


def ranking_frame() -> pd.DataFrame:
    """Mean ranks of six methods on eight data sets."""
    frame = pd.DataFrame(
        {"label": [f"{m.upper()} L{n}" for m, n in METHODS], "mean_rank": [5.1, 4.2, 3.9, 2.6, 2.2, 3.0]}
    )
    return frame.assign(critical_difference=2.67, num_blocks=8)


def improvement_frame() -> pd.DataFrame:
    """Three pairs, one of them without any doubt."""
    rows = [
        ("STAR L3 beats MF L3", 0.81, 0.7, 0.9),
        ("STAR L3 beats SGP L1", 1.0, 1.0, 1.0),
        ("MF L3 beats SGP L1", 0.55, 0.4, 0.7),
    ]
    return pd.DataFrame(rows, columns=["pair", "probability", "low", "high"])


def boxes() -> pd.DataFrame:
    """Final ELBOs of ten splits."""
    rng = np.random.default_rng(3)
    rows = [(m, 3, 100 * k + rng.normal() * 30) for k, m in enumerate(("mf", "star")) for _ in range(10)]
    return pd.DataFrame(rows, columns=["method", "num_layers", "elbo"])


def samples() -> pd.DataFrame:
    """200 samples of 12 inducing outputs, the first of them skewed."""
    draws = np.random.default_rng(4).normal(size=(200, 12))
    draws[:, 0] = np.exp(draws[:, 0])
    return pd.DataFrame(draws, columns=[f"1.{k}" for k in range(12)])


def histogram() -> pd.DataFrame:
    """Return the skewed output of ``samples`` and the figure's text beside it."""
    values = samples()["1.0"]
    return pd.DataFrame({"value": values}).assign(mean=values.mean(), deviation=values.std(), p_value=1e-9)


def synthetic_points() -> pd.DataFrame:
    """Test rows of one input."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-4, 4, 60)
    y = 7 * np.sin(x) + rng.normal(size=60)
    return pd.DataFrame(
        {"x": x, "y": y, "mean": 7 * np.sin(x), "variance": 1.0, "log_density": -0.9 - 0.5 * (y - 7 * np.sin(x)) ** 2}
    )


def synthetic_draws() -> pd.DataFrame:
    """Draws of two modes, and data."""
    rng = np.random.default_rng(6)
    x = np.tile(np.linspace(-2, 2, 50), 20)
    drawn = pd.DataFrame(
        {"x": x, "y": 10 * np.where(rng.random(1000) < 0.5, np.sin(x), np.cos(x)) + rng.normal(size=1000)}
    )
    return pd.concat([drawn.assign(kind="sample"), drawn.iloc[::10].assign(kind="test data")], ignore_index=True)


def histogram_frame() -> pd.DataFrame:
    """Draws of y."""
    return pd.DataFrame({"value": np.random.default_rng(0).normal(size=500), "of": "y"})


FIGURES: dict[str, tuple[Callable[[pd.DataFrame, Axes], None], Callable[[], pd.DataFrame]]] = {
    "covariance_heatmap": (posterior.draw_covariance, lambda: posterior.covariance_matrix(toy_posterior("star"))),
    "precision_heatmap": (posterior.draw_precision, lambda: posterior.precision_matrix(toy_posterior("fc", 4))),
    "block_correlations": (
        posterior.draw_block_correlations,
        lambda: posterior.correlations(toy_posterior("fc")).assign(method="fc", num_layers=3),
    ),
    "sample_histogram": (posterior.draw_sample_histogram, histogram),
    "normality_p_values": (posterior.draw_p_values, lambda: posterior.normality_tests(samples())),
    "elbo_against_seconds": (training.draw_elbo_against_seconds, traces),
    "training_curves": (
        training.draw_training_curves,
        lambda: traces().assign(value=traces()["test_tll"], quantity="test_tll"),
    ),
    "elbo_boxes": (scores.draw_elbo_boxes, boxes),
    "score_bars": (scores.draw_score_bars, score_cells),
    "score_against_seconds": (scores.draw_score_against_seconds, runs_in_time),
    "score_of_two_budgets": (laptop.score_of_two_budgets, two_budgets),
    "variance_against_distance": (
        calibration.draw_variance_against_distance,
        lambda: calibration.variance_along_distance(points()),
    ),
    "error_against_variance": (
        calibration.draw_error_against_variance,
        lambda: calibration.error_along_variance(points()),
    ),
    "reliability_diagram": (calibration.draw_reliability, lambda: calibration.interval_coverage(compact_runs())),
    "seconds_per_step_M": (timing.draw_seconds_per_step, lambda: timing.along(bench(), "M")),
    "seconds_per_step_L": (timing.draw_seconds_per_step, lambda: timing.along(bench(), "L")),
    "seconds_per_step_tau": (timing.draw_seconds_per_step, lambda: timing.along(bench(), "tau")),
    "predictive_band": (predictions.draw_predictive_band, synthetic_points),
    "predictive_samples": (predictions.draw_predictive_samples, synthetic_draws),
    "predictive_histogram": (predictions.draw_histogram, histogram_frame),
    "critical_difference": (scores.draw_critical_difference, ranking_frame),
    "improvement": (scores.draw_improvement, improvement_frame),
}
