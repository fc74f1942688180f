"""
Extrapolation
=============

Away from the data all three medians return to zero. The intervals of the exact GP become wider than the data, while
those of the deep GPs stay narrower: they are more confident far from the data.
"""

import matplotlib.pyplot as plt
import numpy as np

from dgpbench import DeepGPRegressor

rng = np.random.default_rng(2)
x = np.concatenate([rng.uniform(-2, -0.5, size=60), rng.uniform(0.5, 2, size=60)])
y = np.sin(3 * x) + 0.1 * rng.normal(size=len(x))
grid = np.linspace(-5, 5, 200)

settings = {"training.max_iterations": 300, "method.num_inducing": 20, "method.width": 3}
models = {
    "gpr": DeepGPRegressor("gpr"),
    "mf": DeepGPRegressor("mf", num_layers=2, settings=settings),
    "sghmc": DeepGPRegressor("sghmc", num_layers=2, settings=settings),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(x[:, None], y)
    low, middle, high = model.predict_quantiles(grid[:, None], [0.025, 0.5, 0.975]).T
    ax.fill_between(grid, low, high, alpha=0.3, label="95 % of y")
    ax.plot(grid, middle, label="median")
    ax.plot(x, y, "k.", markersize=3, label="data")
    ax.set(title=name, xlabel="x", ylim=(-3, 3))
axes[0].set_ylabel("y")
axes[0].legend(loc="lower left")
plt.show()
