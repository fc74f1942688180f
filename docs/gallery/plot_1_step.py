"""
A step
======

A function with an edge, fitted by an exact GP, by mean field (``mf``) and by ``aepmcm``, the last two with hidden
layers. The exact GP has the same lengthscale at the edge and elsewhere, so it oscillates at the ends. The deep GPs have
a sharper edge, and wide intervals only where there are no data.
"""

import matplotlib.pyplot as plt
import numpy as np

from dgpbench import DeepGPRegressor

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, size=100)
x = x[np.abs(x) > 0.2]
y = np.sign(x) + 0.02 * rng.normal(size=len(x))
grid = np.linspace(-2.5, 2.5, 200)

settings = {"training.max_iterations": 800, "method.num_inducing": 20, "method.width": 3}
fewer = settings | {"training.max_iterations": 400}
models = {
    "gpr": DeepGPRegressor("gpr"),
    "mf": DeepGPRegressor("mf", settings=settings),
    "aepmcm": DeepGPRegressor("aepmcm", protocol="hernandez2018", num_layers=2, settings=fewer),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(x[:, None], y)
    low, middle, high = model.predict_quantiles(grid[:, None], [0.05, 0.5, 0.95]).T
    ax.fill_between(grid, low, high, alpha=0.3, label="90 % of y")
    ax.plot(grid, middle, label="median")
    ax.plot(x, y, "k.", markersize=3, label="data")
    ax.set(title=name, xlabel="x")
axes[0].set_ylabel("y")
axes[0].legend(loc="upper left")
plt.show()
