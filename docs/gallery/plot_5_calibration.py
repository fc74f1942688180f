"""
Calibration before and after depth
==================================

The noise of these data depends on x. The 80 % intervals of an exact GP contain too few rows in the middle, where the
noise is large, and too many at the ends, so its PIT histogram has a hump; a deep GP (``aepmcm``) is near 80 % almost
everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np

from dgpbench import DeepGPRegressor

rng = np.random.default_rng(1)


def draw(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = 7 sin x + 3 |cos(x / 2)| times a standard normal."""
    x = rng.uniform(-4, 4, size=number)
    return x, 7 * np.sin(x) + 3 * np.abs(np.cos(x / 2)) * rng.normal(size=number)


x, y = draw(500)
x_test, y_test = draw(2000)
bins = np.linspace(-4, 4, 11)
place = np.digitize(x_test, bins[1:-1])

settings = {"training.max_iterations": 600, "training.num_samples": 10, "method.num_inducing": 20, "method.width": 2}
models = {
    "gpr": DeepGPRegressor("gpr"),
    "aepmcm": DeepGPRegressor("aepmcm", protocol="hernandez2018", num_layers=3, settings=settings),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for name, model in models.items():
    pit = model.fit(x[:, None], y).predict_dist(x_test[:, None]).cdf(y_test)
    inside = np.abs(pit - 0.5) <= 0.4
    coverage = [inside[place == number].mean() for number in range(10)]
    left.stairs(coverage, bins, baseline=None, label=name, linewidth=1.5)
    right.hist(pit, bins=20, density=True, histtype="step", label=name, linewidth=1.5)
left.axhline(0.8, color="k", linestyle="--", linewidth=0.8)
left.set(xlabel="x", ylabel="coverage of 80 % intervals", ylim=(0.4, 1.02))
right.axhline(1, color="k", linestyle="--", linewidth=0.8)
right.set(xlabel="PIT", ylabel="density", ylim=(0, 1.8))
left.legend(loc="lower left")
plt.show()
