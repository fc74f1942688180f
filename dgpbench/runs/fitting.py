"""A run's fit: what the method is told, and another attempt with more jitter where it diverges."""

import sys
from dataclasses import dataclass, replace

from dgpbench.data.standardise import Regression
from dgpbench.errors import Diverged
from dgpbench.methods.interface import FitSettings, Predictor, Seeds, fit_function
from dgpbench.methods.plugins import needs_tensorflow
from dgpbench.runs import start
from dgpbench.runs.resolve import Run
from dgpbench.system import tf_session
from dgpbench.training.monitor import Monitor

MAX_RETRIES = 2  # of a fit that diverges, each with more jitter than the one before
TRIED = 256  # training rows that are predicted as part of a fit


@dataclass(frozen=True)
class Fit:
    """A fit that came to its end.

    :param settings: what the method was told in the last attempt
    :param start: the run that the fit started from, and the sha256 of its parameters
    """

    predictor: Predictor
    settings: FitSettings
    start: dict[str, str] | None = None


def prepare_libraries(method: str, num_threads: int, precision: str) -> None:
    """Limit the threads of numerical libraries, and start TensorFlow if a method may need it."""
    tf_session.limit_threads(num_threads)
    if "tensorflow" in sys.modules or needs_tensorflow(method):
        tf_session.start(num_threads, precision)
    else:
        import sklearn.base  # noqa: F401  # the plug-in's import would count as training


def fit(run: Run, train: Regression, seeds: Seeds, log: Monitor) -> Fit:
    """Fit the run's method to standardised rows.

    A fit that diverges, or whose predictions of some training rows do, begins again with more jitter, a few times, each
    on record. Rows that it is not fitted to have no say in that.

    :raises Diverged: as the last attempt did
    """
    train = as_precision(train, run.precision)
    initial, began = None, None
    if run.init_from is not None:
        initial, sha256 = start.parameters(run.init_from, run.limits.results_dir)
        began = {"name": start.name_of(run.init_from), "parameters_sha256": sha256}
    training, method = run.training.for_rows(len(train.X)), run.method.for_inputs(train.X.shape[1])
    while True:
        # The key holds the jitter: an attempt never goes on from the checkpoint of another.
        log.checkpoints.key = replace(run, method=method).config_hash
        try:
            settings = FitSettings(method, training, run.prediction.num_samples, run.precision, initial)
            predictor = fit_function(run.card.family)(train, settings, seeds, log)
            predictor.predict(train.X[:TRIED], seeds.prediction)
            return Fit(predictor, settings, began)
        except Diverged as ended:
            log.checkpoints.clear()
            more = method.with_more_jitter()
            if more is None or len(log.retries) == MAX_RETRIES:
                raise
            method = more
            log.restart({"jitter": method.jitter, "after": str(ended)})


def as_precision(data: Regression, precision: str) -> Regression:
    """Rows in the type that a method computes with."""
    kind = "float32" if precision == "float32" else "float64"  # mixed precision takes and gives float64
    return Regression(data.X.astype(kind), data.Y.astype(kind))
