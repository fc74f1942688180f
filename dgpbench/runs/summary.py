"""Text about a run: its size before it starts, its scores, and what became of the columns of its table."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dgpbench.config import groups
from dgpbench.predictive.scores import describe_coverage
from dgpbench.runs.resolve import Run
from dgpbench.training.early_stopping import may_end_early
from dgpbench.training.settings import LbfgsSettings, OwnSettings

QUICKER, FULL = "laptop", "paper"  # budgets
REST = "the rest (start-up, scoring)"
PARTS = ("tracing", "training", "prediction", REST, "total")  # of a run's seconds, in their order


def layers_of(num_layers: int, recorded: Mapping[str, Any]) -> int | None:
    """Return L of a method with the settings of its record; for a plug-in its setting ``layers``, if it has one."""
    if "code" not in recorded:
        return num_layers
    layers = recorded.get("layers")
    return layers if isinstance(layers, int) else None


def of_method(name: str, num_layers: int, settings: Mapping[str, Any]) -> str:
    """Return 'star (L = 3)', or the name alone if the method has no layers."""
    layers = layers_of(num_layers, settings)
    return name if layers is None else f"{name} (L = {layers})"


def of_start(run: Run, num_rows: int) -> str:
    """Describe a run on so many training rows: its iterations, and those of the smaller budget unless it has that."""
    training = run.training.for_rows(num_rows)
    method = of_method(run.card.name, run.method.num_layers, run.config["method"])
    text, budget = f"{method} on {run.dataset_name}, {num_rows:,} training rows", f"budget={run.budget}"
    if isinstance(training, OwnSettings):
        return f"{text}, {budget}"
    bound = "at most " if may_end_early(training) else ""
    limit = "" if training.max_seconds is None else f" or {training.max_seconds:g} s"
    chosen = {"training.max_iterations", "training.epochs"} & set(run.changed)
    iterations = training.max_iterations
    if run.budget == FULL and not chosen and iterations is not None and not isinstance(run.training, LbfgsSettings):
        fraction = groups.describe("budget", QUICKER)["schedule"]
        budget += f"; budget={QUICKER} takes {round(fraction * iterations):,}"
    return f"{text}: {bound}{iterations:,} iterations{limit}, {budget}"


def of_run(record: Mapping[str, Any], directory: Path | str) -> str:
    """Return the score table of a finished run, or a sentence about how it ended."""
    if record["status"] != "done":
        return f"{directory} {record['status']}: {record['reason']}"
    from dgpbench.predictive.scores import METRICS

    axes, data, scores = record["identity"], record["data"], record["scores"]
    method = of_method(axes["method"], axes["num_layers"], record["config"]["method"])
    lines = [
        f"{method} on {axes['dataset']}, {axes['task']} split {axes['split']}: {data['n_train']:,} training rows, "
        f"{data['n_test']:,} test rows, {axes['protocol']}-{axes['budget']}",
        *column_lines(data),
        *score_lines(scores),
    ]
    if missing := [name for name in METRICS if name not in scores]:
        lines.append(f"  not available for this type of prediction: {', '.join(missing)}")
    if "coverage_95" in scores:
        lines.append(f"  {describe_coverage(scores['coverage_95'], data['n_test'])}")
    seconds = dict(record["seconds"])
    if len(seconds) > 1:  # the digits shown sum to the total
        named = sum(round(value, 1) for name, value in seconds.items() if name != "total")
        seconds[REST] = max(0.0, round(seconds["total"], 1) - named)
    order = sorted(seconds, key=lambda name: PARTS.index(name) if name in PARTS else 0)
    timing = ", ".join(f"{name} {seconds[name]:.1f} s" for name in order)
    counts = {"iterations": record["iterations"], "parameters": record.get("num_parameters")}
    sizes = [f"{count:,} {what}; " for what, count in counts.items() if count]
    return "\n".join([*lines, f"  {''.join(sizes)}{timing}", f"record: {directory}"])


def of_model(about: Mapping[str, Any]) -> str:
    """Describe the fit of a saved model from its ``about``, and what became of its columns."""
    choices, data = about["choices"], about["data"]
    method = of_method(choices["method"], choices["num_layers"], about["config"]["method"])
    title = (
        f"{method} fitted to all {data['n']:,} rows of {data['name']}, {choices['protocol']}-{choices['budget']}: "
        f"{about['iterations']:,} iterations, training {about['seconds']['training']:.1f} s"
    )
    return "\n".join([title, *column_lines(data)])


def held_out_lines(num_rows: int, num_train: int, scores: Mapping[str, float]) -> list[str]:
    """Return the scores of rows that a first fit held out."""
    title = f"{num_rows:,} rows held out at random, predicted by a fit to the other {num_train:,}:"
    return [title, *score_lines(scores)]


def column_lines(data: Mapping[str, Any]) -> list[str]:
    """Describe the encoding of the columns of a user's own table, and what was left out."""
    from dgpbench.data.encoding import describe_columns

    lines = describe_columns(data["columns"]) if "columns" in data else []
    if "target" in data:
        lines.append(f"  {data['target']['column']}, the target: trained on its {data['target']['name']} transform")
    if data.get("left_out"):
        lines.append(f"  {data['left_out']:,} row{'s' * (data['left_out'] != 1)} without a value left out")
    if lines and data["dropped"]:
        lines.append(f"  left out, being constant on the training rows: {', '.join(data['dropped'])}")
    return lines + repeated_lines(data.get("n_repeated", 0), data.get("n_test", 0))


def repeated_lines(num_repeated: int, num_test: int) -> list[str]:
    """Return a warning if test rows are also training rows."""
    if not num_repeated:
        return []
    are = "is" if num_repeated == 1 else "are"
    return [
        f"  {num_repeated:,} of {num_test:,} test rows {are} also among the training rows, equal in features and "
        "target: scores of new rows may be worse"
    ]


def score_lines(scores: Mapping[str, float]) -> list[str]:
    """Return a line for each score that is a metric, with its unit and the better direction, in the metrics' order."""
    from dgpbench.predictive.scores import METRICS

    lines = []
    for name in (each for each in METRICS if each in scores):  # a record has them in alphabetical order
        metric, value = METRICS[name], scores[name]
        better = f"nearer to {metric.target:g}" if metric.target is not None else f"{metric.direction} is better"
        lines.append(f"  {name:<18}{value:>12.{decimals(value, 4)}f}  {metric.unit}, {better}")
    return lines


def decimals(value: float, least: int) -> int:
    """Return the decimals that show three significant digits, at least ``least``: an RMSE of 0.000114 needs six."""
    if not math.isfinite(value) or value == 0:
        return least
    return max(least, 2 - math.floor(math.log10(abs(value))))
