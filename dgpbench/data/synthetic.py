"""The synthetic tables of Hernandez-Munoz (2018), two of them from Depeweg et al. (2018); a seed of their own."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dgpbench.data.table import Table
from dgpbench.errors import UserError

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def bimodal(generator: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """y = 10 sin x or 10 cos x with probability 1/2 each, + N(0, 1); x ~ U[-2, 2]."""
    x = generator.uniform(-2, 2, num_rows)
    sine = generator.random(num_rows) < 0.5
    return x, 10 * np.where(sine, np.sin(x), np.cos(x)) + generator.standard_normal(num_rows)


def heteroscedastic(generator: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """y = 7 sin x + 3 |cos(x/2)| eps, eps ~ N(0, 1); x ~ U[-4, 4]."""
    x = generator.uniform(-4, 4, num_rows)
    return x, 7 * np.sin(x) + 3 * np.abs(np.cos(x / 2)) * generator.standard_normal(num_rows)


def step(generator: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """y = -1 for x < 0 and 1 for x > 0, without noise; x ~ U[-2, 2] without [-0.2, 0.2]."""
    x = generator.uniform(0.2, 2, num_rows) * generator.choice([-1, 1], num_rows)
    return x, np.sign(x)


DRAWS: dict[str, Draw] = {"bimodal": bimodal, "heteroscedastic": heteroscedastic, "step": step}


def load(spec: Mapping[str, Any]) -> Table:
    """The table of ``num_rows`` rows that the data set's own ``seed`` gives; not the seed of a run."""
    num_rows, seed = spec["num_rows"], spec["seed"]
    if not (isinstance(num_rows, int) and num_rows >= 2 and isinstance(seed, int) and seed >= 0):
        raise UserError(f"dataset.num_rows must be at least 2, dataset.seed at least 0; they are {num_rows} and {seed}")
    x, y = DRAWS[spec["draw"]](np.random.Generator(np.random.PCG64(seed)), num_rows)
    return Table(spec["name"], x[:, None], y, ("x",), "y", (), "synthetic")
