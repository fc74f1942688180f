"""How well a chain mixed: autocorrelation time, effective sample size, normality. NumPy alone.

Reference: docs/methods.md, "SGHMC".
"""

import numpy as np

MAX_TRACES = 64


def autocorrelation_time(traces: np.ndarray, window: float = 5.0) -> np.ndarray:
    """tau = 1 + 2 sum_{k=1}^{m} rho_k for each trace, with the smallest m >= window tau(m) (Sokal 1997).

    :param traces: successive draws, [S, n]
    :return: tau in units of one draw, at least 1, [n]; 1 for a constant trace
    """
    rho = autocorrelation(traces)
    sums = 2.0 * np.cumsum(rho, axis=0) - 1.0
    lags = np.arange(len(rho))[:, None]
    enough = lags >= window * sums
    last = np.where(enough.any(axis=0), enough.argmax(axis=0), len(rho) - 1)
    return np.maximum(sums[last, np.arange(rho.shape[1])], 1.0)


def autocorrelation(traces: np.ndarray) -> np.ndarray:
    """rho_k of each trace for k = 0 .. S - 1, by the Fourier transform, [S, n]; rho_k = 0 for a constant trace."""
    S = len(traces)
    centred = traces - traces.mean(axis=0)
    spectrum = np.fft.rfft(centred, n=2 * S, axis=0)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:S]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = covariance / covariance[0]
    rho = np.nan_to_num(rho, nan=0.0, posinf=0.0, neginf=0.0)
    rho[0] = 1.0
    return rho


def effective_sample_size(traces: np.ndarray) -> np.ndarray:
    """S / tau, the number of independent draws that S successive ones are worth, [n]."""
    return len(traces) / autocorrelation_time(traces)


def normality_pvalues(samples: np.ndarray) -> np.ndarray:
    """P-values of normality for each coordinate (D'Agostino & Pearson 1973; Lindinger et al. 2020, Fig. S6).

    The paper names no test. It takes the draws for independent, so a chain that mixes slowly fails it more often than
    its distribution deserves: read it beside the effective sample size. Fewer than 20 draws give NaN.

    :param samples: [S, n]
    """
    from scipy.stats import normaltest

    return normaltest(samples, axis=0).pvalue if len(samples) >= 20 else np.full(samples.shape[1], np.nan)


def chain_summary(traces: np.ndarray, thinning: int) -> dict[str, float | int]:
    """What a record says about the mixing of a chain's predictions.

    :param traces: the predicted mean at some rows for each collected draw, [S, n]
    :param thinning: sampler steps between two draws
    """
    tau = autocorrelation_time(traces)
    return {
        "collected_samples": len(traces),
        "steps_between_samples": thinning,
        "autocorrelation_steps_median": float(np.median(tau) * thinning),
        "autocorrelation_steps_max": float(tau.max() * thinning),
        "effective_samples_median": float(np.median(len(traces) / tau)),
        "effective_samples_min": float((len(traces) / tau).min()),
    }
