"""Plug-in files and their runs."""

from pathlib import Path

import fit_once
from test_check_method import plugin

QUICK = ("dataset=diabetes", "budget=smoke")


def run(folder, name: str, *words: str, status: str = "done"):
    return fit_once.run(folder / "results", f"method={name}", *QUICK, *words, status=status)


QUANTILES = """
from sklearn.linear_model import QuantileRegressor
import numpy as np
from dgpbench.plugins import Method, Quantiles, Settings

class Fitted:
    def __init__(self, train, seeds):
        self.levels = np.array([0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975])
        self.models = [QuantileRegressor(quantile=p, alpha=0).fit(train.X, train.Y[:, 0]) for p in self.levels]

    def predict(self, X, seed):
        return Quantiles(self.levels, np.array([model.predict(X) for model in self.models]))

METHOD = Method("linear_quantiles", lambda train, settings, seeds, log: Fitted(train, seeds))
"""


def changed(folder, name: str, *pairs: tuple[str, str]) -> Path:
    """The plug-in of these tests, some pieces replaced."""
    path = plugin(folder, name)
    text = path.read_text()
    for piece, other in pairs:
        assert piece in text
        text = text.replace(piece, other)
    path.write_text(text)
    return path


SAVED = """
def restore(settings, arrays):
    found = object.__new__(Restored)
    vars(found).update(arrays, noise=settings.noise)
    return found

class Restored(Fitted):
    parameters = None

Fitted.parameters = lambda self: {"W": self.W, "b": self.b, "A": self.A, "w": self.w}
METHOD = Method("NAME", fit, Ridge, restore=restore)
"""


def saved(folder, name: str, *pairs: tuple[str, str]) -> Path:
    """The plug-in of these tests with a restore, some pieces replaced."""
    path = plugin(folder, name)
    text = path.read_text().split("METHOD =")[0] + SAVED.replace("NAME", name)
    for piece, other in pairs:
        assert piece in text
        text = text.replace(piece, other)
    path.write_text(text)
    return path
