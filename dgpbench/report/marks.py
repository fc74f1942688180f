"""Which cells of a table are bold or in italics: the papers' own rules, each with its sentence for under the table.

A rule takes the complete cells of one block and, where it has one, the same cells of the other scenario; it returns the
mark of each cell by (data set, method, layers). An incomplete cell has no mark, and its data set is not ranked.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

Key = tuple[str, str, int]
Marks = dict[Key, str]
_ROUNDING = 1e-9  # 0.50 - 0.44 is a little more than 0.06 to a computer


@dataclass(frozen=True)
class Rule:
    """A rule and its sentence; ``other_task`` names a second task that it looks at."""

    function: Callable[..., Marks]
    sentence: str
    other_task: str | None = None


RULES: dict[str, Rule] = {}


def rule(sentence: str, other_task: str | None = None) -> Callable:
    """Register a marking rule under its own name."""

    def register(function: Callable[..., Marks]) -> Callable[..., Marks]:
        RULES[function.__name__] = Rule(function, sentence, other_task)
        return function

    return register


def key_of(row) -> Key:
    """The place of a cell in its block."""
    return (row.dataset, row.method, int(row.num_layers))


def complete(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of which every split is done."""
    return cells[cells["count"] == cells["wanted"]]


def marks(name: str, cells: pd.DataFrame, loss: Callable[[float], float], other: pd.DataFrame | None = None) -> Marks:
    """The marks that a rule gives to the cells of one block.

    A single split has no standard error, and whatever is compared with NaN is neither as good nor better.

    :param loss: turns a mean so that less is better
    :param other: the same cells of the rule's other task
    """
    if not name:
        return {}
    scored = cells.assign(loss=[loss(value) for value in cells["mean"]])
    if RULES[name].other_task is None:
        return RULES[name].function(scored)
    if other is None or other.empty:
        return {}
    compared = other.assign(loss=[loss(value) for value in other["mean"]])
    return RULES[name].function(scored, compared)


@rule("Bold: better than or as good as sgp, that is, a mean at least as good or standard errors that overlap.")
def as_good_as_sgp(cells: pd.DataFrame) -> Marks:
    """Lindinger et al. (2020), Table 1."""
    done = complete(cells)
    found: Marks = {}
    for _, row in done.groupby("dataset", sort=False):
        reference = row[row["method"] == "sgp"]
        if len(reference) == 1:
            bound = reference["loss"].iloc[0] + reference["stderr"].iloc[0]
            good = row[(row["method"] != "sgp") & (row["loss"] - row["stderr"] <= bound)]
            found |= {key_of(cell): "bold" for cell in good.itertuples()}
    return found


@rule(
    "Bold: better than or as good as sgp in interpolation and in extrapolation, that is, a mean at least as good or "
    "standard errors that overlap, in both; underlined too: significantly better, without overlap, in at least one.",
    other_task="interpolation",
)
def as_good_as_sgp_in_both(cells: pd.DataFrame, other: pd.DataFrame) -> Marks:
    """Lindinger et al. (2020), Table S3."""
    in_both = set(as_good_as_sgp(cells)) & set(as_good_as_sgp(other))
    clearly = _clearly_better_than_sgp(cells) | _clearly_better_than_sgp(other)
    return {key: "bold underlined" if key in clearly else "bold" for key in in_both}


def _clearly_better_than_sgp(cells: pd.DataFrame) -> set[Key]:
    """The complete cells whose standard error lies wholly on the better side of sgp's."""
    done = complete(cells)
    sgp = done[done["method"] == "sgp"].set_index("dataset")
    bound = done["dataset"].map(sgp["loss"] - sgp["stderr"]).astype(float)  # of no rows it would be texts
    return {key_of(cell) for cell in done[done["loss"] + done["stderr"] < bound].itertuples()}


@rule("Bold: the best mean on each data set, where every method has one.")
def best_mean(cells: pd.DataFrame) -> Marks:
    """Jain et al. (2021), Table 1."""
    found: Marks = {}
    for _, row in cells.groupby("dataset", sort=False):
        if len(complete(row)) == len(row) > 1:
            best = row[row["loss"] == row["loss"].min()]
            found |= {key_of(cell): "bold" for cell in best.itertuples()}
    return found


@rule(
    "Bold: significantly better, that is, a standard error that overlaps with no other, where every method has a mean."
)
def clearly_best(cells: pd.DataFrame) -> Marks:
    """Lindinger et al. (2020), Table S5."""
    found: Marks = {}
    for _, row in cells.groupby("dataset", sort=False):
        ordered = row.sort_values("loss")
        if len(complete(row)) == len(row) > 1:
            first, rest = ordered.iloc[0], ordered.iloc[1:]
            if first["loss"] + first["stderr"] < (rest["loss"] - rest["stderr"]).min():
                found[key_of(first)] = "bold"
    return found


@rule(
    "Bold: the first method outperforms the second, a share above 0.50 + standard error; italics: the other way around."
)
def beyond_even(cells: pd.DataFrame) -> Marks:
    """Lindinger et al. (2020), Table 2."""
    return _beyond(cells, 0.5)


@rule(
    "Bold: the first method outperforms the second, a difference above zero by its standard error; "
    "italics: the other way around."
)
def beyond_zero(cells: pd.DataFrame) -> Marks:
    """Lindinger et al. (2020), Table S4, the columns marked (dif)."""
    return _beyond(cells, 0.0)


def _beyond(cells: pd.DataFrame, even: float) -> Marks:
    sides = {key_of(cell): side(cell.mean, cell.stderr, even) for cell in complete(cells).itertuples(index=False)}
    return {key: {1: "bold", -1: "italic"}[who] for key, who in sides.items() if who}


def side(mean: float, stderr: float, even: float) -> int:
    """1 where a mean is above ``even`` by more than its standard error, -1 where it is below, else 0."""
    return int(mean - even > stderr + _ROUNDING) - int(even - mean > stderr + _ROUNDING)
