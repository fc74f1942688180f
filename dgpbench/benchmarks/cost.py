"""Expected run times: from finished runs and from counted products.

A run's *work* is its iterations times the counted flops of a step (``floors``). Runs of one method with steps of
similar size have similar rates, so a finished run predicts others by the ratio of their work.
"""

from collections.abc import Iterator, Mapping
from math import log
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from dgpbench.benchmarks.floors import flops, numpy_rate
from dgpbench.benchmarks.timing import OURS, Cell
from dgpbench.config import groups
from dgpbench.config.canonical import canonical
from dgpbench.errors import UserError
from dgpbench.methods.settings import DeepSettings
from dgpbench.runs import store
from dgpbench.runs.identity import Identity
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.system.progress import in_words
from dgpbench.training.early_stopping import may_end_early
from dgpbench.training.settings import AdamSettings, LbfgsSettings, OwnSettings, SamplerSettings

if TYPE_CHECKING:
    import pandas as pd

# Of 119 cells of results/records, 110 took between so many times what their products take on one machine, and so much
# longer to start; docs/cost.md has a sample. Those that stopped early took less.
TIMES_THE_PRODUCTS = (0.5, 6.0)
START_SECONDS = 20.0
# Of 598 cells of results/records, 96 % lie within this factor of the range of rates of the other data sets' runs.
BEYOND_THE_RATES = 1.5
SIMILAR_STEPS = 4.0  # largest ratio of the flops of two steps that work at similar rates: small steps are slower
LIKE = ("method", "num_layers", "dataset", "task")


# Work -----------------------------------------------------------------------------------------------------------------


def iterations(run: Run, training: AdamSettings | SamplerSettings) -> float:
    """Return the iterations and those that collect samples, each a sampler step: about a third of an iteration."""
    count = float(training.max_iterations or 0)
    if isinstance(training, SamplerSettings):
        count *= 1.0 + training.thinning * run.prediction.num_samples / 3.0
    return count


def step_flops(run: Run, training: AdamSettings | SamplerSettings, rows: int, features: int) -> float:
    """Return the unavoidable flops of one of a run's iterations; NaN for a family that is not counted."""
    method = run.method.for_inputs(features)
    assert isinstance(method, DeepSettings)
    B, R = min(training.batch_size, rows), training.paths if isinstance(training, AdamSettings) else 1
    L, M, tau = method.num_layers, method.num_inducing, method.width
    assert isinstance(tau, int), "for_inputs comes first"
    return flops(Cell(OURS, run.card.name, "", "", M, L, tau, B, R, run.precision, 1), run)


def least_seconds(run: Run, rows: int, features: int) -> float | None:
    """Return the time of the counted products of all iterations on one thread; None if their number is unknown."""
    if isinstance(run.training, OwnSettings | LbfgsSettings):
        return None
    return work(run, rows, features)[0] / (1e9 * numpy_rate(run.precision))


def range_of(least: float, runs: int = 1) -> tuple[float, float]:
    """Return the range of the total seconds of some runs, from the seconds of their counted products."""
    low, high = TIMES_THE_PRODUCTS
    return low * least, high * least + runs * START_SECONDS


def between(seconds: tuple[float, float]) -> str:
    """Return a range of seconds in words."""
    low, high = map(in_words, seconds)
    return f"between {low} and {high}"


def work(run: Run, rows: int, features: int) -> tuple[float, float]:
    """Return the work of a run and the flops of a step.

    Without counted flops the work is the rows, or for exact GPs their third power: that of a Cholesky factor.
    """
    training = run.training.for_rows(rows)
    if isinstance(training, OwnSettings | LbfgsSettings):
        return float(rows) ** (3 if run.card.family == "exact" else 1), 1.0
    flops_each = step_flops(run, training, rows, features)
    return iterations(run, training) * flops_each, flops_each


# One run --------------------------------------------------------------------------------------------------------------


def forecast(run: Run, rows: int, features: int) -> str:
    """Return the expected time of a run with so many training rows and its basis, in a sentence."""
    if seconds := seconds_of_similar_runs(run):
        several = f"{len(seconds)} finished runs that differ"
        basis = several if len(seconds) > 1 else "1 finished run that differs"
        return f"about {in_words(median(seconds))}, based on {basis} in split or seed only"
    training = run.training.for_rows(rows)
    if isinstance(training, OwnSettings):
        return "run time unknown in advance: the method has its own training loop"
    if isinstance(training, LbfgsSettings):
        return "run time unknown in advance: L-BFGS stops when it converges"
    least = least_seconds(run, rows, features)
    assert least is not None
    gflop, rate = step_flops(run, training, rows, features) / 1e9, numpy_rate(run.precision)
    early = "; less if training stops early" if may_end_early(training) else ""
    return (
        f"{between(range_of(least))} on one thread, from its matrix products ({gflop:.2g} GFLOP an iteration, "
        f"{rate:.0f} GFLOP/s here){early}"
    )


def seconds_of_similar_runs(run: Run) -> list[float]:
    """Return the total seconds of the finished runs that differ from this one in split and seed only."""
    seconds, on_gpu = [], run.limits.device == "gpu"
    changes = run.directory.name.partition("+")[2]  # what the last folder names besides split and seed
    for folder in sorted(run.directory.parent.glob("split*-seed*")):
        record = store.read_if_present(folder) if folder.name.partition("+")[2] == changes else None
        if record is not None and record["status"] == "done" and (record["host"].get("gpu") is not None) == on_gpu:
            seconds.append(float(record["seconds"]["total"]))
    return seconds


def _shared(overrides: Mapping) -> str:
    """Return the overrides without the initial run, which is another for each split, in canonical spelling."""
    return canonical({key: value for key, value in overrides.items() if key != "init_from"})


# Many runs, from records ----------------------------------------------------------------------------------------------


class Estimate(NamedTuple):
    """Total seconds of a run, and the range in which they probably lie."""

    seconds: float
    low: float
    high: float


class Records:
    """Estimates of run times from the finished runs of one budget and protocol, on a GPU or on none."""

    def __init__(self, frame: "pd.DataFrame", budget: str, protocol: str, device: str = "cpu"):
        done = (frame["status"] == "done") & (frame["budget"] == budget) & (frame["protocol"] == protocol)
        self.frame = frame[done & (frame["gpu"].notna() == (device == "gpu"))]
        self.measured: dict[str, list[tuple[float, float, float]]] = {}

    def like(self, run: Run) -> Estimate | None:
        """Return the median of the runs that differ in split, seed or start only, if there are any."""
        rows = self.frame
        for key in LIKE:
            rows = rows[rows[key] == getattr(run.identity, key)]
        own = _shared(run.identity.overrides)
        rows = rows[[_shared(changed) == own for changed in rows["overrides"]]]
        return Estimate(*[float(rows["seconds_total"].median())] * 3) if len(rows) else None

    def scaled(self, run: Run, num_rows: int, num_features: int) -> Estimate | None:
        """Return the median of the method's runs with steps of similar size, each scaled by its work."""
        own_work, step = work(run, num_rows, num_features)
        if run.card.name not in self.measured:
            self.measured[run.card.name] = list(self._measure(run.card.name))
        seconds = [
            seconds * own_work / other_work
            for other_work, other_step, seconds in self.measured[run.card.name]
            if abs(log(other_step / step)) <= log(SIMILAR_STEPS)
        ]
        if not seconds:
            return None
        return Estimate(median(seconds), min(seconds) / BEYOND_THE_RATES, max(seconds) * BEYOND_THE_RATES)

    def _measure(self, method: str) -> Iterator[tuple[float, float, float]]:
        """Yield work, flops of a step and median seconds for each setting of a method with finished runs."""
        rows = self.frame[(self.frame["method"] == method) & (self.frame["n_train"] > 0)]
        rows = rows[rows["dataset"].isin(groups.names("dataset"))]
        for _, alike in rows.groupby([*(rows[key] for key in LIKE), rows["overrides"].map(str)], sort=False):
            first = alike.iloc[0]
            axes = {key: first[key] for key in ("task", "dataset", "method", "protocol", "budget", "overrides")}
            identity = Identity(**axes, num_layers=int(first["num_layers"]), split=0, seed=0)
            try:
                run = resolve_overrides(identity.arguments())
            except UserError:  # a setting of an earlier version
                continue
            size = int(alike["n_train"].median())
            yield *work(run, size, run.dataset.get("d", 1)), float(alike["seconds_total"].median())
