"""The settings of our families, ``method.KEY`` on the command line.

This module imports no TensorFlow: settings are checked before anything heavy starts.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import yaml

from dgpbench.config.settings import recorded, setting
from dgpbench.errors import UserError
from dgpbench.gp.structures import STRUCTURES, num_blocks
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
    """Sizes that determine a run's memory besides its settings."""

    num_rows: int
    num_features: int
    num_test_rows: int
    itemsize: int


@dataclass(frozen=True)
class MethodSettings(ABC):
    """Settings of every method, plug-ins included.

    :param name: as ``method=NAME``
    """

    name: str
    num_layers: int = setting("L, GP layers, the output layer included", low=1, high=20)

    starts_from_records: ClassVar[bool] = False  # whether init_from= can start it
    trains_together: ClassVar[bool] = False  # whether several fits of equal shape can be trained as one
    no_natural_gradients: ClassVar[str] = "its posterior is not a Gaussian in natural parameters"

    def for_inputs(self, num_features: int) -> Self:
        """Return the settings with everything that depends on D as a number."""
        del num_features
        return self

    def with_more_jitter(self) -> "DeepSettings | None":
        """Return the settings for another attempt at a fit that diverged; None for a family without jitter."""
        return None

    def shapes(self, num_features: int) -> dict[str, tuple[int | None, ...]]:
        """Return the shapes of the saved arrays that determine the sizes of all others; None for any length."""
        del num_features
        return {}  # those of a plug-in are unknown

    def check_installed(self) -> None:
        """Refuse a method with a missing package."""
        return

    def check_rows(self, num_rows: int) -> None:
        """Refuse fewer, or more, training rows than the method can use."""
        del num_rows

    def recorded(self) -> dict[str, Any]:
        """Return the values for the record and its hash."""
        return recorded(self)

    @abstractmethod
    def memory(self, sizes: Sizes, training: TrainingSettings, num_samples: int) -> dict[str, int]:
        """Return a lower bound on the bytes of a run, by purpose and the settings that govern it."""


@dataclass(frozen=True)
class GPSettings(MethodSettings):
    """Settings of every family of GPs: a kernel and a noise variance."""

    kernel: str = setting("kernel of every layer", words=KERNELS)
    ard: bool = setting("one lengthscale for each input dimension")
    lengthscale: float = setting("lengthscale at the start, in standardised units", above=0)
    kernel_variance: float = setting("kernel variance at the start", above=0)
    likelihood_variance: float = setting("s2, noise variance at the start, in standardised units", above=1e-6)

    def shapes(self, num_features: int) -> dict[str, tuple[int | None, ...]]:
        return {ROWS: (None, num_features), TARGETS: (None, 1)}


@dataclass(frozen=True)
class DeepSettings(GPSettings):
    """Settings of every family with inducing points in several layers."""

    width: int | str = setting("tau, GPs in a hidden layer; 'inputs' is min(30, D)", low=1, words=("inputs",))
    num_inducing: int = setting("M, inducing points in each layer", low=1)
    train_hidden_variance: bool = setting("train the kernel variance of hidden layers too")
    jitter: float = setting("added to the diagonal of k(Z, Z)", low=0)

    def for_inputs(self, num_features: int) -> Self:
        return replace(self, width=min(MAX_WIDTH, num_features)) if isinstance(self.width, str) else self

    def widths(self) -> tuple[int, ...]:
        """Return T_l of each layer; the output layer has one GP."""
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
        """Count the M x M blocks of q, or of the prior."""
        return sum(self.widths())

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
    """Settings of the families with fixed means of hidden layers and with inducing inputs in each layer."""

    mean_function: str = setting("fixed mean of hidden layers", words=("pca", "zero"))
    train_inducing_inputs: bool = setting("train Z")


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
        return {"the matrix k(X, X) of the training rows": 3 * sizes.itemsize * sizes.num_rows**2}


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
        return {"the matrix k(Z, X) (method.num_inducing)": 3 * sizes.itemsize * self.num_inducing * sizes.num_rows}


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
    bound: str = setting(
        "training objective: the ELBO, the ELBO with a tighter term for the output layer's residual variance, or the "
        "predictive log-likelihood at learned quadrature sites",
        words=("standard", "tight", "predictive"),
        default="standard",
    )
    beta: float = setting("weight of the KL divergence in method.bound=predictive", low=0, default=1.0)
    num_sites: int = setting("Q, learned quadrature sites of method.bound=predictive", low=1, default=1)
    num_importance_samples: int | None = setting(
        "K, importance samples of the latent input of each row in training; null for a model without latent inputs",
        low=1,
        default=None,
    )
    blocks: list | None = setting("couplings of method.structure=custom")
    blocks_file: str | None = setting("YAML file with the couplings of method.structure=custom")

    starts_from_records: ClassVar[bool] = True
    trains_together: ClassVar[bool] = True
    no_natural_gradients: ClassVar[str] = (
        "with blocks left out, the map to natural parameters is not invertible (Lindinger et al. 2020)"
    )

    def __post_init__(self) -> None:
        if self.blocks_file is not None:
            try:
                blocks = yaml.safe_load(Path(self.blocks_file).expanduser().read_text(encoding="utf-8"))
            except (OSError, ValueError, yaml.YAMLError) as problem:  # ValueError: bad UTF-8 or date
                reason = str(problem).splitlines()[0]
                raise UserError(f"method.blocks_file={self.blocks_file} cannot be read: {reason}") from None
            if not isinstance(blocks, list):
                raise UserError(
                    f"method.blocks_file={self.blocks_file} must hold a list of {{layers: [l, k], gps: same}} entries"
                )
            object.__setattr__(self, "blocks", blocks)
            object.__setattr__(self, "blocks_file", None)  # its content identifies a run, not its path
        if self.bound != "predictive" and (self.beta, self.num_sites) != (1.0, 1):
            raise UserError("method.beta and method.num_sites belong to method.bound=predictive; set it, or omit them")
        if self.bound == "predictive" and not self.marginalise:
            raise UserError(
                "method.bound=predictive integrates the inducing outputs out; it takes method.marginalise=true"
            )
        others = (self.structure, self.bound, self.marginalise, self.output_start)
        if self.num_importance_samples is not None and others != ("mean_field", "standard", True, "prior"):
            raise UserError(
                "method.num_importance_samples takes method.structure=mean_field, method.bound=standard, "
                "method.marginalise=true and method.output_start=prior"
            )
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

    def shapes(self, num_features: int) -> dict[str, tuple[int | None, ...]]:
        return super().shapes(num_features + (self.num_importance_samples is not None))

    def memory(self, sizes: Sizes, training: TrainingSettings, num_samples: int) -> dict[str, int]:
        assert isinstance(training, AdamSettings)
        paths = training.paths * (self.num_importance_samples or 1)
        if self.bound == "predictive":  # a path for each site
            paths = num_samples = self.num_sites
        return super().memory(sizes, replace(training, num_samples=paths), num_samples)


@dataclass(frozen=True)
class SamplingSettings(MeanMapSettings):
    """``sghmc``."""

    white_noise: float | None = setting("w, white noise of hidden layers at the start", above=0)
    step_size: float = setting("eps of the sampler", above=0)
    friction: float = setting("alpha of the sampler", above=0, high=1)
    freeze: str = setting("preconditioner after the burn-in: a mean, or the published snapshot", words=("mean", "last"))
    noise: str = setting("plain, or corrected for the variance that minibatches add", words=("plain", "corrected"))

    def num_blocks(self) -> int:
        return self.num_layers  # of the prior: q is samples of v


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


@dataclass(frozen=True)
class PowerEPSettings(MeanMapSettings):
    """``aep`` and ``aepmcm``."""

    power: float = setting("alpha of power EP; 1 is EP, the limit 0 is variational", above=0, high=1)
    propagation: str = setting(
        "how rows pass the layers: Gaussians with matched moments (aep), or samples (aepmcm)",
        words=("match_moments", "sample"),
    )
    output_noise: float = setting("s2_l, noise that hidden layers add, at the start", above=0)
    # Sites only narrow the prior, which has standard deviation 1.
    hidden_scale: float = setting("standard deviation of v in hidden layers at the start", above=0, below=1)
    output_scale: float = setting("standard deviation of v in the output layer at the start", above=0, below=1)
    hidden_mean_spread: float = setting("hidden means start at normal draws of this standard deviation", low=0)

    trains_together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.propagation == "match_moments":
            check_psi_statistics(self.kernel)


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


FAMILIES: dict[str, type[MethodSettings]] = {
    "exact": ExactSettings,
    "fully_factorised": FullyFactorisedSettings,
    "power_ep": PowerEPSettings,
    "sampling": SamplingSettings,
    "sparse": SparseSettings,
    "structured": StructuredSettings,
    "subset": SubsetSettings,
}


def check_num_inducing(num_inducing: int, num_rows: int) -> None:
    """Refuse more inducing points than training rows."""
    if num_inducing > num_rows:
        raise UserError(
            f"method.num_inducing={num_inducing} is more than the {num_rows:,} training rows; "
            f"use method.num_inducing={num_rows} or fewer"
        )


def check_psi_statistics(kernel: str) -> None:
    """Refuse a kernel without psi statistics."""
    if kernel != "squared_exponential":
        raise UserError(
            "method.kernel must be squared_exponential for aep and fully_factorised: their psi statistics need it"
        )
