"""
Draws from a deep prior
=======================

Functions drawn from a GP, and from compositions of two and six GPs, as in Figs. 4.0.2 and 4.3.5 of Hernandez-Munoz
(2018). Unlike a draw from a stationary kernel, a composition changes fast in some places and hardly at all in others.
With more layers the functions become flat with few steps, and x cannot be recovered from y (Duvenaud et al. 2014).
"""

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(3)
x = np.linspace(-3, 3, 400)


def draw(h: np.ndarray) -> np.ndarray:
    """Draw one function from a GP with a squared exponential kernel at the inputs h."""
    K = np.exp(-0.5 * (h[:, None] - h) ** 2) + 1e-8 * np.eye(len(h))
    return np.linalg.cholesky(K) @ rng.normal(size=len(h))


figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for ax, depth in zip(axes, (1, 2, 6), strict=True):
    for number in range(6):
        h = x
        for _ in range(depth):
            h = draw(h)
        ax.plot(x, h, color="C0" if number == 0 else "0.75", zorder=2 - (number > 0))
    ax.set(title=f"L = {depth}", xlabel="x")
axes[0].set_ylabel("y")
plt.show()
