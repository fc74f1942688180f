"""Costs and failures of runs, in words."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from dgpbench.errors import printable
from dgpbench.experiments.items import column_name
from dgpbench.report.cells import KEYS
from dgpbench.runs import store
from dgpbench.system.progress import counted


def joined(texts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def splits_in_words(numbers: Iterable[int]) -> str:
    """'split 0', 'splits 0 to 9', 'splits 10 and 11'."""
    found = sorted(set(numbers))
    if len(found) > 2 and found[-1] - found[0] == len(found) - 1:
        return f"splits {found[0]} to {found[-1]}"
    return f"split{'s' * (len(found) != 1)} {joined([str(number) for number in found])}"


# Costs ----------------------------------------------------------------------------------------------------------------


def core_seconds(runs: pd.DataFrame) -> pd.Series:
    """Return the seconds of each whole run times its threads; NaN on a GPU, and 0 for a record without them."""
    seconds = [
        (record["seconds"].get("total") or 0.0) * (record["host"].get("threads") or 1) for record in runs["compact"]
    ]
    return pd.Series(seconds, runs.index, dtype=float).mask(runs["gpu"].notna())


def hours_text(hours: float) -> str:
    """Format hours with at least two significant digits."""
    return f"{hours:,.1f}" if hours >= 1 else f"{hours:.2g}"


def cost_sentence(runs: pd.DataFrame) -> str:
    """State the number of runs, their core-hours and processors, GPUs apart."""
    processors = _named(
        record["host"].get("gpu") or record["host"].get("cpu") or "an unnamed processor" for record in runs["compact"]
    )
    on_gpu = int(runs["gpu"].notna().sum())
    apart = f" without the {counted(on_gpu, 'run')} on a GPU" if on_gpu else ""
    return (
        f"Cost: {counted(len(runs), 'run')}, {hours_text(core_seconds(runs).sum() / 3600)} core-hours "
        f"(seconds of whole runs times threads{apart}); processor: {processors}."
    )


def _named(names: Iterable[str]) -> str:
    """List the names, the most frequent first, each with its number of runs if there are several."""
    counts = sorted(Counter(names).items(), key=lambda each: (-each[1], each[0]))
    counts = [(_line(name), number) for name, number in counts]
    return ", ".join(name if len(counts) == 1 else f"{name} ({counted(number, 'run')})" for name, number in counts)


# Failures -------------------------------------------------------------------------------------------------------------


def failure_text(runs: pd.DataFrame) -> str:
    """List the failures, such as 'star L3 on boston, splits 7 and 8: timeout, REASON', and the restarted fits."""
    failed = runs[runs["status"].isin(store.FAILED)]
    groups = failed.fillna({"reason": "no reason recorded"}).groupby([*KEYS, "status", "reason"], sort=False)
    lines = [
        f"- {column_name(series, num_layers)} on {dataset}, {splits_in_words(rows['split'])}: {status}, {_line(reason)}"
        for (dataset, series, num_layers, status, reason), rows in groups
    ]
    head = f"Failures: {counted(len(failed), 'run')}, excluded from the means." if lines else "Failures: none."
    head = " ".join(filter(None, [head, restarts_text(runs)]))
    return "\n".join([head, "", *lines]) if lines else head


def restarts_text(runs: pd.DataFrame) -> str:
    """'Restarted with a larger jitter: 3 runs (mf L2 on naval 2, sgp L1 on yacht 1).', or nothing."""
    again = runs[[any("retry" in note for note in record["notes"]) for record in runs["compact"]]]
    if again.empty:
        return ""
    groups = again.groupby(["series", "num_layers", "dataset"], sort=False).size().sort_values(ascending=False)
    cells = (
        f"{column_name(series, layers)} on {dataset} {number}" for (series, layers, dataset), number in groups.items()
    )
    return f"Restarted with a larger jitter: {counted(len(again), 'run')} ({', '.join(cells)})."


def _line(text: str) -> str:
    """Escape a text to one line of Markdown."""
    return re.sub(r"[\\`*\[\]|]", r"\\\g<0>", printable(" ".join(text.split()))).replace("<", "&lt;")
