"""Arrays that the figures of a run are drawn from: predictive densities on a grid, and partial dependence."""

from collections.abc import Mapping

import numpy as np

from dgpbench.data.standardise import Standardiser
from dgpbench.methods.interface import Predictor
from dgpbench.predictive import posterior_file
from dgpbench.predictive.warped import Densities
from dgpbench.runs.problem import Problem

NUM_X, NUM_Y, NUM_SAMPLES = 121, 161, 50
NUM_DRAWS = 8_000  # of y at an input (Hernandez-Munoz 2018, Fig. 4.3.1)
MOST_COLUMNS, MOST_VALUES, MOST_ROWS = 6, 15, 50
ROWS_RANKED = 2_000


def predictive_grid(predictor: Predictor, scaler: Standardiser, X: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return densities and draws over the training range of the only feature, in original units; {} for more features.

    :param X: standardised training inputs, [N, D]
    :return: grid_x [G], grid_y [K], grid_density [G, K] (per unit of y), grid_samples [S, G]
    """
    if X.shape[1] != 1:
        return {}
    x = np.linspace(X.min(), X.max(), NUM_X)[:, None]
    mixture = scaler.restore(predictor.predict(x.astype(X.dtype), seed))
    assert isinstance(mixture, Densities)
    reach = 3.0 * np.sqrt(mixture.variance)  # holds nearly all of the probability at every x
    y = np.linspace((mixture.mean - reach).min(), (mixture.mean + reach).max(), NUM_Y)
    density = np.exp(mixture.log_density(np.broadcast_to(y[:, None, None], (NUM_Y, NUM_X, 1))))[:, :, 0]
    draws = mixture.sample(np.random.default_rng(seed), NUM_SAMPLES)[:, :, 0]
    return posterior_file.of_grid(scaler.restore_inputs(x)[:, 0], y, density.T, draws)


def draws_of_layers(predictor: Predictor, scaler: Standardiser, X: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return draws of y and of each hidden layer at the quarters of the only feature's range; {} for more features.

    :param X: standardised training inputs, [N, D]
    :return: arrays of ``posterior_file.of_draws``; hidden layers where the method draws them
    """
    if X.shape[1] != 1:
        return {}
    x = np.linspace(X.min(), X.max(), 5)[1:4, None].astype(X.dtype)
    mixture = scaler.restore(predictor.predict(x, seed))
    assert isinstance(mixture, Densities)
    y = mixture.sample(np.random.default_rng(seed), NUM_DRAWS)[:, :, 0]
    hidden = getattr(predictor, "hidden", None)  # of our own deep methods
    return posterior_file.of_draws(scaler.restore_inputs(x)[:, 0], y, hidden(x, seed) if hidden else [])


def rows_of_one_feature(problem: Problem) -> dict[str, np.ndarray]:
    """Return the only feature and the target of all rows, in original units; {} for more features."""
    if problem.train.X.shape[1] != 1:
        return {}
    y, parts = problem.table.y, ((problem.train, problem.split.train), (problem.test, problem.split.test))
    train, test = (np.column_stack([problem.scaler.restore_inputs(rows.X), y[numbers]]) for rows, numbers in parts)
    return posterior_file.of_rows(train, test)


def partial_dependence(predictor: Predictor, problem: Problem, X: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return the partial dependence of the prediction on the columns of a user's own table.

    For a value v of column j it is the mean over training rows n of E[y | x_nj = v, the rest of x_n] (Friedman 2001,
    Sec. 8.2), with the root of the mean of Var[y | ...].

    :param X: standardised training inputs in the run's precision, [N, D]
    :return: arrays of ``posterior_file.of_effects``; {} for other tables and for one feature
    """
    if problem.table.verified != "own" or X.shape[1] == 1:
        return {}
    # Each column's outputs, and of each output its position among the inputs that vary.
    columns, kept = problem.encoder.columns, {int(output): at for at, output in enumerate(problem.scaler.kept)}
    positions: dict[int, dict[int, int]] = {}
    first = 0
    for number, column in enumerate(columns):
        outputs = {each: kept[first + each] for each in range(len(column.outputs)) if first + each in kept}
        first += len(column.outputs)
        if outputs and (column.kind == "category" or 0 in outputs):
            positions[number] = outputs
    ranked = list(positions)
    if len(ranked) > MOST_COLUMNS:
        from sklearn.feature_selection import mutual_info_regression

        train = problem.train
        information = mutual_info_regression(train.X[:ROWS_RANKED], train.Y[:ROWS_RANKED, 0], random_state=0)
        ranked.sort(key=lambda number: -max(information[each] for each in positions[number].values()))
    rows = X[np.linspace(0, len(X) - 1, min(MOST_ROWS, len(X))).round().astype(int)]
    effects = {}
    for number in sorted(ranked[:MOST_COLUMNS]):
        is_category, outputs = columns[number].kind == "category", positions[number]
        if is_category:
            values = np.array(sorted(outputs), dtype=np.float64)  # the categories' numbers
        else:  # all of them if they are few
            every = problem.scaler.restore_inputs(problem.train.X)[:, outputs[0]]
            if len(values := np.unique(every)) > MOST_VALUES:
                values = np.linspace(np.quantile(every, 0.05), np.quantile(every, 0.95), MOST_VALUES)
        inputs = np.concatenate([set_column(problem, rows, outputs, value, is_category) for value in values])
        mixture = problem.scaler.restore(predictor.predict(inputs, seed))
        assert isinstance(mixture, Densities)
        mean, variance = (m.reshape(len(values), len(rows)).mean(axis=1) for m in (mixture.mean, mixture.variance))
        effects[number] = np.column_stack([values, mean, np.sqrt(variance)])
    return posterior_file.of_effects(effects)


def set_column(
    problem: Problem, rows: np.ndarray, outputs: Mapping[int, int], value: float, is_category: bool
) -> np.ndarray:
    """Set a column to a value in all rows: every output is set, the indicator of a gap to 0."""
    scaler, changed = problem.scaler, rows.copy()
    for output, at in outputs.items():
        raw = float(output == value) if is_category else value if output == 0 else 0.0
        changed[:, at] = (raw - scaler.mean_X[at]) / scaler.scale_X[at]
    return changed
