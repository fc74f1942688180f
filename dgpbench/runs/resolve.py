"""From a composed configuration to one ``Run``: every setting typed and checked, and the run's identity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from dgpbench.config import groups
from dgpbench.config.canonical import config_hash
from dgpbench.config.compose import FACTS, Composed, compose
from dgpbench.config.settings import Setting, build, declared, recorded, setting
from dgpbench.data import datasets
from dgpbench.data.splits import TASKS, TaskSettings
from dgpbench.errors import UserError
from dgpbench.methods.interface import families, settings_class
from dgpbench.methods.settings import GPSettings, MethodSettings
from dgpbench.runs import start
from dgpbench.runs.identity import Identity
from dgpbench.system import provenance
from dgpbench.training.settings import OPTIMISERS, TrainingSettings

RECORDED_OF_DATA = ("name", "kind", "target", "seed", "num_rows")  # the rest of a data set's file changes no table
TRANSFORM = "target_transform"  # changes no table either, but what is trained on; the usual "none" is left out


@dataclass(frozen=True)
class MethodCard:
    """What a method's file in conf/ says besides its settings.

    :param citation: its key in conf/references.yaml
    :param family: the module of ``dgpbench.methods``
    :param objective: the name of what training maximises
    :param optimisers: those that can train it, the usual one first
    """

    name: str
    title: str
    citation: str
    family: str
    objective: str
    optimisers: tuple[str, ...]
    precisions: tuple[str, ...]
    single_layer: bool


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of a prediction."""

    num_samples: int = setting("S, samples of a prediction", low=1, high=100_000)


@dataclass(frozen=True)
class Limits:
    """Where and how a run is carried out; nothing here changes what it computes."""

    results_dir: str = setting("where records go")
    num_threads: int = setting("threads of the run; another count gives other last bits", low=1)
    timeout_minutes: float | None = setting("the run fails with status timeout after this long", above=0)
    plot: bool = setting("write a picture beside the record")
    progress: bool = setting("say what the run will take, and show its progress")

    def __post_init__(self) -> None:
        if self.num_threads > provenance.processors():
            raise UserError(
                f"num_threads={self.num_threads} cannot be used; this machine runs {provenance.processors()} at a time"
            )

    @property
    def seconds(self) -> float | None:
        """The limit of wall-clock time in seconds."""
        return None if self.timeout_minutes is None else 60 * self.timeout_minutes


@dataclass(frozen=True)
class Run:
    """One run, resolved.

    :param card: what the method's file says besides its settings
    :param method: the family's own settings
    :param dataset: the data set's file in conf/; ``dataset.KEY`` on the command line changes it
    :param dataset_name: what its records are filed under; of a user's own table, known once it has been read
    :param changed: settings that differ from what the named choices give
    """

    card: MethodCard
    method: MethodSettings
    training: TrainingSettings
    prediction: PredictionSettings
    task: TaskSettings
    dataset: Mapping[str, Any]
    dataset_name: str
    protocol: str
    budget: str
    limits: Limits
    changed: Mapping[str, Any] = field(default_factory=dict)
    split: int = setting("which split of the data, from 0", low=0)
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
        """Where its record lies."""
        return self.identity.directory(self.limits.results_dir)

    @property
    def starts_from(self) -> str | None:
        """The name of the run it starts from, which no machine and no results_dir is part of."""
        return None if self.init_from is None else start.name_of(self.init_from)

    @property
    def start(self) -> Path | None:
        """Where the run it starts from lies, where that is among the same results."""
        return None if self.init_from is None else Path(self.limits.results_dir, self.init_from)

    @cached_property
    def config(self) -> dict[str, Any]:
        """What was computed, as plain data: the record keeps it, and its hash."""
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
        """Of ``config``."""
        return config_hash(self.config)

    def filed_under(self, dataset_name: str) -> Self:
        """The same run on a table of this name."""
        return self if dataset_name == self.dataset_name else replace(self, dataset_name=dataset_name)

    def starting_from(self, other: "Run") -> Self:
        """The same run, from the parameters of another among the same results.

        :raises UserError: where its method takes none
        """
        name = other.identity.directory("").as_posix()
        begun = replace(self, init_from=name, changed={**self.changed, "init_from": name})
        _check_compatible(begun)
        return begun

    def quietly(self) -> Self:
        """Without progress, for a worker."""
        return replace(self, limits=replace(self.limits, progress=False))


def resolve(composed: Composed) -> Run:
    """A composed configuration as one validated run.

    :raises UserError: for a value out of range, an unknown key or an incompatible choice
    """
    _check_data_keys(composed)
    run = _typed(composed.values)
    _check_compatible(run)
    if composed.values is composed.usual:
        return replace(run, changed=_changed_optimiser(run))
    usual = _flat(_typed(composed.usual))
    changed = {key: value for key, value in _flat(run).items() if usual.get(key, _ABSENT) != value}
    return replace(run, changed=_changed_optimiser(run) | changed)


def resolve_overrides(overrides: Iterable[str], more: Mapping[str, Any] = MappingProxyType({})) -> Run:
    """The run that some overrides describe, as ``dgpbench run`` takes them; ``more`` are settings as values."""
    overrides = list(overrides)
    given = {text.partition("=")[0] for text in overrides}
    if TEST_FILE in given and "task" not in given and f"{TEST_FILE}=null" not in overrides:
        overrides.append("task=fixed")  # a file of test rows is a split that the data bring
    return resolve(compose(overrides, more))


TEST_FILE = "dataset.test_path"
_ABSENT = object()


def _check_data_keys(composed: Composed) -> None:
    """A data set's file describes its data; only what its kind declares as settings may be changed."""
    spec, usual = composed.values["dataset"], composed.usual["dataset"]
    known = declared(datasets.settings_class(usual))
    for key in spec:
        if key not in known and spec[key] != usual.get(key, _ABSENT):
            has = f"it has {', '.join(known)}" if known else "it has none"
            if key in declared(datasets.TableSettings):
                has = "a table of your own is dataset=csv dataset.path=FILE dataset.target=COLUMN"
            raise UserError(f"dataset {usual['name']} has no setting 'dataset.{key}'; {has}")


def _typed(values: Mapping[str, Any]) -> Run:
    """The sections as their dataclasses, every value checked."""
    card = _card(values["method"])
    name, optimiser = values["task"]["name"], values["training"]["optimiser"]
    if name not in TASKS:
        raise UserError(f"task is one of {', '.join(TASKS)}, not {name}")
    spec, limits = values["dataset"], declared(Limits)
    data = declared(datasets.settings_class(spec))
    own = {key: values[key] for key in declared(Run)}
    return build(
        Run,
        "",
        own,
        card=card,
        method=build(settings_class(card.family), "method", _settings(values["method"]), name=card.name),
        training=build(OPTIMISERS[optimiser], "training", _settings(values["training"]), optimiser=optimiser),
        prediction=build(PredictionSettings, "prediction", values["prediction"]),
        task=build(TASKS[name].settings, "task", _settings(values["task"]), name=name),
        dataset={**spec, **{key: each.read(f"dataset.{key}", spec[key]) for key, each in data.items()}},
        dataset_name=spec["name"],
        protocol=values["protocol"]["name"],
        budget=values["budget"]["name"],
        limits=build(Limits, "", {key: values[key] for key in limits}),
    )


def _card(method: Mapping[str, Any]) -> MethodCard:
    facts: dict[str, Any] = {each.name: method[each.name] for each in fields(MethodCard)}
    lists = {key: tuple(facts[key]) for key in ("optimisers", "precisions")}
    return MethodCard(**facts | lists)


def _settings(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in FACTS}


def _flat(run: Run) -> dict[str, Any]:
    """Every setting that may be part of the identity by its dotted key; the axes themselves are left out."""
    sections = {"method": run.method, "training": run.training, "prediction": run.prediction, "task": run.task}
    flat = {
        f"{section}.{name}": getattr(settings, name)
        for section, settings in sections.items()
        for name in declared(type(settings))
    }
    flat |= {"precision": run.precision, "init_from": run.starts_from}
    # A user's table is known by its digest.
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


def _changed_optimiser(run: Run) -> dict[str, Any]:
    optimiser = run.training.optimiser
    return {} if optimiser == run.card.optimisers[0] else {"optimiser": optimiser}


def _check_compatible(run: Run) -> None:
    card, method, training = run.card, run.method, run.training
    if card.single_layer and method.num_layers != 1:
        raise UserError(
            f"method.num_layers={method.num_layers} cannot be used; {card.name} has one layer, "
            "and mf, star and fc are deep methods"
        )
    if training.optimiser not in card.optimisers:
        why = ""
        if training.optimiser == "natgrad_adam":
            why = f", as natural gradients are for mf, sgp and fc: {method.no_natural_gradients}"
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
            f"precision=mixed needs method.kernel=squared_exponential, not {method.kernel}; precision=float64 takes it"
        )
    if run.dataset.get("test_path") is not None and run.task.name != "fixed":
        raise UserError(
            f"{TEST_FILE} names the test rows, and task={run.task.name} would draw its own; leave task= out, "
            "or take task=fixed"
        )
    if run.init_from is not None and not method.starts_from_records:
        raise UserError(f"init_from= cannot start {card.name}; it starts mf, star, fc and their relatives")


# What there is to set -------------------------------------------------------------------------------------------------


def documented() -> list[tuple[str, Setting, tuple[str, ...]]]:
    """Every key with its setting and, where not all methods (optimisers, tasks) have it so, those that do."""
    everywhere: tuple[str, ...] = ()
    found = [(key, each, everywhere) for key, each in (declared(Run) | declared(Limits)).items()]
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
            found.append((key, each, everywhere if len(names) == len(classes) else tuple(names)))
    return found


def keys() -> list[str]:
    """Every key of a setting, once."""
    return list(dict.fromkeys(key for key, _, _ in documented()))


def is_known(key: str) -> bool:
    """Whether a key can stand on a command line: a group, a setting, or something of a data set or task."""
    return key in groups.GROUPS or key in keys() or key.split(".")[0] in ("dataset", "task")
