"""Are the compact records whole, as dgpbench writes them, and those of the raw runs beside them?"""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from dgpbench.config.canonical import config_hash
from dgpbench.runs import archive, compact, fields, lines
from dgpbench.runs.identity import Identity
from dgpbench.runs.lines import Line


def check(results_dir: str | Path) -> tuple[int, list[str]]:
    """The number of compact records, and a sentence for each thing that is wrong."""
    parts = {path: lines.decode(path) for path in archive.paths(results_dir)}
    problems = list(archive.gather(parts.values()).problems)
    for path, part in parts.items():
        if not part.problems:
            problems += _spelling(path, part)
        for line in part.runs:
            problems += _problems(Path(results_dir), line)
    return sum(len(part.runs) for part in parts.values()), problems


def _spelling(path: Path, part: lines.Lines) -> Iterator[str]:
    """Whether a file has the bytes that dgpbench writes: digits that change no number are found too."""
    written = lines.encode((line.record for line in part.runs), (line.record for line in part.pairs))
    if (there := path.read_bytes()) == written:
        return
    pairs = zip_longest(there.split(b"\n"), written.split(b"\n"))
    number = next(number for number, (old, new) in enumerate(pairs, 1) if old != new)
    what = "is not sorted and spelt as dgpbench writes it"
    if part.undigested:
        what = f"has {part.undigested} lines without a digest, of an earlier dgpbench: a changed number is not noticed"
    yield f"{path}:{number} {what}; `dgpbench results import {path.parent} results_dir={path.parent.parent}` mends it"


def _problems(results_dir: Path, line: Line) -> Iterator[str]:
    record = line.record
    if record["config_hash"] != config_hash(record["config"]):
        yield f"{line.source} has another hash than its settings"
    if (problem := fields.inconsistency(record)) is not None:
        yield f"{line.source} contradicts itself: {problem}"
    yield from _beside_raw(Identity(**record["identity"]).directory(results_dir), line)


def _beside_raw(directory: Path, line: Line) -> Iterator[str]:
    """What differs from the run's own files, where they are here."""
    try:
        raw = compact.of_run(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    except ValueError:
        return  # `results verify` names the damaged run itself
    if raw["status"] != "done" and line.is_done:
        return  # a failure here, and done elsewhere
    if raw["scores"] != line.record["scores"]:
        yield f"{line.source} has other scores than {directory}"
    elif raw["files"] != line.record["files"]:
        names = sorted({*raw["files"], *line.record["files"]})
        other = [name for name in names if raw["files"].get(name) != line.record["files"].get(name)]
        yield f"{line.source} has another sha256 than {directory} of {', '.join(other)}"
