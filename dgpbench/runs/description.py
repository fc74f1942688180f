"""Description of a fitted method and of its data, as typed values and as plain data in a record or a saved model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dgpbench.config.settings import build, declared, recorded, typed
from dgpbench.data import target_transform
from dgpbench.data.cells import TableSettings
from dgpbench.data.encoding import ColumnEncoder
from dgpbench.data.standardise import Standardiser
from dgpbench.data.table import Table
from dgpbench.methods.interface import OUTSIDE, FitSettings, Predictor, families, restore_function, settings_class
from dgpbench.methods.settings import ROWS, Sizes
from dgpbench.runs.fit import prepare_libraries
from dgpbench.runs.resolve import Limits, PredictionSettings, Run
from dgpbench.system import provenance
from dgpbench.system.memory import available
from dgpbench.training.settings import OPTIMISERS

COLUMN_KINDS = {"number", "flag", "date", "category"}
FORMAT = 1  # of the plain data; this version may not understand a later one


@dataclass(frozen=True, eq=False)
class Description:
    """A fitted method without its arrays.

    :param settings: settings of the fit, every size a number
    :param num_threads: of predictions; changing it changes the last bits of the results
    :param seed: of predictions
    :param target: the name of y
    :param reading: how files of new rows are read: like that of the training rows
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
        """Build the predictor from arrays of ``Predictor.parameters``.

        Its normals are the same for every row, so that the prediction of a row does not depend on other rows.
        """
        self.start()
        return restore_function(self.family)(replace(self.settings, common_normals=True), arrays)

    def start(self) -> None:
        """Set threads and precision; other models in the process may have other ones."""
        prepare_libraries(self.settings.method.name, self.num_threads, self.settings.precision)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        settings = self.settings
        return {
            "format": FORMAT,
            "family": self.family,
            "method": recorded(settings.method),
            "training": recorded(settings.training),
            "num_samples": settings.num_samples,
            "precision": settings.precision,
            "num_threads": self.num_threads,
            "seed": self.seed,
            "target": self.target,
            "reading": recorded(self.reading),
            "columns": self.encoder.to_json(),
            "scaler": self.scaler.to_json(),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Build a description from the plain data of ``to_json``; values are checked like those of a command line.

        :raises ValueError: for a later format, or data that ``to_json`` cannot have returned
        :raises UserError: if a setting is unknown or out of its range
        """
        if typed(int, plain["format"], "format") > FORMAT:
            raise ValueError(f"it has format {plain['format']}, of a later dgpbench; this one reads up to {FORMAT}")
        family, optimiser = plain["family"], plain["training"]["optimiser"]
        if family not in families() and not typed(str, family, "family").startswith(OUTSIDE):
            raise ValueError(f"unknown family {family}")
        name = typed(str, plain["method"]["name"], "method.name")
        if plain["method"].get("blocks_file") is not None:
            raise ValueError("method.blocks_file names a file, and a model holds its blocks itself")
        method = build(settings_class(family), "method", _without(plain["method"], "name"), name=name)
        training = build(
            OPTIMISERS[optimiser], "training", _without(plain["training"], "optimiser"), optimiser=optimiser
        )
        prediction = build(PredictionSettings, "prediction", {"num_samples": plain["num_samples"]})
        precision = declared(Run)["precision"].read("precision", plain["precision"])
        threads = declared(Limits)["num_threads"].read("num_threads", plain["num_threads"])
        encoder = typed(ColumnEncoder, plain["columns"], "columns")
        kinds = {column.name: column.kind for column in encoder.columns}
        if kinds != encoder.schema.kinds or len(kinds) != len(encoder.columns) or not {*kinds.values()} <= COLUMN_KINDS:
            raise ValueError(
                "columns.columns and columns.schema.kinds are not of the same columns, or of unknown kinds"
            )
        return cls(
            family=family,
            settings=FitSettings(method, training, prediction.num_samples, precision),
            num_threads=min(threads, provenance.processors()),
            seed=declared(Run)["seed"].read("seed", plain["seed"]),
            target=typed(str, plain["target"], "target"),
            reading=replace(build(TableSettings, "dataset", plain["reading"]), path=None, test_path=None),
            encoder=encoder,
            scaler=Standardiser.from_json(plain["scaler"], encoder.feature_names),
        )

    def check_arrays(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Check that arrays of these shapes can belong to the method, and that predictions fit in memory.

        :raises ValueError: if not
        :raises UserError: if the method cannot be fitted to so many, or so few, rows
        """
        method, features = self.settings.method, len(self.scaler.kept)
        for name, expected in method.shapes(features).items():
            shape = shapes.get(name, ())
            if len(shape) != len(expected) or any(
                size not in (actual, None) for actual, size in zip(shape, expected, strict=True)
            ):
                raise ValueError(f"the array {name} has shape {shape}; its settings require {expected}")
        rows = shapes.get(ROWS, (0,))[0]
        if rows:
            method.check_rows(rows)
        sizes = Sizes(rows, features, 1, itemsize=8)
        need = sum(method.memory(sizes, self.settings.training, self.settings.num_samples).values())
        if need > available():
            raise ValueError(f"predictions need at least {need / 2**30:,.1f} GiB of memory, more than is free")


def _without(values: Mapping[str, Any], *facts: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in facts}


def described_data(table: Table, encoder: ColumnEncoder, scaler: Standardiser) -> dict[str, Any]:
    """Describe the data of a fit: sizes, digests, files and dropped columns."""
    own = {"columns": encoder.describe(), "left_out": table.num_left_out}
    if scaler.warp is not None:
        own["target"] = {"column": table.target_name, **target_transform.to_json(scaler.warp)}
    return (own if table.verified == "own" else {}) | {
        "name": table.name,
        "n": table.num_rows,
        "d": len(encoder.feature_names),
        "features": list(encoder.feature_names),
        "dropped": list(scaler.dropped),
        "scale_y": scaler.scale_y,
        "digest_xy": table.digest_xy,
        "digest_xy_ordered": table.digest_xy_ordered,
        "verified": table.verified,
        # No paths: they belong to this machine, and the hashes identify the files.
        "files": [
            {"origin": file.origin, "sha256": file.sha256, "pinned_sha256": file.pinned_sha256}
            for file in table.sources
        ],
    }
