"""Starting inducing inputs, shared by the families."""

import warnings

import numpy as np


def kmeans_centres(X: np.ndarray, num_inducing: int, seed: int) -> np.ndarray:
    """M centres of the training inputs by k-means (k-means++, 30 iterations), [M, D].

    Reference: Lindinger et al. 2020, Appendix G; the iteration count is that of the published runs.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct rows than centres gives repeated centres, which the jitter makes harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(num_inducing, n_init=1, max_iter=30, random_state=seed % 2**32).fit(X)
    return fitted.cluster_centers_.astype(X.dtype)
