"""The predictive distribution on a grid, for tables with one feature: what the synthetic sets' figures draw."""

import numpy as np

from dgpbench.data.standardise import Standardiser
from dgpbench.methods.interface import Predictor
from dgpbench.predictive import posterior_file
from dgpbench.predictive.warped import Densities
from dgpbench.runs.problem import Problem

NUM_X, NUM_Y, NUM_SAMPLES = 121, 161, 50


def predictive_grid(predictor: Predictor, scaler: Standardiser, X: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Densities and draws over the training range of the only feature, in original units; nothing for more features.

    :param X: standardised training inputs, [N, D]
    :return: grid_x [G], grid_y [K], grid_density [G, K] (per unit of y), grid_samples [S, G]
    """
    if X.shape[1] != 1:
        return {}
    x = np.linspace(X.min(), X.max(), NUM_X)[:, None]
    mixture = scaler.restore(predictor.predict(x.astype(X.dtype), seed))
    assert isinstance(mixture, Densities)
    y = _range(mixture)
    density = np.exp(mixture.log_density(np.broadcast_to(y[:, None, None], (NUM_Y, NUM_X, 1))))[:, :, 0]
    return posterior_file.of_grid(
        scaler.restore_inputs(x)[:, 0],
        y,
        density.T,
        mixture.sample(np.random.default_rng(seed), NUM_SAMPLES)[:, :, 0],
    )


def rows_of_one_feature(problem: Problem) -> dict[str, np.ndarray]:
    """The only feature and the target of all rows, in original units; nothing for more features."""
    if problem.train.X.shape[1] != 1:
        return {}
    y, parts = problem.table.y, ((problem.train, problem.split.train), (problem.test, problem.split.test))
    train, test = (np.column_stack([problem.scaler.restore_inputs(rows.X), y[numbers]]) for rows, numbers in parts)
    return posterior_file.of_rows(train, test)


def _range(mixture: Densities) -> np.ndarray:
    """Values of y that hold nearly all of the probability at every x."""
    reach = 3.0 * np.sqrt(mixture.variance)
    return np.linspace((mixture.mean - reach).min(), (mixture.mean + reach).max(), NUM_Y)
