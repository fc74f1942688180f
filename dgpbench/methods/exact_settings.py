"""Settings of exact GP regression."""

from dataclasses import dataclass

from dgpbench.config.settings import setting
from dgpbench.errors import UserError
from dgpbench.methods.settings import GPSettings, Sizes
from dgpbench.training.settings import TrainingSettings


@dataclass(frozen=True)
class ExactSettings(GPSettings):
    """``gpr``."""

    max_rows: int = setting("exact GP regression refuses more training rows than this", low=1)

    def check_rows(self, num_rows: int) -> None:
        if num_rows > self.max_rows:
            raise UserError(
                f"{self.name} takes at most {self.max_rows:,} training rows (method.max_rows) and this split has "
                f"{num_rows:,}; sgpr, fitc and sgp take any number"
            )

    def memory(self, sizes: Sizes, training: TrainingSettings, num_samples: int) -> dict[str, int]:
        del training, num_samples
        return {"the matrix k(X, X), whose size is that of the training rows": 3 * sizes.itemsize * sizes.num_rows**2}


SETTINGS = ExactSettings
