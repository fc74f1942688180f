"""Whether a run fits in memory, as far as its configuration tells: a lower bound, so nothing is refused in vain."""

from pathlib import Path
from typing import Any

from dgpbench.errors import Refused

OPTIMISER_COPIES = 4  # a parameter, its gradient and Adam's two moments
KEPT_FOR_GRADIENTS = 3  # k(Z, h), its whitened form and their gradient, for each layer, row and path
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


def check(config: dict[str, Any], num_rows: int, num_features: int, num_test_rows: int) -> None:
    """Refuse a run that cannot fit.

    :raises Refused: naming what is too large, and which settings make it smaller
    """
    needs = estimate(config, num_rows, num_features, num_test_rows)
    need, free = sum(needs.values()), available()
    if need > free:
        largest = max(needs, key=lambda name: needs[name])
        raise Refused(
            f"this run needs at least {need / 2**30:,.1f} GiB of memory and {free / 2**30:,.1f} GiB are free; "
            f"most of it is for {largest}"
        )


def estimate(config: dict[str, Any], num_rows: int, num_features: int, num_test_rows: int) -> dict[str, int]:
    """Bytes by what they are for, with the settings that govern them."""
    method, training = config["method"], config["training"]
    itemsize = 4 if config["precision"] == "float32" else 8
    if method.get("model") == "gpr":
        return {"the matrix k(X, X), whose size is that of the training rows": 3 * itemsize * num_rows**2}
    width = min(30, num_features) if method.get("width") == "inputs" else method.get("width", 1)
    widths = (*[width] * (method["num_layers"] - 1), 1)
    M, S = method.get("num_inducing", 1), config["prediction"].get("num_samples", 1)
    rows = min(training.get("batch_size") or num_rows, num_rows) * (training.get("num_samples") or 1)
    needs = {
        "q (method.num_inducing, method.width)": OPTIMISER_COPIES * itemsize * M**2 * _blocks(method, widths),
        "a batch (training.batch_size, training.num_samples, method.num_inducing)": (
            KEPT_FOR_GRADIENTS * itemsize * len(widths) * M * rows
        ),
        "the predictions (prediction.num_samples)": 2 * 8 * S * num_test_rows,
    }
    if training["optimiser"] == "sghmc":
        needs["the samples (prediction.num_samples, method.num_inducing)"] = itemsize * S * M * sum(widths)
    return needs


def _blocks(method: dict[str, Any], widths: tuple[int, ...]) -> int:
    """M x M blocks of C, counted and not listed; where q has none, k(Z, Z) of each layer."""
    if "structure" not in method:
        return len(widths)
    hidden, width, nodes = len(widths) - 1, widths[0], sum(widths)
    stripes, arrow = width * hidden * (hidden - 1) // 2, width * hidden
    coupled = {
        "stripes": stripes,
        "arrow": arrow,
        "star": stripes + arrow,
        "chain": (width**2 * (hidden - 1) + width) * (hidden > 0),
        "fully_coupled": nodes * (nodes - 1) // 2,
    }
    return nodes + coupled.get(method["structure"], 0)


def available() -> int:
    """Bytes that this process may still take: the machine's, or what is left of its container's."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        return min(free, int(CGROUP_LIMIT.read_text()) - int(CGROUP_USED.read_text()))
    except (OSError, ValueError):  # no container, or "max"
        return free
