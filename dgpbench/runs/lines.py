"""The files of compact records: JSON Lines, sorted, so that two machines that know the same runs have the same bytes.

    {"id": "5f..", "kind": "shared", "config": {..}, ..}       what runs of a file share (``SHARED``); they name it
    {"kind": "run", "format": 2, "identity": {..}, ..}         a run: the rest of ``compact.of_run``
    {"kind": "pair", "first": {..}, "second": {..}, ..}        a direct comparison of two runs on one split

Lines of one kind stand together, in this order, sorted by identity. Each has the digest of its own content under
``digest``, shared ones under ``id``; lines of earlier versions have none until they are imported again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from dgpbench.config.canonical import digest
from dgpbench.runs import fields
from dgpbench.runs.fields import as_text, digest_of
from dgpbench.runs.identity import Identity

FORMAT = 2
SHARED = ("config", "data", "versions", "host", "git")
OWN = {"config": ("split", "seed"), "data": ("scale_y",)}  # what runs do not share of these
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
    """The content of a file.

    :param problems: a sentence for each line that is damaged, or not of a compact record
    :param undigested: the number of lines without a digest, as earlier versions wrote them
    """

    runs: tuple[Line, ...]
    pairs: tuple[Line, ...]
    problems: tuple[str, ...]
    undigested: int = 0


def encode(runs: Iterable[Mapping[str, Any]], pairs: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """The bytes of a file with these runs and pairs, in any order."""
    shared: dict[str, dict[str, Any]] = {}
    lines = []
    for record in sorted(runs, key=lambda record: Identity(**record["identity"]).order):
        common, own = _apart(record)
        name = digest(as_text(common))
        shared[name] = {"kind": "shared", "id": name, **common}
        lines.append({"kind": "run", "format": FORMAT, **own, "shared": name})
    both = sorted(pairs, key=lambda pair: (Identity(**pair["first"]).order, Identity(**pair["second"]).order))
    lines += [{"kind": "pair", **pair} for pair in both]
    every = [*(shared[name] for name in sorted(shared)), *({**line, "digest": digest_of(line)} for line in lines)]
    return "".join(f"{as_text(line)}\n" for line in every).encode()


def _apart(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run shares with others, and the rest."""
    common = {key: _without(record[key], OWN.get(key, ())) for key in SHARED if key in record}
    own = {key: value for key, value in record.items() if key not in SHARED}
    return common, own | {"scale_y": record["data"].get("scale_y")}


def decode(path: Path) -> Lines:
    """The content of a file; a line that is not as ``fields`` says, or was changed, is a problem and left out."""
    problems: list[str] = []
    found: dict[str, list[Line]] = {"run": [], "pair": []}
    shared: dict[str, Any] = {}
    orphans: dict[str, int] = {}  # runs by the damaged line that they name
    undigested = 0
    for source, text, line in _objects(path, problems):
        kind = line.get("kind")
        problem = _problem(kind, line) or _change(text, line)
        undigested += problem is None and kind != "shared" and "digest" not in line
        line = _without(line, ("kind", "digest"))
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
    return Lines(tuple(found["run"]), tuple(found["pair"]), tuple(problems), undigested)


def _objects(path: Path, problems: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as problem:
        problems.append(f"{path} cannot be read: {problem.strerror}")
        return
    for number, text in enumerate(texts[:-1] if texts[-1] == "" else texts, 1):
        source = f"{path}:{number}"
        try:
            line = fields.parse(text)
        except ValueError as problem:
            problems.append(f"{source} is truncated or damaged: {problem}")
            continue
        if isinstance(line, dict):
            yield source, text, line
        else:
            problems.append(f"{source} is no compact record")


def _change(text: str, line: Mapping[str, Any]) -> str | None:
    """Say that a line was changed after it was written, None where its digest is that of its content."""
    name, rest = ("id", ("id", "kind")) if line["kind"] == "shared" else ("digest", ("digest",))
    own = f'"id":"{line[name]}","kind":"shared",' if name == "id" else f'"digest":"{line.get(name)}",'
    if name not in line or line[name] == digest(text.replace(own, "", 1)):  # spelt as ``encode`` does
        return None
    if line[name] == (now := digest(as_text(_without(line, rest)))):
        return None
    return f"was changed after it was written: its {name} is {line[name]}, and that of its content {now}"


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


def _problem_of_shared(line: Mapping[str, Any]) -> str | None:
    return fields.problem_of_shared(line) if type(line.get("id")) is str else f"its id is {shortened(line.get('id'))}"


_CHECKS = {"run": fields.problem_of_run, "pair": fields.problem_of_pair, "shared": _problem_of_shared}


def _whole(line: dict[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """A run line with its configuration in full."""
    config = common["config"] | {key: line["identity"][key] for key in OWN["config"]}
    data = common["data"] | ({} if line["scale_y"] is None else {"scale_y": line["scale_y"]})
    return _without(line, ("shared", "format", "scale_y")) | common | {"config": config, "data": data}


def _without(values: Any, keys: Iterable[str]) -> Any:
    return {key: value for key, value in values.items() if key not in keys} if isinstance(values, Mapping) else values
