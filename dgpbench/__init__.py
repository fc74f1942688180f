"""dgpbench: reproducible benchmarks of deep Gaussian processes for regression.

    from dgpbench import DeepGPRegressor, load, load_results, log_score, neg_crps

``DeepGPRegressor`` fits any method as a scikit-learn estimator, ``load`` reads a saved model or a finished run, and
``load_results`` reads all records of a results folder as one tidy frame. ``log_score`` and ``neg_crps`` are scorers for
``GridSearchCV`` and ``cross_val_score``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.9.0"
__all__ = ["DeepGPRegressor", "load", "load_results", "log_score", "neg_crps"]

if TYPE_CHECKING:
    from dgpbench.estimator import DeepGPRegressor, load
    from dgpbench.predictive.distribution import log_score, neg_crps
    from dgpbench.report.collect import load_results

# Imported at first use: the command line needs none of them, and starts without scikit-learn.
_PLACES = {
    "DeepGPRegressor": ("estimator", "DeepGPRegressor"),
    "load": ("estimator", "load"),
    "load_results": ("report.collect", "load_results"),
    "log_score": ("predictive.distribution", "log_score"),
    "neg_crps": ("predictive.distribution", "neg_crps"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
