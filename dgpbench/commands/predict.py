"""``dgpbench predict``: predict mean, standard deviation and quantiles of new rows, part by part."""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from dgpbench.commands.console import add_overrides
from dgpbench.config.overrides import parse
from dgpbench.config.settings import declared, did_you_mean
from dgpbench.data.cells import TableSettings
from dgpbench.data.encoding import describe_unknown_categories
from dgpbench.data.table_files import parts
from dgpbench.data.text_files import OPENERS
from dgpbench.errors import UserError
from dgpbench.methods.interface import OUTSIDE
from dgpbench.saved_model import ROWS_AT_ONCE, Model, load, prediction_columns
from dgpbench.system import tf_session
from dgpbench.system.files import ANOTHER_OUTPUT, replacing

if TYPE_CHECKING:
    import pandas as pd

READ_BY = ("separator", "decimal", "thousands", "encoding", "header", "sheet", "na_values")
DIGITS, FEWEST = 10, 4  # significant digits of a prediction, and of its standard deviation within them


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", help="directory of a fitted model or a finished run")
    parser.add_argument("table", metavar="FILE", help="new rows, with the columns of the training table")
    output = "a csv file, also as .gz, .bz2 or .xz (default: standard output)"
    parser.add_argument("--output", metavar="FILE", help=output)
    quantiles = "probabilities (default: 0.05,0.5,0.95)"
    parser.add_argument("--quantiles", type=_quantiles, default="0.05,0.5,0.95", metavar="P,...", help=quantiles)
    copied = "a column of FILE to copy to the predictions (repeatable)"
    parser.add_argument("--id", action="append", default=[], metavar="COLUMN", help=copied)
    add_overrides(parser, "file format, if it differs from the training file's, such as dataset.encoding=utf-16")


def predict(options: Namespace) -> int:
    """Read, predict and write some thousands of rows at a time, so that a million rows fit in memory."""
    model = load(options.model)
    if not model.description.family.startswith(OUTSIDE):  # a plug-in may use tf.keras
        tf_session.start(model.description.num_threads, model.description.settings.precision, bare=True)
    path, unknown = Path(options.table), Counter[tuple[str, str]]()
    reading = _reading(model, options.overrides)
    parts = _predicted(model, path, reading, options.quantiles, list(dict.fromkeys(options.id)), unknown)
    if options.output is None:
        for number, frame in enumerate(parts):
            frame.to_csv(sys.stdout, index=False, header=number == 0)
    else:
        _write(parts, Path(options.output), path)
    for sentence in describe_unknown_categories(unknown, str(path)):
        print(f"dgpbench: {sentence}", file=sys.stderr)
    return 0


def _quantiles(text: str) -> list[float]:
    """Return '0.05,0.5,0.95' as numbers."""
    try:
        values = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        values = [-1.0]
    if not all(0 < value < 1 for value in values):
        raise UserError(f"--quantiles={text} cannot be used; use probabilities between 0 and 1, such as 0.05,0.5,0.95")
    return values


def _write(parts: Iterator["pd.DataFrame"], output: Path, path: Path) -> None:
    """Write all parts to one file, which appears when it is complete."""
    if output.exists() and output.samefile(path):
        raise UserError(f"--output {output} is the table that is read; choose another file")
    packed = output.suffix.lower() in OPENERS
    if (output.with_suffix("") if packed else output).suffix.lower() not in (".csv", ".txt", ""):
        raise UserError(f"--output {output}: predictions are written as csv; end the name in .csv or .csv.gz")
    opener: Callable[..., IO[str]] = OPENERS[output.suffix.lower()] if packed else open
    rows = 0
    with replacing(output, ANOTHER_OUTPUT) as partial, opener(partial, "wt", encoding="utf-8", newline="") as file:
        for frame in parts:
            frame.to_csv(file, index=False, header=rows == 0)
            rows += len(frame)
    print(f"{rows:,} rows predicted: {output}")


def _reading(model: Model, overrides: list[str]) -> TableSettings:
    """Return how the file is read: like the training file, except for the overrides."""
    known, given = declared(TableSettings), {}
    for override in parse(overrides):
        name = override.get_key_element().removeprefix("dataset.")
        if name not in READ_BY:
            takes = ", ".join(f"dataset.{each}" for each in READ_BY)
            raise UserError(
                f"predict takes settings of how the file is read, {takes}, and not {override.input_line}; columns that "
                "are not in the training table are ignored"
            )
        given[name] = known[name].read(f"dataset.{name}", override.value())
    return replace(model.description.reading, **given)


def _written(columns: dict[str, np.ndarray]) -> "pd.DataFrame":
    """Return columns as texts; a row far from 0, beside its deviation, has as many digits as tell its numbers apart."""
    import pandas as pd

    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.fmax(np.abs(columns["mean"]) / columns["standard_deviation"], 1)
    digits = np.clip(FEWEST + np.ceil(np.log10(ratios)), DIGITS, 17).astype(int).tolist()
    return pd.DataFrame(
        {name: [f"{value:.{d}g}" for value, d in zip(each, digits, strict=True)] for name, each in columns.items()}
    )


def _predicted(
    model: Model,
    path: Path,
    reading: TableSettings,
    quantiles: list[float],
    copied: list[str],
    unknown: Counter[tuple[str, str]],
) -> Iterator["pd.DataFrame"]:
    """Yield the columns of predictions of successive rows of a file.

    :param copied: columns of the file to put before the predictions
    :param unknown: counts the categories that were not in the training table
    :raises UserError: if the file has no rows, or lacks columns of the training table
    """
    import pandas as pd

    empty = True
    for frame in parts(path, reading, [*model.description.encoder.names, *copied], ROWS_AT_ONCE):
        empty, X = False, model.inputs(frame, str(path), reading, unknown)
        for name in copied:
            if name not in frame.columns:
                near = did_you_mean(name, frame.columns)
                columns = ", ".join(frame.columns[:30])
                raise UserError(f"--id {name} is not a column of {path}; its columns are {columns}{near}")
        ids = frame[copied].astype(object)  # copied as they are, without a number format
        predictions = pd.concat([_written(prediction_columns(each, quantiles)) for each in model.in_chunks(X)])
        if twice := sorted({*ids.columns} & {*predictions.columns}):
            raise UserError(f"--id {twice[0]}: the predictions have a column of that name; rename it in {path}")
        yield pd.concat([ids.reset_index(drop=True), predictions.reset_index(drop=True)], axis=1)
    if empty:
        raise UserError(f"{path} has no rows below its header: nothing to predict")
