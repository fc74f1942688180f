"""Whether a run fits in memory, as far as its settings tell: a lower bound, so nothing is refused in vain."""

from dgpbench.errors import UserError
from dgpbench.methods.settings import Sizes
from dgpbench.runs.resolve import Run
from dgpbench.system.memory import available


def check(run: Run, num_rows: int, num_features: int, num_test_rows: int) -> None:
    """Refuse a run that cannot fit.

    :raises UserError: naming what is too large, and which settings make it smaller
    """
    needs = estimate(run, num_rows, num_features, num_test_rows)
    need, free = sum(needs.values()), available()
    if need > free:
        largest = max(needs, key=lambda name: needs[name])
        raise UserError(
            f"this run needs at least {need / 2**30:,.1f} GiB of memory and {free / 2**30:,.1f} GiB are free; "
            f"most of it is for {largest}"
        )


def estimate(run: Run, num_rows: int, num_features: int, num_test_rows: int) -> dict[str, int]:
    """Bytes by what they are for, with the settings that govern them."""
    sizes = Sizes(num_rows, num_features, num_test_rows, itemsize=4 if run.precision == "float32" else 8)
    method = run.method.for_inputs(num_features)
    return method.memory(sizes, run.training.for_rows(num_rows), run.prediction.num_samples)
