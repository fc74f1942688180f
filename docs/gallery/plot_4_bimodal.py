"""
Bimodal noise
=============

The data follow a sine or a cosine, each with probability 1/2. The Gaussian of an exact GP covers both branches and
the gap between them, while ``aepmcm`` passes samples through its hidden layers and puts most of its density on the
two branches.
"""

import matplotlib.pyplot as plt
import numpy as np

from dgpbench import DeepGPRegressor

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, size=400)
y = 10 * np.where(rng.uniform(size=len(x)) < 0.5, np.sin(x), np.cos(x)) + rng.normal(size=len(x))
grid, values = np.linspace(-2, 2, 120), np.linspace(-15, 15, 150)

settings = {"training.max_iterations": 800, "method.num_inducing": 20, "method.width": 3}
models = {
    "gpr": DeepGPRegressor("gpr"),
    "aepmcm": DeepGPRegressor("aepmcm", protocol="hernandez2018", num_layers=3, settings=settings),
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    predicted = model.fit(x[:, None], y).predict_dist(grid[:, None])
    density = np.exp([predicted.log_prob(value) for value in values])  # [values, grid]
    ax.pcolormesh(grid, values, np.minimum(density, 0.25), cmap="Blues")
    ax.plot(x, y, "k.", markersize=2, alpha=0.5)
    ax.set(title=f"{name}: density of y", xlabel="x")
axes[0].set_ylabel("y")
plt.show()
