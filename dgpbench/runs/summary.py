"""One run in words: the score table and the few facts that a user wants at once."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def of_run(record: Mapping[str, Any], directory: Path) -> str:
    """The score table of a finished run, or the sentence that says how it ended."""
    if record["status"] != "done":
        return f"{directory} {record['status']}: {record['reason']}"
    return "\n".join([_title(record), *_score_lines(record["scores"]), _facts(record), f"record: {directory}"])


def _title(record: Mapping[str, Any]) -> str:
    who, data = record["identity"], record["data"]
    return (
        f"{who['method']} (L = {who['num_layers']}) on {who['dataset']}, {who['task']} split {who['split']}: "
        f"{data['n_train']} training rows, {data['n_test']} test rows, {who['protocol']}-{who['budget']}"
    )


def _score_lines(scores: dict[str, float]) -> list[str]:
    from dgpbench.predictions.metrics import METRICS

    lines = []
    for name, value in scores.items():
        metric = METRICS[name]
        better = f"nearer to {metric.target:g}" if metric.target is not None else f"{metric.direction} is better"
        lines.append(f"  {name:<18}{value:>12.{decimals(value, 4)}f}  {metric.unit}, {better}")
    return lines


def decimals(value: float, least: int) -> int:
    """As many decimals as show three significant digits, and at least some: an RMSE of 0.000114 needs six."""
    if not math.isfinite(value) or value == 0:
        return least
    return max(least, 2 - math.floor(math.log10(abs(value))))


def _facts(record: Mapping[str, Any]) -> str:
    seconds = {name: value for name, value in record["seconds"].items() if value is not None}
    timing = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    return f"  {record['iterations']} iterations; {timing}"
