"""Settings of structured Gaussian posteriors."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import yaml

from dgpbench.config.settings import setting
from dgpbench.errors import UserError
from dgpbench.gp.structures import STRUCTURES, num_blocks
from dgpbench.methods.settings import MeanMapSettings


@dataclass(frozen=True)
class StructuredSettings(MeanMapSettings):
    """``mf``, ``star``, ``fc`` and their relatives; ``sgp`` at one layer."""

    white_noise: float | None = setting("w, white noise of hidden layers at the start", above=0)
    whiten: bool = setting("parametrise q by v = Lk^{-1} (u - m(Z)), not by u")
    marginalise: bool = setting("integrate the inducing outputs out (Theorem 1), or sample them")
    hidden_scale: float = setting("C of hidden layers starts as this multiple of the identity", above=0)
    output_scale: float = setting("C of the output layer starts as this multiple of the identity", above=0)
    structure: str = setting("which blocks of C exist", words=tuple(STRUCTURES))
    output_start: str = setting(
        "where the output layer starts: at the prior, or at a sparse GP fitted to the inputs it sees then",
        words=("prior", "sgpr"),
        default="prior",
    )
    covariance_rate: float = setting(
        "Adam's learning rate of C, as a share of training.learning_rate", above=0, default=1.0
    )
    blocks: list | None = setting("couplings of method.structure=custom")
    blocks_file: str | None = setting("YAML file with the couplings of method.structure=custom")

    starts_from_records: ClassVar[bool] = True
    no_natural_gradients: ClassVar[str] = (
        "with blocks left out, the map to natural parameters is not invertible (Lindinger et al. 2020)"
    )

    def __post_init__(self) -> None:
        if self.blocks_file is not None:
            object.__setattr__(self, "blocks", _read_blocks(self.blocks_file))
            object.__setattr__(self, "blocks_file", None)  # what it says counts, not where it lies
        if self.output_start == "sgpr" and not self.whiten:
            raise UserError("method.output_start=sgpr starts q in whitened coordinates; it takes method.whiten=true")
        if self.output_start == "sgpr" and self.num_layers > 1 and self.mean_function == "zero":
            raise UserError(
                "method.output_start=sgpr fits the output layer to inputs that mean maps carry to it; "
                "it takes method.mean_function=pca"
            )
        if (self.structure == "custom") != (self.blocks is not None):
            raise UserError(
                "method.structure=custom takes its couplings from method.blocks or method.blocks_file"
                if self.blocks is None
                else f"method.blocks belongs to method.structure=custom, and the structure is {self.structure}"
            )

    def num_blocks(self) -> int:
        return num_blocks(self.structure, self.widths())


def _read_blocks(path: str) -> list:
    try:
        blocks = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise UserError(f"method.blocks_file={path} cannot be read: {str(problem).splitlines()[0]}") from None
    if not isinstance(blocks, list):
        raise UserError(f"method.blocks_file={path} must hold a list of {{layers: [l, k], gps: same}} entries")
    return blocks


SETTINGS = StructuredSettings
