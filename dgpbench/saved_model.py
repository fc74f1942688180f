"""A fitted model: fit it to a table, save it, load it, and predict new rows.

It is a directory of plain arrays and JSON, or the directory of a finished run:

    MODEL/
        model.json        kind, model (runs.problem.Description), about (choices, data, versions, scores), files, digest
        parameters.npz    the arrays by path; nothing is pickled

``model.json`` is written last. It contains size and sha256 of the other file and the digest of its own content: if it
exists, the model is complete, and a change is noticed. Both are checked when they are read.
"""

import hashlib
import json
import logging
import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.config import groups
from dgpbench.config.canonical import config_hash, plain
from dgpbench.config.settings import typed
from dgpbench.data.cells import TableSettings
from dgpbench.data.splits import InterpolationSettings, Split, make_split
from dgpbench.data.table import Table
from dgpbench.errors import UserError
from dgpbench.methods.interface import Predictor, restore_function
from dgpbench.methods.plugins import is_of_this_code, packages_of
from dgpbench.predictive.warped import Densities
from dgpbench.runs import record as records
from dgpbench.runs import store
from dgpbench.runs.fit import fit, monitoring, seeds_of, with_fewer_inducing_points
from dgpbench.runs.problem import FORMAT, Description, prepare
from dgpbench.runs.resolve import Run
from dgpbench.system import provenance, tf_session
from dgpbench.system.files import check_folder, replacing, write_whole
from dgpbench.system.provenance import available
from dgpbench.training.checkpoints import Checkpoints
from dgpbench.training.settings import OwnSettings

if TYPE_CHECKING:
    import pandas as pd

MODEL, ARRAYS, DIGEST = "model.json", store.PARAMETERS, "digest"
LARGEST = 2**26  # bytes of model.json; a model of a thousand columns has a tenth of a megabyte
KIND = "dgpbench model"
ABOUT = ("data", "config", "config_hash", "scores", "iterations", "seconds", "notes", "versions", "git", "finished")
ANOTHER = "choose another directory"  # without --output: in Python too
HOW = (
    "`dgpbench fit ... --output DIRECTORY` or, in Python, `save` write one, and so does a finished run below "
    "results/runs"
)
ROWS_AT_ONCE = 8192  # with mixtures in memory together
NUMBERS_AT_ONCE = 2**23  # rows times components of the mixtures in memory together
MOST_LETTERS = 300  # of another package's message
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choices:
    """The choices of a fit, ``choices`` of ``about``: fields of runs.identity.Identity."""

    method: str
    num_layers: int
    protocol: str
    budget: str
    seed: int
    overrides: Mapping[str, Any]


CHOICES = tuple(each.name for each in fields(Choices))


@contextmanager
def refusing(what: str, *, passing: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Turn any error caused by a file from elsewhere into one sentence, which begins with ``what``.

    :param passing: errors that are raised as they are
    """
    try:
        yield
    except passing:
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
    """A fitted method: plain data and arrays, from which its predictor is built at the first prediction."""

    description: Description  # settings, columns and scales
    arrays: Mapping[str, np.ndarray]  # parameters by path, from ``Predictor.parameters``
    about: Mapping[str, Any]  # plain data about the fit: ``choices`` (see ``Choices``), ``data``, ``versions``, ...
    source: str = ""  # the directory that it was loaded from; errors of its content are reported in one sentence

    @cached_property
    def predictor(self) -> Predictor:
        """The predictor with the model's arrays."""
        with self._refusing():
            return self.description.predictor(self.arrays)

    def _refusing(self, passing: type[Exception] | tuple[()] = ()) -> AbstractContextManager[None]:
        what = f"{self.source} cannot be used for predictions"
        return refusing(what, passing=passing) if self.source else nullcontext()

    def inputs(
        self,
        frame: "pd.DataFrame",
        where: str = "the table",
        reading: TableSettings | None = None,
        unknown: Counter[tuple[str, str]] | None = None,
    ) -> np.ndarray:
        """Return X [N, D] of a frame; its columns are found by name.

        :param reading: format of its cells, by default as in training
        :param unknown: collects the categories that training did not have
        :raises UserError: if a column is missing, or its content is of another kind than in training
        """
        with self._refusing(passing=UserError):  # which is about the frame
            return self.description.encoder.transform(frame, where, reading or self.description.reading, unknown)

    def predict(self, X: np.ndarray) -> Densities:
        """Return the predictive mixture of rows X [N, D], in the original units of y."""
        parts: list[Any] = list(self.in_chunks(X))  # all of one kind
        return parts[0].concatenate(parts)

    def in_chunks(self, X: np.ndarray, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[Densities]:
        """Yield the mixtures of successive rows of X [N, D], so that memory does not grow with N."""
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
                restored = description.scaler.restore(predictions)
            if not isinstance(restored, Densities):
                raise UserError(
                    f"method={description.settings.method.name} predicts {type(restored).__name__.lower()}; a saved "
                    "model must predict densities: Gaussian or GaussianMixture"
                )
            yield restored

    def __repr__(self) -> str:
        return f"Model({self.about['choices']['method']} of {self.description.target!r}, {len(self.arrays)} arrays)"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the predictor, which cannot be pickled and is rebuilt from the arrays."""
        return {name: value for name, value in self.__dict__.items() if name != "predictor"}


def quantile_name(probability: float) -> str:
    """Return the column of a quantile: q0.05."""
    return f"q{float(probability)!r}"


def prediction_columns(mixture: Densities, quantiles: Sequence[float]) -> dict[str, np.ndarray]:
    """Return mean, standard deviation and each quantile as columns [N], in units of y."""
    columns = {"mean": mixture.mean[:, 0], "standard_deviation": np.sqrt(mixture.variance[:, 0])}
    return columns | {quantile_name(p): mixture.quantile(p)[:, 0] for p in quantiles}


# Fit ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldOut:
    """Scores of held-out rows."""

    num_train: int
    num_test: int
    num_repeated: int  # held-out rows that are also training rows
    scores: dict[str, float]  # by metric, in original units
    points: "pd.DataFrame"  # targets and predictions of the rows, as in a run's ``points.parquet``


def fit_model(
    run: Run,
    table: Table,
    rows: np.ndarray | None = None,
    *,
    checkpoints: Checkpoints | None = None,
    named: bool = True,
) -> Model:
    """Fit a model to the rows of a table; the run's data, task and split are ignored.

    :param rows: numbers of the training rows, all by default
    :param named: whether the columns' names are the user's
    :raises UserError: if the method cannot be fitted to the table
    :raises Diverged: if the fit diverges
    """
    if isinstance(run.training, OwnSettings):
        restore_function(run.card.family)  # refuses a plug-in with models that cannot be saved
    rows = np.arange(table.num_rows) if rows is None else rows
    run = with_fewer_inducing_points(run, len(rows))
    problem, seeds = prepare(run, table, Split(train=rows, test=np.arange(0))), seeds_of(run, table)
    with monitoring(run, table, checkpoints) as monitor:
        fitted = fit(run, problem.train, seeds, monitor)
        arrays, notes = fitted.predictor.parameters(), [fitted.predictor.diagnostics, *monitor.retries]
    monitor.checkpoints.clear()
    axes = asdict(run.identity)
    about = {
        "choices": {key: axes[key] for key in CHOICES},
        "data": problem.described_data(),
        "config": run.config,
        "config_hash": run.config_hash,
        "scores": {},
        "iterations": monitor.trace[-1].iteration if monitor.trace else 0,
        "seconds": monitor.seconds(),
        "notes": notes,
        "versions": provenance.versions(packages_of(run.method.name)),
        "git": provenance.git_state(),
        "host": provenance.host(run.limits.num_threads),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "num_train": len(rows),
        "named": named,
    }
    model = Model(problem.describe(run, fitted.settings, seeds), arrays, about)
    if isinstance(run.training, OwnSettings):
        X, _ = table.encoded(rows)
        model.predict(X[rows[:1]])  # refuses a plug-in that predicts no densities, before anything is saved
    return model


def held_out_scores(run: Run, table: Table, fraction: float, checkpoints: Checkpoints | None = None) -> HeldOut:
    """Score a random fraction of the rows, between 0 and 1, with a fit to the others."""
    import pandas as pd

    from dgpbench.predictive.scores import all_scores, per_row

    task = InterpolationSettings("interpolation", train_fraction=1 - fraction)
    split = make_split(table, task, run.split, run.dataset)
    model = fit_model(run, table, split.train, checkpoints=checkpoints)
    X, _ = table.encoded(split.train)
    rows = per_row(model.predict(X[split.test]), table.y[split.test][:, None])
    frame = pd.DataFrame({name: column[:, 0] for name, column in rows.items()})
    repeated = table.num_repeated(split.test, split.train)
    return HeldOut(len(split.train), len(split.test), repeated, all_scores(rows), frame)


# Save -----------------------------------------------------------------------------------------------------------------


def check_free(directory: str | Path) -> Path:
    """Return the directory if it contains nothing but checkpoints.

    :raises UserError: if it contains a model or other files
    """
    directory = Path(directory).expanduser()
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file, but a model is a directory; {ANOTHER}")
    if (directory / MODEL).exists():
        raise UserError(f"{directory} holds a model already; move it away, or {ANOTHER}")
    if directory.is_dir() and any(not path.name.startswith(".") for path in directory.iterdir()):
        raise UserError(f"{directory} holds other files; choose an empty or a new directory")
    return directory


@contextmanager
def prepared(directory: str | Path) -> Iterator[Path]:
    """Check that a directory is free and writable before hours of training; remove a new one that stays empty.

    :raises UserError: if it is not
    """
    directory = check_free(directory)
    is_new = not directory.exists()
    check_folder(directory, ANOTHER)
    try:
        yield directory
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                directory.rmdir()


def save(model: Model, directory: str | Path) -> Path:
    """Write a model to a directory of its own.

    :raises UserError: if the directory is not free, or cannot be written
    """
    directory = check_free(directory)
    arrays = store.npz(model.arrays)
    files = {ARRAYS: {"bytes": len(arrays), "sha256": hashlib.sha256(arrays).hexdigest()}}
    facts = {"kind": KIND, "model": model.description.to_json(), "about": plain(model.about, str), "files": files}
    facts[DIGEST] = config_hash(facts)
    for name, data in ((ARRAYS, arrays), (MODEL, (json.dumps(facts, indent=1) + "\n").encode())):
        with replacing(directory / name, ANOTHER) as partial:
            write_whole(partial, data)
    return directory


# Load -----------------------------------------------------------------------------------------------------------------


def load(directory: str | Path) -> Model:
    """Load the model that ``save`` wrote, or that of a finished run.

    Logs a warning if a change of the model could not be detected.

    :raises UserError: if there is no model, or it is damaged, changed or of a later dgpbench
    """
    directory = Path(directory).expanduser()
    if not (directory / MODEL).exists() and not (directory / store.RECORD).exists():
        raise UserError(f"{directory} does not contain a model; {HOW}")
    with refusing(f"{directory} cannot be loaded"):
        facts = _facts(directory) if (directory / MODEL).exists() else _facts_of_run(directory)
        about, files = facts["about"], facts["files"]
        choices = typed(Choices, about["choices"], "choices")
        if any(str(key).endswith("_file") for key in choices.overrides):
            raise ValueError("its choices name a file, but a model must be self-contained")
        typed(int, about["iterations"], "iterations")
        fitted = about["config"]["method"]
        if groups.exists("method", fitted["name"]) and not is_of_this_code(fitted):  # exists() loads what is installed
            raise ValueError(f"it was fitted with another version of the code of {fitted['name']}; fit it again")
        description = Description.from_json(facts["model"])
        if list(files) != [ARRAYS]:
            raise ValueError(f"its files are not {ARRAYS} alone")
        arrays = _arrays(directory, files[ARRAYS], description)
        return Model(description, arrays, about, str(directory))


def _facts(directory: Path) -> Mapping[str, Any]:
    path = _regular(directory / MODEL)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{MODEL} is {path.stat().st_size:,} bytes long")
    facts = records.parse(path.read_text(encoding="utf-8"))
    if not isinstance(facts, dict) or facts.get("kind") != KIND:
        raise ValueError(f"{MODEL} was not written by dgpbench")
    made = facts.pop(DIGEST, None)
    if typed(int, facts["model"]["format"], "format") <= FORMAT and made not in (None, config_hash(facts)):
        raise ValueError(f"{MODEL} was changed after it was saved: its digest is not that of its content")
    if made is None:
        logger.warning(
            "%s was saved by an earlier dgpbench, without a digest: nothing shows whether it was changed", directory
        )
    return facts


def _facts_of_run(directory: Path) -> Mapping[str, Any]:
    """Return the content of ``model.json`` for a finished run."""
    record = store.read_record(_regular(directory / store.RECORD))
    if record["status"] != "done":
        raise UserError(f"it is {record['status']}, so there is nothing to predict with; rerun it first")
    model = record.get("model")
    if model is None:
        raise UserError("it was recorded by an earlier dgpbench, without scales; move it away and rerun it")
    about = {key: record[key] for key in ABOUT}
    choices = {key: record["identity"][key] for key in CHOICES}
    return {"model": model, "about": {"choices": choices, **about}, "files": {ARRAYS: record["files"][ARRAYS]}}


def _regular(path: Path) -> Path:
    """Refuse a link, which may lead anywhere, and a pipe or device, which may be endless."""
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{path.name} is missing, or is not a plain file of this directory")
    return path


def _arrays(directory: Path, stored: Mapping[str, Any], description: Description) -> dict[str, np.ndarray]:
    """Return the arrays after checking their digest, then the sizes in their headers."""
    if problem := records.file_problem(_regular(directory / ARRAYS), stored):
        raise ValueError(problem)
    with zipfile.ZipFile(directory / ARRAYS) as archive:
        shapes = dict(_shape(archive, member) for member in archive.infolist())
        if 2 * sum(member.file_size for member in archive.infolist()) > available():
            raise ValueError(f"{ARRAYS} does not fit in the free memory")
    description.check_arrays(shapes)
    return store.read_arrays(directory / ARRAYS)


def _shape(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[str, tuple[int, ...]]:
    """Return name and shape of an array from its header, and check that the file has that many numbers."""
    if member.compress_size != member.file_size:  # before anything is unpacked: a header may state 4 GB of itself
        raise ValueError(f"{member.filename} is compressed")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, _, kind = read(file)
        if kind.hasobject:
            raise ValueError(f"{member.filename} contains Python objects")
        if file.tell() + math.prod(shape) * kind.itemsize != member.file_size:
            size = f"{member.file_size:,} bytes long"
            raise ValueError(f"{member.filename} is {size}, but its header declares {kind} {shape}")
    return member.filename.removesuffix(".npy"), shape
