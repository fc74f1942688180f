"""Methods from outside this package: ``Method`` is the contract, and all that a plug-in imports.

from dgpbench.plugins import Gaussian, Method, Settings, setting

``load_file`` does in Python what ``--plugin FILE`` does on a command line.
"""

from dgpbench.config.settings import setting
from dgpbench.plugins.loading import load_file
from dgpbench.plugins.method import Method, Settings
from dgpbench.plugins.wrappers import from_sklearn
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.predictive import Gaussian, Quantiles, Samples

__all__ = [
    "Gaussian",
    "GaussianMixture",
    "Method",
    "Quantiles",
    "Samples",
    "Settings",
    "from_sklearn",
    "load_file",
    "setting",
]
