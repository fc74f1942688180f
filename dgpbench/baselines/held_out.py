"""Held-out training rows that choose a setting, or calibrate."""

import numpy as np


def held_out_rows(num_rows: int, share: float, seed: int, at_least: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return random numbers of the rows to fit to, and of the held-out rows; a large share leaves two to fit to."""
    order = np.random.default_rng(seed).permutation(num_rows)
    count = max(at_least, min(round(share * num_rows), num_rows - 2))
    return order[count:], order[:count]
