"""Every key a user may set, what it means and which values it takes: the source of ``run --help`` and of validation."""

import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dgpbench.errors import Refused


@dataclass(frozen=True)
class Setting:
    """One configuration key.

    :param kind: ``int``, ``float``, ``bool``, ``str`` or ``list``
    :param help: what it means, one line
    :param low: smallest value; ``above`` instead of ``low`` excludes the bound itself
    :param high: largest value; ``below`` instead of ``high`` excludes the bound itself
    :param choices: the words it takes (in addition to numbers, where ``kind`` is a number)
    :param optional: whether null is a value
    """

    kind: str
    help: str
    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False

    def describe(self) -> str:
        """The values it takes, in words."""
        words = {
            "int": "a whole number",
            "float": "a number",
            "bool": "true or false",
            "str": "a text",
            "list": "a list",
        }
        parts = [] if self.choices and self.kind == "str" else [words[self.kind]]
        if self.low is not None:
            parts[0] += f" of at least {self.low:g}"
        if self.above is not None:
            parts[0] += f" above {self.above:g}"
        joined = " and" if self.low is not None or self.above is not None else ""
        if self.high is not None:
            parts[0] += f"{joined} at most {self.high:g}"
        if self.below is not None:
            parts[0] += f"{joined} below {self.below:g}"
        parts += [", ".join(self.choices)] if self.choices else []
        return " or ".join(parts + (["null"] if self.optional else []))


KERNEL_NAMES = ("squared_exponential", "matern12", "matern32", "matern52")
STRUCTURE_NAMES = ("mean_field", "stripes", "arrow", "star", "chain", "fully_coupled", "custom")

SETTINGS: dict[str, Setting] = {
    "split": Setting("int", "which split of the data, from 0", low=0),
    "seed": Setting("int", "seed of initial values, batches and samples; splits do not depend on it", low=0),
    "results_dir": Setting("str", "where records go"),
    "precision": Setting("str", "arithmetic of training and prediction", choices=("float64", "float32", "mixed")),
    "num_threads": Setting("int", "threads of the run; another count gives other last bits", low=1),
    "timeout_minutes": Setting("float", "the run fails with status timeout after this long", above=0, optional=True),
    "init_from": Setting("str", "directory of a finished run to start from", optional=True),
    "plot": Setting("bool", "write a picture beside the record"),
    "progress": Setting("bool", "show progress"),
    "prediction.num_samples": Setting("int", "S, samples of a prediction", low=1),
    "method.num_layers": Setting("int", "L, GP layers, the output layer included", low=1, high=20),
    "method.width": Setting("int", "tau, GPs in a hidden layer; 'inputs' is min(30, D)", low=1, choices=("inputs",)),
    "method.num_inducing": Setting("int", "M, inducing points in each layer", low=1),
    "method.kernel": Setting("str", "kernel of every layer", choices=KERNEL_NAMES),
    "method.ard": Setting("bool", "one lengthscale for each input dimension"),
    "method.lengthscale": Setting("float", "lengthscale at the start, in standardised units", above=0),
    "method.kernel_variance": Setting("float", "kernel variance at the start", above=0),
    "method.train_hidden_variance": Setting("bool", "train the kernel variance of hidden layers too"),
    "method.white_noise": Setting("float", "w, white noise of hidden layers at the start", above=0, optional=True),
    "method.likelihood_variance": Setting(
        "float", "s2, noise variance at the start, in standardised units", above=1e-6
    ),
    "method.mean_function": Setting("str", "fixed mean of hidden layers", choices=("pca", "zero")),
    "method.jitter": Setting("float", "added to the diagonal of k(Z, Z)", low=0),
    "method.train_inducing_inputs": Setting("bool", "train Z"),
    "method.whiten": Setting("bool", "parametrise q by v = Lk^{-1} (u - m(Z)), not by u"),
    "method.marginalise": Setting("bool", "integrate the inducing outputs out (Theorem 1), or sample them"),
    "method.hidden_scale": Setting("float", "C of hidden layers starts at this times the identity", above=0),
    "method.output_scale": Setting("float", "C of the output layer starts at this times the identity", above=0),
    "method.structure": Setting("str", "which blocks of C exist", choices=STRUCTURE_NAMES),
    "method.blocks": Setting("list", "couplings of a custom structure"),
    "method.blocks_file": Setting("str", "YAML file with the couplings of a custom structure", optional=True),
    "method.power": Setting("float", "alpha of power EP; 1 is EP, the limit 0 is variational", above=0, high=1),
    "method.propagation": Setting(
        "str",
        "how rows pass the layers: aep, aepmcm; the sod methods: the paper's joint draws, or the published code's",
        choices=("match_moments", "sample", "joint", "diagonal"),
    ),
    "method.subset": Setting(
        "str", "which training rows are the subset", choices=("kmeans", "random", "leverage", "dpp")
    ),
    "method.start": Setting("str", "mu of the subset's hidden values at the start", choices=("projected", "uniform")),
    "method.hidden_variance": Setting("float", "Sig of hidden layers starts at this times the identity", above=0),
    "method.output_variance": Setting("float", "Sig of the output layer starts at this times the identity", above=0),
    "method.layer_noise": Setting("float", "s2_l, noise of hidden layers at the start", above=1e-8),
    "method.step_size": Setting("float", "eps of the sampler", above=0),
    "method.friction": Setting("float", "alpha of the sampler", above=0, high=1),
    "method.freeze": Setting(
        "str", "preconditioner after the burn-in: a mean, or the published snapshot", choices=("mean", "last")
    ),
    "method.noise": Setting(
        "str", "plain, or corrected for the variance that minibatches add", choices=("plain", "corrected")
    ),
    "method.output_noise": Setting("float", "s2_l, noise that hidden layers add, at the start", above=0, optional=True),
    "method.hidden_mean_spread": Setting("float", "hidden means of EP start at normal draws of this deviation", low=0),
    "method.row_variance": Setting("float", "variance of each row's hidden values at the start", above=0),
    "method.model": Setting("str", "the single-layer model", choices=("gpr", "sgpr", "fitc")),
    "method.max_rows": Setting("int", "exact GP regression refuses more training rows than this", low=1),
    "training.optimiser": Setting(
        "str", "set by the group optimiser=", choices=("adam", "lbfgs", "natgrad_adam", "sghmc")
    ),
    "training.max_iterations": Setting("int", "iterations of training; null where epochs say it", low=1, optional=True),
    "training.epochs": Setting(
        "int", "passes over the training rows, where max_iterations is null", low=1, optional=True
    ),
    "training.batch_size": Setting("int", "B, rows of a minibatch; all rows where there are fewer", low=1),
    "training.num_samples": Setting("int", "R, paths of each row in training", low=1),
    "training.learning_rate": Setting("float", "Adam's learning rate at the start", above=0),
    "training.decay_rate": Setting("float", "factor of the learning rate at each decay", above=0, high=1),
    "training.decay_steps": Setting("int", "iterations between two decays of the learning rate", low=1),
    "training.natgrad_gamma": Setting("float", "step length of natural gradients at the start", above=0, high=1),
    "training.burn_in": Setting("float", "share of max_iterations in which the sampler adapts", above=0, high=1),
    "training.window": Setting(
        "float", "last samples that Monte Carlo EM draws from, as a share of max_iterations", above=0, high=1
    ),
    "training.thinning": Setting(
        "float", "steps between two collected samples, as a share of max_iterations", above=0, high=1
    ),
    "training.early_stopping": Setting("bool", "hold rows out and stop when their score keeps falling"),
    "training.early_stopping_start": Setting("float", "first share of max_iterations that never stops", low=0, high=1),
    "training.holdout_fraction": Setting("float", "share of the training rows held out", above=0, high=0.9),
    "training.validation_samples": Setting("int", "samples of a validation score", low=1),
    "training.max_seconds": Setting("float", "stop training, without failing, after this long", above=0, optional=True),
    "task.train_fraction": Setting("float", "share of the rows that train", above=0, below=1),
    "task.num_folds": Setting("int", "number of folds", low=2),
}


def check_value(key: str, value: object) -> object:
    """The value in its setting's type.

    :raises Refused: for a value outside the setting's range, with what would work
    """
    setting = SETTINGS[key]
    if value is None and setting.optional:
        return None
    if isinstance(value, str) and value in setting.choices:
        return value
    converted = _convert(setting.kind, value) if not (setting.choices and setting.kind == "str") else None
    if converted is None or not _in_range(setting, converted):
        hint = did_you_mean(str(value), setting.choices)
        raise Refused(f"{key}={value} cannot be used; {key} takes {setting.describe()}{hint}")
    return converted


def _convert(kind: str, value: Any) -> Any | None:
    """The value as its kind, or None where it is not of that kind."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind == "int":
        return int(value) if number and value == int(value) else None
    if kind == "float":
        return float(value) if number else None
    if kind == "str":
        return (
            str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "" else None
        )
    wanted = {"bool": bool, "list": list}[kind]
    return value if isinstance(value, wanted) else None


def _in_range(setting: Setting, value: Any) -> bool:
    return (
        (setting.low is None or value >= setting.low)
        and (setting.above is None or value > setting.above)
        and (setting.high is None or value <= setting.high)
        and (setting.below is None or value < setting.below)
    )


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """'; did you mean X?' for a near miss, else nothing."""
    near = difflib.get_close_matches(given, list(names), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
