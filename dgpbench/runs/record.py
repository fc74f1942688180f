"""Form of a run's record: its fields, the conditions on their values, its JSON and its digest.

Records are merged, copied and edited by hand, and come from other machines. Both readers, ``read_record`` and
``compact_records.decode``, check them here, report what fails and leave it out; all other code relies on that.
Times are ISO 8601 in UTC. Scores are in the original units of y.
"""

import hashlib
import json
import math
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Self

from dgpbench.config.canonical import config_hash, digest
from dgpbench.config.settings import LARGEST, LARGEST_WHOLE

SCHEMA = 2  # of record.json
RECORD, POINTS, TRACE, POSTERIOR = "record.json", "points.parquet", "trace.parquet", "posterior.npz"
PARAMETERS = "parameters.npz"  # of the finished model: for warm starts, and for predictions of new rows
FILES = (POINTS, TRACE, POSTERIOR, PARAMETERS)
STATUSES = ("done", "failed", "diverged", "interrupted", "timeout")
FAILED = ("failed", "diverged", "timeout")  # an interrupted run is still to be finished
PIT_BINS = 20
COVERAGES = 19  # central intervals of nominal coverage 0.05, 0.10, ..., 0.95
LARGEST_RECORD = 2**26  # bytes; records with a long list of columns have less than a megabyte
DEEPEST = 50  # levels of lists and mappings; Python's JSON reader and writer need stack for each
ROUNDING = 1e-9  # relative: the order of a sum depends on the processor and on NumPy
CLOCKS = 1.0  # seconds; earlier records measure the total with another clock than its parts


# Fields ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A condition on a value."""

    words: str  # complete the message "its NAME is VALUE, not ..."
    holds: Callable[[Any], bool]
    parts: Mapping[str, "Field"] | None = None  # fields of the value, if it is a mapping with fields of its own
    required: bool = True

    @property
    def or_null(self) -> Self:
        """The same condition, or None."""
        return replace(self, words=f"{self.words} or null", holds=lambda value: value is None or self.holds(value))

    @property
    def optional(self) -> Self:
        """The same condition on a value that may be missing."""
        return replace(self, required=False)


TEXT = Field("a text", lambda value: type(value) is str)
MAPPING = Field("a mapping", lambda value: type(value) is dict)
# The type excludes bool, the bounds NaN and infinity.
NUMBER = Field("a finite number", lambda value: type(value) in (int, float) and -LARGEST <= value <= LARGEST)
POSITIVE = Field("a number above 0", lambda value: NUMBER.holds(value) and value > 0)
WHOLE = Field("a whole number", lambda value: type(value) is int and -LARGEST_WHOLE <= value <= LARGEST_WHOLE)
COUNT = Field("a whole number from 0", lambda value: WHOLE.holds(value) and value >= 0)
NUMBERS = Field("finite numbers by name", lambda value: MAPPING.holds(value) and all(map(NUMBER.holds, value.values())))
NAME = Field(  # of a method, data set, ...: it becomes a component of a path
    "a name without a slash",
    lambda value: TEXT.holds(value) and value not in ("", ".", "..") and "/" not in value and value.isprintable(),
)


def _is_sha256(value: Any) -> bool:
    return TEXT.holds(value) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _files(words: str, names: tuple[str, ...], holds: Callable[[Any], bool]) -> Field:
    """Field of a mapping from some of these file names."""
    return Field(words, lambda value: MAPPING.holds(value) and all(k in names and holds(v) for k, v in value.items()))


def _counts(length: int) -> Field:
    return Field(
        f"{length} whole numbers from 0",
        lambda value: type(value) is list and len(value) == length and all(map(COUNT.holds, value)),
    )


def _mapping(parts: Mapping[str, Field]) -> Field:
    return replace(MAPPING, parts=parts)


IDENTITY = {  # of ``identity.Identity``; other keys are refused
    **dict.fromkeys(("task", "dataset", "method", "protocol", "budget"), NAME),
    **dict.fromkeys(("num_layers", "split", "seed"), WHOLE),
    "overrides": MAPPING,  # all of them, though the directory's name may shorten them
}
DATA = {
    **dict.fromkeys(("name", "digest_xy", "verified"), TEXT),
    **dict.fromkeys(("n", "d", "n_train", "n_test"), COUNT),
    "scale_y": POSITIVE.optional,
}
SHARED = {  # by many runs, so that a file of compact records has each combination once
    "config": _mapping({"method": _mapping({"name": TEXT}), "training": MAPPING, "prediction": MAPPING}),  # resolved
    "data": _mapping(DATA),
    "host": _mapping({"cpu": TEXT.or_null.optional, "threads": COUNT.or_null.optional, "gpu": TEXT.or_null.optional}),
    "versions": Field(
        "texts or null by name",
        lambda value: MAPPING.holds(value) and all(each is None or TEXT.holds(each) for each in value.values()),
    ),
    "git": Field(
        "a commit, and whether it is dirty",
        lambda value: MAPPING.holds(value) and TEXT.holds(value.get("commit")) and type(value.get("dirty")) is bool,
    ).or_null,
}
RUN = {
    "identity": _mapping(IDENTITY),
    "status": Field(f"one of {', '.join(STATUSES)}", lambda value: value in STATUSES),
    "scores": NUMBERS,
    "seconds": Field(  # tracing, training, prediction, total; including the training before a resumed run was stopped
        "finite numbers from 0 by name, with total",
        lambda value: NUMBERS.holds(value) and "total" in value and min(value.values()) >= 0,
    ),
    "config_hash": TEXT,
    "started": TEXT.or_null.optional,
    "finished": TEXT,
    "reason": TEXT.or_null,  # one sentence, for every status but done
    "iterations": COUNT.or_null,
    "num_parameters": COUNT.or_null.optional,  # trainable numbers; missing in records of earlier versions
    "objective": TEXT.optional,  # the name of what trace.parquet has in column elbo; missing in records of schema 1
    "notes": Field(  # what the method reports about its fit
        "a list of mappings and texts",
        lambda value: type(value) is list and all(MAPPING.holds(each) or TEXT.holds(each) for each in value),
    ),
    "start": MAPPING.or_null.optional,  # with init_from: name of that run, and sha256 of its parameters
    "digest": TEXT.optional,  # ``digest_of`` the rest; missing in records of earlier versions
}
RAW = {  # record.json
    **RUN,
    **SHARED,
    "files": _files(
        f"sizes and sha256 of {', '.join(FILES)}",
        FILES,
        lambda value: MAPPING.holds(value) and COUNT.holds(value.get("bytes")) and _is_sha256(value.get("sha256")),
    ),
    "traceback": TEXT.or_null,
    "model": MAPPING.or_null.optional,  # ``Description.to_json``; missing if the run failed, and in earlier records
}
LINE = {  # a run in a file of compact records; ``compact_records`` explains the fields
    **RUN,
    "notes": RUN["notes"].optional,
    "shared": TEXT,
    "files": _files("sha256 by the name of a run's file", (*FILES, RECORD), _is_sha256),
    "scale_y": POSITIVE.or_null,
    "pit_counts": _counts(PIT_BINS).or_null,
    "coverage_counts": _counts(COVERAGES).or_null,
    "split_digest": TEXT.or_null.optional,
    "elbo": NUMBER.or_null.optional,
    "steps_per_second": NUMBER.or_null.optional,
}
SHARED_LINE = {"id": TEXT, **SHARED}
PAIR = {  # a direct comparison of two runs in a file of compact records
    **dict.fromkeys(("first", "second"), _mapping(IDENTITY)),
    "hashes": Field("two texts", lambda value: type(value) is list and len(value) == 2 and all(map(TEXT.holds, value))),
    "rows": COUNT,
    "win_frequency": Field("a number from 0 to 1", lambda value: NUMBER.holds(value) and 0 <= value <= 1),
    "tll_difference": NUMBER,
    "digest": TEXT.optional,
}
NOT_NEGATIVE = ("rmse", "crps", "sharpness", "interval_score_90", "pinball")
SHARES = ("coverage_50", "coverage_80", "coverage_90", "coverage_95", "calibration_error")


# Checks ---------------------------------------------------------------------------------------------------------------


def _problem_of_fields(values: Mapping[str, Any], form: Mapping[str, Field], where: str = "") -> str | None:
    for name, field in form.items():
        if name not in values:
            if field.required:
                missing = [where + name for name, field in form.items() if field.required and name not in values]
                return f"it lacks {', '.join(sorted(missing))}"
        elif not field.holds(values[name]):
            return f"its {where}{name} is {shortened(values[name])}, not {field.words}"
        elif field.parts is not None and (problem := _problem_of_fields(values[name], field.parts, f"{where}{name}.")):
            return problem
    if form is IDENTITY and (unknown := set(values) - set(IDENTITY)):
        return f"its {where.rstrip('.')} has unknown keys: {', '.join(sorted(unknown))}"
    return None


def problem_of(record: Mapping[str, Any], form: Mapping[str, Field]) -> str | None:
    """Return what is wrong with a record, raw or compact, or with another line; None if nothing is.

    Quantiles have no density, so neither tll nor nlpp; other methods have both.

    :param form: RAW, LINE, SHARED_LINE or PAIR
    """
    if (problem := _problem_of_fields(record, form)) is not None or "scores" not in form:
        return problem
    scores = record["scores"]
    if record["status"] == "done" and not scores:
        return "it is done and has no scores"
    if "nlpp" in scores and "tll" not in scores:
        return "its scores lack tll, and have nlpp = -tll"
    if "nlpp" in scores and not _are_close(scores["nlpp"], -scores["tll"]):
        return f"its nlpp is {scores['nlpp']} and its tll {scores['tll']}; nlpp is -tll"
    for name, value in scores.items():
        if name in NOT_NEGATIVE and value < -ROUNDING:
            return f"its {name} is {value}, and cannot be negative"
        if name in SHARES and not -ROUNDING <= value <= 1 + ROUNDING:
            return f"its {name} is {value}, not from 0 to 1"
    if (record.get("pit_counts") is None) != (record.get("coverage_counts") is None):
        return "it has one of pit_counts and coverage_counts alone, and both are of the same rows"
    return None


def _are_close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=ROUNDING, abs_tol=ROUNDING)


def inconsistency(record: Mapping[str, Any]) -> str | None:
    """Return a contradiction between fields of a record, raw or compact; None if there is none."""
    if record["config_hash"] != config_hash(record["config"]):
        return "it has another hash than its settings"
    seconds, rows = record["seconds"], record["data"]["n_test"]
    parts = sum(value for name, value in seconds.items() if name != "total")
    if parts > seconds["total"] + CLOCKS:
        return f"its seconds are {seconds['total']:g} in total and {parts:g} in parts"
    if record.get("pit_counts") is None:
        return None
    if (counted := sum(record["pit_counts"])) != rows:
        return f"it counts {counted:,} test rows in {PIT_BINS} bins, and has {rows:,} rows"
    levels = [(place + 1) / (COVERAGES + 1) for place in range(COVERAGES)]
    shares = [count / max(rows, 1) for count in record["coverage_counts"]]
    expected = {f"coverage_{round(100 * level)}": share for level, share in zip(levels, shares, strict=True)}
    errors = [abs(share - level) for level, share in zip(levels, shares, strict=True)]
    for name, value in (expected | {"calibration_error": sum(errors) / COVERAGES}).items():
        if not _are_close(score := record["scores"].get(name, value), value):
            return f"its {name} is {score}, and its coverage_counts give {value}"
    return None


def file_problem(path: Path, stored: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a file, given its recorded size and sha256; None if it is whole."""
    if not path.is_file():  # reading a pipe or a device might never end
        return f"{path} is {'not a file' if path.exists() else 'missing'}"
    if path.stat().st_size != stored["bytes"]:
        return f"{path} is {path.stat().st_size} bytes long instead of {stored['bytes']}"
    if hashlib.sha256(path.read_bytes()).hexdigest() != stored["sha256"]:
        return f"{path} does not match the digest in its record"
    return None


# JSON -----------------------------------------------------------------------------------------------------------------


def parse(text: str) -> Any:
    """Return the value of a JSON text.

    :raises ValueError: if the text is not JSON, holds half of a surrogate pair or a number that no float holds, or is
        nested too deeply for a record
    """
    too_deep = f"it is nested more than {DEEPEST} levels deep"
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    if text.count("[") + text.count("{") > DEEPEST and _is_deeper(value, DEEPEST):
        raise ValueError(too_deep)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair can be neither printed nor hashed
    return value


def _not_json(constant: str) -> None:
    """Refuse NaN and Infinity, which Python's reader accepts."""
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    """Refuse 1e999, which Python's reader takes for infinity."""
    if math.isinf(value := float(text)):
        raise ValueError(f"{text[:30]} is too large for a number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_not_json, parse_float=_finite)


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inside)


def as_text(value: Any) -> str:
    """Return the canonical JSON: one line, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(record: Mapping[str, Any]) -> str:
    """Return the digest of a record: of its canonical JSON without ``digest``."""
    return digest(as_text({key: value for key, value in record.items() if key != "digest"}))


def commit_of(record: Mapping[str, Any]) -> str:
    """Return '74d84a4c02b1', marked if the code had changes; an installed wheel has no commit."""
    git = record.get("git")
    return "of a wheel" if git is None else f"{git['commit'][:12]}{' with changes' if git['dirty'] else ''}"


def read_record(path: str | PathLike) -> dict[str, Any]:
    """Read the record in a file, or in a run's directory.

    :raises ValueError: if it is truncated, damaged, changed, of a later dgpbench, or not a record
    """
    path = Path(path)
    path = path / RECORD if path.is_dir() else path
    record = read_content(path)
    if (problem := problem_of(record, RAW)) is not None:
        raise ValueError(f"{path} is not as dgpbench writes it: {problem}")
    if record.pop("digest", None) not in (None, (now := digest_of(record))):
        raise ValueError(f"{path} was changed after it was written: its digest is not that of its content, {now}")
    return record


def read_content(path: Path) -> dict[str, Any]:
    """Read a file that may be a record of this dgpbench or of an earlier one; its fields are not checked.

    :raises ValueError: if it cannot be one
    """
    status = path.stat()  # once: another process may replace the record at any time
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a file")
    if status.st_size > LARGEST_RECORD:
        raise ValueError(f"{path} is not a record of dgpbench: it is {status.st_size:,} bytes long")
    try:
        record = parse(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ValueError(f"{path} is truncated or damaged: {problem}") from None
    if not isinstance(record, dict) or type(record.get("schema")) is not int:
        raise ValueError(f"{path} is not a record of dgpbench")
    if record["schema"] > SCHEMA:
        raise ValueError(f"{path} has schema {record['schema']}, of a later dgpbench; this one reads up to {SCHEMA}")
    return record
