"""``dgpbench predict``: mean, standard deviation and quantiles of new rows, part by part."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dgpbench.commands.output import say
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


DIGITS = "%.10g"


def predict(options: Namespace) -> int:
    """Read, predict and write some thousands of rows at a time, so that a million fit in memory."""
    quantiles = _quantiles(options.quantiles)
    model = load(options.model, lambda text: say(f"dgpbench: {text}"))
    if not model.description.family.startswith(OUTSIDE):  # a plug-in may use tf.keras
        tf_session.start(model.description.num_threads, model.description.settings.precision, bare=True)
    path, unknown = Path(options.table), Counter[tuple[str, str]]()
    reading = _reading(model, options.overrides)
    parts = _predicted(model, path, reading, quantiles, options.id, unknown)
    if options.output is None:
        for number, frame in enumerate(parts):
            frame.to_csv(sys.stdout, index=False, header=number == 0, float_format=DIGITS)
    else:
        _write(parts, Path(options.output), path)
    for sentence in describe_unknown_categories(unknown, str(path)):
        print(f"dgpbench: {sentence}", file=sys.stderr)
    return 0


def _quantiles(text: str) -> list[float]:
    """Return '0.05,0.5,0.95' as numbers.

    :raises UserError: if they are not probabilities between 0 and 1
    """
    try:
        values = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        values = [-1.0]
    if not all(0 < value < 1 for value in values):
        raise UserError(f"--quantiles={text} cannot be used; use probabilities between 0 and 1, such as 0.05,0.5,0.95")
    return values


def _write(parts: Iterator["pd.DataFrame"], output: Path, path: Path) -> None:
    """All parts to one file, which is there only if all of them are."""
    rows, opener = 0, _opener(output, path)
    with replacing(output, ANOTHER_OUTPUT) as partial, opener(partial, "wt", encoding="utf-8", newline="") as file:
        for frame in parts:
            frame.to_csv(file, index=False, header=rows == 0, float_format=DIGITS)
            rows += len(frame)
    print(f"{rows:,} rows predicted: {output}")


def _opener(output: Path, path: Path) -> Callable[..., IO[str]]:
    """What opens the file of predictions, by its ending.

    :raises UserError: where it is the table that is read, or its name says that it is no csv file
    """
    if output.exists() and output.samefile(path):
        raise UserError(f"--output {output} is the table that is read; choose another file")
    packed = output.suffix.lower() in OPENERS
    if (output.with_suffix("") if packed else output).suffix.lower() not in (".csv", ".txt", ""):
        raise UserError(f"--output {output}: predictions are written as csv; end the name in .csv or .csv.gz")
    return OPENERS[output.suffix.lower()] if packed else open


def _reading(model: Model, overrides: list[str]) -> TableSettings:
    """How the file is read: as the training file, where nothing else is said.

    :raises UserError: for a setting that is not about how a file is read
    """
    known, given = declared(TableSettings), {}
    for override in parse(overrides):
        name = override.get_key_element().removeprefix("dataset.")
        if name not in READ_BY:
            takes = ", ".join(f"dataset.{each}" for each in READ_BY)
            raise UserError(
                f"predict takes settings of how the file is read, {takes}, and not {override.input_line}; columns that "
                "the model was not fitted to are ignored"
            )
        given[name] = known[name].read(f"dataset.{name}", override.value())
    return replace(model.description.reading, **given)


def _predicted(
    model: Model,
    path: Path,
    reading: TableSettings,
    quantiles: list[float],
    copied: list[str],
    unknown: Counter[tuple[str, str]],
) -> Iterator["pd.DataFrame"]:
    """The columns of predictions of successive rows of a file.

    :param copied: columns of the file that stand before the predictions
    :param unknown: takes the categories that training did not have
    :raises UserError: where the file holds no rows, or not the columns that the model was fitted to
    """
    import pandas as pd

    empty = True
    for frame in parts(path, reading, [*model.description.encoder.names, *copied], ROWS_AT_ONCE):
        if not len(frame):
            continue
        empty, X = False, model.inputs(frame, str(path), reading, unknown)
        ids = _columns(frame, copied, path)
        predictions = pd.concat([pd.DataFrame(prediction_columns(each, quantiles)) for each in model.in_chunks(X)])
        if twice := sorted({*ids.columns} & {*predictions.columns}):
            raise UserError(f"--id {twice[0]}: the predictions have a column of that name; rename it in {path}")
        ids = ids.astype(object)  # which no format of numbers touches
        yield pd.concat([ids.reset_index(drop=True), predictions.reset_index(drop=True)], axis=1)
    if empty:
        raise UserError(f"{path} holds no rows below its header: there is nothing to predict")


def _columns(frame: "pd.DataFrame", names: list[str], path: Path) -> "pd.DataFrame":
    """
    :raises UserError: where the file lacks one
    """
    for name in names:
        if name not in frame.columns:
            hint = did_you_mean(name, frame.columns)
            raise UserError(f"--id {name} is not a column of {path}, which has {', '.join(frame.columns[:30])}{hint}")
    return frame[names]
