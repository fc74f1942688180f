"""Early stopping by Prechelt's UP_s criterion on a smoothed validation score, and its rows.

Reference: docs/methods.md, "Early stopping".
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dgpbench.data.standardise import Regression
from dgpbench.training.monitor import RECORD_EVERY
from dgpbench.training.settings import AdamSettings, LbfgsSettings, TrainingSettings


@dataclass(frozen=True)
class StoppingRule:
    """Stop when the smoothed score has fallen in ``strips`` successive strips, after a first part of the run.

    Reference: Prechelt 1998; Lindinger et al. 2020, Appendix G.

    :param start: iterations before which training never stops
    :param interval: iterations between two validation scores
    :param strip: iterations in one strip
    :param strips: s of UP_s
    :param smoothing: the score is the mean of this many last records
    """

    start: int
    interval: int = RECORD_EVERY
    strip: int = 50
    strips: int = 5
    smoothing: int = 50

    def can_trigger(self, max_iterations: int) -> bool:
        """Return whether the rule could ever stop a run of this length; if not, no rows need to be held out."""
        first = (max(self.start, self.strip * self.strips) // self.strip + 1) * self.strip  # it acts at ends of strips
        return max_iterations > first

    def stops(self, iteration: int, scores: list[float]) -> bool:
        """Return whether to stop after ``scores`` (one each ``interval`` iterations, the last at ``iteration``)."""
        per_strip = max(1, self.strip // self.interval)
        if iteration <= self.start or len(scores) % per_strip or len(scores) <= per_strip * self.strips:
            return False
        ends = [len(scores) - per_strip * back for back in range(self.strips, -1, -1)]
        smoothed = [np.mean(scores[max(0, end - self.smoothing) : end]) for end in ends]
        return all(later < earlier for earlier, later in pairwise(smoothed))


def stopping_rule(training: AdamSettings) -> StoppingRule | None:
    """Return the run's rule, or None where early stopping is off or could never trigger in so few iterations.

    The published rule smooths over 50 records, a tenth of the iterations before it may act. A smaller budget scales
    both: smoothed over all of a short run, a score that fell at first and now rises would still look as if it fell.
    """
    if not training.early_stopping:
        return None
    assert training.max_iterations is not None, "for_rows comes first"
    start = round(training.early_stopping_start * training.max_iterations)
    smoothing = max(1, min(50, start // (10 * RECORD_EVERY)))
    rule = StoppingRule(start, smoothing=smoothing)
    return rule if rule.can_trigger(training.max_iterations) else None


def may_end_early(training: TrainingSettings) -> bool:
    """Return whether training may end before ``max_iterations``: by convergence (L-BFGS), a time limit or a rule."""
    by_a_rule = isinstance(training, AdamSettings) and stopping_rule(training) is not None
    return by_a_rule or isinstance(training, LbfgsSettings) or training.max_seconds is not None


def hold_out(train: Regression, training: AdamSettings, seed: int) -> tuple[Regression, Regression | None]:
    """Split off the rows held out for early stopping; return all rows and None where nothing can stop the run."""
    if stopping_rule(training) is None:
        return train, None
    rows = np.random.default_rng(seed).permutation(len(train.X))
    count = max(1, round(training.holdout_fraction * len(rows)))
    held, kept = rows[:count], np.sort(rows[count:])
    return Regression(train.X[kept], train.Y[kept]), Regression(train.X[held], train.Y[held])
