"""One run in words: what it will take, its score table, and the few facts that a user wants at once."""

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
    """L of a method with the settings of its record; of a plug-in its setting ``layers``, if it has one."""
    if "code" not in recorded:
        return num_layers
    layers = recorded.get("layers")
    return layers if isinstance(layers, int) else None


def of_method(name: str, num_layers: int, settings: Mapping[str, Any]) -> str:
    """'star (L = 3)'; the name alone where a method has no layers."""
    layers = layers_of(num_layers, settings)
    return name if layers is None else f"{name} (L = {layers})"


def of_start(run: Run, num_rows: int) -> str:
    """What a run is about to do: its iterations, and those of the smaller budget where it has the full one.

    :param num_rows: of training
    """
    training = run.training.for_rows(num_rows)
    bound = "at most " if may_end_early(training) else ""
    limit = "" if training.max_seconds is None else f" or {training.max_seconds:g} s"
    method = of_method(run.card.name, run.method.num_layers, run.config["method"])
    who = f"{method} on {run.dataset_name}, {num_rows:,} training rows"
    budget = f"budget={run.budget}{_quicker(run, training.max_iterations)}"
    if isinstance(training, OwnSettings):
        return f"{who}, {budget}"
    return f"{who}: {bound}{training.max_iterations:,} iterations{limit}, {budget}"


def _quicker(run: Run, iterations: int | None) -> str:
    """'; budget=laptop takes 2,000', where that would be so."""
    given = {"training.max_iterations", "training.epochs"} & set(run.changed)
    if run.budget != FULL or given or iterations is None or isinstance(run.training, LbfgsSettings):
        return ""
    return f"; budget={QUICKER} takes {round(groups.describe('budget', QUICKER)['schedule'] * iterations):,}"


def of_run(record: Mapping[str, Any], directory: Path | str) -> str:
    """The score table of a finished run, or the sentence that says how it ended."""
    if record["status"] != "done":
        return f"{directory} {record['status']}: {record['reason']}"
    lines = [
        _title(record),
        *column_lines(record["data"]),
        *score_lines(record["scores"]),
        *_lacking(record["scores"]),
        *_calibration(record),
        _facts(record),
    ]
    return "\n".join([*lines, f"record: {directory}"])


def of_model(about: Mapping[str, Any]) -> str:
    """What a saved model was fitted to, and what its columns became.

    :param about: as ``models.model.Model.about``
    """
    choices, data = about["choices"], about["data"]
    method = of_method(choices["method"], choices["num_layers"], about["config"]["method"])
    title = (
        f"{method} fitted to all {data['n']:,} rows of {data['name']}, {choices['protocol']}-{choices['budget']}: "
        f"{about['iterations']:,} iterations, training {about['seconds']['training']:.1f} s"
    )
    return "\n".join([title, *column_lines(data)])


def held_out_lines(num_rows: int, num_train: int, scores: Mapping[str, float]) -> list[str]:
    """The scores of rows that a first fit held out."""
    title = f"{num_rows:,} rows held out at random, predicted by a fit to the other {num_train:,}:"
    return [title, *score_lines(scores)]


def column_lines(data: Mapping[str, Any]) -> list[str]:
    """What the columns of a user's own table became, and what was left out."""
    from dgpbench.data.encoding import describe_columns

    lines = describe_columns(data["columns"]) if "columns" in data else []
    if "target" in data:
        lines.append(f"  {data['target']['column']}, the target: trained on its {data['target']['name']} transform")
    if data.get("left_out"):
        one = data["left_out"] == 1
        lines.append(f"  {data['left_out']:,} {'row' if one else 'rows'} without a value left out")
    if lines and data["dropped"]:
        lines.append(f"  left out, being constant on the training rows: {', '.join(data['dropped'])}")
    return lines + repeated_lines(data.get("n_repeated", 0), data.get("n_test", 0))


def repeated_lines(num_repeated: int, num_test: int) -> list[str]:
    """A warning that test rows are also training rows, if there are any."""
    if not num_repeated:
        return []
    are = "is" if num_repeated == 1 else "are"
    return [
        f"  {num_repeated:,} of {num_test:,} test rows {are} also among the training rows, equal in features and "
        "target: scores of new rows may be worse"
    ]


def _title(record: Mapping[str, Any]) -> str:
    who, data = record["identity"], record["data"]
    method = of_method(who["method"], who["num_layers"], record["config"]["method"])
    return (
        f"{method} on {who['dataset']}, {who['task']} split {who['split']}: "
        f"{data['n_train']:,} training rows, {data['n_test']:,} test rows, {who['protocol']}-{who['budget']}"
    )


def score_lines(scores: Mapping[str, float]) -> list[str]:
    """Each score that is a metric, with its unit and the better direction, a line each, in the order of the metrics."""
    from dgpbench.predictive.scores import METRICS

    lines = []
    for name in (each for each in METRICS if each in scores):  # a record has them by the alphabet
        metric, value = METRICS[name], scores[name]
        better = f"nearer to {metric.target:g}" if metric.target is not None else f"{metric.direction} is better"
        lines.append(f"  {name:<18}{value:>12.{decimals(value, 4)}f}  {metric.unit}, {better}")
    return lines


def _lacking(scores: Mapping[str, float]) -> list[str]:
    """Which scores there are not, of a method that gives no density."""
    from dgpbench.predictive.scores import METRICS

    lacking = [name for name in METRICS if name not in scores]
    return [f"  not available from such predictions: {', '.join(lacking)}"] if scores and lacking else []


def _calibration(record: Mapping[str, Any]) -> list[str]:
    if "coverage_95" not in record["scores"]:
        return []
    return [f"  {describe_coverage(record['scores']['coverage_95'], record['data']['n_test'])}"]


def decimals(value: float, least: int) -> int:
    """As many decimals as show three significant digits, and at least some: an RMSE of 0.000114 needs six."""
    if not math.isfinite(value) or value == 0:
        return least
    return max(least, 2 - math.floor(math.log10(abs(value))))


def _facts(record: Mapping[str, Any]) -> str:
    seconds = {name: value for name, value in record["seconds"].items() if value is not None}
    if len(seconds) > 1:  # the digits shown sum to the total
        named = sum(round(value, 1) for name, value in seconds.items() if name != "total")
        seconds[REST] = max(0.0, round(seconds["total"], 1) - named)
    order = sorted(seconds, key=lambda name: PARTS.index(name) if name in PARTS else 0)
    timing = ", ".join(f"{name} {seconds[name]:.1f} s" for name in order)
    counted = f"{record['iterations']:,} iterations; " if record["iterations"] else ""
    return f"  {counted}{timing}"
