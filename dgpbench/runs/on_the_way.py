"""Scores of the test rows while a run trains (``training.trace_test``).

The rows stay here: training hands the log a way to predict, and what comes back is kept in the trace and nowhere else.
"""

from collections.abc import Callable

import numpy as np

from dgpbench.errors import Diverged
from dgpbench.predictive.scores import rmse, tll
from dgpbench.predictive.warped import Densities
from dgpbench.runs.problem import Problem
from dgpbench.training.monitor import Predict, Scored


def scorer(problem: Problem, X: np.ndarray, seed: int) -> Callable[[Predict], Scored]:
    """Scores predictions at the test rows, always with the same seed, so that a curve moves with the parameters alone.

    :param X: standardised test inputs in the run's precision, [N*, D]
    """

    def score(predict: Predict) -> Scored:
        try:
            mixture = problem.restore(predict(X, seed))
        except Diverged:  # of these predictions; whether training goes on is not for them to say
            return Scored()
        assert isinstance(mixture, Densities)
        y = problem.targets
        return Scored(float(tll(mixture.log_density(y))), float(rmse(y, mixture.mean)))

    return score
