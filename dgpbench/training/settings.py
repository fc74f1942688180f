"""The settings of training, ``training.KEY`` on the command line: one dataclass for each optimiser."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from dgpbench.config.settings import setting
from dgpbench.errors import UserError


@dataclass(frozen=True)
class LbfgsSettings:
    """SciPy's L-BFGS on all rows.

    :param optimiser: the name of the choice, as all of these have it
    """

    optimiser: str
    max_iterations: int = setting("iterations of training", low=1)

    max_seconds: ClassVar[float | None] = None  # it stops where it converges

    def for_rows(self, num_rows: int) -> Self:
        """Every iteration sees all rows."""
        del num_rows
        return self


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
        "Adam's decay rate of the mean squared gradient, which it remembers for 1 / (1 - beta_2) iterations",
        above=0,
        below=1,
        default=0.999,
    )


@dataclass(frozen=True)
class AdamSettings(StepSettings):
    """Adam on minibatches."""

    optimiser: str
    max_iterations: int | None = setting("iterations of training; null where epochs say it", low=1)
    epochs: int | None = setting("passes over the training rows, where max_iterations is null", low=1)
    batch_size: int = setting("B, rows of a minibatch; all rows where there are fewer", low=1)
    num_samples: int | None = setting(
        "R, paths of each row in training; null: as many as bring a minibatch to batch_size paths", low=1
    )
    early_stopping: bool = setting("hold rows out and stop when their score keeps falling")
    early_stopping_start: float = setting("first share of max_iterations that never stops", low=0, high=1)
    holdout_fraction: float = setting("share of the training rows held out", above=0, high=0.9)
    validation_samples: int = setting("samples of a validation score", low=1)
    max_seconds: float | None = setting("stop training, without failing, after this long", above=0)
    average_last: float = setting(
        "share of max_iterations, the last, over which parameters are averaged; at 0 the last ones count",
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
            raise UserError(
                "training.max_iterations and training.epochs are both null; one of them must say when to stop"
            )

    @property
    def paths(self) -> int:
        """R."""
        assert self.num_samples is not None, "for_rows comes first"
        return self.num_samples

    def for_rows(self, num_rows: int) -> Self:
        """With what depends on N made a number.

        ``max_iterations`` is that of ``epochs`` over the rows, ceil(N / B) each, where it is null; ``num_samples`` is
        ceil(B / N), which is 1 where a minibatch is not all rows.
        """
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
class SamplerSettings(StepSettings):
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

    def for_rows(self, num_rows: int) -> Self:
        """The schedule counts iterations whatever the rows."""
        del num_rows
        return self

    def steps(self, share: float) -> int:
        """A share of max_iterations as a count of steps, at least one."""
        return max(1, round(share * self.max_iterations))


@dataclass(frozen=True)
class OwnSettings:
    """A method that trains itself, and whose settings say how."""

    optimiser: str

    max_iterations: ClassVar[None] = None
    max_seconds: ClassVar[None] = None

    def for_rows(self, num_rows: int) -> Self:
        """Nothing depends on the rows."""
        del num_rows
        return self


TrainingSettings = LbfgsSettings | AdamSettings | SamplerSettings | OwnSettings
OPTIMISERS: dict[str, type[TrainingSettings]] = {
    "adam": AdamSettings,
    "natgrad_adam": NaturalGradientSettings,
    "lbfgs": LbfgsSettings,
    "sghmc": SamplerSettings,
    "own": OwnSettings,
}
