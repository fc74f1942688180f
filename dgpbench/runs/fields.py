"""What the parts of compact records hold: a table for each part, field by field, so that readers need not ask again.

A file of compact records is merged and edited by hand. What is not as these tables say is named and left out where
lines are read (``lines.decode``); all that reads records relies on it.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any

from dgpbench.runs.compact import COVERAGES, PIT_BINS
from dgpbench.runs.store import STATUSES

LARGEST = sys.float_info.max  # what pandas takes as a number; a longer one, infinity and NaN are none
LARGEST_WHOLE = 2**63 - 1


@dataclass(frozen=True)
class Kind:
    """What a value must be.

    :param words: what it must be, as a sentence says it
    :param optional: whether the field may be missing
    """

    words: str
    holds: Callable[[Any], bool]
    optional: bool = False


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_mapping(value: Any) -> bool:
    return type(value) is dict


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST  # true is no number


def _is_whole(value: Any) -> bool:
    return type(value) is int and -LARGEST_WHOLE <= value <= LARGEST_WHOLE


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 0


def _is_name(value: Any) -> bool:
    """Of a method, a data set, ...: a run's directory has it as a component."""
    return type(value) is str and value not in ("", ".", "..") and "/" not in value


def _has_numbers(value: Any) -> bool:
    return type(value) is dict and all(map(_is_number, value.values()))


def _has_texts(value: Any) -> bool:
    return type(value) is dict and all(map(_is_text, value.values()))


def _has_texts_or_null(value: Any) -> bool:
    return type(value) is dict and all(each is None or _is_text(each) for each in value.values())


def _is_git(value: Any) -> bool:
    return type(value) is dict and _is_text(value.get("commit")) and type(value.get("dirty")) is bool


def _has_counts(value: Any, length: int) -> bool:
    return type(value) is list and len(value) == length and all(map(_is_count, value))


def _or_null(kind: Kind, optional: bool = False) -> Kind:
    return Kind(f"{kind.words} or null", lambda value: value is None or kind.holds(value), optional)


TEXT = Kind("a text", _is_text)
NAME = Kind("a name without a slash", _is_name)
MAPPING = Kind("a mapping", _is_mapping)
NUMBER = Kind("a finite number", _is_number)
WHOLE = Kind("a whole number", _is_whole)
COUNT = Kind("a whole number from 0", _is_count)

IDENTITY: dict[str, Kind] = {
    **dict.fromkeys(("task", "dataset", "method", "protocol", "budget"), NAME),
    **dict.fromkeys(("num_layers", "split", "seed"), WHOLE),
    "overrides": MAPPING,
}
RUN: dict[str, Kind] = {
    "identity": MAPPING,
    "status": Kind(f"one of {', '.join(STATUSES)}", lambda value: value in STATUSES),
    "scores": Kind("finite numbers by name", _has_numbers),
    "seconds": Kind("finite numbers by name, with total", lambda value: _has_numbers(value) and "total" in value),
    "config_hash": TEXT,
    "shared": TEXT,
    "finished": TEXT,
    "files": Kind("texts by name", _has_texts),
    "reason": _or_null(TEXT),
    "iterations": _or_null(COUNT),
    "scale_y": _or_null(NUMBER),
    "pit_counts": _or_null(Kind(f"{PIT_BINS} whole numbers from 0", lambda value: _has_counts(value, PIT_BINS))),
    "coverage_counts": _or_null(Kind(f"{COVERAGES} whole numbers from 0", lambda value: _has_counts(value, COVERAGES))),
    "split_digest": _or_null(TEXT, optional=True),
    "elbo": _or_null(NUMBER, optional=True),
    "steps_per_second": _or_null(NUMBER, optional=True),
    "objective": Kind("a text", _is_text, optional=True),
    "notes": Kind("a list", lambda value: type(value) is list, optional=True),
}
SHARED: dict[str, Kind] = {
    "id": TEXT,
    **dict.fromkeys(("config", "data", "host"), MAPPING),
    "versions": Kind("texts or null by name", _has_texts_or_null),
    "git": _or_null(Kind("a commit, and whether it is dirty", _is_git)),
}
CONFIG: dict[str, Kind] = dict.fromkeys(("method", "training", "prediction"), MAPPING)
METHOD: dict[str, Kind] = {"name": TEXT}
DATA: dict[str, Kind] = {
    **dict.fromkeys(("name", "digest_xy", "verified"), TEXT),
    **dict.fromkeys(("n", "d", "n_train", "n_test"), COUNT),
}
HOST: dict[str, Kind] = {"cpu": _or_null(TEXT, optional=True), "threads": _or_null(COUNT, optional=True)}
PAIR: dict[str, Kind] = {
    **dict.fromkeys(("first", "second"), MAPPING),
    "hashes": Kind("two texts", lambda value: type(value) is list and len(value) == 2 and all(map(_is_text, value))),
    "rows": COUNT,
    **dict.fromkeys(("win_frequency", "tll_difference"), NUMBER),
}


def problem_of_run(line: Mapping[str, Any]) -> str | None:
    """What is wrong with a run's line, None where nothing is."""
    return (
        _problem(line, RUN)
        or _problem_of_identity(line["identity"], "identity")
        or _problem_of_scores(line)
        or _problem_of_counts(line)
    )


def problem_of_pair(line: Mapping[str, Any]) -> str | None:
    """What is wrong with the line of a direct comparison, None where nothing is."""
    found = (_problem_of_identity(line[side], side) for side in ("first", "second"))
    return _problem(line, PAIR) or next(filter(None, found), None)


def problem_of_shared(line: Mapping[str, Any]) -> str | None:
    """What is wrong with a line that runs share, None where nothing is."""
    return (
        _problem(line, SHARED)
        or _problem(line["config"], CONFIG, "config.")
        or _problem(line["config"]["method"], METHOD, "config.method.")
        or _problem(line["data"], DATA, "data.")
        or _problem(line["host"], HOST, "host.")
    )


def _problem(values: Mapping[str, Any], kinds: Mapping[str, Kind], where: str = "") -> str | None:
    for name, kind in kinds.items():
        if name not in values:
            if not kind.optional:
                missing = [each for each in kinds if each not in values and not kinds[each].optional]
                return f"it lacks {', '.join(where + each for each in sorted(missing))}"
        elif not kind.holds(values[name]):
            return f"its {where}{name} is {shortened(values[name])}, not {kind.words}"
    return None


def _problem_of_identity(identity: Mapping[str, Any], where: str) -> str | None:
    if unknown := set(identity) - set(IDENTITY):
        return f"its {where} has {', '.join(sorted(unknown))}, which names no run"
    return _problem(identity, IDENTITY, f"{where}.")


def _problem_of_scores(line: Mapping[str, Any]) -> str | None:
    """Quantiles have no density, and so neither tll nor nlpp; any other run that is done has both."""
    if line["status"] == "done" and not line["scores"]:
        return "it is done and has no scores"
    without = "nlpp" in line["scores"] and "tll" not in line["scores"]
    return "its scores lack tll, and have nlpp = -tll" if without else None


def _problem_of_counts(line: Mapping[str, Any]) -> str | None:
    one = (line["pit_counts"] is None) != (line["coverage_counts"] is None)
    return "it has one of pit_counts and coverage_counts alone, and both are of the same rows" if one else None
