"""The settings that families share, ``method.KEY`` on the command line, and what the rest of the house asks of them.

No TensorFlow here, nor in the ``*_settings.py`` beside each family: settings are checked before anything heavy starts.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from dgpbench.config.settings import recorded, setting
from dgpbench.errors import UserError
from dgpbench.training.settings import AdamSettings, SamplerSettings, TrainingSettings

KERNELS = ("squared_exponential", "matern12", "matern32", "matern52")
MAX_WIDTH = 30  # of method.width=inputs: tau = min(30, D), as the papers have it
MORE_JITTER, LEAST_JITTER = 10.0, 1e-6
OPTIMISER_COPIES = 4  # a parameter, its gradient and Adam's two moments
ROWS, TARGETS = "training_rows", "training_targets"  # among the arrays of models that predict from them
INDUCING = ".prior.layers[{}].Z"  # inducing inputs [M, T_l] of each layer among the arrays of a deep model
KEPT_FOR_GRADIENTS = 3  # k(Z, h), its whitened form and their gradient, for each layer, row and path


@dataclass(frozen=True)
class Sizes:
    """What a run's memory depends on besides its settings."""

    num_rows: int
    num_features: int
    num_test_rows: int
    itemsize: int


@dataclass(frozen=True)
class MethodSettings(ABC):
    """What every method has, a plug-in's too.

    :param name: as ``method=NAME``
    """

    name: str
    num_layers: int = setting("L, GP layers, the output layer included", low=1, high=20)

    starts_from_records: ClassVar[bool] = False  # whether init_from= can start it
    no_natural_gradients: ClassVar[str] = "its posterior is not a Gaussian in natural parameters"

    def for_inputs(self, num_features: int) -> Self:
        """With everything that depends on D made a number."""
        del num_features
        return self

    def with_more_jitter(self) -> "DeepSettings | None":
        """For another attempt at a fit that diverged; None where a family has no jitter to raise."""
        return None

    def shapes(self, num_features: int) -> dict[str, tuple[int | None, ...]]:
        """Shapes of the saved arrays from which the sizes of all others follow; None for any length."""
        del num_features
        return {}  # nothing is known of a plug-in's

    def check_installed(self) -> None:
        """Refuse a method whose packages are not here."""
        return

    def check_rows(self, num_rows: int) -> None:
        """Refuse fewer, or more, training rows than the method takes."""
        del num_rows

    def recorded(self) -> dict[str, Any]:
        """What a record keeps of them, and their part in its hash."""
        return recorded(self)

    @abstractmethod
    def memory(self, sizes: Sizes, training: TrainingSettings, num_samples: int) -> dict[str, int]:
        """A lower bound on the bytes of a run, by what they are for, with the settings that govern them."""


@dataclass(frozen=True)
class GPSettings(MethodSettings):
    """What every family of GPs has: a kernel and a noise variance."""

    kernel: str = setting("kernel of every layer", words=KERNELS)
    ard: bool = setting("one lengthscale for each input dimension")
    lengthscale: float = setting("lengthscale at the start, in standardised units", above=0)
    kernel_variance: float = setting("kernel variance at the start", above=0)
    likelihood_variance: float = setting("s2, noise variance at the start, in standardised units", above=1e-6)

    def shapes(self, num_features: int) -> dict[str, tuple[int | None, ...]]:
        return {ROWS: (None, num_features), TARGETS: (None, 1)}


@dataclass(frozen=True)
class DeepSettings(GPSettings):
    """What every family with inducing points in several layers has."""

    width: int | str = setting("tau, GPs in a hidden layer; 'inputs' is min(30, D)", low=1, words=("inputs",))
    num_inducing: int = setting("M, inducing points in each layer", low=1)
    train_hidden_variance: bool = setting("train the kernel variance of hidden layers too")
    jitter: float = setting("added to the diagonal of k(Z, Z)", low=0)

    def for_inputs(self, num_features: int) -> Self:
        return replace(self, width=min(MAX_WIDTH, num_features)) if isinstance(self.width, str) else self

    def widths(self) -> tuple[int, ...]:
        """T_l of each layer; the output layer has one GP."""
        assert isinstance(self.width, int), "for_inputs comes first"
        return (*[self.width] * (self.num_layers - 1), 1)

    def with_more_jitter(self) -> Self:
        return replace(self, jitter=MORE_JITTER * max(self.jitter, LEAST_JITTER))

    def shapes(self, num_features: int) -> dict[str, tuple[int | None, ...]]:
        dims = (num_features, *self.widths()[:-1])
        return {INDUCING.format(layer): (self.num_inducing, dim) for layer, dim in enumerate(dims)}

    def check_rows(self, num_rows: int) -> None:
        check_num_inducing(self.num_inducing, num_rows)

    def num_blocks(self) -> int:
        """M x M blocks that q, or the prior, holds."""
        return self.num_layers

    def memory(self, sizes: Sizes, training: TrainingSettings, num_samples: int) -> dict[str, int]:
        assert isinstance(training, AdamSettings | SamplerSettings)
        M, itemsize = self.num_inducing, sizes.itemsize
        paths = training.paths if isinstance(training, AdamSettings) else 1
        columns = min(training.batch_size, sizes.num_rows) * paths
        needs = {
            "q (method.num_inducing, method.width)": OPTIMISER_COPIES * itemsize * M**2 * self.num_blocks(),
            "a batch (training.batch_size, training.num_samples, method.num_inducing)": (
                KEPT_FOR_GRADIENTS * itemsize * self.num_layers * M * columns
            ),
            "the predictions (prediction.num_samples)": 2 * 8 * num_samples * sizes.num_test_rows,
        }
        if isinstance(training, SamplerSettings):
            kept = itemsize * num_samples * M * sum(self.widths())
            needs["the samples (prediction.num_samples, method.num_inducing)"] = kept
        return needs


@dataclass(frozen=True)
class MeanMapSettings(DeepSettings):
    """What the families have whose hidden layers have a fixed mean and inducing inputs of their own."""

    mean_function: str = setting("fixed mean of hidden layers", words=("pca", "zero"))
    train_inducing_inputs: bool = setting("train Z")


def check_num_inducing(num_inducing: int, num_rows: int) -> None:
    """Refuse more inducing points than training rows."""
    if num_inducing > num_rows:
        raise UserError(
            f"method.num_inducing={num_inducing} is more than the {num_rows:,} training rows; "
            f"use method.num_inducing={num_rows} or fewer"
        )


def check_psi_statistics(kernel: str) -> None:
    """Refuse a kernel whose psi statistics are not written."""
    if kernel != "squared_exponential":
        raise UserError(
            "method.kernel must be squared_exponential for aep and fully_factorised: their psi statistics need it"
        )
