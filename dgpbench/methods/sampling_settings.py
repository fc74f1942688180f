"""Settings of stochastic-gradient Hamiltonian Monte Carlo."""

from dataclasses import dataclass

from dgpbench.config.settings import setting
from dgpbench.methods.settings import MeanMapSettings


@dataclass(frozen=True)
class SamplingSettings(MeanMapSettings):
    """``sghmc``."""

    white_noise: float | None = setting("w, white noise of hidden layers at the start", above=0)
    step_size: float = setting("eps of the sampler", above=0)
    friction: float = setting("alpha of the sampler", above=0, high=1)
    freeze: str = setting("preconditioner after the burn-in: a mean, or the published snapshot", words=("mean", "last"))
    noise: str = setting("plain, or corrected for the variance that minibatches add", words=("plain", "corrected"))


SETTINGS = SamplingSettings
