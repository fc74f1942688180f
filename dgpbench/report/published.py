"""The papers' numbers, as printed, with the standard errors that follow from what is printed beside them."""

import csv
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


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

        A standard error is taken as it is, a variance over repetitions as sqrt(v / repetitions). What is printed as
        0.00 is no certainty: it counts as half a unit of the last printed digit.
        """
        if self.spread_kind == "none":
            return None
        spread = float(self.spread_text)
        if spread == 0:
            return half_unit(self.value_text, self.spread_text)
        return spread if self.spread_kind == "stderr" else math.sqrt(spread / self.repetitions)

    @property
    def text(self) -> str:
        """The cell as printed: -2.43 (0.05)."""
        return f"{self.value_text} ({self.spread_text})" if self.spread_text else self.value_text


def half_unit(*texts: str) -> float:
    """Half a unit of the last digit of numbers as printed, of the finest one: 0.005 for -2.4 beside 0.00."""
    return 0.5 * 10.0 ** -max(len(text.partition(".")[2]) for text in texts)


def published_path() -> Path:
    """The packaged data/published/published.csv of an installed wheel, else the repository's."""
    package = Path(__file__).parent.parent
    packaged = package / "data" / "published" / "published.csv"
    return packaged if packaged.is_file() else package.parent / "data" / "published" / "published.csv"


@cache
def read_published() -> tuple[Published, ...]:
    """Every published number, in the order of the file."""
    with open(published_path(), newline="", encoding="utf-8") as file:
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


def item_name(entry: Published) -> str:
    """The name of the item that a number belongs to: paper and table in lower case without dots."""
    return f"{entry.paper}_{entry.table}".lower().replace(".", "")
