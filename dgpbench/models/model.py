"""A fitted method with all that predictions of new rows need."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.errors import Refused
from dgpbench.methods.contract import Predictor
from dgpbench.predictions.warped import Densities
from dgpbench.runs.description import Description

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 8192  # whose mixtures are held in memory together
# The fields of runs.identity.Identity that ``about`` has under ``choices``.
CHOICES = ("method", "num_layers", "protocol", "budget", "seed", "overrides")
PREDICTOR = "predictor"


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted method: plain data and arrays, from which its predictor is made when it is first asked.

    :param description: its settings, columns and scales
    :param arrays: its parameters by path, as ``Predictor.parameters`` gave them
    :param about: where it comes from, plain data: ``choices`` (method, num_layers, protocol, budget, seed, overrides),
        ``data``, ``versions``, ...
    """

    description: Description
    arrays: Mapping[str, np.ndarray]
    about: Mapping[str, Any]

    @cached_property
    def predictor(self) -> Predictor:
        """The predictor with the model's arrays."""
        return self.description.predictor(self.arrays)

    def inputs(self, frame: "pd.DataFrame", where: str = "the table") -> np.ndarray:
        """X [N, D] of a frame, whose columns are found by name.

        :param where: what a refusal calls the frame
        :raises Refused: where a column is missing or holds what it did not hold in training
        """
        return self.description.encoder.transform(frame, where)

    def predict(self, X: np.ndarray) -> Densities:
        """The predictive mixture of rows X [N, D], in the original units of y."""
        parts: list[Any] = list(self.in_chunks(X))  # all of one kind
        return parts[0].concatenate(parts)

    def in_chunks(self, X: np.ndarray, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[Densities]:
        """The mixtures of successive rows of X [N, D], so that a million need no more memory than a few thousand."""
        description, predictor = self.description, self.predictor
        kind = np.float32 if description.settings.precision == "float32" else np.float64
        for start in range(0, len(X), rows_at_once):
            description.start()
            rows = description.scaler.inputs(X[start : start + rows_at_once]).astype(kind)
            found = description.scaler.restore(predictor.predict(rows, description.seed))
            if not isinstance(found, Densities):
                name, kind_of = description.settings.method.name, type(found).__name__.lower()
                raise Refused(
                    f"method={name} predicts {kind_of}; a model that is saved predicts densities: Gaussian or "
                    "GaussianMixture"
                )
            yield found

    def __getstate__(self) -> dict[str, Any]:
        """Without the predictor, which cannot be pickled and is made again from the arrays."""
        return {name: value for name, value in self.__dict__.items() if name != PREDICTOR}
