"""Early stopping by Prechelt's UP_s criterion on a smoothed validation score (METHODS Sec. 10)."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class StoppingRule:
    """When to stop: the smoothed score has fallen in ``strips`` successive strips, after a first part of the run.

    Reference: Prechelt 1998; Lindinger et al. 2020, Appendix G.

    :param start: iterations before which training never stops
    :param interval: iterations between two validation scores
    :param strip: iterations in one strip
    :param strips: s of UP_s
    :param smoothing: the score is the mean of this many last records
    """

    start: int
    interval: int = 10
    strip: int = 50
    strips: int = 5
    smoothing: int = 50

    def can_trigger(self, max_iterations: int) -> bool:
        """Whether it could ever stop a run of this length; if not, no rows need be held out for it."""
        return max_iterations > max(self.start, self.strip * self.strips)

    def stops(self, iteration: int, scores: list[float]) -> bool:
        """Whether to stop after ``scores`` (one each ``interval`` iterations, the last at ``iteration``)."""
        per_strip = max(1, self.strip // self.interval)
        if iteration <= self.start or len(scores) % per_strip or len(scores) <= per_strip * self.strips:
            return False
        ends = [len(scores) - per_strip * back for back in range(self.strips, -1, -1)]
        smoothed = [np.mean(scores[max(0, end - self.smoothing) : end]) for end in ends]
        return all(later < earlier for earlier, later in pairwise(smoothed))
