"""Settings of the fully factorised variational deep GP."""

from dataclasses import dataclass
from typing import ClassVar

from dgpbench.config.settings import setting
from dgpbench.methods.settings import MeanMapSettings, check_psi_statistics


@dataclass(frozen=True)
class FullyFactorisedSettings(MeanMapSettings):
    """``fully_factorised``."""

    output_noise: float = setting("s2_l, noise that hidden layers add, at the start", above=0)
    hidden_scale: float = setting("C of hidden layers starts as this multiple of the identity", above=0)
    output_scale: float = setting("C of the output layer starts as this multiple of the identity", above=0)
    row_variance: float = setting("variance of each row's hidden values at the start", above=0)

    no_natural_gradients: ClassVar[str] = "its q is trained together with the rows' own Gaussians"

    def __post_init__(self) -> None:
        check_psi_statistics(self.kernel)

    def num_blocks(self) -> int:
        return sum(self.widths())


SETTINGS = FullyFactorisedSettings
