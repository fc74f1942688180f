"""Are the compact records whole, as dgpbench writes them, and those of the raw runs beside them?"""

from collections.abc import Iterator
from pathlib import Path

from dgpbench.config.canonical import config_hash
from dgpbench.runs import archive, compact, lines
from dgpbench.runs.identity import Identity
from dgpbench.runs.lines import Line


def check(results_dir: str | Path) -> tuple[int, list[str]]:
    """How many compact records there are, and what is wrong, one sentence each."""
    problems = list(archive.load(results_dir).problems)
    found = 0
    for path in archive.paths(results_dir):
        part = lines.decode(path)
        found += len(part.runs)
        if not part.problems and path.read_bytes() != _as_written(part):
            problems.append(f"{path} is not sorted and spelt as dgpbench writes it; `dgpbench results export` does so")
        for line in part.runs:
            problems += _problems(Path(results_dir), line)
    return found, problems


def _as_written(part: lines.Lines) -> bytes:
    return lines.encode((line.record for line in part.runs), (line.record for line in part.pairs))


def _problems(results_dir: Path, line: Line) -> Iterator[str]:
    record = line.record
    if record["config_hash"] != config_hash(record["config"]):
        yield f"{line.source} has another hash than its settings"
    counts, rows = record["pit_counts"], record["data"]["n_test"]
    if counts is not None and sum(counts) != rows:
        yield f"{line.source} counts {sum(counts):,} test rows in {len(counts)} bins, and has {rows:,} rows"
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
