"""A fitted method with all that predictions of new rows need."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.data.cells import TableSettings
from dgpbench.errors import UserError
from dgpbench.methods.interface import Predictor
from dgpbench.predictive.warped import Densities
from dgpbench.runs.description import Description
from dgpbench.system import tf_session

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 8192  # whose mixtures are held in memory together
# The fields of runs.identity.Identity that ``about`` has under ``choices``.
PREDICTOR = "predictor"
MOST_LETTERS = 300  # of another package's message
NUMBERS_AT_ONCE = 2**23  # rows times components of the mixtures that are held together


@dataclass(frozen=True)
class Choices:
    """What was chosen for a fit, ``choices`` of ``about``: the fields of that name of runs.identity.Identity."""

    method: str
    num_layers: int
    protocol: str
    budget: str
    seed: int
    overrides: Mapping[str, Any]


CHOICES = tuple(each.name for each in fields(Choices))


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn whatever is met in a file from elsewhere into one sentence.

    :param what: the beginning of that sentence
    """
    try:
        yield
    except ModuleNotFoundError:  # of a package that is not installed
        raise
    except Exception as problem:
        words = repr(problem)
        if isinstance(problem, KeyError):
            words = f"it lacks {problem}"
        elif isinstance(problem, RecursionError):
            words = "it is nested too deeply"
        elif isinstance(problem, UserError | ValueError | OSError):
            words = str(problem)
        raise UserError(f"{what}: {' '.join(words.split())[:MOST_LETTERS]}") from None


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A fitted method: plain data and arrays, from which its predictor is made when it is first asked.

    :param description: its settings, columns and scales
    :param arrays: its parameters by path, as ``Predictor.parameters`` gave them
    :param about: where it comes from, plain data: ``choices`` (method, num_layers, protocol, budget, seed, overrides),
        ``data``, ``versions``, ...
    :param source: the directory that it was loaded from; what its parts then fail at is refused in one sentence
    """

    description: Description
    arrays: Mapping[str, np.ndarray]
    about: Mapping[str, Any]
    source: str = ""

    @cached_property
    def predictor(self) -> Predictor:
        """The predictor with the model's arrays."""
        with self._refusing():
            return self.description.predictor(self.arrays)

    def _refusing(self) -> AbstractContextManager[None]:
        return refusing(f"{self.source} cannot be used for predictions") if self.source else nullcontext()

    def inputs(
        self,
        frame: "pd.DataFrame",
        where: str = "the table",
        reading: TableSettings | None = None,
        unknown: Counter[tuple[str, str]] | None = None,
    ) -> np.ndarray:
        """X [N, D] of a frame, whose columns are found by name.

        :param where: what a refusal calls the frame
        :param reading: how its cells are read, by default as in training
        :param unknown: takes the categories that training did not have
        :raises UserError: where a column is missing or holds what it did not hold in training
        """
        with self._refusing():
            return self.description.encoder.transform(frame, where, reading or self.description.reading, unknown)

    def predict(self, X: np.ndarray) -> Densities:
        """The predictive mixture of rows X [N, D], in the original units of y."""
        parts: list[Any] = list(self.in_chunks(X))  # all of one kind
        return parts[0].concatenate(parts)

    def in_chunks(self, X: np.ndarray, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[Densities]:
        """The mixtures of successive rows of X [N, D], so that a million need no more memory than a few thousand."""
        with tf_session.releasing_graphs(collect=False):
            description, predictor = self.description, self.predictor
        kind = np.float32 if description.settings.precision == "float32" else np.float64
        rows_at_once = min(rows_at_once, max(1, NUMBERS_AT_ONCE // description.settings.num_samples))
        for start in range(0, len(X), rows_at_once):
            description.start()
            with self._refusing(), tf_session.releasing_graphs(collect=False):
                rows = description.scaler.inputs(X[start : start + rows_at_once]).astype(kind)
                predictions = predictor.predict(rows, description.seed)
            with self._refusing():
                found = description.scaler.restore(predictions)
            if not isinstance(found, Densities):
                name, kind_of = description.settings.method.name, type(found).__name__.lower()
                raise UserError(
                    f"method={name} predicts {kind_of}; a model that is saved predicts densities: Gaussian or "
                    "GaussianMixture"
                )
            yield found

    def __repr__(self) -> str:
        return f"Model({self.about['choices']['method']} of {self.description.target!r}, {len(self.arrays)} arrays)"

    def __getstate__(self) -> dict[str, Any]:
        """Without the predictor, which cannot be pickled and is made again from the arrays."""
        return {name: value for name, value in self.__dict__.items() if name != PREDICTOR}
