"""Settings of the single-layer sparse references."""

from dataclasses import dataclass

from dgpbench.config.settings import setting
from dgpbench.methods.settings import GPSettings, Sizes, check_num_inducing
from dgpbench.training.settings import TrainingSettings


@dataclass(frozen=True)
class SparseSettings(GPSettings):
    """``sgpr`` and ``fitc``."""

    approximation: str = setting("the sparse model: Titsias' bound, or FITC", words=("sgpr", "fitc"))
    num_inducing: int = setting("M, inducing points", low=1)
    train_inducing_inputs: bool = setting("train Z")

    def shapes(self, num_features: int) -> dict[str, tuple[int | None, ...]]:
        return super().shapes(num_features) | {".inducing_variable.Z": (self.num_inducing, num_features)}

    def check_rows(self, num_rows: int) -> None:
        check_num_inducing(self.num_inducing, num_rows)

    def memory(self, sizes: Sizes, training: TrainingSettings, num_samples: int) -> dict[str, int]:
        del training, num_samples
        columns = 3 * sizes.itemsize * self.num_inducing * sizes.num_rows
        return {"the matrix k(Z, X) (method.num_inducing)": columns}


SETTINGS = SparseSettings
