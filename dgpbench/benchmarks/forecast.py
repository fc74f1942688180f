"""How long a run will take, before anything of it runs: by finished runs like it, else by its counted products."""

from statistics import median

from dgpbench.benchmarks import cost
from dgpbench.benchmarks.rates import numpy_rate
from dgpbench.runs import store
from dgpbench.runs.resolve import Run
from dgpbench.system.progress import in_words
from dgpbench.training.early_stopping import may_end_early
from dgpbench.training.settings import LbfgsSettings, OwnSettings

# Of 119 cells of results/records, 110 took between so many times what their products take on one machine, and so much
# longer to start; docs/cost.md has a sample. Those whose training ended early took less.
TIMES_THE_PRODUCTS = (0.5, 6.0)
START_SECONDS = 20.0


def forecast(run: Run, num_rows: int, num_features: int) -> str:
    """What a run will take and how that is known, in a sentence.

    :param num_rows: of training
    """
    seconds = seconds_of_like_runs(run)
    if seconds:
        several = f"{len(seconds)} finished runs took that differ"
        runs = several if len(seconds) > 1 else "1 finished run took that differs"
        return f"about {in_words(median(seconds))}, as {runs} in split or seed alone"
    return _by_its_products(run, num_rows, num_features)


def seconds_of_like_runs(run: Run) -> list[float]:
    """Total seconds of the finished runs that differ from this one by split and seed alone."""
    found = []
    for folder in sorted(run.directory.parent.glob("split*-seed*")):
        record = store.read_if_present(folder) if _changed(folder.name) == _changed(run.directory.name) else None
        if record is not None and record["status"] == "done":
            found.append(float(record["seconds"]["total"]))
    return found


def _changed(name: str) -> str:
    """What a run's last folder says besides split and seed."""
    return name.partition("+")[2]


def least_seconds(run: Run, num_rows: int, num_features: int) -> float | None:
    """What the counted products of all iterations take on one thread; None where it is not known how many there are."""
    training = run.training.for_rows(num_rows)
    if isinstance(training, OwnSettings | LbfgsSettings):
        return None
    flops = cost.step_flops(run, training, num_rows, num_features)
    return cost.iterations(run, training) * flops / (1e9 * numpy_rate(run.precision))


def between(least: float) -> str:
    """The range in which a run's total lies.

    :param least: seconds of its counted products
    """
    low, high = TIMES_THE_PRODUCTS
    return f"between {in_words(low * least)} and {in_words(high * least + START_SECONDS)}"


def _by_its_products(run: Run, num_rows: int, num_features: int) -> str:
    training = run.training.for_rows(num_rows)
    if isinstance(training, OwnSettings):
        return "how long is not known before it runs: the method trains itself"
    if isinstance(training, LbfgsSettings):
        return "how long is not known before it runs: L-BFGS ends where it converges"
    least = least_seconds(run, num_rows, num_features)
    assert least is not None
    flops, rate = cost.step_flops(run, training, num_rows, num_features), numpy_rate(run.precision)
    early = "; less where training ends early" if may_end_early(training) else ""
    return (
        f"{between(least)} on one thread, by its matrix products ({flops / 1e9:.2g} GFLOP an iteration, "
        f"{rate:.0f} GFLOP/s here){early}"
    )
