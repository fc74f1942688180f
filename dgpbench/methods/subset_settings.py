"""Settings of subset-of-data variational inference."""

from dataclasses import dataclass
from typing import ClassVar

from dgpbench.config.settings import setting
from dgpbench.methods.settings import ROWS, TARGETS, DeepSettings


@dataclass(frozen=True)
class SubsetSettings(DeepSettings):
    """``sod``, ``sod_random``, ``sod_leverage`` and ``sod_dpp``."""

    subset: str = setting("which training rows are the subset", words=("kmeans", "random", "leverage", "dpp"))
    propagation: str = setting(
        "draws of hidden layers: the paper's joint ones, or the published code's", words=("joint", "diagonal")
    )
    start: str = setting("mu of the subset's hidden values at the start", words=("projected", "uniform"))
    hidden_variance: float = setting("Sig of hidden layers starts as this multiple of the identity", above=0)
    output_variance: float = setting("Sig of the output layer starts as this multiple of the identity", above=0)
    layer_noise: float = setting("s2_l, noise of hidden layers at the start", above=1e-8)
    covariance_rate: float = setting(
        "Adam's learning rate of C, as a share of training.learning_rate", above=0, default=1.0
    )

    def shapes(self, num_features: int) -> dict[str, tuple[int | None, ...]]:
        means = {f".means[{layer}]": (width, self.num_inducing) for layer, width in enumerate(self.widths())}
        return {ROWS: (self.num_inducing, num_features), TARGETS: (self.num_inducing,), **means}

    no_natural_gradients: ClassVar[str] = "its last q enters the bound through the subset's labels alone"


SETTINGS = SubsetSettings
