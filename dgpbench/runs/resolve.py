"""Resolve a composed configuration to one ``Run``: every setting typed and checked, and the run's identity."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from dgpbench.config import groups
from dgpbench.config.canonical import config_hash
from dgpbench.config.compose import FACTS, Composed, compose
from dgpbench.config.overrides import expand, parse, values
from dgpbench.config.settings import Setting, build, declared, did_you_mean, recorded, setting
from dgpbench.data import datasets
from dgpbench.data.splits import TASKS, TaskSettings
from dgpbench.errors import UserError
from dgpbench.methods.interface import FitSettings, families, settings_class
from dgpbench.methods.settings import GPSettings, MethodSettings
from dgpbench.runs.identity import Identity, name_of_run
from dgpbench.system import provenance
from dgpbench.training.settings import OPTIMISERS, TrainingSettings

RECORDED_OF_DATA = ("name", "kind", "target", "seed", "num_rows")  # the rest of a data set's YAML changes no table
TRANSFORM = "target_transform"  # changes no table either, but the training targets; the default "none" is left out
TEST_FILE = "dataset.test_path"
FOLDERS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
HYDRAS = (*FOLDERS, "hydra.output_subdir", "hydra.verbose", "hydra/launcher")
FEW = 100  # up to so many combinations of a sweep are all checked
OBJECTIVES = {"tight": "tight ELBO", "predictive": "predictive log-likelihood"}  # by ``method.bound``
_ABSENT = object()


@dataclass(frozen=True)
class MethodCard:
    """Facts of a method's YAML in conf/ that its runs need, besides its settings."""

    name: str
    family: str  # module of ``dgpbench.methods``
    objective: str  # name of what training maximises with ``method.bound=standard``
    optimisers: tuple[str, ...]  # supported ones, the default first
    precisions: tuple[str, ...]
    single_layer: bool


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of predictions."""

    num_samples: int = setting("S, number of samples of a prediction", low=1, high=100_000)


@dataclass(frozen=True)
class Limits:
    """Where and how a run is executed; nothing here changes what it computes."""

    results_dir: str = setting("folder of the records")
    num_threads: int = setting("threads of the run; changing it changes the last bits of the results", low=1)
    device: str = setting(
        "where TensorFlow computes; auto is a GPU if there is one; changing it changes the last digits of results",
        words=("cpu", "gpu", "auto"),
    )
    timeout_minutes: float | None = setting(
        "wall-clock limit of the run, in minutes; it is then recorded as a timeout", above=0
    )
    plot: bool = setting("draw a figure beside the record")
    progress: bool = setting("print a time estimate and a progress bar")

    def __post_init__(self) -> None:
        if self.num_threads > provenance.processors():
            raise UserError(
                f"num_threads={self.num_threads} cannot be used; this machine runs {provenance.processors()} at a time"
            )

    @property
    def seconds(self) -> float | None:
        """The wall-clock limit in seconds."""
        return None if self.timeout_minutes is None else 60 * self.timeout_minutes


@dataclass(frozen=True)
class Run:
    """One resolved run."""

    card: MethodCard
    method: MethodSettings
    training: TrainingSettings
    prediction: PredictionSettings
    task: TaskSettings
    dataset: Mapping[str, Any]  # the data set's YAML, with any ``dataset.KEY`` from the command line
    dataset_name: str  # in the run's identity; the name of a user's table is known once it has been read
    protocol: str
    budget: str
    limits: Limits
    changed: Mapping[str, Any] = field(default_factory=dict)  # settings that differ from what the named choices give
    split: int = setting("number of the data split, from 0", low=0)
    seed: int = setting("seed of initial values, batches and samples; splits do not depend on it", low=0)
    precision: str = setting("arithmetic of training and prediction", words=("float64", "float32", "mixed"))
    init_from: str | None = setting("finished run to start from: its directory, or runs/... below results_dir")

    @cached_property
    def identity(self) -> Identity:
        """The axes that name the run."""
        return Identity(
            task=self.task.name,
            dataset=self.dataset_name,
            method=self.card.name,
            num_layers=self.method.num_layers,
            protocol=self.protocol,
            budget=self.budget,
            split=self.split,
            seed=self.seed,
            overrides=self.changed,
        )

    @cached_property
    def directory(self):
        """The directory of its record."""
        return self.identity.directory(self.limits.results_dir)

    @property
    def objective(self) -> str:
        """The name of what training maximises."""
        return OBJECTIVES.get(getattr(self.method, "bound", ""), self.card.objective)

    @property
    def starts_from(self) -> str | None:
        """The name of the run it starts from, independent of machine and results_dir."""
        return None if self.init_from is None else name_of_run(self.init_from)

    @property
    def start(self) -> Path | None:
        """The directory of the run it starts from, if that is below the same results_dir."""
        return None if self.init_from is None else Path(self.limits.results_dir, self.init_from)

    @cached_property
    def config(self) -> dict[str, Any]:
        """Everything that determines the numbers, as plain data; stored in the record, with its hash."""
        return {
            "method": self.method.recorded(),
            "training": recorded(self.training),
            "prediction": recorded(self.prediction),
            "task": recorded(self.task),
            "dataset": {key: value for key, value in self.dataset.items() if key in RECORDED_OF_DATA}
            | _transform(self.dataset),
            "protocol": self.protocol,
            "budget": self.budget,
            "split": self.split,
            "seed": self.seed,
            "precision": self.precision,
            "init_from": self.starts_from,
        }

    @cached_property
    def config_hash(self) -> str:
        """The hash of ``config``."""
        return config_hash(self.config)

    def sized(self, shape: tuple[int, ...], initial: dict[str, np.ndarray] | None = None) -> FitSettings:
        """Return the settings of a fit to X of shape [N, D]: widths, batch size and iterations become numbers.

        :param initial: parameters by path to start from
        """
        num_rows, num_features = shape
        method, training = self.method.for_inputs(num_features), self.training.for_rows(num_rows)
        return FitSettings(method, training, self.prediction.num_samples, self.precision, initial)

    def with_dataset_name(self, dataset_name: str) -> Self:
        """Return the same run on a table with this name."""
        return self if dataset_name == self.dataset_name else replace(self, dataset_name=dataset_name)

    def starting_from(self, other: "Run") -> Self:
        """Return the same run, started from the parameters of another one below the same results_dir.

        :raises UserError: if its method does not support warm starts
        """
        name = other.identity.directory("").as_posix()
        warm = replace(self, init_from=name, changed={**self.changed, "init_from": name})
        _check_compatible(warm)
        return warm

    def without_progress(self) -> Self:
        """Return the same run without a progress bar, for a worker."""
        return replace(self, limits=replace(self.limits, progress=False))


def resolve(composed: Composed) -> Run:
    """Return a composed configuration as one validated run.

    :raises UserError: for a value out of range, an unknown key or an incompatible choice
    """
    spec, usual = composed.values["dataset"], composed.defaults["dataset"]
    known = declared(datasets.settings_class(usual))
    for key in spec:  # only the settings of its kind may be changed, not the rest of its description
        if key not in known and spec[key] != usual.get(key, _ABSENT):
            has = f"it has {', '.join(known)}" if known else "it has none"
            if key in declared(datasets.TableSettings):
                has = "use dataset=csv dataset.path=FILE dataset.target=COLUMN for a table of your own"
            hint = did_you_mean(key, known)
            raise UserError(f"dataset {usual['name']} has no setting 'dataset.{key}'; {has}{hint}")
    run = _typed(composed.values)
    _check_compatible(run)
    others, optimiser = _flat(_typed(composed.defaults)), run.training.optimiser
    changed = {} if optimiser == run.card.optimisers[0] else {"optimiser": optimiser}
    changed |= {key: value for key, value in _flat(run).items() if others.get(key, _ABSENT) != value}
    if changed.get("training.epochs") is not None and run.training.max_iterations is not None:
        raise UserError(
            f"training.epochs={changed['training.epochs']} has no effect beside "
            f"training.max_iterations={run.training.max_iterations}: set training.max_iterations=null too"
        )
    return replace(run, changed=changed)


def resolve_overrides(overrides: Iterable[str], more: Mapping[str, Any] = MappingProxyType({})) -> Run:
    """Resolve overrides such as those of ``dgpbench run``; ``more`` holds further settings as values."""
    overrides = list(overrides)
    keys = {text.partition("=")[0] for text in overrides}
    if TEST_FILE in keys and "task" not in keys and f"{TEST_FILE}=null" not in overrides:
        overrides.append("task=fixed")  # a file of test rows is a fixed split
    return resolve(compose(overrides, more))


def _typed(values: Mapping[str, Any]) -> Run:
    """Build the dataclasses of all sections, every value checked."""
    facts: dict[str, Any] = {each.name: values["method"][each.name] for each in fields(MethodCard)}
    card = MethodCard(**facts | {key: tuple(facts[key]) for key in ("optimisers", "precisions")})
    name, optimiser, spec = values["task"]["name"], values["training"]["optimiser"], values["dataset"]
    method, training, task = (
        {key: value for key, value in values[section].items() if key not in FACTS}
        for section in ("method", "training", "task")
    )
    data = declared(datasets.settings_class(spec))
    return build(
        Run,
        "",
        {key: values[key] for key in declared(Run)},
        card=card,
        method=build(settings_class(card.family), "method", method, name=card.name),
        training=build(OPTIMISERS[optimiser], "training", training, optimiser=optimiser),
        prediction=build(PredictionSettings, "prediction", values["prediction"]),
        task=build(TASKS[name].settings, "task", task, name=name),
        dataset={**spec, **{key: each.read(f"dataset.{key}", spec[key]) for key, each in data.items()}},
        dataset_name=spec["name"],
        protocol=values["protocol"]["name"],
        budget=values["budget"]["name"],
        limits=build(Limits, "", {key: values[key] for key in declared(Limits)}),
    )


def _flat(run: Run) -> dict[str, Any]:
    """Return every setting that may be part of the identity by its dotted key, without the axes themselves."""
    sections = {"method": run.method, "training": run.training, "prediction": run.prediction, "task": run.task}
    flat = {
        f"{section}.{name}": getattr(settings, name)
        for section, settings in sections.items()
        for name in declared(type(settings))
    }
    flat |= {"precision": run.precision, "init_from": run.starts_from}
    # The digest of a user's table identifies it.
    flat |= _leaves(_transform(run.dataset) if run.dataset["kind"] == "csv" else run.dataset, "dataset.")
    del flat["method.num_layers"]
    return flat


def _transform(dataset: Mapping[str, Any]) -> dict[str, Any]:
    chosen = dataset.get(TRANSFORM, "none")
    return {} if chosen == "none" else {TRANSFORM: chosen}


def _leaves(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _check_compatible(run: Run) -> None:
    card, method, training = run.card, run.method, run.training
    if card.single_layer and method.num_layers != 1:
        raise UserError(
            f"method.num_layers={method.num_layers} cannot be used: {card.name} has one layer; "
            "deep methods are mf, star and fc, for example"
        )
    if training.optimiser not in card.optimisers:
        why = ""
        if training.optimiser == "natgrad_adam":
            why = f"; natural gradients are for mf, sgp and fc: {method.no_natural_gradients}"
        raise UserError(
            f"optimiser={training.optimiser} cannot train {card.name}; "
            f"use optimiser={' or optimiser='.join(card.optimisers)}{why}"
        )
    if run.precision not in card.precisions:
        raise UserError(
            f"precision={run.precision} cannot be used with {card.name}; "
            f"use precision={' or precision='.join(card.precisions)}"
        )
    if run.precision == "mixed" and isinstance(method, GPSettings) and method.kernel != "squared_exponential":
        raise UserError(
            f"precision=mixed does not support method.kernel={method.kernel}; "
            "use method.kernel=squared_exponential or precision=float64"
        )
    if run.dataset.get("test_path") is not None and run.task.name != "fixed":
        raise UserError(
            f"{TEST_FILE} names the test rows, but task={run.task.name} draws its own; omit task= or use task=fixed"
        )
    if run.init_from is not None and not method.starts_from_records:
        raise UserError(f"init_from= is not supported by {card.name}; mf, star, fc and their variants support it")


# Available settings ---------------------------------------------------------------------------------------------------


def documented() -> list[tuple[str, Setting, tuple[str, ...]]]:
    """Return every key, its setting and the methods, optimisers or tasks that have it; none of these if all do."""
    listed: list[tuple[str, Setting, tuple[str, ...]]]
    listed = [(key, each, ()) for key, each in (declared(Run) | declared(Limits)).items()]
    sections: dict[str, Mapping[str, type]] = {
        "prediction": {"": PredictionSettings},
        "method": {family: settings_class(family) for family in families()},
        "training": {name: settings for name, settings in OPTIMISERS.items() if declared(settings)},
        "task": {name: task.settings for name, task in TASKS.items()},
        "dataset": {"csv": datasets.TableSettings, "synthetic": datasets.SyntheticSettings, "": datasets.NoSettings},
    }
    for section, classes in sections.items():
        owners: dict[tuple[str, Setting], list[str]] = {}
        for owner, cls in classes.items():
            for name, each in declared(cls).items():
                owners.setdefault((f"{section}.{name}", each), []).append(owner)
        for (key, each), names in owners.items():
            listed.append((key, each, () if len(names) == len(classes) else tuple(names)))
    return listed


def keys() -> list[str]:
    """Return every key of a setting, once."""
    return list(dict.fromkeys(key for key, _, _ in documented()))


# Overrides as typed ---------------------------------------------------------------------------------------------------


def check_overrides(overrides: Sequence[str], *, multirun: bool) -> list[Run]:
    """Check a command line before Hydra reads it: unknown names, keys and values are refused in one sentence.

    Hydra itself prints several lines for a misspelt name, and accepts ``+new=1`` and ``~method``.

    :return: the run; with ``multirun`` every combination, or where these are many every value of every sweep once
    :raises UserError: for an override that cannot be used
    """
    parsed = parse_known(overrides)
    for override in parsed:
        if override.is_sweep_override() and not multirun:
            raise UserError(
                f"{override.input_line} names several values; add --multirun to run them all, or quote a value that "
                f"contains commas or brackets inside the shell's quotes, as in '{override.get_key_element()}=\"...\"'"
            )
    expanded = [expand(override) for override in parsed if not _is_hydras(override.key_or_group)]
    if prod(map(len, expanded)) <= FEW:
        return [resolve_overrides(combination) for combination in product(*expanded)]
    first = [choices[0] for choices in expanded]  # where the others stay while one varies
    varied = (
        [*first[:position], value, *first[position + 1 :]]
        for position, choices in enumerate(expanded)
        for value in choices[1:]
    )
    return [resolve_overrides(combination) for combination in (first, *varied)]


def parse_known(texts: Iterable[str]) -> list[Any]:
    """Parse overrides as typed, sweeps included, without composing them.

    :raises UserError: for invalid grammar, an unknown key or an unknown choice
    """
    parsed = parse(texts)
    for override in parsed:
        key = override.key_or_group
        if _is_hydras(key):
            _check_hydras(override)
            continue
        known = key in groups.GROUPS or key.split(".")[0] in ("dataset", "task") or key in keys()
        if known and (override.is_add() or override.is_force_add() or override.is_delete()):
            change = f"settings can only be changed, as in {key}=VALUE"
            raise UserError(f"{override.input_line} adds or removes a key; {change}")
        if key in groups.GROUPS:
            for name in values(override, groups.names(key)):
                if not groups.exists(key, name):
                    raise groups.unknown(key, name)
        elif key in ("path", "target"):
            raise UserError(f"unknown setting '{key}'; use dataset=csv dataset.path=FILE dataset.target=COLUMN")
        elif not known:
            hint = did_you_mean(key, [*groups.GROUPS, *keys()])
            raise UserError(f"unknown setting '{key}'{hint}; `dgpbench run --help` lists all settings")
    return parsed


def _is_hydras(key: str) -> bool:
    return key.split(".")[0].split("/")[0] == "hydra"


def _check_hydras(override: Any) -> None:
    """Refuse keys that may name code: Hydra calls any callback, launcher or sweeper, in any spelling."""
    key, value, package = override.key_or_group, override.value(), override.package
    allowed = key in HYDRAS or re.fullmatch(r"hydra\.launcher\.[a-z]\w*", key)
    plain = value is None or isinstance(value, bool | int | float | str)
    refers = "${" in str(value) and key not in FOLDERS
    elsewhere = key == "hydra/launcher" and not re.fullmatch(r"\w+", str(value))
    if not allowed or not plain or refers or elsewhere or package is not None:
        raise UserError(
            f"{override.input_line} may name code to be run, so it cannot be set; of Hydra's own keys, "
            f"{', '.join((*HYDRAS, 'hydra.launcher.KEY'))} accept a word or a number each"
        )
