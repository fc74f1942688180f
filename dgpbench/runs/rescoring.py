"""Scores computed again from the rows that a run has kept: does a record still say what its points say?

Every score that ``points.parquet`` has the columns for is recomputed by the function that made it. Tables written
before CRPS and quantiles were kept allow fewer of them; the others are named, never guessed.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgpbench.predictive.metrics import METRICS
from dgpbench.predictive.points import Rows, rows_from
from dgpbench.runs import store

RELATIVE, ABSOLUTE = 1e-9, 1e-12  # sums in another order, by another processor or NumPy, differ by less


@dataclass(frozen=True)
class Difference:
    """A score that its rows do not give."""

    metric: str
    recorded: float
    recomputed: float

    @property
    def text(self) -> str:
        """'tll is -2.4 in the record and -2.5 from its points: 0.1 nats apart'."""
        unit = METRICS[self.metric].unit
        apart = f"{abs(self.recomputed - self.recorded):.3g} {'' if unit == 'share' else unit}".strip()
        both = f"{self.recorded:.10g} in the record and {self.recomputed:.10g} from its points"
        return f"{self.metric} is {both}: {apart} apart"


@dataclass(frozen=True)
class Rescored:
    """What came of one finished run.

    :param unchecked: the scores that its points do not allow, or that no metric here is called
    :param unreadable: why nothing could be recomputed, if so
    """

    directory: Path
    unchecked: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    unreadable: str | None = None

    @property
    def problems(self) -> list[str]:
        """One sentence for each."""
        if self.unreadable:
            return [self.unreadable]
        return [f"{self.directory}: {difference.text}" for difference in self.differences]


def summary(found: Sequence[Rescored]) -> list[str]:
    """How many agree, and which scores could not be recomputed, in words."""
    unreadable = sum(one.unreadable is not None for one in found)
    differing = sum(bool(one.differences) for one in found)
    agreeing = len(found) - unreadable - differing
    counts = f"{agreeing:,} of {len(found):,} finished runs have the scores that their points give, {differing} do not"
    lines = [counts + (f", {unreadable} could not be rescored" if unreadable else "")]
    if unchecked := Counter(name for one in found for name in one.unchecked):
        listed = ", ".join(f"{name} of {number}" for name, number in unchecked.items())
        lines.append(f"not recomputed, since the points lack what they are made of: {listed}")
    return lines


def rescore_all(results_dir: Path) -> Iterator[Rescored]:
    """Every finished run below ``results_dir``, in order of path."""
    for path, found in store.find_records(results_dir):
        if not isinstance(found, ValueError) and found["status"] == "done":
            yield rescore(path.parent, found)


def rescore(directory: Path, record: Mapping[str, Any]) -> Rescored:
    """Recompute the scores of one finished run from its ``points.parquet``."""
    import pandas as pd

    try:
        rows = rows_from(pd.read_parquet(directory / store.POINTS))
        allowed = {name: score for name, score in record["scores"].items() if _allows(rows, name)}
        unchecked = tuple(name for name in record["scores"] if name not in allowed)
        return Rescored(directory, unchecked, tuple(_differences(rows, allowed)))
    except (OSError, ValueError, TypeError, AttributeError) as problem:  # pyarrow's errors are among these
        return Rescored(directory, unreadable=f"{directory} cannot be rescored: {str(problem).splitlines()[0]}")


def _allows(columns: Iterable[str], name: str) -> bool:
    return name in METRICS and set(METRICS[name].columns) <= set(columns)


def _differences(rows: Rows, scores: Mapping[str, float]) -> Iterator[Difference]:
    for name, recorded in scores.items():
        recomputed = METRICS[name].of(rows)
        least = 0.0 if METRICS[name].unit == "units of y" else ABSOLUTE  # y may be as small as its unit makes it
        if not math.isclose(recorded, recomputed, rel_tol=RELATIVE, abs_tol=least):
            yield Difference(name, recorded, recomputed)
