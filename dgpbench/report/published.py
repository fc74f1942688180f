"""The papers' numbers, as printed, with the standard errors that follow from what is printed beside them."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.runs.summary import decimals

if TYPE_CHECKING:
    import pandas as pd

# item -> a file with the columns dataset, split and one for each metric, and the method whose numbers they are
BY_SPLIT = {"gal2016_classic": ("mc_dropout_classic.csv", "mc_dropout")}


@dataclass(frozen=True)
class Published:
    """One printed number; ``value_text`` and ``spread_text`` are its digits as the paper has them."""

    paper: str
    table: str
    task: str
    metric: str
    dataset: str
    method: str
    num_layers: int
    value_text: str
    spread_text: str
    spread_kind: str
    repetitions: int

    @property
    def value(self) -> float:
        """The printed number."""
        return float(self.value_text)

    @property
    def stderr(self) -> float | None:
        """Standard error of the printed mean, None where the paper gives no spread.

        A standard error is taken as it is, a standard deviation over repetitions as s / sqrt(repetitions), a variance
        as sqrt(v / repetitions). What is printed as 0.00 is no certainty: it counts as half a unit of the last digit.
        """
        if self.spread_kind == "none":
            return None
        spread = float(self.spread_text)
        if spread == 0:
            return half_unit(self.value_text, self.spread_text)
        if self.spread_kind == "stderr":
            return spread
        variance = spread if self.spread_kind == "variance" else spread**2
        return math.sqrt(variance / self.repetitions)

    @property
    def text(self) -> str:
        """The cell as printed: -2.43 (0.05); a spread that is no standard error is labelled: -3.34 (variance 0.05)."""
        kind = f"{self.spread_kind} " if self.spread_kind in ("variance", "deviation") else ""
        return f"{self.value_text} ({kind}{self.spread_text})" if self.spread_text else self.value_text


def half_unit(*texts: str) -> float:
    """Half a unit of the last digit of numbers as printed, of the finest one: 0.005 for -2.4 beside 0.00."""
    return 0.5 * 10.0 ** -max(len(text.partition(".")[2]) for text in texts)


def folder() -> Path:
    """The packaged data/published of an installed wheel, else the repository's."""
    package = Path(__file__).parent.parent
    packaged = package / "data" / "published"
    return packaged if packaged.is_dir() else package.parent / "data" / "published"


@cache
def read_published() -> tuple[Published, ...]:
    """Every published number, in the order of the files; of what is known split by split, the means."""
    return (
        *read_table("published.csv"),
        *read_table("baselines.csv"),
        *(one for item in BY_SPLIT for one in _means(item)),
    )


def read_table(name: str) -> tuple[Published, ...]:
    """The numbers of one file."""
    with open(folder() / name, newline="", encoding="utf-8") as file:
        return tuple(_entry(row) for row in csv.DictReader(file))


def _entry(row: dict[str, str]) -> Published:
    same: dict[str, Any] = {
        key: row[key] for key in ("paper", "table", "task", "metric", "dataset", "method", "spread_kind")
    }
    return Published(
        **same,
        num_layers=int(row["num_layers"]),
        repetitions=int(row["repetitions"]),
        value_text=row["value"],
        spread_text=row["spread"],
    )


def by_split(item: str) -> "pd.DataFrame | None":
    """Columns metric, dataset, method, num_layers, split, published; None where an item has no numbers of splits."""
    import pandas as pd

    if item not in BY_SPLIT:
        return None
    name, method = BY_SPLIT[item]
    wide = pd.read_csv(folder() / name)
    long = wide.melt(["dataset", "split"], var_name="metric", value_name="published")
    return long.assign(method=method, num_layers=1)


def _means(item: str) -> Iterator[Published]:
    paper, table = item.split("_")
    found = by_split(item)
    assert found is not None
    for (metric, dataset, method), rows in found.groupby(["metric", "dataset", "method"], sort=False):
        values = rows["published"]
        digits = decimals(values.sem(), 4)
        texts = (f"{values.mean():.{digits}f}", f"{values.sem():.{digits}f}", "stderr")
        yield Published(paper, table, "classic", metric, dataset, method, 1, *texts, len(values))


def of_item(item: str) -> dict[tuple[str, str, str, int], Published]:
    """The numbers of one item, such as ``lindinger2020_table1``, by (metric, data set, method, layers)."""
    found = [entry for entry in read_published() if item_name(entry) == item]
    return {(entry.metric, entry.dataset, entry.method, entry.num_layers): entry for entry in found}


def beside(cells: "pd.DataFrame", item: str) -> "pd.DataFrame":
    """Cells with ``published``, ``published_stderr`` and ``published_text``, empty where the paper has no number."""
    import pandas as pd

    numbers = of_item(item)
    keys = zip(cells["metric"], cells["dataset"], cells["method"], cells["num_layers"], strict=True)
    found = [numbers.get(key) for key in keys]
    return cells.assign(
        published=pd.Series([None if one is None else one.value for one in found], cells.index, dtype=float),
        published_stderr=pd.Series([None if one is None else one.stderr for one in found], cells.index, dtype=float),
        published_text=["" if one is None else one.text for one in found],
    )


def spread_sentence(item: str) -> str:
    """What the published spreads of an item are, and the standard error that follows."""
    kinds = {entry.spread_kind for entry in of_item(item).values()}
    words = "standard errors as printed"
    if "variance" in kinds:
        words = "variances v over n repetitions, so the standard error is sqrt(v / n)"
    elif "deviation" in kinds:
        words = "standard deviations s over n splits, so the standard error is s / sqrt(n)"
    return f"Published spreads: {words}; one printed as zero counts as half a unit of the last digit."


def item_name(entry: Published) -> str:
    """The name of the item that a number belongs to: paper and table in lower case without dots."""
    return f"{entry.paper}_{entry.table}".lower().replace(".", "")
