"""The files of compact records: JSON Lines, sorted, so that two machines that know the same runs have the same bytes.

    {"id": "5f..", "kind": "shared", "config": {..}, ..}       what runs of a file share (``SHARED``); they name it
    {"kind": "run", "format": 2, "identity": {..}, ..}         a run: the rest of ``compact.of_run``
    {"kind": "pair", "first": {..}, "second": {..}, ..}        a direct comparison of two runs on one split

Lines of one kind stand together, in this order, sorted by identity.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from dgpbench.config.canonical import digest
from dgpbench.runs import fields, store
from dgpbench.runs.identity import Identity

FORMAT = 2
SHARED = ("config", "data", "versions", "host", "git")
OWN = {"config": ("split", "seed"), "data": ("scale_y",)}  # what runs do not share of these
DEEPEST = 50  # levels of lists and mappings; reading and writing take some of Python's stack for each
Pair = tuple[str, str]


@dataclass(frozen=True)
class Line:
    """A record, raw or compact.

    :param source: where it is: a run's directory, or FILE:LINE
    """

    record: Mapping[str, Any]
    source: str

    @cached_property
    def key(self) -> str:
        """The run's name."""
        return Identity(**self.record["identity"]).key

    @property
    def is_done(self) -> bool:
        """Whether the run came to its end."""
        return self.record["status"] == "done"


@dataclass(frozen=True)
class Lines:
    """What a file holds; ``problems`` has a sentence for each line that is none of a compact record."""

    runs: tuple[Line, ...]
    pairs: tuple[Line, ...]
    problems: tuple[str, ...]


def encode(runs: Iterable[Mapping[str, Any]], pairs: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """The bytes of a file with these runs and pairs, in any order."""
    shared: dict[str, dict[str, Any]] = {}
    lines = []
    for record in sorted(runs, key=lambda record: Identity(**record["identity"]).order):
        common, own = _apart(record)
        name = digest(_text(common))
        shared[name] = {"kind": "shared", "id": name, **common}
        lines.append({"kind": "run", "format": FORMAT, **own, "shared": name})
    both = sorted(pairs, key=lambda pair: (Identity(**pair["first"]).order, Identity(**pair["second"]).order))
    every = [*(shared[name] for name in sorted(shared)), *lines, *({"kind": "pair", **pair} for pair in both)]
    return "".join(f"{_text(line)}\n" for line in every).encode()


def problem_of(record: Mapping[str, Any]) -> str | None:
    """Why a record has no line that could be read again, None where it has."""
    common, own = _apart(record)
    return fields.problem_of_shared({"id": "", **common}) or fields.problem_of_run({"shared": "", **own})


def _apart(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run shares with others, and the rest."""
    common = {key: _without(record[key], OWN.get(key, ())) for key in SHARED if key in record}
    own = {key: value for key, value in record.items() if key not in SHARED}
    return common, own | {"scale_y": record["data"].get("scale_y")}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def decode(path: Path) -> Lines:
    """What a file holds; a line that is not as ``fields`` says is a problem, and read no further."""
    problems: list[str] = []
    found: dict[str, list[Line]] = {"run": [], "pair": []}
    shared: dict[str, Any] = {}
    orphans: dict[str, int] = {}  # runs by the damaged line that they name
    for source, line in _objects(path, problems):
        kind = line.pop("kind", None)
        problem = _problem(kind, line)
        if kind == "shared":  # a damaged one too, so that its runs are named together
            shared[str(line.pop("id", ""))] = line if problem is None else source
        if problem is None and kind == "run":
            common = shared.get(line["shared"])
            if isinstance(common, str):
                orphans[common] = orphans.get(common, 0) + 1
            elif common is None:
                problem = f"names the shared line {shortened(line['shared'])}, which the file does not have before it"
            else:
                found["run"].append(Line(_whole(line, common), source))
        elif problem is None and kind == "pair":
            found["pair"].append(Line(line, source))
        if problem is not None:
            problems.append(f"{source} {problem}")
    problems += [f"{source} is left out with all runs that share it: {count}" for source, count in orphans.items()]
    return Lines(tuple(found["run"]), tuple(found["pair"]), tuple(problems))


def _objects(path: Path, problems: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as problem:
        problems.append(f"{path} cannot be read: {problem.strerror}")
        return
    for number, text in enumerate(texts, 1):
        source = f"{path}:{number}"
        try:
            line = _parsed(text)
        except ValueError as problem:
            problems.append(f"{source} is truncated or damaged: {problem}")
            continue
        if isinstance(line, dict):
            yield source, line
        else:
            problems.append(f"{source} is no compact record")


def _parsed(text: str) -> Any:
    """
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


_DECODER = json.JSONDecoder(parse_constant=store.not_json)


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inside)


def _problem(kind: Any, line: Mapping[str, Any]) -> str | None:
    check = _CHECKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        return "is no compact record"
    form = line.get("format", FORMAT)
    if type(form) is not int:
        return f"is no compact record: its format is {shortened(form)}, not a whole number"
    if form != FORMAT:
        return f"has format {form}, of {'a later' if form > FORMAT else 'an earlier'} dgpbench; this one reads {FORMAT}"
    problem = check(line)
    return None if problem is None else f"is no compact record: {problem}"


_CHECKS = {"run": fields.problem_of_run, "pair": fields.problem_of_pair, "shared": fields.problem_of_shared}


def _whole(line: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """A run line with its configuration in full."""
    config = common["config"] | {key: line["identity"][key] for key in OWN["config"]}
    data = common["data"] | ({} if line["scale_y"] is None else {"scale_y": line["scale_y"]})
    return _without(line, ("shared", "format", "scale_y")) | common | {"config": config, "data": data}


def _without(values: Any, keys: Iterable[str]) -> Any:
    return {key: value for key, value in values.items() if key not in keys} if isinstance(values, Mapping) else values
