"""Which file of compact records a run belongs in.

A run stands in one file, even where several items show it: nothing is counted twice, two copies cannot drift apart,
and the files stay small. It is that of the largest item that shows the run (most runs, then the first name), so that a
table which is a part of another one has no lines of its own; items of papers come before those of this project. Once a
run is in a file, it stays. Runs of no item go to ``runs-<budget>.jsonl``. Readers read all files of the folder.
"""

from collections.abc import Iterator
from math import prod

import pandas as pd

from dgpbench.config import groups
from dgpbench.experiments.items import Item, load
from dgpbench.report import cells
from dgpbench.runs.lines import Pair


def homes_of(frame: pd.DataFrame) -> tuple[dict[str, str], dict[Pair, str]]:
    """The file of each run, and of each direct comparison that an item makes."""
    homes: dict[str, str] = {}
    pairs: dict[Pair, str] = {}
    for budget in sorted(set(frame["budget"])):
        items = [load(name, [f"budget={budget}"]) for name in groups.names("experiment")]
        for item in sorted(items, key=lambda item: (item.open is not None, -_num_runs(item), item.name)):
            home, chosen = f"{item.name}-{budget}.jsonl", cells.select(item, frame)
            homes = dict.fromkeys(chosen["key"], home) | homes
            pairs = dict.fromkeys(_compared(item, chosen), home) | pairs
    return {row.key: f"runs-{row.budget}.jsonl" for row in frame.itertuples()} | homes, pairs


def _num_runs(item: Item) -> int:
    return sum(prod(map(len, sweep.values.values())) for sweep in item.sweeps)


def _compared(item: Item, chosen: pd.DataFrame) -> Iterator[Pair]:
    """The names of both runs of each pair and split that an item compares directly."""
    for block in item.blocks:
        for _, _, both in cells.pairs_of(block, chosen):
            yield from zip(both["key_a"], both["key_b"], strict=True)
