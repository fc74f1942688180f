"""
Structures of the posterior
===========================

The pairs of GPs that have a non-zero block in the factor C of the posterior covariance C C^T, for three layers of 5, 5
and 1 GPs (Lindinger et al. 2020, Sec. 3; ``chain`` is ours). Mean field has only the diagonal.
"""

import matplotlib.pyplot as plt

from dgpbench.gp.structures import STRUCTURES

names = ("mean_field", "stripes", "arrow", "star", "chain", "fully_coupled")
figure, axes = plt.subplots(1, 6, figsize=(12, 2.4), layout="constrained")
for ax, name in zip(axes, names, strict=True):
    ax.imshow(STRUCTURES[name]([5, 5, 1]).factor_pattern, cmap="Greys", vmin=0, vmax=1.4)
    ax.set(title=name.replace("_", " "), xticks=[], yticks=[])
    for border in (4.5, 9.5):
        ax.axhline(border, color="C0", linewidth=0.8)
        ax.axvline(border, color="C0", linewidth=0.8)
plt.show()
