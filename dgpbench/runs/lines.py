"""The files of compact records: JSON Lines, sorted, so that two machines that know the same runs have the same bytes.

    {"id": "5f..", "kind": "shared", "config": {..}, ..}       what runs of a file share (``SHARED``); they name it
    {"kind": "run", "format": 2, "identity": {..}, ..}         a run: the rest of ``compact.of_run``
    {"kind": "pair", "first": {..}, "second": {..}, ..}        a direct comparison of two runs on one split

Lines of one kind stand together, in this order, sorted by identity.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgpbench.config.canonical import digest
from dgpbench.runs.identity import Identity

FORMAT = 2
SHARED = ("config", "data", "versions", "host", "git")
OWN = {"config": ("split", "seed"), "data": ("scale_y",)}  # what runs do not share of these
REQUIRED = {"config_hash", "files", "finished", "identity", "scores", "seconds", "shared", "status"}
REQUIRED_OF_PAIR = {"first", "second", "hashes", "rows", "tll_difference", "win_frequency"}
Pair = tuple[str, str]


@dataclass(frozen=True)
class Line:
    """A record, raw or compact.

    :param source: where it is: a run's directory, or FILE:LINE
    """

    record: Mapping[str, Any]
    source: str

    @property
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
        common = {key: _without(record[key], OWN.get(key, ())) for key in SHARED if key in record}
        name = digest(_text(common))
        shared[name] = {"kind": "shared", "id": name, **common}
        own = {key: value for key, value in record.items() if key not in SHARED}
        own["scale_y"] = record["data"].get("scale_y")
        lines.append({"kind": "run", "format": FORMAT, **own, "shared": name})
    both = sorted(pairs, key=lambda pair: (Identity(**pair["first"]).order, Identity(**pair["second"]).order))
    every = [*(shared[name] for name in sorted(shared)), *lines, *({"kind": "pair", **pair} for pair in both)]
    return "".join(f"{_text(line)}\n" for line in every).encode()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def decode(path: Path) -> Lines:
    """What a file holds."""
    problems: list[str] = []
    found: dict[str, list[Line]] = {"run": [], "pair": []}
    shared: dict[str, Any] = {}
    for source, line in _objects(path, problems):
        kind = line.pop("kind", None)
        if kind == "shared":
            shared[line.pop("id", "")] = line
        elif (problem := _problem(kind, line, shared)) is not None:
            problems.append(f"{source} {problem}")
        else:
            found[kind].append(Line(_whole(line, shared) if kind == "run" else line, source))
    return Lines(tuple(found["run"]), tuple(found["pair"]), tuple(problems))


def _objects(path: Path, problems: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        source = f"{path}:{number}"
        try:
            line = json.loads(text)
        except ValueError as problem:
            problems.append(f"{source} is truncated or damaged: {problem}")
            continue
        if isinstance(line, dict):
            yield source, line
        else:
            problems.append(f"{source} is no compact record")


def _problem(kind: Any, line: Mapping[str, Any], shared: Mapping[str, Any]) -> str | None:
    required = {"run": REQUIRED, "pair": REQUIRED_OF_PAIR}.get(kind)
    if required is None:
        return "is no compact record"
    if (form := line.get("format", FORMAT)) != FORMAT:
        return f"has format {form}, of {'a later' if form > FORMAT else 'an earlier'} dgpbench; this one reads {FORMAT}"
    if missing := required - set(line):
        return f"is no compact record: it lacks {', '.join(sorted(missing))}"
    try:
        for who in ("first", "second") if kind == "pair" else ("identity",):
            Identity(**line[who]).key  # noqa: B018
    except (TypeError, AttributeError) as problem:
        return f"names no run: {problem}"
    if kind == "run" and not {"config", "data"} <= set(shared.get(line["shared"], ())):
        return f"names the shared line {line['shared']}, which the file does not have before it"
    return None


def _whole(line: dict[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """A run line with its configuration in full."""
    common = shared[line["shared"]]
    config = common["config"] | {key: line["identity"][key] for key in OWN["config"]}
    data = common["data"] | ({} if line["scale_y"] is None else {"scale_y": line["scale_y"]})
    return _without(line, ("shared", "format", "scale_y")) | common | {"config": config, "data": data}


def _without(values: Any, keys: Iterable[str]) -> Any:
    return {key: value for key, value in values.items() if key not in keys} if isinstance(values, Mapping) else values
