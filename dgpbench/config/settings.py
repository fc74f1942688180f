"""Declare settings: a field of a frozen dataclass, with its help and its range.

    @dataclass(frozen=True)
    class TrainingSettings:
        learning_rate: float = setting("Adam's learning rate at the start", above=0)

The dataclass is the only list of its keys: ``run --help`` prints it, ``build`` checks values against it, and the code
reads its attributes.
"""

import difflib
import json
import math
import sys
from collections import abc
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from reprlib import repr as shortened
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from dgpbench.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
LARGEST, LARGEST_WHOLE = sys.float_info.max, 2**63 - 1  # larger ones fit neither a float nor a table's column
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", list: "a list"}


@dataclass(frozen=True)
class Setting:
    """One key: its meaning and its values.

    :param kind: ``int``, ``float``, ``bool``, ``str`` or ``list``
    :param help: its meaning, one line
    :param low: smallest value; ``above``, and ``below`` for ``high``, exclude the bound itself
    :param words: the accepted words (in addition to numbers, if ``kind`` is a number)
    :param optional: whether null is accepted
    """

    kind: type
    help: str
    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None
    words: tuple[str, ...] = ()
    optional: bool = False

    def describe(self) -> str:
        """Return the accepted values in words."""
        parts = [] if self.words and self.kind is str else [KINDS[self.kind]]
        named = {"of at least": self.low, "above": self.above, "at most": self.high, "below": self.below}
        bounds = [f"{word} {bound:g}" for word, bound in named.items() if bound is not None]
        if bounds:
            parts[0] += f" {' and '.join(bounds)}"
        parts += [", ".join(self.words)] if self.words else []
        return " or ".join(parts + (["null"] if self.optional else []))

    def read(self, key: str, value: object) -> Any:
        """Return the value in the setting's type.

        :raises UserError: for a value outside its range, with the accepted values
        """
        if value is None and self.optional:
            return None
        if isinstance(value, str) and value in self.words:
            return value
        converted = None if self.words and self.kind is str else self._convert(value)
        if converted is None or not self._holds(converted):
            is_large = self.kind is int and isinstance(value, int | float) and abs(value) > LARGEST_WHOLE
            hint = f"; the largest is {LARGEST_WHOLE}" if is_large else did_you_mean(str(value), self.words)
            raise UserError(f"{key}={shown(value)} cannot be used; {key} takes {self.describe()}{hint}")
        return converted

    def _convert(self, value: Any) -> Any | None:
        number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
        if self.kind is int:
            return int(value) if number and value == int(value) and abs(value) <= LARGEST_WHOLE else None
        if self.kind is float:
            return float(value) if number else None
        if self.kind is str:
            text = isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
            return str(value) if text else None
        return value if isinstance(value, self.kind) else None

    def _holds(self, value: Any) -> bool:
        return (
            (self.low is None or value >= self.low)
            and (self.above is None or value > self.above)
            and (self.high is None or value <= self.high)
            and (self.below is None or value < self.below)
        )


def setting(help: str, *, default: Any = MISSING, **ranges: Any) -> Any:
    """Return a field of a settings dataclass; its annotation gives the kind, and whether null is accepted.

    :param ranges: ``low``, ``above``, ``high``, ``below`` and ``words`` of ``Setting``
    """
    return field(default=default, kw_only=True, metadata={"setting": {"help": help, **ranges}})


def declared(cls: "type[DataclassInstance]") -> dict[str, Setting]:
    """Return the settings of a dataclass by name.

    :raises TypeError: for an unsupported type
    """
    ours = [each for each in fields(cls) if "setting" in each.metadata]
    types = get_type_hints(cls) if any(isinstance(each.type, str) for each in ours) else {}  # texts in some modules
    settings = {}
    for each in ours:
        kind: Any = types.get(each.name, each.type)
        given = get_args(kind) if isinstance(kind, UnionType) or get_origin(kind) is Union else (kind,)
        if not set(given) <= {*KINDS, NoneType}:
            raise TypeError(f"a setting is int, float, bool, str or list, or one of these | None, not {kind}")
        kinds = [one for one in given if one is not NoneType]
        numbers = [one for one in kinds if one is not str] or kinds  # "int | str": a number, or one of some words
        settings[each.name] = Setting(numbers[0], **each.metadata["setting"], optional=NoneType in given)
    return settings


def build(cls: type[T], section: str, values: Mapping[str, Any], **facts: Any) -> T:
    """Return the settings of a section of the configuration, each value checked.

    :param facts: the dataclass's other fields
    :raises UserError: for a key that the dataclass does not have, or a value outside its range
    """
    known = declared(cls)
    for name in values:
        if name not in known:
            has = ", ".join(known) or "none"
            raise UserError(f"{section} has no setting '{name}'; it has {has}{did_you_mean(name, known)}")
    prefix = f"{section}." if section else ""
    return cls(**{name: known[name].read(f"{prefix}{name}", value) for name, value in values.items()}, **facts)


def recorded(settings: "DataclassInstance") -> dict[str, Any]:
    """Return a settings dataclass as stored in a record, without values at a default of the dataclass itself.

    Defaults are in conf/; only settings that were added later have one in their dataclass, so that earlier records keep
    their hashes.
    """
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {each.name: values[each.name] for each in fields(settings) if each.default != values[each.name]}


def typed(kind: Any, value: Any, where: str) -> Any:
    """Convert plain data to an annotated type: a mapping to a dataclass, a list to a tuple, ...

    :param where: the name of the value in error messages
    :raises ValueError: for a value of another type, a number that is not finite, a field that is unknown or missing
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):  # X | None
        return None if value is None else typed(next(each for each in arguments if each is not NoneType), value, where)
    if is_dataclass(kind) and isinstance(value, Mapping):
        hints = get_type_hints(kind)
        needed = {each.name for each in fields(kind) if each.default is MISSING}
        if wrong := {*needed - set(value), *set(value) - set(hints)}:
            raise ValueError(f"{where} has the wrong fields: {', '.join(sorted(map(str, wrong)))}")
        return cast(Any, kind)(**{name: typed(hints[name], each, f"{where}.{name}") for name, each in value.items()})
    if origin is tuple and isinstance(value, list):
        return tuple(typed(arguments[0], each, where) for each in value)
    if origin is abc.Mapping and isinstance(value, Mapping):
        return {key: typed(arguments[1], each, f"{where}.{key}") for key, each in value.items()}
    types = (int, float) if kind is float else (kind,)
    if type(value) not in types or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{where} is {shortened(value)}, not {KINDS.get(kind, 'of its type')}")
    return value


def shown(value: object) -> str:
    """Return a value as written on the command line and in YAML."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return '; did you mean X?' for a near miss, else nothing."""
    near = difflib.get_close_matches(given, list(names), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
