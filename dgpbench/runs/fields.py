"""The form of a record, raw or compact: JSON, a table of fields for each part, and the digest of its own content.

Records are merged, copied and edited by hand, and come from other machines. Both readers, ``store.read_record`` and
``lines.decode``, apply these checks, name what fails them and leave it out; code that uses records relies on that.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any

from dgpbench.config.canonical import digest

STATUSES = ("done", "failed", "diverged", "interrupted", "timeout")
FILES = ("points.parquet", "trace.parquet", "posterior.npz", "parameters.npz")
PIT_BINS = 20
COVERAGES = 19
DEEPEST = 50  # levels of lists and mappings; reading and writing take some of Python's stack for each
ROUNDING = 1e-9  # relative: the order of a sum differs between processors and NumPy versions
CLOCKS = 1.0  # seconds; earlier records have a total by another clock than its parts
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
    return type(value) is str and value not in ("", ".", "..") and "/" not in value and value.isprintable()


def _has_numbers(value: Any) -> bool:
    return type(value) is dict and all(map(_is_number, value.values()))


def _has_seconds(value: Any) -> bool:
    return _has_numbers(value) and "total" in value and min(value.values()) >= 0


def _are_stored(value: Any) -> bool:
    """Files beside a raw record, with their sizes."""
    return type(value) is dict and all(
        name in FILES and type(each) is dict and _is_count(each.get("bytes")) and _is_sha256(each.get("sha256"))
        for name, each in value.items()
    )


def _are_sums(value: Any) -> bool:
    return type(value) is dict and all(
        name in (*FILES, "record.json") and _is_sha256(each) for name, each in value.items()
    )


def _is_sha256(value: Any) -> bool:
    return type(value) is str and re.fullmatch("[0-9a-f]{64}", value) is not None


def _has_notes(value: Any) -> bool:
    return type(value) is list and all(_is_mapping(each) or _is_text(each) for each in value)


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
RECORD: dict[str, Kind] = {
    "identity": MAPPING,
    "status": Kind(f"one of {', '.join(STATUSES)}", lambda value: value in STATUSES),
    "scores": Kind("finite numbers by name", _has_numbers),
    "seconds": Kind("finite numbers from 0 by name, with total", _has_seconds),
    "config_hash": TEXT,
    "started": _or_null(TEXT, optional=True),
    "finished": TEXT,
    "reason": _or_null(TEXT),
    "iterations": _or_null(COUNT),
    "objective": Kind("a text", _is_text, optional=True),
    "notes": Kind("a list of mappings and texts", _has_notes, optional=True),
    "start": _or_null(MAPPING, optional=True),
    "digest": Kind("a text", _is_text, optional=True),
}
RAW: dict[str, Kind] = {
    "files": Kind(f"sizes and sha256 of {', '.join(FILES)}", _are_stored),
    "traceback": _or_null(TEXT),
    "model": _or_null(MAPPING, optional=True),
    "notes": Kind("a list of mappings and texts", _has_notes),
}
LINE: dict[str, Kind] = {
    "shared": TEXT,
    "files": Kind("sha256 by the name of a run's file", _are_sums),
    "scale_y": _or_null(Kind("a number above 0", lambda value: _is_number(value) and value > 0)),
    "pit_counts": _or_null(Kind(f"{PIT_BINS} whole numbers from 0", lambda value: _has_counts(value, PIT_BINS))),
    "coverage_counts": _or_null(Kind(f"{COVERAGES} whole numbers from 0", lambda value: _has_counts(value, COVERAGES))),
    "split_digest": _or_null(TEXT, optional=True),
    "elbo": _or_null(NUMBER, optional=True),
    "steps_per_second": _or_null(NUMBER, optional=True),
}
SHARED: dict[str, Kind] = {
    **dict.fromkeys(("config", "data", "host"), MAPPING),
    "versions": Kind("texts or null by name", _has_texts_or_null),
    "git": _or_null(Kind("a commit, and whether it is dirty", _is_git)),
}
CONFIG: dict[str, Kind] = dict.fromkeys(("method", "training", "prediction"), MAPPING)
METHOD: dict[str, Kind] = {"name": TEXT}
DATA: dict[str, Kind] = {
    **dict.fromkeys(("name", "digest_xy", "verified"), TEXT),
    **dict.fromkeys(("n", "d", "n_train", "n_test"), COUNT),
    "scale_y": Kind("a number above 0", lambda value: _is_number(value) and value > 0, optional=True),
}
HOST: dict[str, Kind] = {"cpu": _or_null(TEXT, optional=True), "threads": _or_null(COUNT, optional=True)}
PAIR: dict[str, Kind] = {
    **dict.fromkeys(("first", "second"), MAPPING),
    "hashes": Kind("two texts", lambda value: type(value) is list and len(value) == 2 and all(map(_is_text, value))),
    "rows": COUNT,
    "win_frequency": Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1),
    "tll_difference": NUMBER,
    "digest": Kind("a text", _is_text, optional=True),
}
NOT_NEGATIVE = ("rmse", "crps", "sharpness", "interval_score_90", "pinball")
SHARES = ("coverage_50", "coverage_80", "coverage_90", "coverage_95", "calibration_error")


# JSON -----------------------------------------------------------------------------------------------------------------


def parse(text: str) -> Any:
    """The value of a JSON text.

    :raises ValueError: for what is not JSON, holds half a character, or is nested more deeply than any record
    """
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    if text.count("[") + text.count("{") > DEEPEST and _is_deeper(value, DEEPEST):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair can be neither printed nor hashed
    return value


def _not_json(constant: str) -> None:
    """Refuse NaN and Infinity, which Python's reader takes for numbers."""
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_not_json)


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inside)


def as_text(value: Any) -> str:
    """The canonical spelling: one line, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(record: Mapping[str, Any]) -> str:
    """The digest of a record: 16 hexadecimal digits of the sha256 of its canonical JSON without ``digest``."""
    return digest(as_text({key: value for key, value in record.items() if key != "digest"}))


# Forms ----------------------------------------------------------------------------------------------------------------


def problem_of_raw(record: Mapping[str, Any]) -> str | None:
    """What is wrong with the content of a record.json, None where nothing is."""
    return _problem(record, RECORD | RAW) or _problem_of_common(record) or problem_of_shared(record)


def problem_of_run(line: Mapping[str, Any]) -> str | None:
    """What is wrong with a run's line, None where nothing is."""
    return _problem(line, RECORD | LINE) or _problem_of_common(line) or _problem_of_counts(line)


def _problem_of_common(record: Mapping[str, Any]) -> str | None:
    return _problem_of_identity(record["identity"], "identity") or _problem_of_scores(record)


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


def _problem_of_scores(record: Mapping[str, Any]) -> str | None:
    """Quantiles have no density, and so neither tll nor nlpp; any other run that is done has both."""
    scores = record["scores"]
    if record["status"] == "done" and not scores:
        return "it is done and has no scores"
    if "nlpp" in scores and "tll" not in scores:
        return "its scores lack tll, and have nlpp = -tll"
    if "nlpp" in scores and not math.isclose(scores["nlpp"], -scores["tll"], rel_tol=ROUNDING, abs_tol=ROUNDING):
        return f"its nlpp is {scores['nlpp']} and its tll {scores['tll']}; nlpp is -tll"
    for name, value in scores.items():
        if name in NOT_NEGATIVE and value < -ROUNDING:
            return f"its {name} is {value}, and cannot be negative"
        if name in SHARES and not -ROUNDING <= value <= 1 + ROUNDING:
            return f"its {name} is {value}, not from 0 to 1"
    return None


def _problem_of_counts(line: Mapping[str, Any]) -> str | None:
    one = (line["pit_counts"] is None) != (line["coverage_counts"] is None)
    return "it has one of pit_counts and coverage_counts alone, and both are of the same rows" if one else None


def inconsistency(record: Mapping[str, Any]) -> str | None:
    """A contradiction between numbers of a record, raw or compact, None where there is none."""
    seconds, rows = record["seconds"], record["data"]["n_test"]
    parts = sum(value for name, value in seconds.items() if name != "total")
    if parts > seconds["total"] + CLOCKS:
        return f"its seconds are {seconds['total']:g} in total and {parts:g} in parts"
    if record.get("pit_counts") is None:
        return None
    if (counted := sum(record["pit_counts"])) != rows:
        return f"it counts {counted:,} test rows in {PIT_BINS} bins, and has {rows:,} rows"
    shares = [count / max(rows, 1) for count in record["coverage_counts"]]
    levels = [(place + 1) / (COVERAGES + 1) for place in range(COVERAGES)]
    given = {f"coverage_{round(100 * level)}": share for level, share in zip(levels, shares, strict=True)}
    errors = [abs(share - level) for level, share in zip(levels, shares, strict=True)]
    for name, value in (given | {"calibration_error": sum(errors) / COVERAGES}).items():
        score = record["scores"].get(name, value)
        if not math.isclose(score, value, rel_tol=ROUNDING, abs_tol=ROUNDING):
            return f"its {name} is {score}, and its coverage_counts give {value}"
    return None
