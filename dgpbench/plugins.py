"""Public names for authors of methods: everything that a plug-in imports.

from dgpbench.plugins import Gaussian, Method, Settings, setting

``load_file`` does in Python what ``--plugin FILE`` does on a command line.
"""

from dgpbench.config.settings import setting
from dgpbench.methods.interface import Method, Settings
from dgpbench.methods.plugins import from_sklearn, load_file
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.predictive.quantiles import Gaussian, Quantiles, Samples

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
