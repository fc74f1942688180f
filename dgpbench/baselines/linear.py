"""Bayesian linear regression, the evidence maximised over both precisions (MacKay 1992; Tipping 2001)."""

from typing import Any

from dgpbench.plugins import Method, from_sklearn


def _build(settings: Any, seed: int) -> Any:
    from sklearn.linear_model import BayesianRidge

    del settings, seed  # scikit-learn's defaults, and nothing is drawn
    return BayesianRidge()


BAYESIAN_RIDGE: Method = from_sklearn(
    "bayesian_ridge",
    _build,
    title="Bayesian linear regression (scikit-learn)",
    citation="mackay1992",
)
