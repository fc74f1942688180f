"""
A plug-in
=========

A method of your own, here k nearest neighbours with a Gaussian around their mean, is loaded from a file and used like
every other method. Its prediction is a step function, with a spread estimated from few neighbours. The exact GP on the
same rows is smooth.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

from dgpbench import DeepGPRegressor
from dgpbench.plugins import load_file

CODE = """
from dataclasses import dataclass

from dgpbench.plugins import Gaussian, Method, Settings, setting


@dataclass(frozen=True)
class Neighbours(Settings):
    num_neighbours: int = setting("neighbours", low=2, default=8)


class Fitted:
    def __init__(self, X, y, num_neighbours):
        self.X, self.y, self.num_neighbours = X, y, num_neighbours

    def predict(self, X, seed):
        distance = ((X[:, None] - self.X) ** 2).sum(axis=2)
        near = self.y[distance.argsort(axis=1)[:, : self.num_neighbours]]
        return Gaussian(near.mean(axis=1), near.var(axis=1) + 0.01)

    def parameters(self):
        return {"X": self.X, "y": self.y}


def fit(train, settings, seeds, log):
    return Fitted(train.X, train.Y[:, 0], settings.num_neighbours)


def restore(settings, arrays):
    return Fitted(arrays["X"], arrays["y"], settings.num_neighbours)


METHOD = Method("neighbours", fit, Neighbours, restore=restore)
"""

rng = np.random.default_rng(4)
x = rng.uniform(-3, 3, size=150)
y = np.sin(2 * x) + 0.2 * rng.normal(size=len(x))
grid = np.linspace(-3, 3, 300)

with TemporaryDirectory() as folder:
    file = Path(folder) / "neighbours.py"
    file.write_text(CODE)
    load_file(file)
    models = {name: DeepGPRegressor(name).fit(x[:, None], y) for name in ("neighbours", "gpr")}

figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    low, middle, high = model.predict_quantiles(grid[:, None], [0.05, 0.5, 0.95]).T
    ax.fill_between(grid, low, high, alpha=0.3, label="90 % of y")
    ax.plot(grid, middle, label="median")
    ax.plot(x, y, "k.", markersize=3, label="data")
    ax.set(title=name, xlabel="x")
axes[0].set_ylabel("y")
axes[0].legend(loc="lower left")
plt.show()
