"""Partial dependence of the prediction on the columns of a user's own table.

For a value v of column j, the mean over training rows n of E[y | x_nj = v, the rest of x_n] (Friedman 2001, Sec. 8.2),
and the root of the mean of Var[y | ...]: what the model says of one column, the others being as they are.
"""

import numpy as np

from dgpbench.data.encoding import Column
from dgpbench.methods.interface import Predictor
from dgpbench.predictive import posterior_file
from dgpbench.predictive.warped import Densities
from dgpbench.runs.problem import Problem

MOST_COLUMNS, MOST_VALUES, MOST_ROWS = 6, 15, 50
ROWS_RANKED = 2_000


def partial_dependence(predictor: Predictor, problem: Problem, X: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The arrays of ``posterior_file.of_effects``; none for data sets of ours, or for one feature alone.

    :param X: standardised training inputs as the method took them, [N, D]
    """
    if problem.table.verified != "own" or X.shape[1] == 1:
        return {}
    positions = _positions(problem)
    chosen = sorted(_ranked(problem, positions)[:MOST_COLUMNS])
    rows = X[np.linspace(0, len(X) - 1, min(MOST_ROWS, len(X))).round().astype(int)]
    columns = problem.encoder.columns
    return posterior_file.of_effects(
        {number: _effect(predictor, problem, rows, columns[number], positions[number], seed) for number in chosen}
    )


def _positions(problem: Problem) -> dict[int, dict[int, int]]:
    """Column -> its outputs, by their number among its own -> their positions among the inputs that vary."""
    kept = {int(output): position for position, output in enumerate(problem.scaler.kept)}
    found, first = {}, 0
    for number, column in enumerate(problem.encoder.columns):
        outputs = {each: kept[first + each] for each in range(len(column.outputs)) if first + each in kept}
        first += len(column.outputs)
        if outputs and (column.kind == "category" or 0 in outputs):
            found[number] = outputs
    return found


def _ranked(problem: Problem, positions: dict[int, dict[int, int]]) -> list[int]:
    """Columns by their mutual information with the target on the training rows, the largest first."""
    from sklearn.feature_selection import mutual_info_regression

    if len(positions) <= MOST_COLUMNS:
        return list(positions)
    X, y = problem.train.X[:ROWS_RANKED], problem.train.Y[:ROWS_RANKED, 0]
    information = mutual_info_regression(X, y, random_state=0)
    return sorted(positions, key=lambda number: -max(information[each] for each in positions[number].values()))


def _effect(
    predictor: Predictor, problem: Problem, rows: np.ndarray, column: Column, positions: dict[int, int], seed: int
) -> np.ndarray:
    """[G, 3]: value, mean, standard deviation."""
    values = _values(problem, column, positions)
    inputs = np.concatenate([_at(problem, rows, column, positions, value) for value in values])
    mixture = problem.restore(predictor.predict(inputs, seed))
    assert isinstance(mixture, Densities)
    mean, variance = (each.reshape(len(values), len(rows)).mean(axis=1) for each in (mixture.mean, mixture.variance))
    return np.column_stack([values, mean, np.sqrt(variance)])


def _values(problem: Problem, column: Column, positions: dict[int, int]) -> np.ndarray:
    """The numbers of the categories; of numbers all that there are, or quantiles from 5 to 95 %."""
    if column.kind == "category":
        return np.array(sorted(positions), dtype=np.float64)
    values = problem.scaler.restore_inputs(problem.train.X)[:, positions[0]]
    if len(different := np.unique(values)) <= MOST_VALUES:
        return different
    low, high = np.quantile(values, [0.05, 0.95])
    return np.linspace(low, high, MOST_VALUES)


def _at(problem: Problem, rows: np.ndarray, column: Column, positions: dict[int, int], value: float) -> np.ndarray:
    """The rows with the column at a value: all of its outputs are set, the mark of a gap to 0."""
    scaler, changed = problem.scaler, rows.copy()
    for output, at in positions.items():
        raw = float(output == value) if column.kind == "category" else value if output == 0 else 0.0
        changed[:, at] = (raw - scaler.mean_X[at]) / scaler.scale_X[at]
    return changed
