"""Quantiles of mixtures of Gaussians: Newton's method, held inside a bracket that bisection keeps halving."""

import numpy as np

PAIRS_AT_ONCE = 50_000  # components x rows of one pass: what the processor's cache holds
MAX_STEPS = 500  # a bracket of finite numbers is halved at least every second step, and needs fewer
NEWTON_TOLERANCE = 1e-8  # in the smallest standard deviations; an error squares with each step, so none is left


def mixture_quantiles(p: float, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """The y at which ``1/S sum_s Phi((y - m_s) / d_s) = p``, for each of K mixtures, [K].

    Memory does not grow with K.

    :param means: [S, K]
    :param deviations: [S, K], positive
    """
    S, K = means.shape
    size = max(1, PAIRS_AT_ONCE // S)
    chunks = [slice(start, start + size) for start in range(0, K, size)]
    return np.concatenate([_solve(p, means[:, rows], deviations[:, rows]) for rows in chunks])


def _solve(p: float, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    low, high = _bracket(p, means, deviations)
    y, smallest = _start(p, means, deviations, low, high), deviations.min(axis=0)
    step, left = high - low, np.arange(len(y))  # the last step, and which rows are not found yet
    found = y.copy()
    for _ in range(MAX_STEPS):
        if not len(left):
            break
        excess, density = _excess_and_density(y, p, means, deviations)
        low, high = np.where(excess < 0, y, low), np.where(excess < 0, high, y)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # between two far modes the density is zero
            newton = y - excess / density
            trusted = (newton >= low) & (newton <= high) & (np.abs(newton - y) <= 0.5 * np.abs(step))
        following = np.where(trusted, newton, 0.5 * (low + high))
        step, y = following - y, following
        found[left] = y
        # As near as rounding lets y be known; relative to |y| alone, a quantile at zero would take 1,000 steps.
        rounding = 2 * np.finfo(float).eps * (np.abs(y) + smallest)
        near = np.abs(step) <= np.where(trusted, np.maximum(NEWTON_TOLERANCE * smallest, rounding), rounding)
        kept = np.flatnonzero(~near)
        low, high, y, step, smallest, left = (each[kept] for each in (low, high, y, step, smallest, left))
        means, deviations = means[:, kept], deviations[:, kept]
    return found


def _bracket(p: float, means: np.ndarray, deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest quantile of the components, between which the mixture's lies."""
    from scipy.special import ndtri

    bounds = means + ndtri(p) * deviations
    return bounds.min(axis=0), bounds.max(axis=0)


def _start(p: float, means: np.ndarray, deviations: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The quantile of the Gaussian with the mixture's mean and variance, inside the bracket."""
    from scipy.special import ndtri

    with np.errstate(over="ignore", invalid="ignore"):  # of predictions that have diverged
        y = means.mean(axis=0) + ndtri(p) * np.sqrt((deviations**2).mean(axis=0) + means.var(axis=0))
    return np.clip(np.where(np.isfinite(y), y, 0.5 * low + 0.5 * high), low, high)


def _excess_and_density(y: np.ndarray, p: float, means: np.ndarray, deviations: np.ndarray):
    """F(y) - p and its derivative, the density, [K] each."""
    from scipy.special import ndtr

    z = (y - means) / deviations
    density = (np.exp(-0.5 * z**2) / deviations).mean(axis=0) / np.sqrt(2 * np.pi)
    return ndtr(z).mean(axis=0) - p, density
