"""What a predictor needs besides its arrays, as typed values and as plain data in a record or a saved model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dgpbench.config.settings import build, recorded
from dgpbench.datasets.columns import ColumnEncoder
from dgpbench.datasets.scaling import Standardiser
from dgpbench.datasets.table_settings import TableSettings
from dgpbench.methods.contract import FitSettings, Predictor, restore_function, settings_class
from dgpbench.system import tf_session
from dgpbench.training.settings import OPTIMISERS

FORMAT = 1  # of the plain data; a later one may hold what this version does not understand


@dataclass(frozen=True, eq=False)
class Description:
    """A fitted method without its arrays.

    :param settings: what the method was told when it was fitted, every size a number
    :param num_threads: of predictions; another count gives other last bits
    :param seed: of predictions
    :param target: the name of y
    :param reading: how files of new rows are read: as that of the training rows was
    :param encoder: from a frame to X
    :param scaler: from X to standard units, and back to those of y
    """

    family: str
    settings: FitSettings
    num_threads: int
    seed: int
    target: str
    reading: TableSettings
    encoder: ColumnEncoder
    scaler: Standardiser

    def predictor(self, arrays: Mapping[str, np.ndarray]) -> Predictor:
        """The predictor with these arrays, as ``Predictor.parameters`` gave them; starts TensorFlow.

        Its normals are the same for every row: what it says of a row depends on no other.
        """
        self.start()
        return restore_function(self.family)(replace(self.settings, common_normals=True), arrays)

    def start(self) -> None:
        """Start TensorFlow with the model's threads and precision, which other models in the process may not share."""
        tf_session.start(self.num_threads, self.settings.precision)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        told = self.settings
        return {
            "format": FORMAT,
            "family": self.family,
            "method": recorded(told.method),
            "training": recorded(told.training),
            "num_samples": told.num_samples,
            "precision": told.precision,
            "num_threads": self.num_threads,
            "seed": self.seed,
            "target": self.target,
            "reading": recorded(self.reading),
            "columns": self.encoder.to_json(),
            "scaler": self.scaler.to_json(),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """What ``to_json`` was called on.

        :raises ValueError: for a later format
        """
        if plain["format"] > FORMAT:
            raise ValueError(f"it has format {plain['format']}, of a later dgpbench; this one reads up to {FORMAT}")
        family, optimiser = plain["family"], plain["training"]["optimiser"]
        name = plain["method"]["name"]
        method = build(settings_class(family), "method", _without(plain["method"], "name"), name=name)
        values = _without(plain["training"], "optimiser")
        training = build(OPTIMISERS[optimiser], "training", values, optimiser=optimiser)
        return cls(
            family=family,
            settings=FitSettings(method, training, plain["num_samples"], plain["precision"]),
            num_threads=plain["num_threads"],
            seed=plain["seed"],
            target=plain["target"],
            reading=build(TableSettings, "dataset", plain["reading"]),
            encoder=ColumnEncoder.from_json(plain["columns"]),
            scaler=Standardiser.from_json(plain["scaler"]),
        )


def _without(values: Mapping[str, Any], fact: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != fact}
