"""The papers' numbers, as printed, with the standard errors that follow from the printed spreads."""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from dgpbench.config import groups
from dgpbench.runs.summary import decimals

# item -> a file with the columns dataset, num_layers (if not 1), split and one for each metric; the method and the task
BY_SPLIT = {
    "gal2016_classic": ("mc_dropout_classic.csv", "mc_dropout", "classic"),
    "ortega2023_dsvi": ("dsvi_shuffled.csv", "mf", "shuffled"),
}


@dataclass(frozen=True)
class Published:
    """One printed number, with the printed digits in ``value_text`` and ``spread_text``."""

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
        """Standard error of the printed mean, None if the paper gives no spread.

        A standard deviation over repetitions becomes s / sqrt(repetitions), a variance sqrt(v / repetitions). A printed
        0.00 is rounded: it counts as half a unit of the last digit.
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
        """The cell as printed: -2.43 (0.05); other spreads than standard errors are labelled: -3.34 (variance 0.05)."""
        kind = f"{self.spread_kind} " if self.spread_kind in ("variance", "deviation") else ""
        return f"{self.value_text} ({kind}{self.spread_text})" if self.spread_text else self.value_text


def half_unit(*texts: str) -> float:
    """Return half a unit of the last printed digit of the finest number: 0.005 for -2.4 beside 0.00."""
    return 0.5 * 10.0 ** -max(len(text.partition(".")[2]) for text in texts)


def folder() -> Path:
    """Return data/published, beside conf/."""
    return groups.folder().parent / "data" / "published"


@cache
def read_published() -> tuple[Published, ...]:
    """Return every published number, in the order of the files; means of the numbers known for each split."""
    means = []
    for item in BY_SPLIT:
        paper, table = item.split("_")
        _, method, task = BY_SPLIT[item]
        for (metric, dataset, layers), rows in by_split(item).groupby(["metric", "dataset", "num_layers"], sort=False):
            mean, error = rows["published"].mean(), rows["published"].sem()
            digits = decimals(error, 4)
            printed = (f"{mean:.{digits}f}", f"{error:.{digits}f}", "stderr", len(rows))
            means.append(Published(paper, table, task, metric, dataset, method, layers, *printed))
    return (*read_table("published.csv"), *read_table("baselines.csv"), *means)


def read_table(name: str) -> tuple[Published, ...]:
    """Return the numbers of one file, which has the columns in the order of ``Published``."""
    numbers = pd.read_csv(folder() / name, dtype=str, keep_default_na=False)
    numbers = numbers.astype({"num_layers": int, "repetitions": int})
    return tuple(Published(*row) for row in numbers.itertuples(index=False, name=None))


def by_split(item: str) -> pd.DataFrame:
    """Return an item of ``BY_SPLIT``, in columns metric, dataset, method, num_layers, split and published."""
    name, method, _ = BY_SPLIT[item]
    wide = pd.read_csv(folder() / name)
    if "num_layers" not in wide:
        wide["num_layers"] = 1
    long = wide.melt(["dataset", "num_layers", "split"], var_name="metric", value_name="published")
    return long.assign(method=method)


def of_item(item: str) -> dict[tuple[str, str, str, int], Published]:
    """Return the numbers of one item, such as ``lindinger2020_table1``, by (metric, data set, method, layers)."""
    entries = [entry for entry in read_published() if item_name(entry) == item]
    return {(entry.metric, entry.dataset, entry.method, entry.num_layers): entry for entry in entries}


def beside(cells: pd.DataFrame, item: str) -> pd.DataFrame:
    """Add ``published``, ``published_stderr`` and ``published_text`` to cells, empty if the paper has no number."""
    numbers = of_item(item)
    keys = zip(cells["metric"], cells["dataset"], cells["method"], cells["num_layers"], strict=True)
    entries = [numbers.get(key) for key in keys]
    return cells.assign(
        published=pd.Series([entry and entry.value for entry in entries], cells.index, dtype=float),
        published_stderr=pd.Series([entry and entry.stderr for entry in entries], cells.index, dtype=float),
        published_text=[entry.text if entry else "" for entry in entries],
    )


def spread_sentence(item: str) -> str:
    """Describe the published spreads of an item, and the standard error that follows."""
    kinds = {entry.spread_kind for entry in of_item(item).values()}
    if kinds == {"none"}:
        return "The paper prints no spreads."
    words = "standard errors as printed"
    if "variance" in kinds:
        words = "variances v over n repetitions, so the standard error is sqrt(v / n)"
    elif "deviation" in kinds:
        words = "standard deviations s over n splits, so the standard error is s / sqrt(n)"
    return f"Published spreads: {words}; one printed as zero counts as half a unit of the last digit."


def item_name(entry: Published) -> str:
    """Return the name of a number's item: paper and table in lower case without dots."""
    return f"{entry.paper}_{entry.table}".lower().replace(".", "")
