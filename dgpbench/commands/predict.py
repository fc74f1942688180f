"""``dgpbench predict``: mean, standard deviation and quantiles of new rows, part by part."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.errors import Refused
from dgpbench.models import directory, summaries
from dgpbench.models.model import ROWS_AT_ONCE, Model
from dgpbench.system.files import ANOTHER_OUTPUT, replacing

if TYPE_CHECKING:
    import pandas as pd


def predict(options: Namespace) -> int:
    """Read, predict and write some thousands of rows at a time, so that a million fit in memory."""
    quantiles = summaries.probabilities(options.quantiles)
    model = directory.load(options.model)
    parts = _predicted(model, Path(options.table), quantiles)
    if options.output is None:
        for number, frame in enumerate(parts):
            frame.to_csv(sys.stdout, index=False, header=number == 0)
        return 0
    output, rows = Path(options.output), 0
    if output.exists() and output.samefile(options.table):
        raise Refused(f"--output {output} is the table that is read; choose another file")
    with replacing(output, ANOTHER_OUTPUT) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        for frame in parts:
            frame.to_csv(file, index=False, header=rows == 0)
            rows += len(frame)
    print(f"{rows:,} rows predicted: {output}")
    return 0


def _predicted(model: Model, path: Path, quantiles: list[float]) -> Iterator["pd.DataFrame"]:
    """The columns of predictions of successive rows of a file.

    :raises Refused: where the file holds no rows, or not the columns that the model was fitted to
    """
    import pandas as pd

    from dgpbench.datasets.table_files import parts

    empty = True
    for frame in parts(path, model.description.reading, ROWS_AT_ONCE):
        if not len(frame):
            continue
        empty = False
        for mixture in model.in_chunks(model.inputs(frame, str(path))):
            yield pd.DataFrame(summaries.summary(mixture, quantiles))
    if empty:
        raise Refused(f"{path} holds no rows below its header: there is nothing to predict")
