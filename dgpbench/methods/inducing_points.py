"""Inducing inputs: k-means centres, or M of the training rows chosen by a rule.

Reference: docs/methods.md, "Structured posteriors" and "Subset of data".
"""

import warnings

import numpy as np

from dgpbench.errors import UserError


def kmeans_centres(X: np.ndarray, num_inducing: int, seed: int) -> np.ndarray:
    """Return M centres of the training inputs by k-means (k-means++, 30 iterations), [M, D].

    Reference: Lindinger et al. 2020, Appendix G; the iteration count is that of the published runs.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct rows than centres gives repeated centres, which the jitter makes harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(num_inducing, n_init=1, max_iter=30, random_state=seed % 2**32).fit(X)
    return fitted.cluster_centers_.astype(X.dtype)


def choose(name: str, X: np.ndarray, num_inducing: int, seed: int) -> np.ndarray:
    """Choose M distinct rows by the rule of that name.

    :raises UserError: for fewer rows than M
    """
    if num_inducing > len(X):
        raise UserError(
            f"method.num_inducing={num_inducing} is more than the {len(X):,} training rows that the "
            "subset is drawn from; choose fewer"
        )
    # In float64 whatever the precision: in float32 the Gram matrix of close rows is singular.
    return CHOICES[name](np.asarray(X, np.float64), num_inducing, seed)


def kmeans_nearest(X: np.ndarray, num_inducing: int, seed: int) -> np.ndarray:
    """Choose the training row nearest to each k-means centre, or the next nearest if it is taken (Jain et al., SoD)."""
    chosen: list[int] = []
    free = np.ones(len(X), dtype=bool)
    for centre in kmeans_centres(X, num_inducing, seed):
        distance = np.where(free, np.sum((X - centre) ** 2, axis=1), np.inf)
        chosen.append(int(np.argmin(distance)))
        free[chosen[-1]] = False
    return np.array(chosen)


def uniform(X: np.ndarray, num_inducing: int, seed: int) -> np.ndarray:
    """Rows uniformly at random, without replacement (Jain et al., SoD*)."""
    return np.random.default_rng(seed).choice(len(X), num_inducing, replace=False)


def leverage(X: np.ndarray, num_inducing: int, seed: int) -> np.ndarray:
    """Rows in proportion to their ridge leverage scores, without replacement (Alaoui & Mahoney 2015).

    At the chosen ridge the effective dimension, the sum of the scores, is M. The kernel is a squared exponential of the
    median distance, approximated by ``max(512, 4 M)`` landmarks, so that protein's rows take seconds.
    """
    N = len(X)
    if num_inducing == N:
        return np.arange(N)
    rng = np.random.default_rng(seed)
    landmarks = rng.choice(N, min(N, max(512, 4 * num_inducing)), replace=False)
    features = kernel_features(X, landmarks, median_distance(X, rng))
    scores = leverage_scores(features, ridge_for(features, num_inducing))
    # Keys u^(1/w), largest first, are successive draws in proportion to w (Efraimidis & Spirakis 2006).
    keys = np.log(rng.uniform(size=N)) / np.maximum(scores, np.finfo(float).tiny)
    return np.argsort(-keys, kind="stable")[:num_inducing]


def leverage_scores(features: np.ndarray, ridge: float) -> np.ndarray:
    """tau_n = [K (K + ridge I)^{-1}]_nn = phi_n^T (Phi^T Phi + ridge I)^{-1} phi_n for K = Phi Phi^T; Phi is [N, p]."""
    values, vectors = np.linalg.eigh(features.T @ features)
    return np.square(features @ vectors) @ (1.0 / (np.maximum(values, 0.0) + ridge))


def ridge_for(features: np.ndarray, dimension: float) -> float:
    """Find the ridge at which the scores sum to ``dimension``, by bisection on its logarithm."""
    values = np.maximum(np.linalg.eigvalsh(features.T @ features), 0.0)
    low, high = np.log(1e-12 * values.max()), np.log(values.max() * len(values))
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = np.sum(values / (values + np.exp(middle))) > dimension
        low, high = (middle, high) if enough else (low, middle)
    return float(np.exp(low))


def dpp(X: np.ndarray, num_inducing: int, seed: int) -> np.ndarray:
    """Find the k-DPP's mode greedily: each row adds the most to det K_SS (Chen, Zhang & Zhou 2018, Algorithm 1).

    Greedy maximisation and not a draw: it is the row of largest remaining variance each time (a pivoted Cholesky
    factorisation), costs O(N M^2), needs no N x N matrix, and is what Burt et al. 2020 advise for inducing points. The
    first row, where all tie, is drawn by the seed; the kernel is a squared exponential of the median distance.
    """
    rng = np.random.default_rng(seed)
    lengthscale = median_distance(X, rng)
    chosen = [int(rng.integers(len(X)))]
    left = np.ones(len(X))  # variance of each row given the chosen ones
    C = np.zeros((num_inducing, len(X)))
    for index in range(num_inducing - 1):
        last = chosen[-1]
        k = _squared_exponential(X, X[last : last + 1], lengthscale)[:, 0]
        C[index] = (k - C[:index, last] @ C[:index]) / np.sqrt(max(left[last], np.finfo(float).tiny))
        left -= C[index] ** 2
        left[chosen] = -np.inf
        # Where no row adds anything (duplicates alone are left), any unused row is as good as another.
        chosen.append(int(np.argmax(left)))
        left[chosen[-1]] = max(left[chosen[-1]], 1e-12)
    return np.array(chosen)


def kernel_features(X: np.ndarray, landmarks: np.ndarray, lengthscale: float) -> np.ndarray:
    """Phi [N, p] with Phi Phi^T = K_Np K_pp^{-1} K_pN (Nystrom); exact where the landmarks are all rows."""
    K = _squared_exponential(X[landmarks], X[landmarks], lengthscale)
    L = np.linalg.cholesky(K + 1e-8 * np.eye(len(K)))
    return np.linalg.solve(L, _squared_exponential(X[landmarks], X, lengthscale)).T


def median_distance(X: np.ndarray, rng: np.random.Generator) -> float:
    """Return the median distance of 1,000 random pairs of rows: the usual first lengthscale."""
    first, second = rng.integers(len(X), size=(2, 1000))
    distances = np.linalg.norm(X[first] - X[second], axis=1)
    return float(np.median(distances[first != second])) or 1.0 if np.any(first != second) else 1.0


def _squared_exponential(X: np.ndarray, X2: np.ndarray, lengthscale: float) -> np.ndarray:
    squares = np.sum(X**2, axis=1)[:, None] + np.sum(X2**2, axis=1) - 2.0 * X @ X2.T
    return np.exp(-0.5 * np.maximum(squares, 0.0) / lengthscale**2)


CHOICES = {"kmeans": kmeans_nearest, "random": uniform, "leverage": leverage, "dpp": dpp}
