"""What is written of predictions: mean, standard deviation and quantiles of each row."""

from collections.abc import Sequence

import numpy as np

from dgpbench.errors import UserError
from dgpbench.predictive.warped import Densities

MEAN, DEVIATION = "mean", "standard_deviation"


def probabilities(text: str) -> list[float]:
    """'0.05,0.5,0.95' as numbers.

    :raises UserError: for what is no probability between 0 and 1
    """
    try:
        values = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        values = [-1.0]
    if not all(0 < value < 1 for value in values):
        raise UserError(
            f"--quantiles={text} cannot be used; it takes probabilities between 0 and 1, such as 0.05,0.5,0.95"
        )
    return values


def quantile_name(probability: float) -> str:
    """Its column: q0.05."""
    return f"q{float(probability)!r}"


def summary(mixture: Densities, quantiles: Sequence[float]) -> dict[str, np.ndarray]:
    """Column -> [N]: mean, standard deviation and each quantile, in units of y."""
    columns = {MEAN: mixture.mean[:, 0], DEVIATION: np.sqrt(mixture.variance[:, 0])}
    return columns | {quantile_name(p): mixture.quantile(p)[:, 0] for p in quantiles}
