"""Settings of power expectation propagation."""

from dataclasses import dataclass

from dgpbench.config.settings import setting
from dgpbench.methods.settings import MeanMapSettings, check_psi_statistics


@dataclass(frozen=True)
class PowerEPSettings(MeanMapSettings):
    """``aep`` and ``aepmcm``."""

    power: float = setting("alpha of power EP; 1 is EP, the limit 0 is variational", above=0, high=1)
    propagation: str = setting(
        "how rows pass the layers: Gaussians with matched moments (aep), or samples (aepmcm)",
        words=("match_moments", "sample"),
    )
    output_noise: float = setting("s2_l, noise that hidden layers add, at the start", above=0)
    # Sites only narrow the prior, whose standard deviation is 1.
    hidden_scale: float = setting("standard deviation of v in hidden layers at the start", above=0, below=1)
    output_scale: float = setting("standard deviation of v in the output layer at the start", above=0, below=1)
    hidden_mean_spread: float = setting("hidden means start at normal draws of this standard deviation", low=0)

    def __post_init__(self) -> None:
        if self.propagation == "match_moments":
            check_psi_statistics(self.kernel)


SETTINGS = PowerEPSettings
