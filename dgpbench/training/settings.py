"""The settings of training, ``training.KEY`` on the command line: one dataclass for each optimiser."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from dgpbench.config.settings import setting
from dgpbench.errors import UserError


class OptimiserSettings:
    """The part that all optimisers share; each has a field ``optimiser``, the name of the choice."""

    def for_rows(self, num_rows: int) -> Self:
        """Return the settings with everything that depends on N as a number."""
        del num_rows
        return self


@dataclass(frozen=True)
class LbfgsSettings(OptimiserSettings):
    """SciPy's L-BFGS on all rows."""

    optimiser: str
    max_iterations: int = setting("iterations of training", low=1)

    max_seconds: ClassVar[float | None] = None  # it stops where it converges


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """The steps of Adam, with staircase decay, lr * rate^floor(i / steps), at the end times ``final_decay``."""

    learning_rate: float = setting("Adam's learning rate at the start", above=0)
    decay_rate: float = setting("factor of the learning rate at each decay", above=0, high=1)
    decay_steps: int = setting("iterations between two decays of the learning rate", low=1)
    final_decay: float = setting("factor of the learning rate in the last iterations", above=0, high=1, default=1.0)
    final_decay_start: float = setting(
        "share of max_iterations after which final_decay holds", low=0, high=1, default=0.85
    )
    beta_2: float = setting(
        "Adam's beta_2: decay rate of the mean squared gradient, remembered for 1 / (1 - beta_2) iterations",
        above=0,
        below=1,
        default=0.999,
    )


@dataclass(frozen=True)
class AdamSettings(StepSettings, OptimiserSettings):
    """Adam on minibatches."""

    optimiser: str
    max_iterations: int | None = setting("iterations of training; null if epochs is set", low=1)
    epochs: int | None = setting("passes over the training rows, where max_iterations is null", low=1)
    batch_size: int = setting("B, rows of a minibatch; all rows where there are fewer", low=1)
    num_samples: int | None = setting(
        "R, paths of each row in training; null: as many as bring a minibatch to batch_size paths", low=1
    )
    early_stopping: bool = setting("stop when the score on held-out rows keeps deteriorating")
    early_stopping_start: float = setting("fraction of max_iterations before early stopping may act", low=0, high=1)
    holdout_fraction: float = setting("share of the training rows held out", above=0, high=0.9)
    validation_samples: int = setting("samples of a validation score", low=1)
    max_seconds: float | None = setting("stop training, without failing, after this long", above=0)
    average_last: float = setting(
        "final fraction of max_iterations over which parameters are averaged; 0 uses the last iterate",
        low=0,
        below=1,
        default=0.0,
    )
    trace_test: bool = setting(
        "score the test rows at each hundredth of the iterations, for the trace; training does not see them",
        default=False,
    )

    def __post_init__(self) -> None:
        if self.max_iterations is None and self.epochs is None:
            raise UserError("training.max_iterations and training.epochs are both null; set one of them")

    @property
    def paths(self) -> int:
        """R."""
        assert self.num_samples is not None, "for_rows comes first"
        return self.num_samples

    def for_rows(self, num_rows: int) -> Self:
        """Replace null ``max_iterations`` by ``epochs`` times ceil(N / B), and null ``num_samples`` by ceil(B / N)."""
        chosen = self
        if self.max_iterations is None and self.epochs is not None:
            chosen = replace(chosen, max_iterations=self.epochs * math.ceil(num_rows / self.batch_size))
        if self.num_samples is None:
            chosen = replace(chosen, num_samples=math.ceil(self.batch_size / num_rows))
        return chosen


@dataclass(frozen=True)
class NaturalGradientSettings(AdamSettings):
    """Natural gradients on q, Adam on the rest; one decay for both."""

    natgrad_gamma: float = setting("step length of natural gradients at the start", above=0, high=1)


@dataclass(frozen=True)
class SamplerSettings(StepSettings, OptimiserSettings):
    """SGHMC steps, each with one Adam step of kernel, likelihood and Z."""

    optimiser: str
    max_iterations: int = setting("iterations of training", low=1)
    batch_size: int = setting("B, rows of a minibatch; all rows where there are fewer", low=1)
    burn_in: float = setting("share of max_iterations in which the sampler adapts", above=0, high=1)
    window: float = setting(
        "last samples that Monte Carlo EM draws from, as a share of max_iterations; at 0 the present one, and one "
        "gradient serves both steps",
        low=0,
        high=1,
    )
    thinning: float = setting("steps between two collected samples, as a share of max_iterations", above=0, high=1)
    max_seconds: float | None = setting("stop training, without failing, after this long", above=0)

    def steps(self, share: float) -> int:
        """Return a share of max_iterations as a count of steps, at least one."""
        return max(1, round(share * self.max_iterations))


@dataclass(frozen=True)
class OwnSettings(OptimiserSettings):
    """A method with its own training, governed by its own settings."""

    optimiser: str
    max_iterations: ClassVar[None] = None
    max_seconds: ClassVar[None] = None


TrainingSettings = LbfgsSettings | AdamSettings | SamplerSettings | OwnSettings
OPTIMISERS: dict[str, type[TrainingSettings]] = {
    "adam": AdamSettings,
    "natgrad_adam": NaturalGradientSettings,
    "lbfgs": LbfgsSettings,
    "sghmc": SamplerSettings,
    "own": OwnSettings,
}
