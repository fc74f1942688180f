"""What is predicted of each test row, and what came of it: the columns that scores are made of, and a run keeps."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.predictive.crps import crps_rows
from dgpbench.predictive.predictive import Quantiles, Samples
from dgpbench.predictive.warped import Densities, WarpedMixture

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.50, "q75": 0.75, "q95": 0.95}  # column -> probability
DISTANCE_WORK = 2e11  # training rows x test rows x features that may be compared: some ten seconds on one core

Rows = Mapping[str, np.ndarray]  # column -> [N, P]
Predicted = Densities | Quantiles | Samples  # in the original units of y


def rows_of(found: Predicted, Y: np.ndarray) -> dict[str, np.ndarray]:
    """Every column that a metric may ask for and that the predictions give, each computed once.

    y, mean and ``QUANTILES`` in units of y, variance in units of y squared, log_density in nats, pit, and crps in
    units of y. A mixture gives all of them.

    :param Y: [N, P], in the predictions' units
    :raises ValueError: where Y has another shape
    """
    Y = _targets(found, Y)
    columns = _of_mixture(found, Y) if isinstance(found, Densities) else found.columns(Y, QUANTILES)
    return {"y": Y, **columns}


def _of_mixture(mixture: Densities, Y: np.ndarray) -> dict[str, np.ndarray]:
    quantiles = mixture.quantile(list(QUANTILES.values()))
    return {
        "mean": mixture.mean,
        "variance": mixture.variance,
        "log_density": mixture.log_density(Y),
        "pit": mixture.cdf(Y),
        "crps": crps_of(mixture, Y),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def crps_of(mixture: Densities, Y: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of each row at Y [N, P], units of y."""
    return mixture.crps(Y) if isinstance(mixture, WarpedMixture) else crps_rows(mixture, Y)


def points(rows: Rows, X_test: np.ndarray, X_train: np.ndarray, numbers: np.ndarray) -> "pd.DataFrame":
    """One line for each test row: what rescoring, the calibration study and the direct comparisons need.

    Columns: row, those of ``rows_of``, distance (to the nearest training row).

    :param rows: as ``rows_of`` gives them, of one output
    :param X_test: [N, D], standardised
    :param X_train: [N_train, D], standardised
    :param numbers: [N], the rows' numbers in the data set
    """
    import pandas as pd

    if rows["y"].shape[1] != 1:
        raise ValueError(f"a table of points is for one output, not {rows['y'].shape[1]}")
    flat = {name: column[:, 0] for name, column in rows.items()}
    return pd.DataFrame({"row": np.asarray(numbers)} | flat | {"distance": nearest_distances(X_test, X_train)})


def rows_from(table: "pd.DataFrame") -> dict[str, np.ndarray]:
    """The columns of a table of points as ``rows_of`` gave them, [N, 1] each; an older table lacks some of them."""
    return {str(name): table[[name]].to_numpy() for name in table.columns}


def nearest_distances(X_test: np.ndarray, X_train: np.ndarray, max_work: float = DISTANCE_WORK) -> np.ndarray:
    """Euclidean distance from each test row to the nearest training row, [N].

    Where comparing all of them would be more than ``max_work`` (year: 2e12), evenly spaced test rows get a distance
    and the others NaN.
    """
    affordable = int(max_work / X_train.size)
    chosen = np.arange(0, len(X_test), max(1, math.ceil(len(X_test) / max(1, affordable))))
    distances = np.full(len(X_test), np.nan)
    distances[chosen] = _nearest(X_test[chosen], X_train)
    return distances


def _nearest(X_test: np.ndarray, X_train: np.ndarray) -> np.ndarray:
    if X_train.shape[1] <= 15:  # beyond that a tree prunes nothing, and comparing all rows by GEMM is faster
        from scipy.spatial import cKDTree

        return cKDTree(X_train).query(X_test)[0]
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=1, algorithm="brute").fit(X_train).kneighbors(X_test)[0][:, 0]


def _targets(found: Predicted, Y: np.ndarray) -> np.ndarray:
    """Y as [N, P] floats, refused when its shape is another: broadcasting [N] against [N, 1] gives nonsense."""
    Y = np.asarray(Y, dtype=np.float64)
    if Y.shape != found.shape:
        raise ValueError(f"targets must have shape [N, P] = {found.shape}, not {Y.shape}")
    return Y
