"""``DeepGPRegressor``: every GP method behind scikit-learn's interface."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from dgpbench import saved_model
from dgpbench.config import groups
from dgpbench.config.canonical import plain
from dgpbench.data.cells import Cells, TableSettings, frame_of
from dgpbench.data.encoding import check_names, describe_unknown_categories
from dgpbench.data.table import Table
from dgpbench.data.user_table import check_columns, of_frame, settings_of
from dgpbench.errors import Diverged, UserError
from dgpbench.methods import plugins
from dgpbench.predictive.distribution import PredictiveDistribution
from dgpbench.predictive.warped import Densities
from dgpbench.runs.resolve import Run, resolve_overrides
from dgpbench.saved_model import fit_model, quantile_name
from dgpbench.system.progress import counted

groups.find_by(plugins.__name__)
OUTPUTS = ("default", "pandas")
# Keys of the command line that are parameters of the estimator, or do not apply to a fit to given rows.
SECTIONS = ("method", "training", "prediction", "dataset", "task")
PARAMETERS = ("method", "protocol", "budget", "seed", "num_threads", "progress", "method.num_layers")
NOT_HERE = ("dataset", "task", "split", "init_from", "results_dir", "plot", "timeout_minutes")
# Settings dataset.KEY about columns, which do apply.
OF_CELLS = ("missing", "categorical", "dates", "date_format", "decimal", "thousands", "na_values")
COLUMNS = (*OF_CELLS, "drop", "target_transform")
LISTS = ("drop", "categorical", "dates")  # of columns' names


class DeepGPRegressor(RegressorMixin, BaseEstimator):
    """Regression by a deep Gaussian process, or any other GP method of dgpbench.

    Rows are standardised, the method is fitted to all of them, and predictions are Gaussian mixtures in the original
    units of y. The prediction of a row does not depend on the other rows.

    :param method: ``star``, ``mf``, ``sghmc``, ``gpr``, ...: ``dgpbench list methods``
    :param num_layers: L; None uses the protocol's, 3 for the deep methods unless ``protocol`` is changed
    :param budget: ``paper``, ``laptop`` (a tenth of the iterations: minutes) or ``smoke`` (seconds, for a first test)
    :param protocol: the paper that the settings come from: ``dgpbench list protocols``
    :param settings: other settings by key, such as ``{"training.learning_rate": 0.01}``: ``dgpbench run --help``;
        ``dataset.missing``, ``dataset.categorical``, ``dataset.dates`` and ``dataset.date_format`` determine how gaps,
        texts and dates of a frame are encoded, which are refused otherwise; ``dataset.target_transform`` (``log``,
        ``sinh_arcsinh``) is for skewed or heavy-tailed targets
    :param random_state: an int, a ``RandomState`` or None; equal ints give equal models
    :param num_threads: threads of TensorFlow; fixed by the first fit of a process
    :param verbose: show progress on standard error

    Attributes: ``model_`` (everything that is saved), ``n_features_in_``, ``feature_names_in_`` if X had names,
    ``n_iter_``.
    """

    def __init__(
        self,
        method: str = "star",
        *,
        num_layers: int | None = None,
        budget: str = "laptop",
        protocol: str = "lindinger2020",
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 0,
        num_threads: int = 1,
        verbose: bool = False,
    ):
        self.method = method
        self.num_layers = num_layers
        self.budget = budget
        self.protocol = protocol
        self.settings = settings
        self.random_state = random_state
        self.num_threads = num_threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X [N, D], a frame or an array, and targets y [N], in original units.

        :raises ValueError: for settings or data that cannot be used
        :raises FloatingPointError: if training diverges
        """
        with _plain_errors():
            run = self._run()
            table = self._table(X, y, settings_of(run.dataset))
            self.model_ = fit_model(run, table, named=hasattr(self, "feature_names_in_"))
        self.n_iter_ = self.model_.about["iterations"]
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predictive mean [N], and with ``return_std`` the standard deviation [N] of y, noise included."""
        parts = [(mixture.mean[:, 0], np.sqrt(mixture.variance[:, 0])) for mixture in self._mixtures(X)]
        mean, deviation = (self._output(np.concatenate(each), X) for each in zip(*parts, strict=True))
        return (mean, deviation) if return_std else mean

    def predict_quantiles(self, X: Any, q: Sequence[float] = (0.05, 0.5, 0.95)) -> Any:
        """Return the quantiles of y at probabilities q between 0 and 1, [N, len(q)]; columns q0.05, ... of a frame."""
        try:
            probabilities = np.asarray(q, dtype=np.float64)
        except (TypeError, ValueError):
            probabilities = np.array(np.nan)
        if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
            raise ValueError(f"q must be a list of probabilities between 0 and 1, such as [0.05, 0.5, 0.95], not {q!r}")
        parts = [mixture.quantile(probabilities)[..., 0].T for mixture in self._mixtures(X)]
        return self._output(np.concatenate(parts), X, [quantile_name(p) for p in probabilities])

    def predict_dist(self, X: Any) -> PredictiveDistribution:
        """Return the predictive mixture of each row: log_prob, cdf, quantile, sample. It holds S numbers per row."""
        parts: list[Any] = list(self._mixtures(X))  # all of one kind
        return PredictiveDistribution(parts[0].concatenate(parts))

    def save(self, path: str | Path) -> Path:
        """Save the fitted model to a new directory, for ``dgpbench.load`` and ``dgpbench predict``.

        :raises ValueError: if the directory is not empty
        """
        check_is_fitted(self)
        with _plain_errors():
            return saved_model.save(self.model_, path)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Return predictions as a series or frame with the rows' index (``"pandas"``), or as arrays (``"default"``)."""
        if transform is not None and transform not in OUTPUTS:
            raise ValueError(f"set_output requires transform={' or '.join(map(repr, OUTPUTS))}, not {transform!r}")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # which clone copies
        return self

    def _run(self) -> Run:
        """Return the parameters as a resolved run, every setting checked."""
        random_state = self.random_state
        if not isinstance(random_state, int | np.integer):
            random_state = check_random_state(random_state).randint(2**31 - 1)
        chosen = {"method": self.method, "protocol": self.protocol, "budget": self.budget, "dataset": "csv"}
        more = settings_by_key(self.settings)
        if wrong := [key for key in more if _is_foreign(key)]:
            raise UserError(f"settings has {wrong[0]!r}, which is a parameter of the estimator or does not apply here")
        chosen |= {key: more.pop(key) for key in list(more) if key in groups.GROUPS}
        values = {"seed": int(random_state), "num_threads": self.num_threads, "progress": bool(self.verbose)}
        if self.num_layers is not None:
            values["method.num_layers"] = self.num_layers
        overrides = [f"{group}={groups.check(group, str(name))}" for group, name in chosen.items()]
        return resolve_overrides(overrides, plain(more | values, str))

    def _table(self, X: Any, y: Any, settings: TableSettings) -> Table:
        import pandas as pd

        frame, targets = _as_frame(X), _as_frame(y)
        if targets is not None:
            if len(targets.columns) != 1:
                raise UserError(f"y has {len(targets.columns)} columns: a regression predicts one")
            y = targets.iloc[:, 0]
        target = str("y" if getattr(y, "name", None) is None else y.name)
        if frame is None:
            if named := [key for key in LISTS if isinstance(names := getattr(settings, key), list) and names]:
                raise UserError(f"dataset.{named[0]} names columns, and X has no names: pass a DataFrame")
            X = _numbers(X, "X", settings)
            gaps = True if settings.missing == "refuse" else "allow-nan"
            X = validate_data(self, X, dtype=np.float64, ensure_all_finite=gaps, ensure_min_samples=2)
            frame = pd.DataFrame(X, columns=[f"x{index}" for index in range(X.shape[1])])
        else:
            check_columns(frame, settings)
            frame = frame.drop(columns=list(map(str, settings.drop)))
            validate_data(self, frame, skip_check_array=True)
        y = column_or_1d(_numbers(y, "y", settings), warn=True)  # which forgets a mask
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(frame, y)
        if missing := int((~Cells.of(pd.Series(y), settings).present).sum()):
            marks = f"dataset.na_values={settings.na_values}"
            raise UserError(f"y has {counted(missing, 'value')} that {marks} marks as missing: leave out their rows")
        return of_frame(frame, y, target, settings)

    def _mixtures(self, X: Any) -> Iterator[Densities]:
        import pandas as pd

        check_is_fitted(self)
        with _plain_errors():
            encoder, frame = self.model_.description.encoder, _as_frame(X)
            if frame is not None and hasattr(self, "feature_names_in_"):
                frame = frame[[name for name in frame.columns if name in encoder.names]]  # others are ignored
                validate_data(self, frame, skip_check_array=True, reset=False)
            elif not encoder.takes_arrays:
                raise UserError("the model has non-numeric columns: pass a DataFrame with column names")
            else:
                X = _numbers(X, "X", self.model_.description.reading)
                gaps = "allow-nan" if encoder.schema.missing == "impute" else True
                X = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=gaps)
                frame = pd.DataFrame(X, columns=list(encoder.names))
            if not len(frame):
                raise UserError("X has no rows")
            unknown = Counter[tuple[str, str]]()
            rows = self.model_.inputs(frame, unknown=unknown)
            for sentence in describe_unknown_categories(unknown, "X"):
                warnings.warn(sentence, stacklevel=2)
            yield from self.model_.in_chunks(rows)

    def _output(self, values: np.ndarray, X: Any, columns: list[str] | None = None) -> Any:
        """Return predictions as an array, or with the index of X."""
        if getattr(self, "_sklearn_output_config", {}).get("transform") != "pandas":
            return values
        import pandas as pd

        index, target = X.index if isinstance(X, pd.DataFrame) else None, self.model_.description.target
        return pd.DataFrame(values, index, columns) if columns else pd.Series(values, index, name=target)


def _as_frame(table: Any) -> Any:
    """Return a frame of any library as a pandas frame with texts as names; None for anything else, such as an array."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        if not hasattr(table, "__arrow_c_stream__") or not hasattr(table, "columns"):
            return None
        table = frame_of(table)
    names = [str(name) for name in table.columns]
    check_names(names, names, "the table")
    return table.set_axis(names, axis=1)


def _numbers(values: Any, name: str, settings: TableSettings) -> Any:
    """Return an array with its texts as numbers, read like the cells of a frame, and its masked values as NaN.

    Dates and times are refused: as numbers, they would be counts of an unknown unit.
    """
    import pandas as pd

    if np.asarray(values).dtype.kind in "mM":
        raise UserError(f"{name} contains dates or times; convert it to numbers, such as days since the first")
    if np.ma.is_masked(values):
        values = values.astype(np.float64).filled(np.nan)
    array = np.asarray(values)
    if array.dtype.kind not in "OTU":
        return values
    cells = Cells.of(pd.Series(array.ravel(), dtype=object), settings)
    if not (cells.is_text | np.isfinite(cells.dates)).any():
        return values
    numbers, present = cells.read("number")
    if len(wrong := np.flatnonzero(present & np.isnan(numbers))):
        raise UserError(
            f"{name} contains {array.ravel()[wrong[0]]!r}, which is not a number by dataset.decimal={settings.decimal} "
            f"and dataset.thousands={settings.thousands}: set these as it is written, or convert it"
        )
    return numbers.reshape(array.shape)


def load(path: str | Path) -> DeepGPRegressor:
    """Load the fitted estimator of a saved model, or of a finished run's directory; it predicts the same bits.

    :raises ValueError: if there is no model, or it is damaged
    """
    with _plain_errors():
        model = saved_model.load(path)
    choices = model.about["choices"]
    settings = {key: value for key, value in choices["overrides"].items() if not _is_foreign(key)}
    reading = {key: getattr(model.description.reading, key) for key in COLUMNS}
    settings |= {f"dataset.{key}": each for key, each in reading.items() if each != getattr(TableSettings.DEFAULT, key)}
    estimator = DeepGPRegressor(
        choices["method"],
        num_layers=choices["num_layers"],
        budget=choices["budget"],
        protocol=choices["protocol"],
        settings=settings or None,
        random_state=choices["seed"],
        num_threads=model.description.num_threads,
    )
    estimator.model_ = model
    estimator.n_features_in_ = len(model.description.encoder.names)
    if model.about.get("named", True):
        estimator.feature_names_in_ = np.array(model.description.encoder.names, dtype=object)
    estimator.n_iter_ = model.about["iterations"]
    return estimator


def settings_by_key(given: Any) -> dict[str, Any]:
    """Return ``settings`` of an estimator as a dictionary.

    :raises ValueError: if they are not values by key
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ValueError(f"settings must be values by key, such as {{'training.learning_rate': 0.01}}, not {given!r}")
    for key, value in given.items():
        if key in SECTIONS and isinstance(value, Mapping):
            inner = next(iter(value), "learning_rate")
            raise ValueError(f"settings must be values by full key, such as {f'{key}.{inner}'!r}, not {key!r}")
    return dict(given)


def _is_foreign(key: str) -> bool:
    """Return True for a key of the command line that is not one of the estimator's ``settings``."""
    section, _, name = key.partition(".")
    return key in PARAMETERS or (section in NOT_HERE and not (section == "dataset" and name in COLUMNS))


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turn a UserError into the ValueError that users of scikit-learn expect."""
    try:
        yield
    except UserError as refusal:
        raise ValueError(str(refusal)) from None
    except Diverged as ended:
        raise FloatingPointError(f"training diverged: {ended}") from None
